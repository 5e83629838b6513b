package planner

import (
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// keepBudget makes the disruption budget keep the quorum of the voters that etcd lists. The record says something else while
// members come and go: one that is leaving votes until it is removed. A learner that runs is kept in addition: before 3.5.18
// etcd calls it ready, which must not stand in for a voter, and its vote must not come before the budget that it needs.
func keepBudget(s model.State) (cluster.Plan, bool) {
	voters, learners := 0, 0
	for _, m := range s.Members {
		switch {
		case !m.Learner:
			voters++
		case s.Healthy(m):
			learners++
		}
	}
	need := model.Quorum(voters) + learners
	if need == s.Record.MinAvailable {
		return cluster.Pass()
	}
	return cluster.Do(steps.SetBudget{MinAvailable: need}, "etcd has %d voters and %d learners that run: a drain of nodes has to leave %d pods", voters, learners, need)
}

// moveLeadershipOffNode moves leadership off a node that is being emptied, before the pod is asked to go. Where the leader would be asked to
// go again, it stays: on another such node, or in a member that spec.size does not ask for.
func moveLeadershipOffNode(s model.State) (cluster.Plan, bool) {
	leader := s.Leader()
	from := s.Pod(*leader)
	to := successor(s, leader.ID)
	if from.Cordoned == "" || to == nil || s.Pod(*to).Cordoned != "" || s.Ordinal(*to) >= s.Want.Size {
		return cluster.Pass()
	}
	return handOver(s, *leader, from.Cordoned)
}
