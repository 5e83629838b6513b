package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A tag of an action can be moved to other code; a commit cannot. The comment names the version for
// readers and for tools that propose updates.
var pinnedAction = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

func TestActionsOfWorkflowsArePinnedByCommit(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("workflows: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			_, action, uses := strings.Cut(strings.TrimSpace(line), "uses: ")
			if uses && !pinnedAction.MatchString(action) {
				t.Errorf("%s uses %q: want OWNER/NAME@COMMIT # vX.Y.Z", filepath.Base(file), action)
			}
		}
	}
}
