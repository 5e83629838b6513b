package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

// of is a settled cluster of n members, of which orders-1 leads, or the only one.
func of(n int, change func(*etcd.State)) etcd.State {
	return settled(func(s *etcd.State) {
		if n == 1 {
			single(s)
		} else {
			s.Want.Size, s.Record.Members, s.Set.Replicas = n, s.Want.Peers[:n], n
			for i := len(s.Pods); i < n; i++ {
				p, m, c := s.Pods[0], s.Members[0], s.Claims[0]
				peer, id := s.Want.Peers[i], uint64(i+1)
				v := *p.View
				v.MemberID = id
				p.Name, p.UID, p.Ordinal, p.View = peer.Name, "uid-"+peer.Name, i, &v
				m.ID, m.Name, m.PeerURL = id, peer.Name, peer.URL
				c.Name, c.UID, c.Ordinal = "data-"+peer.Name, "claim-of-"+peer.Name, i
				s.Pods, s.Members, s.Claims = append(s.Pods, p), append(s.Members, m), append(s.Claims, c)
			}
			s.Pods, s.Members, s.Claims = s.Pods[:n], s.Members[:n], s.Claims[:n]
		}
		if change != nil {
			change(s)
		}
	})
}

// down makes a member not answer.
func down(s *etcd.State, i int) *etcd.Pod {
	p := &s.Pods[i]
	p.Ready, p.View = false, nil
	return p
}

// joining is a cluster of two members whose third is on its way in: a learner with a pod.
func joining(change func(*etcd.State)) etcd.State {
	return of(3, func(s *etcd.State) {
		s.Members[2].Learner, s.Members[2].Name, s.Members[2].Published = true, "", false
		p := down(s, 2)
		p.EverRan = false
		if change != nil {
			change(s)
		}
	})
}

// left is a cluster of three members of which the third is not listed any more, but has everything else.
func left(change func(*etcd.State)) etcd.State {
	return of(3, func(s *etcd.State) {
		s.Members = s.Members[:2]
		down(s, 2)
		if change != nil {
			change(s)
		}
	})
}

