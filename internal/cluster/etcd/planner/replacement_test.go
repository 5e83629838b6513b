package planner_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextRemovesMembersThatLostTheirData(t *testing.T) {
	removed := steps.RemoveMember{ID: 1, Name: "orders-0", Via: "orders-1", Pod: "uid-orders-0", Claim: "claim-0"}
	rows.Run(t, map[string]planRow{
		"a member with an empty disk is removed": {
			state: of(3, func(s *model.State) { down(s, 0).Gate = held(model.GateLostDisk) }), step: removed,
		},
		"a member whose volume is lost is removed": {
			state: of(3, func(s *model.State) {
				down(s, 0).Terminating = true
				s.Claims[0].Lost = "its node is gone"
			}),
			step: removed,
		},
		"a member that cannot start from its data is removed": {
			state: of(3, func(s *model.State) { down(s, 0).Fatal = "wal: crc mismatch" }), step: removed,
		},
		"a member whose disk is full is removed, since its copy of the data has room on another volume": {
			state: of(3, func(s *model.State) { down(s, 0).Full = true }), step: removed,
		},
		"a member without storage whose node is gone is removed": {
			state: of(3, func(s *model.State) {
				down(s, 0).Gone = true
				s.Want.Persistent, s.Claims = false, nil
			}),
			step: steps.RemoveMember{ID: 1, Name: "orders-0", Via: "orders-1", Pod: "uid-orders-0"},
		},
		"a member that answers is not lost, whatever its gate said once": {
			state: of(3, func(s *model.State) { s.Pods[0].Gate = held(model.GateLostDisk) }),
		},
		"a learner that has not started is not lost": {
			state:  joining(func(s *model.State) { s.Pods[2].Gate = held(model.GateLostDisk) }),
			reason: planner.ReasonMembersNotReady,
		},
		"a member whose data is confirmed to be corrupt is removed": {
			state: of(3, func(s *model.State) { s.Pods[0].Corrupt = true }), step: removed,
		},
		"a leader with corrupt data hands over first": {
			state: of(3, func(s *model.State) { s.Pods[1].Corrupt = true }),
			step:  steps.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"},
		},
		"a leader that does not answer is not asked to hand over": {
			state: of(3, func(s *model.State) { down(s, 1).Fatal = "wal: crc mismatch" }),
			step:  steps.RemoveMember{ID: 2, Name: "orders-1", Via: "orders-0", Pod: "uid-orders-1", Claim: "claim-1"},
		},
		"a learner that cannot start is taken out again": {
			state: joining(func(s *model.State) { s.Pods[2].Fatal, s.Claims[2].Age = "member count is unequal", time.Hour }),
			step:  steps.RemoveMember{ID: 3, Name: "orders-2", Via: "orders-1", Pod: "uid-orders-2", Claim: "claim-2"},
		},
	})
}

