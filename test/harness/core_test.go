package harness

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/quorate/quorate/test/repository"
)

// TestEveryTestThatTheMakefileNamesIsThere keeps a test that gets another name from leaving the core, or what it is left out of, unnoticed.
func TestEveryTestThatTheMakefileNamesIsThere(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for variable, where := range map[string][]string{
		"CORE": {"test/e2e"}, "FRESH": {"test/e2e", "test/e2e/install"}, "SLOW_RACES": {"controllers/*", "test/controllersim"},
	} {
		line := regexp.MustCompile(`(?m)^` + variable + ` := ((?:.*\\\n)*.*)$`).FindSubmatch(makefile)
		if line == nil {
			t.Errorf("the Makefile has no %s", variable)
			continue
		}
		there := testsOf(t, root, where)
		for _, name := range strings.FieldsFunc(string(line[1]), func(r rune) bool { return r == '|' || r == '\\' || unicode.IsSpace(r) }) {
			if !strings.Contains(there, "\nfunc "+name+"(t *testing.T)") {
				t.Errorf("%s of the Makefile names %s, and no test of %v is called that", variable, name, where)
			}
		}
	}
}

// testsOf is the text of all tests in some directories.
func testsOf(t *testing.T, root string, dirs []string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	return all.String()
}