func TestScale(t *testing.T) {
	for name, tc := range map[string]planRow{
		"a larger size makes room for one member": {
			state: of(1, func(s *etcd.State) { s.Want.Size = 5 }),
			step:  etcd.Resize{From: 1, To: 2},
		},
		"what an earlier member of the ordinal left goes first": {
			state: of(1, func(s *etcd.State) {
				s.Want.Size = 3
				s.Claims = append(s.Claims, etcd.Claim{Name: "data-orders-1", UID: "old", Ordinal: 1})
			}),
			step: etcd.DeleteClaim{Name: "data-orders-1", UID: "old"},
		},
		"it is waited for": {
			state: of(1, func(s *etcd.State) {
				s.Want.Size = 3
				s.Claims = append(s.Claims, etcd.Claim{Name: "data-orders-1", UID: "old", Ordinal: 1, Leaving: true})
			}),
			reason: etcd.ReasonLeaving, says: "data-orders-1",
		},
		"a former pod is waited for": {
			state: of(3, func(s *etcd.State) {
				s.Record.Members, s.Members, s.Claims, s.Pods[2].Terminating = s.Record.Members[:2], s.Members[:2], s.Claims[:2], true
			}),
			reason: etcd.ReasonLeaving, says: "the former pod orders-2",
		},
		"a new member joins once it has a pod": {
			state: left(func(s *etcd.State) { s.Pods, s.Claims = s.Pods[:2], s.Claims[:2] }), reason: etcd.ReasonJoining,
			ends: "orders-2 joins: it has no pod yet",
		},
		"a new member whose pod Kubernetes does not make": {
			state: left(func(s *etcd.State) {
				s.Pods, s.Claims, s.Set.Overdue, s.Want.Namespace = s.Pods[:2], s.Claims[:2], true, "default"
			}), reason: etcd.ReasonJoining,
			says: "orders-2 joins: it has no pod yet: Kubernetes has not made it: if that lasts, `kubectl -n default describe statefulset orders` says why (a quota",
		},
		"without a vote": {
			state: left(func(s *etcd.State) { s.Pods[2].EverRan = false }),
			step:  etcd.AddLearner{Name: "orders-2", URL: "https://orders-2.orders-peers.default.svc.cluster.local:2380", Via: "orders-1"},
		},
		"a pod that cannot run does not join": {
			state: left(func(s *etcd.State) {
				s.Pods[2].EverRan, s.Pods[2].Stuck, s.Pods[2].Problem = false, true, "cannot run: Unschedulable"
			}),
			reason: etcd.ReasonJoining, says: "orders-2 does not join yet: it cannot run: Unschedulable",
		},
		"nor does it keep another one from joining": {
			state: of(5, func(s *etcd.State) {
				s.Members = s.Members[:3]
				s.Pods[3].View, s.Pods[3].Ready, s.Pods[3].EverRan, s.Pods[3].Stuck, s.Pods[3].Problem = nil, false, false, true, "cannot run: Unschedulable"
				s.Pods[4].View, s.Pods[4].Ready, s.Pods[4].EverRan, s.Pods[4].Gate = nil, false, false, held(etcd.GateNotMember)
			}),
			step: etcd.AddLearner{Name: "orders-4", URL: "https://orders-4.orders-peers.default.svc.cluster.local:2380", Via: "orders-1"},
		},
		"and is not waited for while another is to get well first": {
			state: of(5, func(s *etcd.State) {
				s.Members = s.Members[:3]
				down(s, 0)
				s.Pods[3].View, s.Pods[3].Ready, s.Pods[3].EverRan, s.Pods[3].Gate = nil, false, false, held(etcd.GateNotMember)
				s.Pods[4].View, s.Pods[4].Ready, s.Pods[4].EverRan, s.Pods[4].Stuck, s.Pods[4].Problem = nil, false, false, true, "cannot run: Unschedulable"
			}),
			reason: etcd.ReasonMembersNotReady, says: "orders-0 does not answer",
		},
		"but none that is only about to start": {
			state: of(5, func(s *etcd.State) {
				s.Members = s.Members[:3]
				s.Pods[3].View, s.Pods[3].Ready, s.Pods[3].EverRan, s.Pods[3].Stuck, s.Pods[3].Problem = nil, false, false, true, "cannot run: Unschedulable"
				s.Pods[4].View, s.Pods[4].Ready, s.Pods[4].EverRan = nil, false, false
			}),
			reason: etcd.ReasonJoining, says: "orders-3 does not join yet",
		},
		"a gate that waits to be let in is no obstacle": {
			state: left(func(s *etcd.State) {
				s.Pods[2].EverRan, s.Pods[2].Stuck, s.Pods[2].Gate = false, true, held(etcd.GateNotMember)
			}),
			step: etcd.AddLearner{Name: "orders-2", URL: "https://orders-2.orders-peers.default.svc.cluster.local:2380", Via: "orders-1"},
		},
		"none joins while another is not well": {
			state: left(func(s *etcd.State) {
				s.Pods[2].EverRan = false
				down(s, 0)
			}),
			reason: etcd.ReasonNoQuorum, says: "orders-0 does not answer",
		},
		"a learner that does not run is waited for": {
			state: joining(nil), reason: etcd.ReasonMembersNotReady, says: "orders-2 does not answer",
		},
		"it is told what a member answers instead": {
			state: joining(func(s *etcd.State) {
				s.Pods[2].Unreachable = fmt.Errorf("status of orders-2: %w", errors.New("read tcp 10.0.0.1:43210->10.0.0.2:2379: connection reset"))
			}),
			reason: etcd.ReasonMembersNotReady, says: "orders-2 does not answer (read tcp 10.0.0.2:2379: connection reset)",
		},
		"or nothing where there was no time to": {
			state: joining(func(s *etcd.State) {
				s.Pods[2].Unreachable = fmt.Errorf("status of orders-2: %w", context.DeadlineExceeded)
			}),
			reason: etcd.ReasonMembersNotReady, ends: "orders-2 does not answer",
		},
		"a learner is promoted when it has the log": {
			state: joining(func(s *etcd.State) {
				s.Pods[2].View = &etcd.View{MemberID: 3, ClusterID: clusterID, Leader: 2, Learner: true, Applied: 9}
			}),
			step: etcd.Promote{ID: 3, Name: "orders-2", Via: "orders-1"},
		},
		"and not before": {
			state: joining(func(s *etcd.State) {
				s.Pods[1].View.Applied = 1000
				s.Pods[2].View = &etcd.View{MemberID: 3, ClusterID: clusterID, Leader: 2, Learner: true, Applied: 899}
			}),
			reason: etcd.ReasonCatchingUp, says: "it has 899 of 1000 log entries",
		},
		"a size that is taken back takes the learner out again": {
			state: joining(func(s *etcd.State) { s.Want.Size = 1 }),
			step:  etcd.RemoveMember{ID: 3, Name: "orders-2", Via: "orders-1", Pod: "uid-orders-2", Claim: "claim-2"},
		},
		"and the room that nobody has taken": {
			state: left(func(s *etcd.State) { s.Want.Size = 1 }),
			step:  etcd.Resize{From: 3, To: 2},
		},
		"a smaller size ends the pod of the highest ordinal": {
			state: of(5, func(s *etcd.State) { s.Want.Size = 3 }),
			step:  etcd.Resize{From: 5, To: 4},
		},
		"it gets the time to hand its clients over": {
			state: of(5, func(s *etcd.State) {
				s.Want.Size, s.Record.Members, s.Pods[4].Terminating = 3, s.Record.Members[:4], true
			}),
			reason: etcd.ReasonLeaving, says: "orders-4 is leaving",
		},
		"then the member is removed": {
			state: of(5, func(s *etcd.State) { s.Want.Size, s.Record.Members, s.Pods = 3, s.Record.Members[:4], s.Pods[:4] }),
			step:  etcd.RemoveMember{ID: 5, Name: "orders-4", Via: "orders-1", Claim: "claim-of-orders-4"},
		},
		"it comes back when the others turn out to differ": {
			state: of(3, func(s *etcd.State) {
				s.Want.Size, s.Record.Members, s.Pods = 1, s.Record.Members[:2], s.Pods[:2]
				alarm("CORRUPT")(s)
			}),
			step: etcd.Resize{From: 2, To: 3},
		},
		"of two members one is removed first": {
			state: of(2, func(s *etcd.State) {
				s.Want.Size = 1
				s.Pods[0].View.Leader, s.Pods[1].View.Leader = 1, 1
			}),
			step: etcd.RemoveMember{ID: 2, Name: "orders-1", Via: "orders-0", Pod: "uid-orders-1", Claim: "claim-1"},
		},
		"a leader hands over to one that stays": {
			state: of(5, func(s *etcd.State) {
				s.Want.Size = 3
				for i := range s.Pods {
					s.Pods[i].View.Leader = 5
				}
				s.Pods[3].View.Applied, s.Pods[2].View.Applied = 20, 11
			}),
			step: etcd.MoveLeader{From: "orders-4", To: 3, Pod: "orders-2"},
		},
		"of two members one can go": {
			state: of(2, func(s *etcd.State) { s.Want.Size = 1 }),
			step:  etcd.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"},
		},
		"members restart before one leaves": {
			state: of(3, func(s *etcd.State) { s.Want.Size, s.Want.TemplateHash = 1, "next" }),
			step:  deletion("orders-2"),
		},
		"a member that is down leaves first of all": {
			state: of(3, func(s *etcd.State) {
				s.Want.Size, s.Want.TemplateHash = 1, "next"
				down(s, 2)
			}),
			step: etcd.RemoveMember{ID: 3, Name: "orders-2", Via: "orders-1", Pod: "uid-orders-2", Claim: "claim-2"},
		},
		"none of two members is restarted": {
			state: of(2, func(s *etcd.State) { s.Want.Size, s.Want.TemplateHash = 3, "next" }),
			step:  etcd.Resize{From: 2, To: 3},
		},
		"the only member is restarted when it is not the only one any more": {
			state: of(1, func(s *etcd.State) { s.Want.Size, s.Want.TemplateHash = 3, "next" }),
			step:  etcd.Resize{From: 1, To: 2},
		},
		"a pod goes when its member has": {
			state: of(5, func(s *etcd.State) {
				s.Want.Size, s.Members = 3, s.Members[:4]
				down(s, 4)
			}),
			step: etcd.Resize{From: 5, To: 4},
		},
		"and its claim when the pod has": {
			state: of(5, func(s *etcd.State) {
				s.Want.Size, s.Members, s.Record.Members, s.Pods = 4, s.Members[:4], s.Record.Members[:4], s.Pods[:4]
			}),
			step: etcd.DeleteClaim{Name: "data-orders-4", UID: "claim-of-orders-4"},
		},
		"a leaving member comes back when the others lose their quorum": {
			state: of(3, func(s *etcd.State) {
				s.Want.Size, s.Record.Members, s.Pods, s.Members = 1, s.Record.Members[:2], s.Pods[:2], nil
				down(s, 0)
				s.Pods[1].Ready, s.Pods[1].View.Leader = false, 0
			}),
			step: etcd.Resize{From: 2, To: 3},
		},
		"but not at the first sign of it": {
			state: of(3, func(s *etcd.State) {
				s.Want.Size, s.Record.Members, s.Pods, s.Members = 1, s.Record.Members[:2], s.Pods[:2], nil
				down(s, 0).Started = simNow.Add(-time.Second)
				s.Pods[1].Ready, s.Pods[1].View.Leader = false, 0
			}),
			reason: etcd.ReasonNoQuorum,
		},
		"a member that is wanted again gets its pod back": {
			state: of(5, func(s *etcd.State) { s.Record.Members, s.Pods = s.Record.Members[:4], s.Pods[:4] }),
			step:  etcd.Resize{From: 4, To: 5},
		},
		"a size that is raised again brings the member back that has left": {
			state: of(5, func(s *etcd.State) {
				s.Members = s.Members[:4]
				down(s, 4)
			}),
			step: etcd.DeleteClaim{Name: "data-orders-4", UID: "claim-of-orders-4"},
		},
	} {
		t.Run(name, tc.check)
	}
}

