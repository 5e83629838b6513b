package planner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextAddsMembers(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a larger size makes room for one member": {
			state: of(1, func(s *model.State) { s.Want.Size = 5 }),
			step:  steps.Resize{From: 1, To: 2},
		},
		"what an earlier member of the ordinal left goes first": {
			state: of(1, func(s *model.State) {
				s.Want.Size = 3
				s.Claims = append(s.Claims, model.Claim{Name: "data-orders-1", UID: "old", Ordinal: 1})
			}),
			step: steps.DeleteClaim{Name: "data-orders-1", UID: "old"},
		},
		"the claim that an earlier member of the ordinal left is waited for": {
			state: of(1, func(s *model.State) {
				s.Want.Size = 3
				s.Claims = append(s.Claims, model.Claim{Name: "data-orders-1", UID: "old", Ordinal: 1, Leaving: true})
			}),
			reason: planner.ReasonLeaving, says: "data-orders-1",
		},
		"a former pod is waited for": {
			state: of(3, func(s *model.State) {
				s.Record.Members, s.Members, s.Claims, s.Pods[2].Terminating = s.Record.Members[:2], s.Members[:2], s.Claims[:2], true
			}),
			reason: planner.ReasonLeaving, says: "the former pod orders-2",
		},
		"a new member joins once it has a pod": {
			state: left(func(s *model.State) { s.Pods, s.Claims = s.Pods[:2], s.Claims[:2] }), reason: planner.ReasonJoining,
			ends: "orders-2 joins: it has no pod yet",
		},
		"a new member whose pod Kubernetes does not make is named": {
			state: left(func(s *model.State) {
				s.Pods, s.Claims, s.Set.Overdue, s.Want.Namespace = s.Pods[:2], s.Claims[:2], true, "default"
			}), reason: planner.ReasonJoining,
			says: "orders-2 joins: it has no pod yet: Kubernetes has not made it: if that lasts, `kubectl -n default describe statefulset orders` says why (a quota",
		},
		"a new member joins without a vote": {
			state: left(func(s *model.State) { s.Pods[2].EverRan = false }),
			step:  steps.AddLearner{Name: "orders-2", URL: "https://orders-2.orders-peers.default.svc.cluster.local:2380", Via: "orders-1"},
		},
		"none joins while another is not well": {
			state: left(func(s *model.State) {
				s.Pods[2].EverRan = false
				down(s, 0)
			}),
			reason: planner.ReasonNoQuorum, says: "orders-0 does not answer",
		},
		"a learner that does not run is waited for": {
			state: joining(nil), reason: planner.ReasonMembersNotReady, says: "orders-2 does not answer",
		},
		"a learner is promoted when it has the log": {
			state: joining(func(s *model.State) {
				s.Pods[2].Status = &model.Status{MemberID: 3, ClusterID: clusterID, Leader: 2, Learner: true, Applied: 9}
			}),
			step: steps.Promote{ID: 3, Name: "orders-2", Via: "orders-1"},
		},
		"a learner is not promoted before it has the log": {
			state: joining(func(s *model.State) {
				s.Pods[1].Status.Applied = 1000
				s.Pods[2].Status = &model.Status{MemberID: 3, ClusterID: clusterID, Leader: 2, Learner: true, Applied: 899}
			}),
			reason: planner.ReasonCatchingUp, says: "it has 899 of 1000 log entries",
		},
		"none of two members is restarted": {
			state: of(2, func(s *model.State) { s.Want.Size, s.Want.TemplateHash = 3, "next" }),
			step:  steps.Resize{From: 2, To: 3},
		},
		"the only member is restarted when it is not the only one any more": {
			state: of(1, func(s *model.State) { s.Want.Size, s.Want.TemplateHash = 3, "next" }),
			step:  steps.Resize{From: 1, To: 2},
		},
		"a member that is wanted again gets its pod back": {
			state: of(5, func(s *model.State) { s.Record.Members, s.Pods = s.Record.Members[:4], s.Pods[:4] }),
			step:  steps.Resize{From: 4, To: 5},
		},
		"a size that is raised again brings the member back that has left": {
			state: of(5, func(s *model.State) {
				s.Members = s.Members[:4]
				down(s, 4)
			}),
			step: steps.DeleteClaim{Name: "data-orders-4", UID: "claim-of-orders-4"},
		},
	})
}

