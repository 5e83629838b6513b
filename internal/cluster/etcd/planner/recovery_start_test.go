package planner_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextTellsLostMembersFromLateOnes(t *testing.T) {
	reported := steps.SetRecovery{To: model.Recovery{Incident: incident, Phase: model.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
	unequippedReported := reported
	unequippedReported.To.Incident = planner.Next(unequipped(true)).Step.(steps.SetRecovery).To.Incident
	equippedReported := reported
	equippedReported.To.Candidates, equippedReported.To.Former = []string{"orders-2", "orders-3"}, unequippedReported.To.Former
	rows.Run(t, map[string]planRow{
		"a member that waits for a volume has no data": {state: unequipped(true), step: unequippedReported, says: "orders-0 has an empty disk, orders-1 has an empty disk"},
		"when a member gets its volume, that is another plan": {
			state: func() model.State {
				s := unequipped(false)
				s.Record.Recovery = unequippedReported.To
				s.Want.Approved = s.Record.Recovery.Incident
				s.Pods[0].Gate, s.Pods[1].Gate = held(model.GateLostDisk), held(model.GateLostDisk)
				s.Pods[3].Status, s.Pods[3].Started = &model.Status{Revision: 43}, simNow.Add(-time.Hour)
				return s
			}(),
			step: equippedReported,
		},
		"there is no plan before the cluster was founded": {
			state: func() model.State {
				s := unequipped(true)
				s.Record.ClusterID, s.Pods[2].Status, s.Pods[2].Gate = 0, nil, held(model.GateNoPeers)
				return s
			}(),
			reason: steps.ReasonQuorumLost, says: "What orders-3 has is not known",
		},
		"a member whose claim has a volume may have data": {
			state: unequipped(false), reason: planner.ReasonNoQuorum, says: "orders-3",
		},
		"a member that was just started may find the others": {
			state:  lostQuorum(func(s *model.State) { s.Pods[2].Started = simNow.Add(-time.Second) }),
			reason: planner.ReasonNoQuorum,
		},
		"data that cannot be started from is lost": {
			state: lostQuorum(func(s *model.State) {
				s.Pods[1].Gate, s.Pods[1].EverRan, s.Pods[1].Fatal = nil, true, "wal: crc mismatch"
			}),
			step: reported, says: "orders-1 cannot start from its data: wal: crc mismatch",
		},
		"a member with an empty disk that is about to end tells nothing": {
			state: lostQuorum(func(s *model.State) {
				s.Pods[0].Gate, s.Pods[0].Terminating, s.Pods[1].Gate, s.Pods[2].Status = held(model.GateNoPeers), true, held(model.GateNoPeers), nil
				s.Pods[2].Gate = held(model.GateNoPeers)
			}),
			reason: planner.ReasonNoQuorum, ends: "orders-2 is held back: " + held(model.GateNoPeers).Message,
		},
	})
}

func TestNextGoesOnWithTheLongestLog(t *testing.T) {
	reported := steps.SetRecovery{To: model.Recovery{Incident: incident, Phase: model.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
	unequippedReported := reported
	unequippedReported.To.Incident = planner.Next(unequipped(true)).Step.(steps.SetRecovery).To.Incident
	equippedReported := reported
	equippedReported.To.Candidates, equippedReported.To.Former = []string{"orders-2", "orders-3"}, unequippedReported.To.Former
	goesOn := func(i int) steps.SetRecovery {
		r := allHeld().Record.Recovery
		r.Phase, r.Survivor = model.RecoveryStarted, r.Candidates[i]
		return steps.SetRecovery{To: r}
	}
	rows.Run(t, map[string]planRow{
		"a member that runs is ended": {
			state: recovering(model.RecoveryHeld, nil),
			step:  steps.DeletePod{Name: "orders-2", UID: "uid-orders-2", ResourceVersion: "7"},
		},
		"a gate that has not said what is there is waited for": {
			state: recovering(model.RecoveryHeld, func(s *model.State) {
				s.Pods[2].Status, s.Pods[2].EverRan = nil, false
			}),
			reason: steps.ReasonRecovering, says: "waits for the start gate of orders-2",
		},
		"a claim that is lost has nothing to say": {
			state: func() model.State {
				s := allHeld(nil, nil, &model.LogEnd{Term: 2, Index: 9})
				s.Claims[0].Lost, s.Pods[0].Gate = "its node is gone", nil
				return s
			}(),
			step: goesOn(2),
		},
		"a member that got no volume has nothing to say": {
			state: func() model.State {
				s := allHeld(nil, nil, &model.LogEnd{Term: 2, Index: 9})
				s.Claims[0].Pending, s.Pods[0].Gate = true, nil
				return s
			}(),
			step: goesOn(2),
		},
		"the longest log goes on":                                       {state: allHeld(&model.LogEnd{Term: 2, Index: 8}, &model.LogEnd{Term: 2, Index: 9}, nil), step: goesOn(1)},
		"the longest log goes on, whichever member has it":              {state: allHeld(&model.LogEnd{Term: 2, Index: 9}, &model.LogEnd{Term: 2, Index: 8}, nil), step: goesOn(0)},
		"a later term counts more than length, whichever member has it": {state: allHeld(&model.LogEnd{Term: 2, Index: 9}, &model.LogEnd{Term: 3, Index: 8}, nil), step: goesOn(1)},
		"a later term counts more than length":                          {state: allHeld(&model.LogEnd{Term: 3, Index: 8}, &model.LogEnd{Term: 2, Index: 9}, nil), step: goesOn(0)},
		"without a log there is nothing to go on from": {
			state: allHeld(nil, nil, nil), reason: steps.ReasonRecovering, stalled: true, says: "finds no log",
		},
		"a log of a member that was not well before does not go on": {
			state: func() model.State {
				s := allHeld(&model.LogEnd{Term: 2, Index: 99}, nil, &model.LogEnd{Term: 2, Index: 9})
				s.Record.Recovery.Candidates = []string{"orders-2"}
				return s
			}(),
			step: steps.SetRecovery{To: model.Recovery{
				Incident: incident, Phase: model.RecoveryStarted, Since: simNow.Add(-time.Minute), Candidates: []string{"orders-2"}, Survivor: "orders-2",
			}},
		},
	})
}

func TestNextStartsTheSurvivor(t *testing.T) {
	reported := steps.SetRecovery{To: model.Recovery{Incident: incident, Phase: model.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
	unequippedReported := reported
	unequippedReported.To.Incident = planner.Next(unequipped(true)).Step.(steps.SetRecovery).To.Incident
	equippedReported := reported
	equippedReported.To.Candidates, equippedReported.To.Former = []string{"orders-2", "orders-3"}, unequippedReported.To.Former
	rows.Run(t, map[string]planRow{
		"a gate that was held gets to know the survivor": {
			state: recovering(model.RecoveryStarted, func(s *model.State) {
				s.Pods[2].Status, s.Pods[2].EverRan, s.Pods[2].Gate = nil, false, held(model.GateHeld)
			}),
			step: steps.DeletePod{Name: "orders-2", UID: "uid-orders-2", ResourceVersion: "7"},
		},
		"the survivor is waited for": {
			state:  recovering(model.RecoveryStarted, nil),
			reason: steps.ReasonRecovering, says: "orders-2 starts as the only member; for now it has no leader",
		},
		"a survivor that cannot start is a matter for a human": {
			state:  recovering(model.RecoveryStarted, func(s *model.State) { s.Pods[2].Status, s.Pods[2].Fatal = nil, "invalid database" }),
			reason: steps.ReasonRecovering, stalled: true, says: "before-" + incident,
		},
	})
}