func TestReplacement(t *testing.T) {
	removed := etcd.RemoveMember{ID: 1, Name: "orders-0", Via: "orders-1", Pod: "uid-orders-0", Claim: "claim-0"}
	for name, tc := range map[string]planRow{
		"a member with an empty disk is removed": {
			state: of(3, func(s *etcd.State) { down(s, 0).Gate = held(etcd.GateLostDisk) }), step: removed,
		},
		"so is one whose volume is lost": {
			state: of(3, func(s *etcd.State) {
				down(s, 0).Terminating = true
				s.Claims[0].Lost = "its node is gone"
			}),
			step: removed,
		},
		"so is one that cannot start from its data": {
			state: of(3, func(s *etcd.State) { down(s, 0).Fatal = "wal: crc mismatch" }), step: removed,
		},
		"so is one whose disk is full, since its copy of the data has room on another volume": {
			state: of(3, func(s *etcd.State) { down(s, 0).Full = true }), step: removed,
		},
		"a full disk that is being expanded is waited for": {
			state: of(3, func(s *etcd.State) {
				down(s, 0).Full = true
				s.Claims[0].Request = s.Claims[0].Capacity + 1
			}),
			reason: etcd.ReasonMembersNotReady,
		},
		"a member whose disk is full stays while the quorum needs it": {
			state: of(3, func(s *etcd.State) {
				down(s, 0).Full = true
				down(s, 1)
			}),
			reason: etcd.ReasonNoQuorum,
		},
		"so is one without storage whose node is gone": {
			state: of(3, func(s *etcd.State) {
				down(s, 0).Gone = true
				s.Want.Persistent, s.Claims = false, nil
			}),
			step: etcd.RemoveMember{ID: 1, Name: "orders-0", Via: "orders-1", Pod: "uid-orders-0"},
		},
		"one without storage that only does not answer is left alone": {
			state: of(3, func(s *etcd.State) {
				down(s, 0)
				s.Want.Persistent, s.Claims = false, nil
			}),
			reason: etcd.ReasonMembersNotReady,
		},
		"one that only does not answer is left alone": {
			state: of(3, func(s *etcd.State) { down(s, 0) }), reason: etcd.ReasonMembersNotReady,
		},
		"a member whose pod is ending is not removed for what the pod said before": {
			state: of(3, func(s *etcd.State) {
				p := down(s, 0)
				p.Terminating, p.Fatal = true, "wal: crc mismatch"
			}),
			reason: etcd.ReasonMembersNotReady,
		},
		"one that answers is not lost, whatever its gate said once": {
			state: of(3, func(s *etcd.State) { s.Pods[0].Gate = held(etcd.GateLostDisk) }),
		},
		"one whose node is gone and whose volume is elsewhere comes back by itself": {
			state:  of(3, func(s *etcd.State) { down(s, 0).Gone = true }),
			reason: etcd.ReasonMembersNotReady,
		},
		"a learner that has not started is not lost": {
			state:  joining(func(s *etcd.State) { s.Pods[2].Gate = held(etcd.GateLostDisk) }),
			reason: etcd.ReasonMembersNotReady,
		},
		"so is one whose data is confirmed to be corrupt": {
			state: of(3, func(s *etcd.State) { s.Pods[0].Corrupt = true }), step: removed,
		},
		"a leader with corrupt data hands over first": {
			state: of(3, func(s *etcd.State) { s.Pods[1].Corrupt = true }),
			step:  etcd.MoveLeader{From: "orders-1", To: 1, Pod: "orders-0"},
		},
		"a leader that does not answer is not asked to hand over": {
			state: of(3, func(s *etcd.State) { down(s, 1).Fatal = "wal: crc mismatch" }),
			step:  etcd.RemoveMember{ID: 2, Name: "orders-1", Via: "orders-0", Pod: "uid-orders-1", Claim: "claim-1"},
		},
		"corrupt data stays while the quorum needs it": {
			state: of(3, func(s *etcd.State) {
				s.Pods[0].Corrupt = true
				down(s, 2)
			}),
			reason: etcd.ReasonMemberLost, says: "replaced once enough others are healthy",
		},
		"data that breaks again and again is not replaced again and again": {
			state: of(3, func(s *etcd.State) {
				down(s, 0).Fatal = "wal: crc mismatch"
				s.Set.Age, s.Claims[0].Age = time.Hour, time.Minute
			}),
			reason: etcd.ReasonMemberLost, says: "only 1m0s old",
		},
		"the first disk is replaced however young it is": {
			state: of(3, func(s *etcd.State) {
				down(s, 0).Fatal = "wal: crc mismatch"
				s.Set.Age, s.Claims[0].Age = 2*time.Minute, time.Minute
			}),
			step: removed,
		},
		"a disk that is older than its StatefulSet is not the first": {
			state: of(3, func(s *etcd.State) {
				down(s, 0).Fatal = "wal: crc mismatch"
				s.Set.Age, s.Claims[0].Age = time.Minute, 2*time.Minute
			}),
			reason: etcd.ReasonMemberLost, says: "only 2m0s old",
		},
		"nor is any while there is no StatefulSet": {
			state: of(3, func(s *etcd.State) {
				down(s, 0).Fatal = "wal: crc mismatch"
				s.Set, s.Claims[0].Age = nil, time.Minute
			}),
			reason: etcd.ReasonMemberLost, says: "only 1m0s old",
		},
		"its claim goes next": {
			state: left(nil), step: etcd.DeleteClaim{Name: "data-orders-2", UID: "claim-2"},
		},
		"its claim goes next, which was made in the same second or by a server whose clock is ahead": {
			state: left(func(s *etcd.State) { s.Claims[2].Age = s.Pods[2].Age - time.Second }), step: etcd.DeleteClaim{Name: "data-orders-2", UID: "claim-2"},
		},
		"but not one that was made after the pod ended": {
			state: left(func(s *etcd.State) { s.Claims[2].Age = time.Minute }), step: deletion("orders-2"),
		},
		"then its pod": {
			state: left(func(s *etcd.State) { s.Claims[2].Leaving = true }), step: deletion("orders-2"),
		},
		"then both are waited for": {
			state: left(func(s *etcd.State) { s.Claims[2].Leaving, s.Pods[2].Terminating = true, true }), reason: etcd.ReasonJoining,
		},
		"but not for the word of a node that is gone": {
			state: left(func(s *etcd.State) { s.Claims[2].Leaving, s.Pods[2].Terminating, s.Pods[2].Gone = true, true, true }),
			step:  etcd.DeletePod{Name: "orders-2", UID: "uid-orders-2", ResourceVersion: "7", Gone: true},
		},
		"a claim without a pod is waited for": {
			state:  left(func(s *etcd.State) { s.Claims[2].Leaving, s.Pods = true, s.Pods[:2] }),
			reason: etcd.ReasonJoining, says: "claim data-orders-2",
		},
		"a gate that has seen the lost member starts over": {
			state: left(func(s *etcd.State) {
				s.Pods[2].EverRan, s.Pods[2].Stuck, s.Pods[2].Gate = false, true, held(etcd.GateLostDisk)
			}),
			step: deletion("orders-2"),
		},
		"a learner that cannot start is taken out again": {
			state: joining(func(s *etcd.State) { s.Pods[2].Fatal, s.Claims[2].Age = "member count is unequal", time.Hour }),
			step:  etcd.RemoveMember{ID: 3, Name: "orders-2", Via: "orders-1", Pod: "uid-orders-2", Claim: "claim-2"},
		},
	} {
		t.Run(name, tc.check)
	}
}
