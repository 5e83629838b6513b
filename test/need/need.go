// Package need ends tests that lack something on this machine: a server, a tool, a cluster.
//
// `go test ./...` needs Go alone and skips them, each with what it lacks. Every target of make sets
// QUORATE_NEED_ALL, and with it they fail: a test that did not run proves nothing.
package need

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// All reports whether everything has to be there.
func All() bool { return os.Getenv("QUORATE_NEED_ALL") != "" }

// Missing skips a test, or fails it if everything has to be there. The message says what is missing
// and how to get it.
func Missing(tb testing.TB, format string, args ...any) {
	tb.Helper()
	if All() {
		tb.Fatalf(format, args...)
	}
	tb.Skipf(format, args...)
}

// Program returns the path of a program in PATH. how says how to install it.
func Program(tb testing.TB, name, how string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(tb, "%s is not in PATH: %s", name, how)
	}
	return path
}

// Tool returns the path of the newest build of a program that hack/tools.sh makes.
func Tool(tb testing.TB, name string) string {
	tb.Helper()
	cache := os.Getenv("QUORATE_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			tb.Fatal(err)
		}
		cache = filepath.Join(home, ".cache", "quorate")
	}
	found, err := filepath.Glob(filepath.Join(cache, "tools", name+"-v*", name))
	if err != nil || len(found) == 0 {
		Missing(tb, "no %s under %s: run `hack/tools.sh %s`, as `make test-unit` does", name, cache, name)
	}
	return slices.MaxFunc(found, strings.Compare)
}

// Exit is the exit code of a test program none of whose tests can run.
func Exit(err error) int {
	if All() {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		return 1
	}
	fmt.Fprintln(os.Stderr, "SKIP:", err)
	return 0
}
