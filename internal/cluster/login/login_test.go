package login_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/login"
)

func TestARefusedLoginIsHeldBackUntilSomethingChanges(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	for name, tt := range map[string]struct {
		change func(*login.Server)
		user   string
		pass   string
		held   bool
	}{
		"nothing changed":                  {func(*login.Server) {}, "quorate", "old", true},
		"another password":                 {func(*login.Server) {}, "quorate", "new", false},
		"another user":                     {func(*login.Server) {}, "default", "old", false},
		"another process":                  {func(s *login.Server) { s.Process = "pod 2" }, "quorate", "old", false},
		"the server accepted one":          {func(s *login.Server) { s.Accept() }, "quorate", "old", false},
		"another server accepted one":      {func(s *login.Server) { o := *s; o.Process = "pod 2"; o.Accept() }, "quorate", "old", true},
		"the wait is not over":             {func(*login.Server) { now = now.Add(29 * time.Second) }, "quorate", "old", true},
		"the wait is over":                 {func(*login.Server) { now = now.Add(30 * time.Second) }, "quorate", "old", false},
		"a server that is not held at all": {func(s *login.Server) { *s = login.Server{} }, "quorate", "old", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := login.Server{Refusals: &login.Refusals{}, Process: "pod 1", Now: clock}
			s.Refuse("quorate", "old")
			tt.change(&s)
			if got := s.Held(tt.user, tt.pass); got != tt.held {
				t.Errorf("held %v, want %v", got, tt.held)
			}
		})
	}
}

func TestTheWaitDoublesAndIsBounded(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := login.Server{Refusals: &login.Refusals{}, Process: "pod", Now: func() time.Time { return now }}
	for _, want := range []time.Duration{
		30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 15 * time.Minute,
	} {
		s.Refuse("quorate", "old")
		if now = now.Add(want - 1); !s.Held("quorate", "old") {
			t.Errorf("not held for %v", want)
		}
		if now = now.Add(1); s.Held("quorate", "old") {
			t.Errorf("held for more than %v", want)
		}
	}
}
