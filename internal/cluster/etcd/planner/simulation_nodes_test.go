package planner_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// disrupt is what Kubernetes and its users do to pods and nodes. It reports whether that was all of the fault.
func (s *sim) disrupt(kind int, p *simPod) bool {
	switch kind {
	case 0, 1:
		s.hibernated = s.persistent && !s.hibernated
		s.note("spec.hibernated changes to %t", s.hibernated)
	case 2:
		ordinal := s.rng.IntN(model.MaxSize)
		s.cordoned[ordinal] = !s.cordoned[ordinal]
		s.note("fault: the node of orders-%d is cordoned: %t", ordinal, s.cordoned[ordinal])
	default:
		if p != nil {
			s.evict(p)
		}
	}
	return true
}

// evict deletes a ready pod if the disruption budget allows it. Then the voters must still be a quorum.
func (s *sim) evict(p *simPod) {
	ready := 0
	for _, other := range s.pods {
		if other.process != nil && s.net.Voting(other.process) {
			ready++
		}
	}
	// A budget that the operator has just seen reason to change protects from its next pass on.
	known := s.record != nil && s.record.ClusterID != 0 && s.set != nil && s.set.budget == s.record.MinAvailable && s.stale == nil
	if !known || p.process == nil || !s.net.Voting(p.process) || ready <= s.set.budget {
		return
	}
	if voters := len(p.disk.Voters()); s.voting(p)-1 < model.Quorum(voters) {
		s.badPolicy = fmt.Sprintf("evicting %s leaves %d of %d voters, and the budget of %d allows it", p.name, s.voting(p)-1, voters, s.set.budget)
	}
	s.note("fault: %s is evicted", p.name)
	s.deletePod(p)
}

// night lets the cluster hibernate, sometimes, and wakes it.
func (s *sim) night() string {
	s.hibernated = s.hibernated || (s.persistent && s.rng.IntN(3) == 0)
	for began, rest := s.turns, 0; s.hibernated && rest < 3; rest++ {
		if bad := s.turn(); bad != "" {
			return bad
		}
		if s.plan.Reason != cluster.ReasonHibernated {
			rest = -1
		}
		if s.plan.Stalled && s.plan.Reason == steps.ReasonTerminatingClaims && !s.hasQuorum() {
			s.note("spec.hibernated changes to false, until a quorum is restored")
			s.hibernated = false
		}
		if s.turns > began+60 {
			return "it does not fall asleep: " + s.plan.Message
		}
	}
	if s.hibernated {
		before := s.writes
		plan, _ := s.operator()
		if s.writes != before || len(s.pods) > 0 || plan.Step != nil {
			return fmt.Sprintf("asleep it has %d pods and writes: %s", len(s.pods), plan.Message)
		}
		s.hibernated = false
		s.note("spec.hibernated changes to false")
	}
	return ""
}

// bestPlace is the ordinal of a pod whose node is not being emptied, or any where there is none.
func (s *sim) bestPlace() int {
	best := -1
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		if p := s.pods[name]; best < 0 || s.cordoned[best] {
			best = p.ordinal
		}
	}
	return best
}