func TestNextKeepsMembersThatMayComeBack(t *testing.T) {
	removed := steps.RemoveMember{ID: 1, Name: "orders-0", Via: "orders-1", Pod: "uid-orders-0", Claim: "claim-0"}
	rows.Run(t, map[string]planRow{
		"a full disk that is being expanded is waited for": {
			state: of(3, func(s *model.State) {
				down(s, 0).Full = true
				s.Claims[0].Request = s.Claims[0].Capacity + 1
			}),
			reason: planner.ReasonMembersNotReady,
		},
		"a member whose disk is full stays while the quorum needs it": {
			state: of(3, func(s *model.State) {
				down(s, 0).Full = true
				down(s, 1)
			}),
			reason: planner.ReasonNoQuorum,
		},
		"a member without storage that only does not answer is left alone": {
			state: of(3, func(s *model.State) {
				down(s, 0)
				s.Want.Persistent, s.Claims = false, nil
			}),
			reason: planner.ReasonMembersNotReady,
		},
		"a member that only does not answer is left alone": {
			state: of(3, func(s *model.State) { down(s, 0) }), reason: planner.ReasonMembersNotReady,
		},
		"a member whose pod is ending is not removed for what the pod said before": {
			state: of(3, func(s *model.State) {
				p := down(s, 0)
				p.Terminating, p.Fatal = true, "wal: crc mismatch"
			}),
			reason: planner.ReasonMembersNotReady,
		},
		"a member whose node is gone and whose volume is elsewhere comes back without a step": {
			state:  of(3, func(s *model.State) { down(s, 0).Gone = true }),
			reason: planner.ReasonMembersNotReady,
		},
		"corrupt data stays while the quorum needs it": {
			state: of(3, func(s *model.State) {
				s.Pods[0].Corrupt = true
				down(s, 2)
			}),
			reason: planner.ReasonMemberLost, says: "replaced once enough others are healthy",
		},
		"data that breaks again and again is not replaced again and again": {
			state: of(3, func(s *model.State) {
				down(s, 0).Fatal = "wal: crc mismatch"
				s.Set.Age, s.Claims[0].Age = time.Hour, time.Minute
			}),
			reason: planner.ReasonMemberLost, says: "only 1m0s old",
		},
		"the first disk is replaced however young it is": {
			state: of(3, func(s *model.State) {
				down(s, 0).Fatal = "wal: crc mismatch"
				s.Set.Age, s.Claims[0].Age = 2*time.Minute, time.Minute
			}),
			step: removed,
		},
		"a disk that is older than its StatefulSet is not the first": {
			state: of(3, func(s *model.State) {
				down(s, 0).Fatal = "wal: crc mismatch"
				s.Set.Age, s.Claims[0].Age = time.Minute, 2*time.Minute
			}),
			reason: planner.ReasonMemberLost, says: "only 2m0s old",
		},
		"no disk is the first while there is no StatefulSet": {
			state: of(3, func(s *model.State) {
				down(s, 0).Fatal = "wal: crc mismatch"
				s.Set, s.Claims[0].Age = nil, time.Minute
			}),
			reason: planner.ReasonMemberLost, says: "only 1m0s old",
		},
	})
}

func TestNextReplacesTheDiskOfARemovedMember(t *testing.T) {
	rows.Run(t, map[string]planRow{
		"the claim of a removed member is deleted": {
			state: left(nil), step: steps.DeleteClaim{Name: "data-orders-2", UID: "claim-2"},
		},
		"the claim of a removed member is deleted, created in the same second or by a server whose clock is ahead": {
			state: left(func(s *model.State) { s.Claims[2].Age = s.Pods[2].Age - time.Second }), step: steps.DeleteClaim{Name: "data-orders-2", UID: "claim-2"},
		},
		"a claim that was created after the pod ended is not deleted": {
			state: left(func(s *model.State) { s.Claims[2].Age = time.Minute }), step: deletion("orders-2"),
		},
		"the pod of a removed member follows its claim": {
			state: left(func(s *model.State) { s.Claims[2].Leaving = true }), step: deletion("orders-2"),
		},
		"the pod and the claim of a removed member are waited for": {
			state: left(func(s *model.State) { s.Claims[2].Leaving, s.Pods[2].Terminating = true, true }), reason: planner.ReasonJoining,
		},
		"the pod of a removed member is not waited for on a node that is gone": {
			state: left(func(s *model.State) { s.Claims[2].Leaving, s.Pods[2].Terminating, s.Pods[2].Gone = true, true, true }),
			step:  steps.DeletePod{Name: "orders-2", UID: "uid-orders-2", ResourceVersion: "7", Gone: true},
		},
		"a claim without a pod is waited for": {
			state:  left(func(s *model.State) { s.Claims[2].Leaving, s.Pods = true, s.Pods[:2] }),
			reason: planner.ReasonJoining, says: "claim data-orders-2",
		},
		"a gate that has seen the lost member starts over": {
			state: left(func(s *model.State) {
				s.Pods[2].EverRan, s.Pods[2].Stuck, s.Pods[2].Gate = false, true, held(model.GateLostDisk)
			}),
			step: deletion("orders-2"),
		},
	})
}
