// Package phasetest holds the rules of planners to what their lists promise: each has a name, a
// reason, and decides in some test.
package phasetest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quorate/quorate/internal/cluster"
)

// Watched are the rules of a planner that are yet to decide.
type Watched []*watchedRule

type watchedRule struct {
	name    string
	decided atomic.Bool
}

// Watch notes from now on which rules decide. Phases that lists share are watched once.
func Watch[S any](lists ...[]cluster.Phase[S]) Watched {
	var out Watched
	seen := map[*cluster.Rule[S]]bool{}
	for _, phases := range lists {
		for _, phase := range phases {
			for i := range phase.Rules {
				rule := &phase.Rules[i]
				if seen[rule] {
					continue
				}
				seen[rule] = true
				watched := &watchedRule{name: phase.Name + ": " + rule.Name}
				out = append(out, watched)
				decide := rule.Decide
				rule.Decide = func(s S) (cluster.Plan, bool) {
					p, ok := decide(s)
					if ok {
						watched.decided.Store(true)
					}
					return p, ok
				}
			}
		}
	}
	return out
}

// Main runs the tests, and fails if a rule decided in none of them. It asks for that only if all of
// them ran.
func (w Watched) Main(m *testing.M) int {
	flag.Parse()
	code := m.Run()
	if code != 0 || testing.Short() || filtered() {
		return code
	}
	for _, rule := range w {
		if !rule.decided.Load() {
			fmt.Fprintf(os.Stderr, "FAIL: rule %q decides in no test: add a row, or delete the rule\n", rule.name)
			code = 1
		}
	}
	return code
}

func filtered() bool {
	for _, name := range []string{"run", "skip", "bench", "fuzz", "list"} {
		if f := flag.Lookup("test." + name); f != nil && f.Value.String() != "" {
			return true
		}
	}
	return false
}

// Check checks the names and reasons of a planner's rules.
func Check(t *testing.T, sections []cluster.Section) {
	t.Helper()
	names := map[string]bool{}
	for _, s := range sections {
		if s.Name == "" || s.Why == "" || len(s.Rules) == 0 {
			t.Errorf("phase %q has %d rules and the reason %q", s.Name, len(s.Rules), s.Why)
		}
		for _, r := range s.Rules {
			if r.Rule == "" || names[r.Rule] {
				t.Errorf("phase %q has the rule %q, which has no name or is listed twice", s.Name, r.Rule)
			}
			names[r.Rule] = true
			if words := len(strings.Fields(r.Why)); words < 3 || words > 25 {
				t.Errorf("%s: the reason has %d words: %q", r.Rule, words, r.Why)
			}
		}
	}
}
