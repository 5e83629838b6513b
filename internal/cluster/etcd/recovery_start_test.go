package etcd_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

func TestNextTellsLostMembersFromLateOnes(t *testing.T) {
	reported := etcd.SetRecovery{To: etcd.Recovery{Incident: incident, Phase: etcd.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
	unequippedReported := reported
	unequippedReported.To.Incident = etcd.Next(unequipped(true)).Step.(etcd.SetRecovery).To.Incident
	equippedReported := reported
	equippedReported.To.Candidates, equippedReported.To.Former = []string{"orders-2", "orders-3"}, unequippedReported.To.Former
	runRows(t, map[string]planRow{
		"a member that waits for a volume has no data": {state: unequipped(true), step: unequippedReported, says: "orders-0 has an empty disk, orders-1 has an empty disk"},
		"when a member gets its volume, that is another plan": {
			state: func() etcd.State {
				s := unequipped(false)
				s.Record.Recovery = unequippedReported.To
				s.Want.Approved = s.Record.Recovery.Incident
				s.Pods[0].Gate, s.Pods[1].Gate = held(etcd.GateLostDisk), held(etcd.GateLostDisk)
				s.Pods[3].View, s.Pods[3].Started = &etcd.View{Revision: 43}, simNow.Add(-time.Hour)
				return s
			}(),
			step: equippedReported,
		},
		"there is no plan before the cluster was founded": {
			state: func() etcd.State {
				s := unequipped(true)
				s.Record.ClusterID, s.Pods[2].View, s.Pods[2].Gate = 0, nil, held(etcd.GateNoPeers)
				return s
			}(),
			reason: etcd.ReasonQuorumLost, says: "What orders-3 has is not known",
		},
		"a member whose claim has a volume may have data": {
			state: unequipped(false), reason: etcd.ReasonNoQuorum, says: "orders-3",
		},
		"a member that was just started may find the others": {
			state:  lostQuorum(func(s *etcd.State) { s.Pods[2].Started = simNow.Add(-time.Second) }),
			reason: etcd.ReasonNoQuorum,
		},
		"data that cannot be started from is lost": {
			state: lostQuorum(func(s *etcd.State) {
				s.Pods[1].Gate, s.Pods[1].EverRan, s.Pods[1].Fatal = nil, true, "wal: crc mismatch"
			}),
			step: reported, says: "orders-1 cannot start from its data: wal: crc mismatch",
		},
		"a member with an empty disk that is about to end tells nothing": {
			state: lostQuorum(func(s *etcd.State) {
				s.Pods[0].Gate, s.Pods[0].Terminating, s.Pods[1].Gate, s.Pods[2].View = held(etcd.GateNoPeers), true, held(etcd.GateNoPeers), nil
				s.Pods[2].Gate = held(etcd.GateNoPeers)
			}),
			reason: etcd.ReasonNoQuorum, ends: "orders-2 is held back: " + held(etcd.GateNoPeers).Message,
		},
	})
}

func TestNextGoesOnWithTheLongestLog(t *testing.T) {
	reported := etcd.SetRecovery{To: etcd.Recovery{Incident: incident, Phase: etcd.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
	unequippedReported := reported
	unequippedReported.To.Incident = etcd.Next(unequipped(true)).Step.(etcd.SetRecovery).To.Incident
	equippedReported := reported
	equippedReported.To.Candidates, equippedReported.To.Former = []string{"orders-2", "orders-3"}, unequippedReported.To.Former
	goesOn := func(i int) etcd.SetRecovery {
		r := allHeld().Record.Recovery
		r.Phase, r.Survivor = etcd.RecoveryStarted, r.Candidates[i]
		return etcd.SetRecovery{To: r}
	}
	runRows(t, map[string]planRow{
		"a member that runs is ended": {
			state: recovering(etcd.RecoveryHeld, nil),
			step:  etcd.DeletePod{Name: "orders-2", UID: "uid-orders-2", ResourceVersion: "7"},
		},
		"a gate that has not said what is there is waited for": {
			state: recovering(etcd.RecoveryHeld, func(s *etcd.State) {
				s.Pods[2].View, s.Pods[2].EverRan = nil, false
			}),
			reason: etcd.ReasonRecovering, says: "waits for the start gate of orders-2",
		},
		"a claim that is lost has nothing to say": {
			state: func() etcd.State {
				s := allHeld(nil, nil, &etcd.LogEnd{Term: 2, Index: 9})
				s.Claims[0].Lost, s.Pods[0].Gate = "its node is gone", nil
				return s
			}(),
			step: goesOn(2),
		},
		"a member that got no volume has nothing to say": {
			state: func() etcd.State {
				s := allHeld(nil, nil, &etcd.LogEnd{Term: 2, Index: 9})
				s.Claims[0].Pending, s.Pods[0].Gate = true, nil
				return s
			}(),
			step: goesOn(2),
		},
		"the longest log goes on":                                       {state: allHeld(&etcd.LogEnd{Term: 2, Index: 8}, &etcd.LogEnd{Term: 2, Index: 9}, nil), step: goesOn(1)},
		"the longest log goes on, whichever member has it":              {state: allHeld(&etcd.LogEnd{Term: 2, Index: 9}, &etcd.LogEnd{Term: 2, Index: 8}, nil), step: goesOn(0)},
		"a later term counts more than length, whichever member has it": {state: allHeld(&etcd.LogEnd{Term: 2, Index: 9}, &etcd.LogEnd{Term: 3, Index: 8}, nil), step: goesOn(1)},
		"a later term counts more than length":                          {state: allHeld(&etcd.LogEnd{Term: 3, Index: 8}, &etcd.LogEnd{Term: 2, Index: 9}, nil), step: goesOn(0)},
		"without a log there is nothing to go on from": {
			state: allHeld(nil, nil, nil), reason: etcd.ReasonRecovering, stalled: true, says: "finds no log",
		},
		"a log of a member that was not well before does not go on": {
			state: func() etcd.State {
				s := allHeld(&etcd.LogEnd{Term: 2, Index: 99}, nil, &etcd.LogEnd{Term: 2, Index: 9})
				s.Record.Recovery.Candidates = []string{"orders-2"}
				return s
			}(),
			step: etcd.SetRecovery{To: etcd.Recovery{
				Incident: incident, Phase: etcd.RecoveryStarted, Since: simNow.Add(-time.Minute), Candidates: []string{"orders-2"}, Survivor: "orders-2",
			}},
		},
	})
}

func TestNextStartsTheSurvivor(t *testing.T) {
	reported := etcd.SetRecovery{To: etcd.Recovery{Incident: incident, Phase: etcd.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
	unequippedReported := reported
	unequippedReported.To.Incident = etcd.Next(unequipped(true)).Step.(etcd.SetRecovery).To.Incident
	equippedReported := reported
	equippedReported.To.Candidates, equippedReported.To.Former = []string{"orders-2", "orders-3"}, unequippedReported.To.Former
	runRows(t, map[string]planRow{
		"a gate that was held gets to know the survivor": {
			state: recovering(etcd.RecoveryStarted, func(s *etcd.State) {
				s.Pods[2].View, s.Pods[2].EverRan, s.Pods[2].Gate = nil, false, held(etcd.GateHeld)
			}),
			step: etcd.DeletePod{Name: "orders-2", UID: "uid-orders-2", ResourceVersion: "7"},
		},
		"the survivor is waited for": {
			state:  recovering(etcd.RecoveryStarted, nil),
			reason: etcd.ReasonRecovering, says: "orders-2 starts as the only member; for now it has no leader",
		},
		"a survivor that cannot start is a matter for a human": {
			state:  recovering(etcd.RecoveryStarted, func(s *etcd.State) { s.Pods[2].View, s.Pods[2].Fatal = nil, "invalid database" }),
			reason: etcd.ReasonRecovering, stalled: true, says: "before-" + incident,
		},
	})
}
