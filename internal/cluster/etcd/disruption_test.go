package etcd_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

// cordon empties the nodes of pods.
func cordon(s *etcd.State, ordinals ...int) {
	for _, i := range ordinals {
		s.Pods[i].Cordoned = "is on node n, which is cordoned"
	}
}

func TestTheLeaderLeavesANodeThatIsBeingEmptied(t *testing.T) {
	for name, tc := range map[string]planRow{
		"the node of the leader": {
			state: settled(func(s *etcd.State) { cordon(s, 1) }),
			step:  etcd.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"}, says: "orders-1, the leader, is on node n, which is cordoned",
		},
		"the successor is on a node that stays": {
			state: settled(func(s *etcd.State) { cordon(s, 0, 1); s.Pods[0].View.Applied = 12 }),
			step:  etcd.MoveLeader{From: "orders-1", To: 3, Pod: "orders-2"},
		},
		"the node of a follower":      {state: settled(func(s *etcd.State) { cordon(s, 0, 2) })},
		"all nodes":                   {state: settled(func(s *etcd.State) { cordon(s, 0, 1, 2) })},
		"the node of the only member": {state: of(1, func(s *etcd.State) { cordon(s, 0) })},
		"not while another member is not well": {
			state: settled(func(s *etcd.State) { cordon(s, 1); down(s, 0) }), reason: etcd.ReasonMembersNotReady,
		},
		"a rollout goes first": {
			state: settled(func(s *etcd.State) { cordon(s, 1); s.Want.TemplateHash = "next" }), step: deletion("orders-2"),
		},
		"a rollout hands over to a node that stays": {
			state: settled(func(s *etcd.State) {
				cordon(s, 0)
				s.Want.TemplateHash = "next"
				s.Pods[0].TemplateHash, s.Pods[2].TemplateHash = "next", "next"
			}),
			step: etcd.MoveLeader{From: "orders-1", To: 3, Pod: "orders-2"},
		},
		"a rollout that can hand over only to a node that is being emptied is not turned back": {
			state: settled(func(s *etcd.State) {
				cordon(s, 0, 2)
				s.Want.TemplateHash = "next"
				s.Pods[0].TemplateHash, s.Pods[2].TemplateHash = "next", "next"
				for i := range s.Pods {
					s.Pods[i].View.Leader = 1
				}
			}),
			step: deletion("orders-1"),
		},
		"a member that spec.size does not ask for is no better place": {
			state: of(5, func(s *etcd.State) {
				s.Want.Size = 3
				cordon(s, 0, 1, 2)
			}),
			step: etcd.Resize{From: 5, To: 4},
		},
		"an upgrade begins afterwards": {
			state: settled(func(s *etcd.State) { cordon(s, 1); s.Want.Version, s.ClusterVersion = v37, v36 }),
			step:  etcd.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"},
		},
		"a leader that is to be defragmented stays where all others are to go": {
			state: settled(func(s *etcd.State) {
				cordon(s, 0, 2)
				s.Pods[1].View.DBSize, s.Pods[1].View.DBInUse = 1<<30, 1<<20
			}),
		},
	} {
		t.Run(name, tc.check)
	}
}

func TestTheBudgetFollowsTheVoters(t *testing.T) {
	kept := func(n int) func(*etcd.State) { return func(s *etcd.State) { s.Record.MinAvailable = n } }
	both := func(first, second func(*etcd.State)) func(*etcd.State) {
		return func(s *etcd.State) { first(s); second(s) }
	}
	learns := func(s *etcd.State) {
		s.Members[2].Learner, s.Pods[2].Ready = true, false
		s.Pods[2].View.Learner, s.Pods[2].View.Applied = true, 9
	}
	for name, tc := range map[string]planRow{
		"a learner that does not run yet counts for nothing": {
			state: joining(kept(2)), reason: etcd.ReasonMembersNotReady,
		},
		"one that runs is kept beside the voters, before it gets its vote": {
			state: of(3, both(kept(2), learns)), step: etcd.SetBudget{MinAvailable: 3},
		},
		"then it gets it": {
			state: of(3, both(kept(3), learns)), step: etcd.Promote{ID: 3, Name: "orders-2", Via: "orders-1"},
		},
		"then the quorum of three is enough": {state: of(3, kept(3)), step: etcd.SetBudget{MinAvailable: 2}},
		"of one voter none can be spared":    {state: of(1, kept(2)), step: etcd.SetBudget{MinAvailable: 1}},
		"nor of two": {
			state: of(2, func(s *etcd.State) { s.Want.Size, s.Record.MinAvailable = 3, 1 }), step: etcd.SetBudget{MinAvailable: 2},
		},
		"one that is leaving votes until it is removed": {
			state: of(4, func(s *etcd.State) {
				s.Want.Size, s.Record.Members, s.Record.MinAvailable, s.Set.Replicas = 3, s.Record.Members[:3], 2, 3
				s.Pods = s.Pods[:3]
			}),
			step: etcd.SetBudget{MinAvailable: 3},
		},
		"then it is removed": {
			state: of(4, func(s *etcd.State) {
				s.Want.Size, s.Record.Members, s.Record.MinAvailable, s.Set.Replicas = 3, s.Record.Members[:3], 3, 3
				s.Pods = s.Pods[:3]
			}),
			step: etcd.RemoveMember{ID: 4, Name: "orders-3", Via: "orders-1", Claim: "claim-of-orders-3"},
		},
		"unknown members change nothing": {
			state: settled(func(s *etcd.State) {
				quorumless(s)
				s.Record.MinAvailable = 3
				s.Pods[1].TemplateHash, s.Pods[2].TemplateHash = "now", "now"
			}),
			reason: etcd.ReasonNoQuorum,
		},
	} {
		t.Run(name, tc.check)
	}
}
