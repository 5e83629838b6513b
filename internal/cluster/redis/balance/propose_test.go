package balance

import (
	"testing"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// TestProposalsHaveNamesOfTheirOwn: what was not read is not approved, however long it is.
func TestProposalsHaveNamesOfTheirOwn(t *testing.T) {
	moves := func(last int) (out []slots.Move) {
		for i := range 20 {
			out = append(out, slots.Move{From: 0, To: 1, Slots: slots.Set{{From: 10 * i, To: 10*i + 1}}})
		}
		return append(out, slots.Move{From: 0, To: 1, Slots: slots.Set{{From: last, To: last}}})
	}
	one := proposalID(v1alpha1.RebalanceByMemory, moves(1000))
	if one != proposalID(v1alpha1.RebalanceByMemory, moves(1000)) {
		t.Error("the same moves have two names")
	}
	if one == proposalID(v1alpha1.RebalanceByMemory, moves(1001)) || one == proposalID(v1alpha1.RebalanceByLoad, moves(1000)) {
		t.Error("two proposals have the same name")
	}
}
