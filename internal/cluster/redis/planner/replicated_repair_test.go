package planner

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// TestAHandOverIsFinishedThoughChildrenCannotBeEnsured checks which of its steps the reconcile loop
// takes while Ensure fails: none that begins a hand-over, and all that complete or undo it.
func TestAHandOverIsFinishedThoughChildrenCannotBeEnsured(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil  func(f *fixture)
		want   string
		repair bool
	}{
		"the Service is led to the replica": {func(f *fixture) { f.Candidate = model.FailoverCandidate{} }, "send clients to c-0-1, which c-0-0 is to hand over to", false},
		"the primary hands over":            {func(*fixture) {}, "hand over from c-0-0 to c-0-1", true},
		"the Service is led back":           {func(f *fixture) { f.hang("c-0-1") }, "name c-0-0 the primary", true},
		"the new primary is recorded": {func(f *fixture) {
			f.do(t, steps.HandOver{From: "c-0-0", To: "c-0-1"})
		}, "name c-0-1 the primary", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := handingOver()
			tc.spoil(f)
			got := Next(f.State).Step
			if got == nil || got.String() != tc.want || got.Meta().Repair != tc.repair {
				t.Errorf("%v, want %s, a repair: %t", got, tc.want, tc.repair)
			}
		})
	}
}
