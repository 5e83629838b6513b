package need

import (
	"errors"
	"testing"
)

// ended records how a test ended.
type ended struct {
	testing.TB
	how string
}

func (e *ended) Helper()               {}
func (e *ended) Fatalf(string, ...any) { e.how = "failed" }
func (e *ended) Skipf(string, ...any) {
	if e.how == "" {
		e.how = "skipped"
	}
}

func TestWhatIsMissingFailsOnlyWhereEverythingHasToBeThere(t *testing.T) {
	for value, want := range map[string]struct {
		how  string
		code int
	}{"": {"skipped", 0}, "1": {"failed", 1}} {
		t.Setenv("QUORATE_NEED_ALL", value)
		var e ended
		Missing(&e, "there is no %s", "server")
		if code := Exit(errors.New("no cluster")); e.how != want.how || code != want.code {
			t.Errorf("QUORATE_NEED_ALL=%q: %s, exit code %d", value, e.how, code)
		}
	}
}
