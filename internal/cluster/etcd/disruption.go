package etcd

import (
	"fmt"

	"github.com/quorate/quorate/internal/cluster"
)

// What Kubernetes does to the nodes: how many members it may take away at a time, and who leads while it does.

// SetBudget makes the disruption budget keep so many pods.
type SetBudget struct{ MinAvailable int }

func (s SetBudget) String() string {
	return fmt.Sprintf("keep %d pods through disruptions", s.MinAvailable)
}

// keepBudget makes the disruption budget keep the quorum of the voters that etcd lists. The record says something else while
// members come and go: one that is leaving votes until it is removed. A learner that runs is kept in addition: before 3.5.18
// etcd calls it ready, which must not stand in for a voter, and its vote must not come before the budget that it needs.
func keepBudget(s State) (cluster.Plan, bool) {
	voters, learners := 0, 0
	for _, m := range s.Members {
		switch {
		case !m.Learner:
			voters++
		case s.healthy(m):
			learners++
		}
	}
	need := Quorum(voters) + learners
	if need == s.Record.MinAvailable {
		return cluster.Pass()
	}
	return cluster.Do(SetBudget{need}, "etcd has %d voters and %d learners that run: a drain of nodes has to leave %d pods", voters, learners, need)
}

// moveLeadershipOffNode moves leadership off a node that is being emptied, before the pod is asked to go. Where the leader would be asked to
// go again, it stays: on another such node, or in a member that spec.size does not ask for.
func moveLeadershipOffNode(s State) (cluster.Plan, bool) {
	leader := s.leader()
	from := s.pod(*leader)
	to := successor(s, leader.ID)
	if from.Cordoned == "" || to == nil || s.pod(*to).Cordoned != "" || s.Ordinal(*to) >= s.Want.Size {
		return cluster.Pass()
	}
	return s.handOver(*leader, from.Cordoned)
}
