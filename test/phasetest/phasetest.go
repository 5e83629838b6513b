// Package phasetest holds planners to what their lists promise: each rule has a name, a reason, and
// decides in some test, and each step has a reason.
package phasetest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
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

var (
	metaMethod = regexp.MustCompile(`(?m)^func \((?:\w+ )?(\w+)\) Meta\(\) cluster\.Meta `)
	camelCase  = regexp.MustCompile(`^[A-Z][a-z]+([A-Z][A-Za-z]*)?$`)
)

// CheckSteps checks that the steps are one of each type of the tested package, that step_meta.go
// lists all of them, and that each has a CamelCase reason.
func CheckSteps(t *testing.T, steps ...cluster.Step) {
	t.Helper()
	missing := declaredSteps(t)
	for _, step := range steps {
		name := reflect.TypeOf(step).Name()
		if !missing[name] {
			t.Errorf("step %s is checked twice, or is not declared in this package", name)
		}
		delete(missing, name)
		if reason := step.Meta().Reason; !camelCase.MatchString(reason) {
			t.Errorf("step %s has the reason %q, which is not CamelCase", name, reason)
		}
	}
	for name := range missing {
		t.Errorf("step %s is not checked: add one to the test", name)
	}
}

// declaredSteps returns the types of the package in the current directory that have a method Meta.
func declaredSteps(t *testing.T) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range metaMethod.FindAllStringSubmatch(string(source), -1) {
			out[m[1]] = true
			if path != "step_meta.go" {
				t.Errorf("%s: method Meta of step %s belongs into step_meta.go", path, m[1])
			}
		}
	}
	return out
}
