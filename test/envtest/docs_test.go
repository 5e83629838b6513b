package envtest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// yamlBlock matches a fenced block of resources in a document.
var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestTheExamplesInTheDocumentsAreAccepted(t *testing.T) {
	s := apiServer(t)
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, document := range append(documents, "../../README.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range yamlBlock.FindAllSubmatch(text, -1) {
			file := filepath.Join(t.TempDir(), "example.yaml")
			if err := os.WriteFile(file, block[1], 0o600); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s", document, s.kubectl(t, "apply", "--dry-run=server", "--validate=strict", "-f", file))
			examples++
		}
	}
	if examples == 0 {
		t.Error("no example was found")
	}
}
