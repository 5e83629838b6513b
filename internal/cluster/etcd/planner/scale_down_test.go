package planner_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextRemovesMembers(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a size that is taken back takes the learner out again": {
			state: joining(func(s *model.State) { s.Want.Size = 1 }),
			step:  steps.RemoveMember{ID: 3, Name: "orders-2", Via: "orders-1", Pod: "uid-orders-2", Claim: "claim-2"},
		},
		"a size that is taken back takes the room out again that no pod has taken": {
			state: left(func(s *model.State) { s.Want.Size = 1 }),
			step:  steps.Resize{From: 3, To: 2},
		},
		"a smaller size ends the pod of the highest ordinal": {
			state: of(5, func(s *model.State) { s.Want.Size = 3 }),
			step:  steps.Resize{From: 5, To: 4},
		},
		"a leaving member gets the time to hand its clients over": {
			state: of(5, func(s *model.State) {
				s.Want.Size, s.Record.Members, s.Pods[4].Terminating = 3, s.Record.Members[:4], true
			}),
			reason: planner.ReasonLeaving, says: "orders-4 is leaving",
		},
		"a member is removed when its pod has ended": {
			state: of(5, func(s *model.State) { s.Want.Size, s.Record.Members, s.Pods = 3, s.Record.Members[:4], s.Pods[:4] }),
			step:  steps.RemoveMember{ID: 5, Name: "orders-4", Via: "orders-1", Claim: "claim-of-orders-4"},
		},
		"a leaving member comes back when the others turn out to differ": {
			state: of(3, func(s *model.State) {
				s.Want.Size, s.Record.Members, s.Pods = 1, s.Record.Members[:2], s.Pods[:2]
				alarm("CORRUPT")(s)
			}),
			step: steps.Resize{From: 2, To: 3},
		},
		"of two members one is removed first": {
			state: of(2, func(s *model.State) {
				s.Want.Size = 1
				s.Pods[0].Status.Leader, s.Pods[1].Status.Leader = 1, 1
			}),
			step: steps.RemoveMember{ID: 2, Name: "orders-1", Via: "orders-0", Pod: "uid-orders-1", Claim: "claim-1"},
		},
		"a leader hands over to one that stays": {
			state: of(5, func(s *model.State) {
				s.Want.Size = 3
				for i := range s.Pods {
					s.Pods[i].Status.Leader = 5
				}
				s.Pods[3].Status.Applied, s.Pods[2].Status.Applied = 20, 11
			}),
			step: steps.MoveLeader{From: "orders-4", To: 3, Pod: "orders-2"},
		},
		"of two members one can go": {
			state: of(2, func(s *model.State) { s.Want.Size = 1 }),
			step:  steps.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"},
		},
		"members restart before one leaves": {
			state: of(3, func(s *model.State) { s.Want.Size, s.Want.TemplateHash = 1, "next" }),
			step:  deletion("orders-2"),
		},
		"a member that is down leaves first of all": {
			state: of(3, func(s *model.State) {
				s.Want.Size, s.Want.TemplateHash = 1, "next"
				down(s, 2)
			}),
			step: steps.RemoveMember{ID: 3, Name: "orders-2", Via: "orders-1", Pod: "uid-orders-2", Claim: "claim-2"},
		},
		"a pod goes when its member has": {
			state: of(5, func(s *model.State) {
				s.Want.Size, s.Members = 3, s.Members[:4]
				down(s, 4)
			}),
			step: steps.Resize{From: 5, To: 4},
		},
		"a claim goes when its pod has gone": {
			state: of(5, func(s *model.State) {
				s.Want.Size, s.Members, s.Record.Members, s.Pods = 4, s.Members[:4], s.Record.Members[:4], s.Pods[:4]
			}),
			step: steps.DeleteClaim{Name: "data-orders-4", UID: "claim-of-orders-4"},
		},
	})
}

func TestNextTakesALeavingMemberBack(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a leaving member comes back when the others lose their quorum": {
			state: of(3, func(s *model.State) {
				s.Want.Size, s.Record.Members, s.Pods, s.Members = 1, s.Record.Members[:2], s.Pods[:2], nil
				down(s, 0)
				s.Pods[1].Ready, s.Pods[1].Status.Leader = false, 0
			}),
			step: steps.Resize{From: 2, To: 3},
		},
		"a leaving member does not come back at the first sign of a lost quorum": {
			state: of(3, func(s *model.State) {
				s.Want.Size, s.Record.Members, s.Pods, s.Members = 1, s.Record.Members[:2], s.Pods[:2], nil
				down(s, 0).Started = simNow.Add(-time.Second)
				s.Pods[1].Ready, s.Pods[1].Status.Leader = false, 0
			}),
			reason: planner.ReasonNoQuorum,
		},
	})
}
