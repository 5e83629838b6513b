package harness

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
		"FAST_CORE": {"controllers/etcdcluster", "controllers/rediscluster"},
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

// TestEveryPlannerRunsWhole: whether each rule decides in some test is asked only where all tests of a package run.
func TestEveryPlannerRunsWhole(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	sweeps := regexp.MustCompile(`(?m)^SWEEPS := ((?:.*\\\n)*.*)$`).FindSubmatch(makefile)
	if sweeps == nil {
		t.Fatal("the Makefile has no SWEEPS")
	}
	files, err := filepath.Glob(filepath.Join(root, "internal", "*", "*", "phases_test.go"))
	more, err2 := filepath.Glob(filepath.Join(root, "internal", "*", "*", "*", "phases_test.go"))
	if files = append(files, more...); len(files) < 6 || err != nil || err2 != nil {
		t.Fatalf("found %d planners: %v %v", len(files), err, err2)
	}
	for _, file := range files {
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(strings.Fields(string(sweeps[1])), "./"+dir) {
			t.Errorf("SWEEPS of the Makefile lacks ./%s", dir)
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
