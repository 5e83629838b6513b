package etcd_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

func TestNextPlansARecovery(t *testing.T) {
	reported := etcd.SetRecovery{To: etcd.Recovery{Incident: incident, Phase: etcd.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
	unequippedReported := reported
	unequippedReported.To.Incident = etcd.Next(unequipped(true)).Step.(etcd.SetRecovery).To.Incident
	equippedReported := reported
	equippedReported.To.Candidates, equippedReported.To.Former = []string{"orders-2", "orders-3"}, unequippedReported.To.Former
	heldNow := etcd.SetRecovery{To: recovering(etcd.RecoveryHeld, nil).Record.Recovery}
	runRows(t, map[string]planRow{
		"a loss of the quorum is written down first": {state: lostQuorum(nil), step: reported, says: "orders-0 has an empty disk, orders-1 has an empty disk"},
		"a loss that is written down has a plan, and nothing is done": {
			state:  recovering(etcd.RecoveryReported, nil),
			reason: etcd.ReasonQuorumLost, stalled: true,
			says: "Plan " + incident + ": orders-2 goes on as the only member; a copy of its data is kept, and the others join again with empty disks",
		},
		"the plan of a recovery says how to approve it": {
			state:  recovering(etcd.RecoveryReported, nil),
			reason: etcd.ReasonQuorumLost, stalled: true, says: "kubectl annotate etcdclusters.quorate.dev orders quorate.dev/recover=" + incident,
		},
		"the plan of a recovery says what would be lost": {
			state: recovering(etcd.RecoveryReported, func(s *etcd.State) {
				s.Upkeep.Newest = etcd.Sighting{Revision: 44, At: simNow.Add(-time.Minute)}
			}),
			reason: etcd.ReasonQuorumLost, stalled: true, says: "It has revision 41, 3 less than was seen at 23:59:00: those changes are lost",
		},
		"an approved recovery ends all members":                      {state: recovering(etcd.RecoveryReported, func(s *etcd.State) { s.Want.Approved = incident }), step: heldNow},
		"the approval of another plan is none":                       {state: recovering(etcd.RecoveryReported, func(s *etcd.State) { s.Want.Approved = "abcdef" }), reason: etcd.ReasonQuorumLost, stalled: true},
		"a recovery may be done without approval after a time":       {state: recovering(etcd.RecoveryReported, func(s *etcd.State) { s.Want.RecoverAfter = time.Minute }), step: heldNow},
		"the time of a recovery without approval is reported before": {state: recovering(etcd.RecoveryReported, func(s *etcd.State) { s.Want.RecoverAfter = 3 * time.Minute }), reason: etcd.ReasonQuorumLost, stalled: true, says: "by itself at 00:02:00"},
		"when another member loses its data, that is another plan": {
			state: recovering(etcd.RecoveryReported, func(s *etcd.State) {
				s.Record.Recovery.Incident, s.Want.Approved = "abcdef", "abcdef"
			}),
			step: reported,
		},
		"the same loss once more is another plan": {
			state: recovering(etcd.RecoveryOver, func(s *etcd.State) { s.Want.Approved = incident }), step: reportedAfter(incident),
		},
		"the same loss once more has to be approved again": {
			state: recovering(etcd.RecoveryReported, func(s *etcd.State) {
				s.Record.Recovery, s.Want.Approved = reportedAfter(incident).To, incident
			}),
			reason: etcd.ReasonQuorumLost, stalled: true, says: "Plan " + reportedAfter(incident).To.Incident,
		},
		"an approved loss is another plan when the record was recreated": {
			state: recovering(etcd.RecoveryReported, func(s *etcd.State) { s.Record.UID, s.Want.Approved = "another", incident }),
			step:  etcd.SetRecovery{To: lossOf(func(s *etcd.State) { s.Record.UID = "another" })},
		},
		"a quorum that comes back is from after the loss before": {
			state: settled(func(s *etcd.State) { s.Record.Recovery = reportedAfter("abcdef").To }),
			step:  etcd.SetRecovery{To: etcd.Recovery{Incident: "abcdef", Phase: etcd.RecoveryOver}}, says: "the quorum is back",
		},
		"a quorum that comes back needs no plan": {
			state: settled(func(s *etcd.State) { s.Record.Recovery = recovering(etcd.RecoveryReported, nil).Record.Recovery }),
			step:  etcd.SetRecovery{},
		},
	})
}

func TestNextRemembersTheLossBefore(t *testing.T) {
	reported := etcd.SetRecovery{To: etcd.Recovery{Incident: incident, Phase: etcd.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
	unequippedReported := reported
	unequippedReported.To.Incident = etcd.Next(unequipped(true)).Step.(etcd.SetRecovery).To.Incident
	equippedReported := reported
	equippedReported.To.Candidates, equippedReported.To.Former = []string{"orders-2", "orders-3"}, unequippedReported.To.Former
	runRows(t, map[string]planRow{
		"a loss after another one remembers that":                                       {state: lostAfter(etcd.Recovery{Incident: "abcdef", Phase: etcd.RecoveryOver, Survivor: "orders-1"}), step: reportedAfter("abcdef")},
		"a loss remembers the recovered one before although another was reported since": {state: lostAfter(etcd.Recovery{Incident: "fedcba", Phase: etcd.RecoveryReported, Former: "abcdef"}), step: reportedAfter("abcdef")},
		"a loss after a restore in place remembers that":                                {state: lostAfter(etcd.Recovery{Incident: undo, Phase: etcd.RecoveryStarted, Anew: &etcd.Restore{}}), step: reportedAfter(undo)},
	})
}

func TestNextPlansNoRecoveryWhileDataMayBeLeft(t *testing.T) {
	reported := etcd.SetRecovery{To: etcd.Recovery{Incident: incident, Phase: etcd.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
	unequippedReported := reported
	unequippedReported.To.Incident = etcd.Next(unequipped(true)).Step.(etcd.SetRecovery).To.Incident
	equippedReported := reported
	equippedReported.To.Candidates, equippedReported.To.Former = []string{"orders-2", "orders-3"}, unequippedReported.To.Former
	runRows(t, map[string]planRow{
		"members that never joined wait for one that does not answer": {
			state: lostQuorum(func(s *etcd.State) {
				s.Pods[0].Gate, s.Pods[1].Gate, s.Pods[2].View = held(etcd.GateNoPeers), held(etcd.GateNoPeers), nil
			}),
			reason: etcd.ReasonNoQuorum,
			says: "orders-2 does not answer. Whether orders-0 and orders-1 had data is not known while orders-2 does not answer, and no other member has data " +
				"to start from. Bring its node or its volume back, and keep its claim",
		},
		"a member that has just been created may answer in a moment": {
			state: lostQuorum(func(s *etcd.State) {
				s.Pods[0].Gate, s.Pods[1].Gate, s.Pods[2].View = held(etcd.GateNoPeers), held(etcd.GateNoPeers), nil
				for i := range s.Pods {
					s.Pods[i].Age = time.Second
				}
			}),
			reason: etcd.ReasonStarting, ends: "orders-2 does not answer",
		},
		"members that never joined are no loss while enough others may have data": {
			state:  undecided(5, func(s *etcd.State) { s.Pods[4].View = &etcd.View{Revision: 41} }),
			reason: etcd.ReasonNoQuorum, ends: "orders-4 has no leader",
		},
		"members that never joined may be the loss of the quorum, while another has data": {
			state:  undecided(4, func(s *etcd.State) { s.Pods[3].View = &etcd.View{Revision: 41} }),
			reason: etcd.ReasonNoQuorum, says: "while orders-2 does not answer; if its data cannot come back, delete its claim and its pod",
		},
		"what is not known is said of the member that may have data": {
			state: undecided(4, func(s *etcd.State) {
				s.Pods[1].Gate, s.Pods[2].Gate, s.Pods[0].Gate = held(etcd.GateLostDisk), held(etcd.GateLostDisk), held(etcd.GateNoPeers)
			}),
			reason: etcd.ReasonQuorumLost, says: "What orders-3 has is not known, because it does not answer, and no other member has data to start from",
		},
		"a member that does not answer may have newer data": {
			state:  lostQuorum(func(s *etcd.State) { s.Pods[2].View = nil }),
			reason: etcd.ReasonQuorumLost,
			says: "What orders-2 has is not known, because it does not answer, and no other member has data to start from. " +
				"Bring its node or its volume back, and keep its claim; if its data cannot come back, restore a backup",
		},
		"a member without storage that does not answer has its data in its pod": {
			state:  lostQuorum(func(s *etcd.State) { s.Pods[2].View, s.Want.Persistent = nil, false }),
			reason: etcd.ReasonQuorumLost, says: "Bring its node back, and keep its pod, which has its data",
		},
		"without storage there is nothing to stop and start again": {
			state: lostQuorum(func(s *etcd.State) { s.Want.Persistent = false }), reason: etcd.ReasonQuorumLost, stalled: true, says: "Without spec.storage",
		},
		"what is damaged may be all that is left": {
			state: lostQuorum(func(s *etcd.State) {
				s.Pods[2].View, s.Pods[2].Fatal = nil, "wal: crc mismatch"
			}),
			reason: etcd.ReasonQuorumLost, stalled: true,
			says: "What is on the volume of orders-2 may be all that is left: copy it before anything else",
		},
		"on a volume that is lost nothing is left": {
			state: lostQuorum(func(s *etcd.State) {
				s.Pods[2].View, s.Pods[2].Fatal, s.Claims[2].Lost = nil, "wal: crc mismatch", "its node is gone"
			}),
			reason: etcd.ReasonQuorumLost, stalled: true, says: "and no member has data. Bring the volumes back",
		},
		"where nothing is left, nothing can be damaged": {
			state:  lostQuorum(func(s *etcd.State) { s.Pods[2].View, s.Pods[2].Gate = nil, held(etcd.GateLostDisk) }),
			reason: etcd.ReasonQuorumLost, stalled: true, says: "and no member has data. Bring the volumes back",
		},
		"a minority of lost disks is no loss of the quorum": {
			state:  lostQuorum(func(s *etcd.State) { s.Pods[1].Gate, s.Pods[1].EverRan = nil, true }),
			reason: etcd.ReasonNoQuorum,
		},
	})
}
