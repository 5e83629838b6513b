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

// A tag of an image can be moved to another one; a digest cannot.
var pinnedImage = regexp.MustCompile(`^[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}$`)

func TestBaseImagesArePinnedByDigest(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if arg, ok := strings.CutPrefix(strings.TrimSpace(line), "ARG "); ok {
			name, value, _ := strings.Cut(arg, "=")
			images[name] = value
		}
		if from, ok := strings.CutPrefix(line, "FROM "); ok && !strings.Contains(from, "${BASE}") && !strings.Contains(from, "${GOLANG}") {
			t.Errorf("%s: want an image of an ARG", strings.TrimSpace(line))
		}
	}
	for _, name := range []string{"BASE", "GOLANG"} {
		if !pinnedImage.MatchString(images[name]) {
			t.Errorf("ARG %s=%s: want IMAGE:TAG@sha256:DIGEST", name, images[name])
		}
	}
}
