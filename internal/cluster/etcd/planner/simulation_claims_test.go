package planner_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// Somebody deletes claims under running members, and then plans an operation. No fault ends a pod here, so
// whatever is lost is lost by a planned step.
func TestPlannedStepsKeepDataWhoseClaimsAreDeleted(t *testing.T) {
	runs := uint64(400)
	if testing.Short() {
		runs = 20
	}
	ends := map[string]int{}
	for seed := uint64(1); seed <= runs; seed++ {
		s := newSim(seed)
		s.release, s.bad, s.weak = v36, map[int]bool{}, map[int]bool{} // Others do not run in every world.
		if !s.persistent {
			continue
		}
		reason, bad := s.loseClaims()
		if bad != "" {
			t.Fatalf("seed %d: %s\n%s", seed, bad, strings.Join(s.trace[max(0, len(s.trace)-40):], "\n"))
		}
		ends[reason]++
	}
	t.Logf("ends (empty: settled): %v", ends)
	if ends[""] == 0 || ends[steps.ReasonTerminatingClaims] == 0 {
		t.Errorf("want worlds that heal and worlds that refuse: %v", ends)
	}
}

// loseClaims returns the reason that the world ends with, and what went wrong.
func (s *sim) loseClaims() (reason, bad string) {
	if bad := s.rest(func() bool { return s.plan.Settled() && s.values > 3 }); bad != "" {
		return "", "before: " + bad
	}
	deleted := map[int]int{}
	all := s.rng.IntN(2) == 0
	for _, i := range slices.Sorted(maps.Keys(s.claims)) {
		if all || s.rng.IntN(3) == 0 {
			s.claims[i].leaving = true
			deleted[i] = s.claims[i].uid
		}
	}
	s.note("claims are deleted: %v", deleted)
	switch s.rng.IntN(4) {
	case 0:
		s.template++
		s.note("the template changes")
	case 1:
		s.size = []int{1, 3, 5}[s.rng.IntN(3)]
		s.note("spec.size changes to %d", s.size)
	case 2:
		s.hibernated = true
		s.note("spec.hibernated is true")
	}
	stalled := func() bool { return s.plan.Stalled && s.plan.Reason == steps.ReasonTerminatingClaims }
	bad = s.rest(func() bool { return s.plan.Settled() || stalled() || s.plan.Reason == "Hibernated" })
	if bad != "" || !stalled() {
		return s.plan.Reason, bad
	}
	if !strings.Contains(s.plan.Message, "data-orders-") {
		return "", "the claims are not named: " + s.plan.Message
	}
	return s.plan.Reason, ""
}

// rest takes turns without faults until something has held for five of them.
func (s *sim) rest(holds func() bool) string {
	s.maintenance.calm = true
	for held, turns := 0, 0; held < 5; turns++ {
		if turns == 600 {
			return "it does not come to rest: " + s.plan.Message
		}
		if bad := s.turn(); bad != "" {
			return bad
		}
		held++
		if !holds() {
			held = 0
		}
	}
	return ""
}
