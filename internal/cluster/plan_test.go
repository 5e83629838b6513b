package cluster

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type jump struct{ high int }

func (j jump) String() string { return fmt.Sprintf("jump %d high", j.high) }
func (jump) Meta() Meta       { return Meta{Reason: "Jump"} }

func TestDecideTakesTheFirstRuleThatDecides(t *testing.T) {
	unknown := func(s int) (Plan, bool) {
		if s < 0 {
			return Wait("Unknown", time.Second, "nothing is known")
		}
		return Pass()
	}
	tooHigh := func(s int) (Plan, bool) {
		if s > 10 {
			return Refuse("TooHigh", "%d is too high: choose at most 10", s)
		}
		return Pass()
	}
	move := func(s int) (Plan, bool) {
		if s > 0 {
			return Do(jump{s}, "because %d is above zero", s)
		}
		return Pass()
	}
	tests := map[string]struct {
		state   int
		want    Plan
		settled bool
	}{
		"the first rule wins":            {-1, Plan{Reason: "Unknown", Message: "nothing is known", After: time.Second}, false},
		"a refusal stalls":               {11, Plan{Reason: "TooHigh", Message: "11 is too high: choose at most 10", Stalled: true}, false},
		"a step carries its reason":      {3, Plan{Step: jump{3}, Reason: "Jump", Message: "because 3 is above zero"}, false},
		"no rule decides: it is settled": {0, Plan{Message: "the cluster is as specified"}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.state, inPhases(unknown, tooHigh, move), nil)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(jump{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if got.Settled() != tc.settled {
				t.Errorf("Settled() = %v, want %v", got.Settled(), tc.settled)
			}
		})
	}
}

// inPhases puts each rule into a phase of its own.
func inPhases(rules ...func(int) (Plan, bool)) (out []Phase[int]) {
	for i, r := range rules {
		out = append(out, Phase[int]{Name: fmt.Sprintf("phase %d", i), Rules: []Rule[int]{{Name: fmt.Sprintf("rule %d", i), Decide: r}}})
	}
	return out
}

func TestExplainNamesTheRuleThatDecides(t *testing.T) {
	pass := func(int) (Plan, bool) { return Pass() }
	move := func(s int) (Plan, bool) {
		if s == 0 {
			return Pass()
		}
		return Do(jump{s}, "why not")
	}
	phases := []Phase[int]{
		{Name: "first", Rules: []Rule[int]{{Name: "pass", Decide: pass}, {Name: "pass again", Decide: pass}}},
		{Name: "second", Rules: []Rule[int]{{Name: "pass once more", Decide: pass}, {Name: "move", Why: "it moves", Decide: move}}},
	}
	if got := Explain(1, phases, nil); got != (Explanation{"second", "move", "it moves"}) {
		t.Errorf("decided by %+v", got)
	}
	if got := Explain(0, phases, nil); got != (Explanation{}) {
		t.Errorf("settled by %+v", got)
	}
	outline := Outline(phases)
	if len(outline) != 2 || len(outline[0].Rules) != 2 || outline[1].Rules[1] != (Explanation{"second", "move", "it moves"}) {
		t.Errorf("outline %+v", outline)
	}
	veto := func(_ int, p Plan) (Plan, bool) { return p, p.Step != jump{1} }
	if p := Decide(1, phases, veto); !p.Settled() {
		t.Errorf("a plan that the check refused: %+v", p)
	}
}

type aside struct{ jump }

func (aside) Meta() Meta { return Meta{Reason: "Jump", NonBlocking: true} }

func TestWhatComesAfterAStepThatStandsAsideIsDecidedAsWell(t *testing.T) {
	side := func(int) (Plan, bool) { return Do(aside{jump{1}}, "for fun") }
	move := func(int) (Plan, bool) { return Do(jump{2}, "it has to be") }
	last := &Plan{Step: jump{2}, Reason: "Jump", Message: "it has to be"}
	second := &Plan{Step: aside{jump{1}}, Reason: "Jump", Message: "for fun", Fallback: last}
	want := Plan{Step: aside{jump{1}}, Reason: "Jump", Message: "for fun", Fallback: second}
	got := Decide(0, inPhases(side, side, move, side), nil)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(jump{}, aside{})); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	got = got.Refined(func(p Plan) Plan {
		p.Message = ""
		return p
	})
	if got.Message+got.Fallback.Message+got.Fallback.Fallback.Message != "" || second.Message == "" {
		t.Errorf("refined: %+v", got)
	}
}

func TestProgressTellsWhetherTheOperatorWorksWaitsOrIsStuck(t *testing.T) {
	waiting, _ := Wait("Waiting", time.Second, "waiting for pods")
	refused, _ := Refuse("Unsafe", "two members are down: bring one back")
	type want struct {
		reconciling, stalled metav1.ConditionStatus
		reason               string
	}
	tests := map[string]struct {
		plan Plan
		err  error
		want want
	}{
		"settled":           {Decide[int](0, nil, nil), nil, want{"False", "False", "Settled"}},
		"waiting":           {waiting, nil, want{"True", "False", "Waiting"}},
		"refused":           {refused, nil, want{"False", "True", "Unsafe"}},
		"paused at rest":    {Pause(Decide[int](0, nil, nil)), nil, want{"False", "False", "Settled"}},
		"paused in work":    {Pause(waiting), nil, want{"False", "False", "Paused"}},
		"on hold":           {Plan{}, fmt.Errorf("x: %w", Hold{Reason: "Leaving", Message: "it leaves"}), want{"True", "False", "Leaving"}},
		"passing error":     {Plan{}, errors.New("timed out"), want{"True", "False", "ReconcileError"}},
		"refusal as error":  {Plan{}, Refusal{"InvalidSpec", "no such Secret"}, want{"False", "True", "InvalidSpec"}},
		"refusal in errors": {Plan{}, errors.Join(errors.New("x"), Refusal{"InvalidSpec", "no"}), want{"False", "True", "InvalidSpec"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Progress(tc.plan, tc.err)
			have := want{got[0].Status, got[1].Status, got[0].Reason}
			if have != tc.want {
				t.Errorf("got %+v, want %+v", have, tc.want)
			}
			for _, c := range got {
				if c.Reason == "" || c.Message == "" {
					t.Errorf("condition %s has no reason or message: %+v", c.Type, c)
				}
			}
		})
	}
}