func TestNextAddsMembersWhosePodsRun(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"a pod that cannot run does not join": {
			state: left(func(s *model.State) {
				s.Pods[2].EverRan, s.Pods[2].Stuck, s.Pods[2].Problem = false, true, "cannot run: Unschedulable"
			}),
			reason: planner.ReasonJoining, says: "orders-2 does not join yet: it cannot run: Unschedulable",
		},
		"a pod that cannot run does not keep another one from joining": {
			state: of(5, func(s *model.State) {
				s.Members = s.Members[:3]
				s.Pods[3].Status, s.Pods[3].Ready, s.Pods[3].EverRan, s.Pods[3].Stuck, s.Pods[3].Problem = nil, false, false, true, "cannot run: Unschedulable"
				s.Pods[4].Status, s.Pods[4].Ready, s.Pods[4].EverRan, s.Pods[4].Gate = nil, false, false, held(model.GateNotMember)
			}),
			step: steps.AddLearner{Name: "orders-4", URL: "https://orders-4.orders-peers.default.svc.cluster.local:2380", Via: "orders-1"},
		},
		"a pod that cannot run is not waited for while another member is to recover first": {
			state: of(5, func(s *model.State) {
				s.Members = s.Members[:3]
				down(s, 0)
				s.Pods[3].Status, s.Pods[3].Ready, s.Pods[3].EverRan, s.Pods[3].Gate = nil, false, false, held(model.GateNotMember)
				s.Pods[4].Status, s.Pods[4].Ready, s.Pods[4].EverRan, s.Pods[4].Stuck, s.Pods[4].Problem = nil, false, false, true, "cannot run: Unschedulable"
			}),
			reason: planner.ReasonMembersNotReady, says: "orders-0 does not answer",
		},
		"a pod that is only about to start does not join": {
			state: of(5, func(s *model.State) {
				s.Members = s.Members[:3]
				s.Pods[3].Status, s.Pods[3].Ready, s.Pods[3].EverRan, s.Pods[3].Stuck, s.Pods[3].Problem = nil, false, false, true, "cannot run: Unschedulable"
				s.Pods[4].Status, s.Pods[4].Ready, s.Pods[4].EverRan = nil, false, false
			}),
			reason: planner.ReasonJoining, says: "orders-3 does not join yet",
		},
		"a gate that waits to be let in is no obstacle": {
			state: left(func(s *model.State) {
				s.Pods[2].EverRan, s.Pods[2].Stuck, s.Pods[2].Gate = false, true, held(model.GateNotMember)
			}),
			step: steps.AddLearner{Name: "orders-2", URL: "https://orders-2.orders-peers.default.svc.cluster.local:2380", Via: "orders-1"},
		},
		"what a learner answers instead of its status is reported": {
			state: joining(func(s *model.State) {
				s.Pods[2].Unreachable = fmt.Errorf("status of orders-2: %w", errors.New("read tcp 10.0.0.1:43210->10.0.0.2:2379: connection reset"))
			}),
			reason: planner.ReasonMembersNotReady, says: "orders-2 does not answer (read tcp 10.0.0.2:2379: connection reset)",
		},
		"a status that ran out of time is not reported": {
			state: joining(func(s *model.State) {
				s.Pods[2].Unreachable = fmt.Errorf("status of orders-2: %w", context.DeadlineExceeded)
			}),
			reason: planner.ReasonMembersNotReady, ends: "orders-2 does not answer",
		},
	})
}
