package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The tests of the package do not ask for a tie, for a negative number, or what is left out.
const sample = `package sample

var calls int

func Quorum(votes, of int, ready bool) bool {
	calls++
	if of == 0 {
		return false
	}
	return ready && 2*votes > of
}

func unused(a bool) bool {
	return !a
}
`

const sampleTest = `package sample

import "testing"

func TestQuorum(t *testing.T) {
	if !Quorum(2, 3, true) || Quorum(1, 3, true) || Quorum(2, 3, false) || Quorum(1, 0, true) {
		t.Fail()
	}
}
`

func TestSurvivorsAreListed(t *testing.T) {
	dir := sampleModule(t, sampleTest)
	got := mutated(t, dir, 1)
	want := []string{
		"sample.go:6:2: calls++: left out",
		"sample.go:10:18: 2*votes > of: with the other boundary",
		"sample.go:14:9: !a: not negated (not reached)",
		": 7 mutants: 4 killed, 2 survived, 1 not reached by a test, 0 not run",
		"",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = []string{
		"sample.go:6:2: calls++: left out",
		"sample.go:14:9: !a: not negated (not reached)",
		": 7 mutants: 2 killed, 1 survived, 1 not reached by a test, 3 not run",
		"",
	}
	if diff := cmp.Diff(want, mutated(t, dir, 2)); diff != "" {
		t.Errorf("one of two: (-want +got):\n%s", diff)
	}
}

// mutated is what is printed of a module, line by line.
func mutated(t *testing.T, dir string, every int) []string {
	t.Helper()
	var out strings.Builder
	if err := mutate(t.Context(), options{dir: dir, limit: time.Hour, timeout: time.Minute, every: every}, &out); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.ReplaceAll(strings.ReplaceAll(out.String(), dir+"/", ""), dir, ""), "\n")
}

// sampleModule writes the sample with a test.
func sampleModule(t *testing.T, test string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module sample\n\ngo 1.24\n", "sample.go": sample, "sample_test.go": test} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestMutantsNest(t *testing.T) {
	in, err := instrument("f.go", []byte("package p\nfunc f(a, b int, c bool) bool { return a < b && (c || !c) }\n"), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := "package p\nfunc f(a, b int, c bool) bool { return " +
		"((((a < b) != (mutantIsActive(3) && ((a) == (b))))) || mutantIsActive(1)) && " +
		"(((((c) && !mutantIsActive(4)) || ((((!c) != mutantIsActive(6))) && !mutantIsActive(5))) || mutantIsActive(2))) }\n"
	if diff := cmp.Diff(want, in.source); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTestsThatFailWithoutAMutantAreAnError(t *testing.T) {
	dir := sampleModule(t, strings.Replace(sampleTest, "!Quorum(2", "Quorum(2", 1))
	err := mutate(t.Context(), options{dir: dir, limit: time.Hour, timeout: time.Minute, every: 1}, &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "the tests fail without a mutant") {
		t.Errorf("%v", err)
	}
}
