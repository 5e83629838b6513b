package phasetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

const planner = `package planner

import "example.com/cluster"

var phases = cluster.NewPhase("p", "why", %LIST%)

func first(s State) (cluster.Plan, bool)  { return cluster.Pass() }
func second(s State) (cluster.Plan, bool) { return cluster.Pass() }

%MORE%
`

func TestCheckCallsNamesCallerAndRule(t *testing.T) {
	const both = `cluster.NewRule("first", "why", first), cluster.NewRule("second", "why", second)`
	for name, tc := range map[string]struct{ list, more, want string }{
		"rules that use no other rule pass":  {both, `func helper(s State) { second := 1; _ = second; s.second() }`, ""},
		"a call of a rule is found":          {both, `func third(s State) { second(s) }`, "third uses the rule second"},
		"a rule as a value is found":         {both, `var other = []any{first}`, "a variable of the package uses the rule first"},
		"a wrapped rule is found":            {`cluster.NewRule("first", "why", except(first))`, ``, "the rule is not a plain function with its name"},
		"a rule with another name is found":  {`cluster.NewRule("first", "why", second)`, ``, "the rule is not a plain function with its name"},
		"a rule without a function is found": {`cluster.NewRule("first", "why", func(s State) {})`, ``, "the rule is not a plain function with its name"},
	} {
		t.Run(name, func(t *testing.T) {
			source := strings.NewReplacer("%LIST%", tc.list, "%MORE%", tc.more).Replace(planner)
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, "planner.go", source, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			_, faults := findCalls(fset, []*ast.File{file})
			got := strings.Join(faults, "\n")
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("faults %q, want %q", got, tc.want)
			}
		})
	}
}
