package planner_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextPlansARecovery(t *testing.T) {
	reported := steps.SetRecovery{To: model.Recovery{Incident: incident, Phase: model.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
	unequippedReported := reported
	unequippedReported.To.Incident = planner.Next(unequipped(true)).Step.(steps.SetRecovery).To.Incident
	equippedReported := reported
	equippedReported.To.Candidates, equippedReported.To.Former = []string{"orders-2", "orders-3"}, unequippedReported.To.Former
	heldNow := steps.SetRecovery{To: recovering(model.RecoveryHeld, nil).Record.Recovery}
	rows.Run(t, map[string]planRow{
		"a loss of the quorum is written down first": {state: lostQuorum(nil), step: reported, says: "orders-0 has an empty disk, orders-1 has an empty disk"},
		"a loss that is written down has a plan, and nothing is done": {
			state:  recovering(model.RecoveryReported, nil),
			reason: steps.ReasonQuorumLost, stalled: true,
			says: "Plan " + incident + ": orders-2 goes on as the only member; a copy of its data is kept, and the others join again with empty disks",
		},
		"the plan of a recovery says how to approve it": {
			state:  recovering(model.RecoveryReported, nil),
			reason: steps.ReasonQuorumLost, stalled: true, says: "kubectl annotate etcdclusters.quorate.dev orders quorate.dev/recover=" + incident,
		},
		"the plan of a recovery says what would be lost": {
			state: recovering(model.RecoveryReported, func(s *model.State) {
				s.Maintenance.Newest = model.ObservedRevision{Revision: 44, At: simNow.Add(-time.Minute)}
			}),
			reason: steps.ReasonQuorumLost, stalled: true, says: "It has revision 41, 3 less than was seen at 23:59:00: those changes are lost",
		},
		"an approved recovery ends all members":                      {state: recovering(model.RecoveryReported, func(s *model.State) { s.Want.Approved = incident }), step: heldNow},
		"the approval of another plan is none":                       {state: recovering(model.RecoveryReported, func(s *model.State) { s.Want.Approved = "abcdef" }), reason: steps.ReasonQuorumLost, stalled: true},
		"a recovery may be done without approval after a time":       {state: recovering(model.RecoveryReported, func(s *model.State) { s.Want.RecoverAfter = time.Minute }), step: heldNow},
		"the time of a recovery without approval is reported before": {state: recovering(model.RecoveryReported, func(s *model.State) { s.Want.RecoverAfter = 3 * time.Minute }), reason: steps.ReasonQuorumLost, stalled: true, says: "by itself at 00:02:00"},
		"when another member loses its data, that is another plan": {
			state: recovering(model.RecoveryReported, func(s *model.State) {
				s.Record.Recovery.Incident, s.Want.Approved = "abcdef", "abcdef"
			}),
			step: reported,
		},
		"the same loss once more is another plan": {
			state: recovering(model.RecoveryOver, func(s *model.State) { s.Want.Approved = incident }), step: reportedAfter(incident),
		},
		"the same loss once more has to be approved again": {
			state: recovering(model.RecoveryReported, func(s *model.State) {
				s.Record.Recovery, s.Want.Approved = reportedAfter(incident).To, incident
			}),
			reason: steps.ReasonQuorumLost, stalled: true, says: "Plan " + reportedAfter(incident).To.Incident,
		},
		"an approved loss is another plan when the record was recreated": {
			state: recovering(model.RecoveryReported, func(s *model.State) { s.Record.UID, s.Want.Approved = "another", incident }),
			step:  steps.SetRecovery{To: lossOf(func(s *model.State) { s.Record.UID = "another" })},
		},
		"a quorum that comes back is from after the loss before": {
			state: settled(func(s *model.State) { s.Record.Recovery = reportedAfter("abcdef").To }),
			step:  steps.SetRecovery{To: model.Recovery{Incident: "abcdef", Phase: model.RecoveryOver}}, says: "the quorum is back",
		},
		"a quorum that comes back needs no plan": {
			state: settled(func(s *model.State) { s.Record.Recovery = recovering(model.RecoveryReported, nil).Record.Recovery }),
			step:  steps.SetRecovery{},
		},
	})
}

func TestNextRemembersTheLossBefore(t *testing.T) {
	reported := steps.SetRecovery{To: model.Recovery{Incident: incident, Phase: model.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
	unequippedReported := reported
	unequippedReported.To.Incident = planner.Next(unequipped(true)).Step.(steps.SetRecovery).To.Incident
	equippedReported := reported
	equippedReported.To.Candidates, equippedReported.To.Former = []string{"orders-2", "orders-3"}, unequippedReported.To.Former
	rows.Run(t, map[string]planRow{
		"a loss after another one remembers that":                                       {state: lostAfter(model.Recovery{Incident: "abcdef", Phase: model.RecoveryOver, Survivor: "orders-1"}), step: reportedAfter("abcdef")},
		"a loss remembers the recovered one before although another was reported since": {state: lostAfter(model.Recovery{Incident: "fedcba", Phase: model.RecoveryReported, Former: "abcdef"}), step: reportedAfter("abcdef")},
		"a loss after a restore in place remembers that":                                {state: lostAfter(model.Recovery{Incident: undo, Phase: model.RecoveryStarted, Restore: &model.Restore{}}), step: reportedAfter(undo)},
	})
}

func TestNextPlansNoRecoveryWhileDataMayBeLeft(t *testing.T) {
	reported := steps.SetRecovery{To: model.Recovery{Incident: incident, Phase: model.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
	unequippedReported := reported
	unequippedReported.To.Incident = planner.Next(unequipped(true)).Step.(steps.SetRecovery).To.Incident
	equippedReported := reported
	equippedReported.To.Candidates, equippedReported.To.Former = []string{"orders-2", "orders-3"}, unequippedReported.To.Former
	rows.Run(t, map[string]planRow{
		"members that never joined wait for one that does not answer": {
			state: lostQuorum(func(s *model.State) {
				s.Pods[0].Gate, s.Pods[1].Gate, s.Pods[2].Status = held(model.GateNoPeers), held(model.GateNoPeers), nil
			}),
			reason: planner.ReasonNoQuorum,
			says: "orders-2 does not answer. Whether orders-0 and orders-1 had data is not known while orders-2 does not answer, and no other member has data " +
				"to start from. Bring its node or its volume back, and keep its claim",
		},
		"a member that has just been created may answer in a moment": {
			state: lostQuorum(func(s *model.State) {
				s.Pods[0].Gate, s.Pods[1].Gate, s.Pods[2].Status = held(model.GateNoPeers), held(model.GateNoPeers), nil
				for i := range s.Pods {
					s.Pods[i].Age = time.Second
				}
			}),
			reason: steps.ReasonStarting, ends: "orders-2 does not answer",
		},
		"members that never joined are no loss while enough others may have data": {
			state:  undecided(5, func(s *model.State) { s.Pods[4].Status = &model.Status{Revision: 41} }),
			reason: planner.ReasonNoQuorum, ends: "orders-4 has no leader",
		},
		"members that never joined may be the loss of the quorum, while another has data": {
			state:  undecided(4, func(s *model.State) { s.Pods[3].Status = &model.Status{Revision: 41} }),
			reason: planner.ReasonNoQuorum, says: "while orders-2 does not answer; if its data cannot come back, delete its claim and its pod",
		},
		"what is not known is said of the member that may have data": {
			state: undecided(4, func(s *model.State) {
				s.Pods[1].Gate, s.Pods[2].Gate, s.Pods[0].Gate = held(model.GateLostDisk), held(model.GateLostDisk), held(model.GateNoPeers)
			}),
			reason: steps.ReasonQuorumLost, says: "What orders-3 has is not known, because it does not answer, and no other member has data to start from",
		},
		"a member that does not answer may have newer data": {
			state:  lostQuorum(func(s *model.State) { s.Pods[2].Status = nil }),
			reason: steps.ReasonQuorumLost,
			says: "What orders-2 has is not known, because it does not answer, and no other member has data to start from. " +
				"Bring its node or its volume back, and keep its claim; if its data cannot come back, restore a backup",
		},
		"a member without storage that does not answer has its data in its pod": {
			state:  lostQuorum(func(s *model.State) { s.Pods[2].Status, s.Want.Persistent = nil, false }),
			reason: steps.ReasonQuorumLost, says: "Bring its node back, and keep its pod, which has its data",
		},
		"without storage there is nothing to stop and start again": {
			state: lostQuorum(func(s *model.State) { s.Want.Persistent = false }), reason: steps.ReasonQuorumLost, stalled: true, says: "Without spec.storage",
		},
		"what is damaged may be all that is left": {
			state: lostQuorum(func(s *model.State) {
				s.Pods[2].Status, s.Pods[2].Fatal = nil, "wal: crc mismatch"
			}),
			reason: steps.ReasonQuorumLost, stalled: true,
			says: "What is on the volume of orders-2 may be all that is left: copy it before anything else",
		},
		"on a volume that is lost nothing is left": {
			state: lostQuorum(func(s *model.State) {
				s.Pods[2].Status, s.Pods[2].Fatal, s.Claims[2].Lost = nil, "wal: crc mismatch", "its node is gone"
			}),
			reason: steps.ReasonQuorumLost, stalled: true, says: "and no member has data. Bring the volumes back",
		},
		"where nothing is left, nothing can be damaged": {
			state:  lostQuorum(func(s *model.State) { s.Pods[2].Status, s.Pods[2].Gate = nil, held(model.GateLostDisk) }),
			reason: steps.ReasonQuorumLost, stalled: true, says: "and no member has data. Bring the volumes back",
		},
		"a minority of lost disks is no loss of the quorum": {
			state:  lostQuorum(func(s *model.State) { s.Pods[1].Gate, s.Pods[1].EverRan = nil, true }),
			reason: planner.ReasonNoQuorum,
		},
	})
}
