package planner_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// cordon empties the nodes of pods.
func cordon(s *model.State, ordinals ...int) {
	for _, i := range ordinals {
		s.Pods[i].Cordoned = "is on node n, which is cordoned"
	}
}

func TestTheLeaderLeavesANodeThatIsBeingEmptied(t *testing.T) {
	for name, tc := range map[string]planRow{
		"the node of the leader": {
			state: settled(func(s *model.State) { cordon(s, 1) }),
			step:  steps.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"}, says: "orders-1, the leader, is on node n, which is cordoned",
		},
		"the successor is on a node that stays": {
			state: settled(func(s *model.State) { cordon(s, 0, 1); s.Pods[0].Status.Applied = 12 }),
			step:  steps.MoveLeader{From: "orders-1", To: 3, Pod: "orders-2"},
		},
		"the node of a follower":      {state: settled(func(s *model.State) { cordon(s, 0, 2) })},
		"all nodes":                   {state: settled(func(s *model.State) { cordon(s, 0, 1, 2) })},
		"the node of the only member": {state: of(1, func(s *model.State) { cordon(s, 0) })},
		"not while another member is not well": {
			state: settled(func(s *model.State) { cordon(s, 1); down(s, 0) }), reason: planner.ReasonMembersNotReady,
		},
		"a rollout goes first": {
			state: settled(func(s *model.State) { cordon(s, 1); s.Want.TemplateHash = "next" }), step: deletion("orders-2"),
		},
		"a rollout hands over to a node that stays": {
			state: settled(func(s *model.State) {
				cordon(s, 0)
				s.Want.TemplateHash = "next"
				s.Pods[0].TemplateHash, s.Pods[2].TemplateHash = "next", "next"
			}),
			step: steps.MoveLeader{From: "orders-1", To: 3, Pod: "orders-2"},
		},
		"a rollout that can hand over only to a node that is being emptied is not turned back": {
			state: settled(func(s *model.State) {
				cordon(s, 0, 2)
				s.Want.TemplateHash = "next"
				s.Pods[0].TemplateHash, s.Pods[2].TemplateHash = "next", "next"
				for i := range s.Pods {
					s.Pods[i].Status.Leader = 1
				}
			}),
			step: deletion("orders-1"),
		},
		"a member that spec.size does not ask for is no better place": {
			state: of(5, func(s *model.State) {
				s.Want.Size = 3
				cordon(s, 0, 1, 2)
			}),
			step: steps.Resize{From: 5, To: 4},
		},
		"an upgrade begins afterwards": {
			state: settled(func(s *model.State) { cordon(s, 1); s.Want.Version, s.ClusterVersion = v37, v36 }),
			step:  steps.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"},
		},
		"a leader that is to be defragmented stays where all others are to go": {
			state: settled(func(s *model.State) {
				cordon(s, 0, 2)
				s.Pods[1].Status.DBSize, s.Pods[1].Status.DBInUse = 1<<30, 1<<20
			}),
		},
	} {
		t.Run(name, tc.Check)
	}
}

func TestTheBudgetFollowsTheVoters(t *testing.T) {
	kept := func(n int) func(*model.State) { return func(s *model.State) { s.Record.MinAvailable = n } }
	both := func(first, second func(*model.State)) func(*model.State) {
		return func(s *model.State) { first(s); second(s) }
	}
	learns := func(s *model.State) {
		s.Members[2].Learner, s.Pods[2].Ready = true, false
		s.Pods[2].Status.Learner, s.Pods[2].Status.Applied = true, 9
	}
	for name, tc := range map[string]planRow{
		"a learner that does not run yet counts for nothing": {
			state: joining(kept(2)), reason: planner.ReasonMembersNotReady,
		},
		"one that runs is kept beside the voters, before it gets its vote": {
			state: of(3, both(kept(2), learns)), step: steps.SetBudget{MinAvailable: 3},
		},
		"then it gets it": {
			state: of(3, both(kept(3), learns)), step: steps.Promote{ID: 3, Name: "orders-2", Via: "orders-1"},
		},
		"then the quorum of three is enough": {state: of(3, kept(3)), step: steps.SetBudget{MinAvailable: 2}},
		"of one voter none can be spared":    {state: of(1, kept(2)), step: steps.SetBudget{MinAvailable: 1}},
		"nor of two": {
			state: of(2, func(s *model.State) { s.Want.Size, s.Record.MinAvailable = 3, 1 }), step: steps.SetBudget{MinAvailable: 2},
		},
		"one that is leaving votes until it is removed": {
			state: of(4, func(s *model.State) {
				s.Want.Size, s.Record.Members, s.Record.MinAvailable, s.Set.Replicas = 3, s.Record.Members[:3], 2, 3
				s.Pods = s.Pods[:3]
			}),
			step: steps.SetBudget{MinAvailable: 3},
		},
		"then it is removed": {
			state: of(4, func(s *model.State) {
				s.Want.Size, s.Record.Members, s.Record.MinAvailable, s.Set.Replicas = 3, s.Record.Members[:3], 3, 3
				s.Pods = s.Pods[:3]
			}),
			step: steps.RemoveMember{ID: 4, Name: "orders-3", Via: "orders-1", Claim: "claim-of-orders-3"},
		},
		"unknown members change nothing": {
			state: settled(func(s *model.State) {
				quorumless(s)
				s.Record.MinAvailable = 3
				s.Pods[1].TemplateHash, s.Pods[2].TemplateHash = "now", "now"
			}),
			reason: planner.ReasonNoQuorum,
		},
	} {
		t.Run(name, tc.Check)
	}
}
