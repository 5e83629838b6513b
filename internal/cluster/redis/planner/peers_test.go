package planner

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A real server's Node has no Peers, so a rule that reads them sees nothing.
func TestRulesReadPeersOnlyByMethods(t *testing.T) {
	read := 0
	for _, dir := range []string{".", "../facts", "../balance", "../history", "../anomalies"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if read++; regexp.MustCompile(`\.Peers\b[^(]`).Match(text) {
				t.Errorf("%s reads Node.Peers: use Self, Peer or All", file)
			}
		}
	}
	if read < 40 {
		t.Errorf("%d files were read", read)
	}
}
