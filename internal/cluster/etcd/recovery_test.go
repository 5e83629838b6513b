package etcd_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

// lostQuorum is a cluster of which orders-0 and orders-1 have lost their disks.
func lostQuorum(change func(*etcd.State)) etcd.State {
	return settled(func(s *etcd.State) {
		s.Members, s.Auth = nil, nil
		for i := range s.Pods[:2] {
			s.Pods[i].View, s.Pods[i].Ready, s.Pods[i].EverRan, s.Pods[i].Gate = nil, false, false, held(etcd.GateLostDisk)
		}
		s.Pods[2].Ready, s.Pods[2].Started = false, simNow.Add(-time.Hour)
		s.Pods[2].View.Leader, s.Pods[2].View.Revision = 0, 41
		if change != nil {
			change(s)
		}
	})
}

// incident is what such a loss is called.
var incident = etcd.Next(lostQuorum(nil)).Step.(etcd.SetRecovery).To.Incident

// lossOf is what is written down first of such a cluster.
func lossOf(change func(*etcd.State)) etcd.Recovery {
	step, _ := etcd.Next(lostQuorum(change)).Step.(etcd.SetRecovery)
	return step.To
}

// lostAfter is a cluster that loses its quorum with another recovery in its record.
func lostAfter(r etcd.Recovery) etcd.State {
	return lostQuorum(func(s *etcd.State) { s.Record.Recovery = r })
}

// reportedAfter is what is written down of a loss after another one that was recovered from.
func reportedAfter(former string) etcd.SetRecovery {
	sum := lossOf(func(s *etcd.State) { s.Record.Recovery = etcd.Recovery{Incident: former, Phase: etcd.RecoveryOver} }).Incident
	return etcd.SetRecovery{To: etcd.Recovery{Incident: sum, Former: former, Phase: etcd.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
}

// unequipped is such a cluster with a fourth member whose pod could not be started yet. None of those that lost their disk can ask whether it may join.
func unequipped(pending bool) etcd.State {
	return lostQuorum(func(s *etcd.State) {
		s.Pods[0].Gate, s.Pods[1].Gate = held(etcd.GateNoPeers), held(etcd.GateNoPeers)
		s.Record.Members = append(s.Record.Members, etcd.Peer{Name: "orders-3"})
		s.Claims = append(s.Claims, etcd.Claim{Name: "data-orders-3", Ordinal: 3, Pending: pending})
		s.Pods = append(s.Pods, etcd.Pod{Name: "orders-3", Ordinal: 3, UID: "uid-orders-3"})
	})
}

// undecided is a cluster of so many members of which orders-0 and orders-1 have empty disks, and the others do not answer.
func undecided(size int, change func(*etcd.State)) etcd.State {
	return lostQuorum(func(s *etcd.State) {
		s.Pods[0].Gate, s.Pods[1].Gate, s.Pods[2].View = held(etcd.GateNoPeers), held(etcd.GateNoPeers), nil
		for i := len(s.Record.Members); i < size; i++ {
			name := fmt.Sprintf("orders-%d", i)
			s.Record.Members = append(s.Record.Members, etcd.Peer{Name: name})
			s.Claims = append(s.Claims, etcd.Claim{Name: "data-" + name, Ordinal: i})
			s.Pods = append(s.Pods, etcd.Pod{Name: name, Ordinal: i, UID: "uid-" + name, EverRan: true, Age: time.Hour})
		}
		change(s)
	})
}

// recovering is such a cluster in a phase of its recovery.
func recovering(phase etcd.RecoveryPhase, change func(*etcd.State)) etcd.State {
	return lostQuorum(func(s *etcd.State) {
		s.Record.Recovery = etcd.Recovery{Incident: incident, Phase: phase, Since: simNow.Add(-time.Minute), Candidates: []string{"orders-2"}}
		if phase == etcd.RecoveryStarted || phase == etcd.RecoveryOver {
			s.Record.Recovery.Survivor = "orders-2"
		}
		if change != nil {
			change(s)
		}
	})
}

// allHeld is one whose members have ended, and whose gates have told what there is.
func allHeld(ends ...*etcd.LogEnd) etcd.State {
	return recovering(etcd.RecoveryHeld, func(s *etcd.State) {
		s.Record.Recovery.Candidates = []string{"orders-0", "orders-1", "orders-2"}
		for i, end := range ends {
			s.Pods[i].View, s.Pods[i].EverRan, s.Pods[i].Gate = nil, false, held(etcd.GateHeld)
			s.Pods[i].Gate.Log = end
		}
	})
}

func TestNextWithoutAQuorumForGood(t *testing.T) {
	reported := etcd.SetRecovery{To: etcd.Recovery{Incident: incident, Phase: etcd.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
	unequippedReported := reported
	unequippedReported.To.Incident = etcd.Next(unequipped(true)).Step.(etcd.SetRecovery).To.Incident
	equippedReported := reported
	equippedReported.To.Candidates, equippedReported.To.Former = []string{"orders-2", "orders-3"}, unequippedReported.To.Former
	heldNow := etcd.SetRecovery{To: recovering(etcd.RecoveryHeld, nil).Record.Recovery}
	goesOn := func(i int) etcd.SetRecovery {
		r := allHeld().Record.Recovery
		r.Phase, r.Survivor = etcd.RecoveryStarted, r.Candidates[i]
		return etcd.SetRecovery{To: r}
	}
	for name, tc := range map[string]planRow{
		"it is written down first": {state: lostQuorum(nil), step: reported, says: "orders-0 has an empty disk, orders-1 has an empty disk"},
		"then there is a plan, and nothing is done": {
			state:  recovering(etcd.RecoveryReported, nil),
			reason: etcd.ReasonQuorumLost, stalled: true,
			says: "Plan " + incident + ": orders-2 goes on as the only member; a copy of its data is kept, and the others join again with empty disks",
		},
		"which says how to approve of it": {
			state:  recovering(etcd.RecoveryReported, nil),
			reason: etcd.ReasonQuorumLost, stalled: true, says: "kubectl annotate etcdclusters.quorate.dev orders quorate.dev/recover=" + incident,
		},
		"and what would be lost": {
			state: recovering(etcd.RecoveryReported, func(s *etcd.State) {
				s.Upkeep.Newest = etcd.Sighting{Revision: 44, At: simNow.Add(-time.Minute)}
			}),
			reason: etcd.ReasonQuorumLost, stalled: true, says: "It has revision 41, 3 less than was seen at 23:59:00: those changes are lost",
		},
		"approved, all members end":              {state: recovering(etcd.RecoveryReported, func(s *etcd.State) { s.Want.Approved = incident }), step: heldNow},
		"the approval of another plan is none":   {state: recovering(etcd.RecoveryReported, func(s *etcd.State) { s.Want.Approved = "abcdef" }), reason: etcd.ReasonQuorumLost, stalled: true},
		"after a time it may be done by itself":  {state: recovering(etcd.RecoveryReported, func(s *etcd.State) { s.Want.RecoverAfter = time.Minute }), step: heldNow},
		"which is said while there is time left": {state: recovering(etcd.RecoveryReported, func(s *etcd.State) { s.Want.RecoverAfter = 3 * time.Minute }), reason: etcd.ReasonQuorumLost, stalled: true, says: "by itself at 00:02:00"},
		"when another member loses its data, that is another plan": {
			state: recovering(etcd.RecoveryReported, func(s *etcd.State) {
				s.Record.Recovery.Incident, s.Want.Approved = "abcdef", "abcdef"
			}),
			step: reported,
		},
		"a loss after another one remembers that": {state: lostAfter(etcd.Recovery{Incident: "abcdef", Phase: etcd.RecoveryOver, Survivor: "orders-1"}), step: reportedAfter("abcdef")},
		"so does the next one":                    {state: lostAfter(etcd.Recovery{Incident: "fedcba", Phase: etcd.RecoveryReported, Former: "abcdef"}), step: reportedAfter("abcdef")},
		"also one after a cluster began anew":     {state: lostAfter(etcd.Recovery{Incident: undo, Phase: etcd.RecoveryStarted, Anew: &etcd.Restore{}}), step: reportedAfter(undo)},
		"the same loss once more is another plan": {
			state: recovering(etcd.RecoveryOver, func(s *etcd.State) { s.Want.Approved = incident }), step: reportedAfter(incident),
		},
		"which has to be approved": {
			state: recovering(etcd.RecoveryReported, func(s *etcd.State) {
				s.Record.Recovery, s.Want.Approved = reportedAfter(incident).To, incident
			}),
			reason: etcd.ReasonQuorumLost, stalled: true, says: "Plan " + reportedAfter(incident).To.Incident,
		},
		"also when the record was written anew": {
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
		"members that never joined wait for one that does not answer": {
			state: lostQuorum(func(s *etcd.State) {
				s.Pods[0].Gate, s.Pods[1].Gate, s.Pods[2].View = held(etcd.GateNoPeers), held(etcd.GateNoPeers), nil
			}),
			reason: etcd.ReasonNoQuorum,
			says: "orders-2 does not answer. Whether orders-0 and orders-1 had data is not known while orders-2 does not answer, and no other member has data " +
				"to start from. Bring its node or its volume back, and keep its claim",
		},
		"who has just been made may answer in a moment": {
			state: lostQuorum(func(s *etcd.State) {
				s.Pods[0].Gate, s.Pods[1].Gate, s.Pods[2].View = held(etcd.GateNoPeers), held(etcd.GateNoPeers), nil
				for i := range s.Pods {
					s.Pods[i].Age = time.Second
				}
			}),
			reason: etcd.ReasonStarting, ends: "orders-2 does not answer",
		},
		"those that never joined are no loss while enough others may have data": {
			state:  undecided(5, func(s *etcd.State) { s.Pods[4].View = &etcd.View{Revision: 41} }),
			reason: etcd.ReasonNoQuorum, ends: "orders-4 has no leader",
		},
		"whose loss is the quorum's, in doubt, with another that has data": {
			state:  undecided(4, func(s *etcd.State) { s.Pods[3].View = &etcd.View{Revision: 41} }),
			reason: etcd.ReasonNoQuorum, says: "while orders-2 does not answer; if its data cannot come back, delete its claim and its pod",
		},
		"what is not known is said of who may have data": {
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
		"without storage it has it in its pod": {
			state:  lostQuorum(func(s *etcd.State) { s.Pods[2].View, s.Want.Persistent = nil, false }),
			reason: etcd.ReasonQuorumLost, says: "Bring its node back, and keep its pod, which has its data",
		},
		"one that waits for a volume has none": {state: unequipped(true), step: unequippedReported, says: "orders-0 has an empty disk, orders-1 has an empty disk"},
		"when it gets one, that is another plan": {
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
		"nor is there a plan before the cluster was founded": {
			state: func() etcd.State {
				s := unequipped(true)
				s.Record.ClusterID, s.Pods[2].View, s.Pods[2].Gate = 0, nil, held(etcd.GateNoPeers)
				return s
			}(),
			reason: etcd.ReasonQuorumLost, says: "What orders-3 has is not known",
		},
		"one whose claim has a volume may": {
			state: unequipped(false), reason: etcd.ReasonNoQuorum, says: "orders-3",
		},
		"one that was just started may find the others": {
			state:  lostQuorum(func(s *etcd.State) { s.Pods[2].Started = simNow.Add(-time.Second) }),
			reason: etcd.ReasonNoQuorum,
		},
		"without storage there is nothing to stop and start again": {
			state: lostQuorum(func(s *etcd.State) { s.Want.Persistent = false }), reason: etcd.ReasonQuorumLost, stalled: true, says: "Without spec.storage",
		},
		"data that cannot be started from is lost": {
			state: lostQuorum(func(s *etcd.State) {
				s.Pods[1].Gate, s.Pods[1].EverRan, s.Pods[1].Fatal = nil, true, "wal: crc mismatch"
			}),
			step: reported, says: "orders-1 cannot start from its data: wal: crc mismatch",
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
		"one with an empty disk that is about to end tells nothing": {
			state: lostQuorum(func(s *etcd.State) {
				s.Pods[0].Gate, s.Pods[0].Terminating, s.Pods[1].Gate, s.Pods[2].View = held(etcd.GateNoPeers), true, held(etcd.GateNoPeers), nil
				s.Pods[2].Gate = held(etcd.GateNoPeers)
			}),
			reason: etcd.ReasonNoQuorum, ends: "orders-2 is held back: " + held(etcd.GateNoPeers).Message,
		},
		"where nothing is left, nothing can be damaged": {
			state:  lostQuorum(func(s *etcd.State) { s.Pods[2].View, s.Pods[2].Gate = nil, held(etcd.GateLostDisk) }),
			reason: etcd.ReasonQuorumLost, stalled: true, says: "and no member has data. Bring the volumes back",
		},
		"a minority of lost disks is no loss of the quorum": {
			state:  lostQuorum(func(s *etcd.State) { s.Pods[1].Gate, s.Pods[1].EverRan = nil, true }),
			reason: etcd.ReasonNoQuorum,
		},
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
		"one that got no volume has nothing to say": {
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
	} {
		t.Run(name, func(t *testing.T) { tc.check(t) })
	}
}

func TestTheSurvivorLeadsAndTheOthersJoinAgain(t *testing.T) {
	s := recovering(etcd.RecoveryStarted, func(s *etcd.State) {
		s.Members = []etcd.Member{{ID: 3, Name: "orders-2", PeerURL: s.Want.Peers[2].URL, Published: true}}
		s.Auth = &etcd.Auth{Enabled: true, PasswordWorks: true}
		s.Pods[2].View.Leader, s.Pods[2].Ready = 3, true
	})
	over, ok := etcd.Next(s).Step.(etcd.SetRecovery)
	if !ok || over.To.Phase != etcd.RecoveryOver || over.To.Survivor != "orders-2" {
		t.Fatalf("%+v", etcd.Next(s))
	}
	s.Record.Recovery = over.To
	for i := range s.Pods[:2] {
		s.Pods[i].Gate = held(etcd.GateNotMember)
	}
	if p := etcd.Next(s); p.Step != (etcd.AddLearner{Name: "orders-0", URL: s.Want.Peers[0].URL, Via: "orders-2"}) {
		t.Errorf("%+v", p)
	}
}

func TestGateInARecovery(t *testing.T) {
	in := func(phase etcd.RecoveryPhase, disk etcd.Disk, epoch string) etcd.GateInput {
		s := recovering(phase, nil)
		return etcd.GateInput{Self: s.Want.Peers[2], Record: *s.Record, Disk: disk, Epoch: epoch, Log: &etcd.LogEnd{Term: 2, Index: 9}}
	}
	nextLoss := func(epoch string, disk etcd.Disk) etcd.GateInput {
		next := in(etcd.RecoveryReported, disk, epoch)
		next.Record.Recovery.Former = "abcdef"
		return next
	}
	other := in(etcd.RecoveryStarted, etcd.DiskReady, "")
	other.Self = other.Record.Members[1]
	broken := in(etcd.RecoveryHeld, etcd.DiskReady, "")
	broken.LogError = errors.New("crc mismatch")
	unnamed := in(etcd.RecoveryOver, etcd.DiskReady, incident)
	unnamed.Record.Recovery = etcd.Recovery{}
	for name, tc := range map[string]struct {
		in   etcd.GateInput
		want func(etcd.GateDecision) bool
	}{
		"a plan changes nothing": {in(etcd.RecoveryReported, etcd.DiskReady, ""), func(d etcd.GateDecision) bool { return d.Start && !d.Alone && d.Epoch == "" }},
		"a held member tells":    {in(etcd.RecoveryHeld, etcd.DiskReady, ""), func(d etcd.GateDecision) bool { return !d.Start && d.Report.Log.Index == 9 && d.Report.Final() }},
		"one without a log too": {in(etcd.RecoveryHeld, etcd.DiskEmpty, ""), func(d etcd.GateDecision) bool {
			return !d.Start && d.Report.Reason == etcd.GateHeld && d.Report.Log == nil
		}},
		"and one that is broken": {broken, func(d etcd.GateDecision) bool {
			return !d.Start && d.Report.Reason == etcd.GateHeld && d.Report.Log == nil
		}},
		"the survivor goes on":               {in(etcd.RecoveryStarted, etcd.DiskReady, ""), func(d etcd.GateDecision) bool { return d.Start && d.Alone && d.Epoch == incident }},
		"later, too":                         {in(etcd.RecoveryOver, etcd.DiskReady, "earlier"), func(d etcd.GateDecision) bool { return d.Start && d.Alone && d.Epoch == incident }},
		"but only once":                      {in(etcd.RecoveryOver, etcd.DiskReady, incident), func(d etcd.GateDecision) bool { return d.Start && !d.Alone }},
		"nor when the next loss is reported": {nextLoss("abcdef", etcd.DiskReady), func(d etcd.GateDecision) bool { return d.Start && !d.Alone && d.Epoch == "abcdef" }},
		"which does not let older data in":   {nextLoss("", etcd.DiskReady), func(d etcd.GateDecision) bool { return d.SetAside && !d.Start }},
		"data of an incident that the record does not name is not set aside": {unnamed, func(d etcd.GateDecision) bool { return d.Start && !d.SetAside && !d.Alone }},
		"the others' data is kept": {other, func(d etcd.GateDecision) bool { return d.SetAside && !d.Start }},
	} {
		t.Run(name, func(t *testing.T) {
			if d := etcd.DecideStart(tc.in); !tc.want(d) {
				t.Errorf("%+v", d)
			}
		})
	}
}

// Revisions that were recorded of one history must never be followed by those of another one.
func TestATimelineNeverComesBack(t *testing.T) {
	lost := func(uid string, r etcd.Recovery) etcd.State {
		return lostQuorum(func(s *etcd.State) { s.Record.UID, s.Record.Recovery = uid, r })
	}
	note := func(s etcd.State) etcd.Recovery {
		t.Helper()
		step, ok := etcd.Next(s).Step.(etcd.SetRecovery)
		if !ok {
			t.Fatalf("%+v", etcd.Next(s))
		}
		return step.To
	}
	timeline := func(uid string, r etcd.Recovery) string { return lost(uid, r).Record.Timeline() }

	const uid = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"
	over := recovering(etcd.RecoveryOver, nil).Record.Recovery
	reported := note(lost(uid, over))
	back := note(settled(func(s *etcd.State) { s.Record.UID, s.Record.Recovery = uid, reported }))
	next := reported
	next.Phase = etcd.RecoveryStarted

	after := etcd.FormatID(settled(nil).Record.ClusterID) + "-1b9d6bcd-" + incident
	for name, r := range map[string]etcd.Recovery{"over": over, "lost again": reported, "and back": back} {
		if got := timeline(uid, r); got != after {
			t.Errorf("%s: %s, want %s", name, got, after)
		}
	}
	for name, got := range map[string]string{
		"before":                 timeline(uid, etcd.Recovery{}),
		"the next recovery":      timeline(uid, next),
		"a record written anew":  timeline("9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", over),
		"one without a recovery": timeline("9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", etcd.Recovery{}),
	} {
		if got == after {
			t.Errorf("%s: %s is the history of recovery %s", name, got, incident)
		}
	}
}

func TestARecordFromBeforeLossesWereChainedIsRead(t *testing.T) {
	r := *recovering(etcd.RecoveryReported, nil).Record
	back, err := etcd.ParseRecord(r.Data())
	if err != nil || strings.Contains(r.Data()[etcd.KeyRecovery], "former") || back.Recovery.Former != "" || back.Recovery.Incident != incident {
		t.Fatalf("%+v %v", back.Recovery, err)
	}
	r.Recovery.Former = "abcdef"
	if back, err = etcd.ParseRecord(r.Data()); err != nil || back.Recovery.Former != "abcdef" {
		t.Errorf("%+v %v", back.Recovery, err)
	}
}

func TestMembersThatAnswerAndFindNoLeaderSayWhereToLook(t *testing.T) {
	t.Parallel()
	leaderless := func(change func(s *etcd.State)) etcd.State {
		return settled(func(s *etcd.State) {
			s.Members, s.Auth = nil, nil
			for i := range s.Pods {
				s.Pods[i].View.Leader, s.Pods[i].Ready, s.Pods[i].Started = 0, false, simNow.Add(-time.Hour)
			}
			change(s)
		})
	}
	for name, tc := range map[string]struct {
		change func(s *etcd.State)
		says   bool
	}{
		"all of them":                        {func(*etcd.State) {}, true},
		"one does not answer":                {func(s *etcd.State) { s.Pods[0].View = nil }, true},
		"two do not answer":                  {func(s *etcd.State) { s.Pods[0].View, s.Pods[1].View = nil, nil }, false},
		"two have just been started":         {func(s *etcd.State) { s.Pods[0].Started, s.Pods[1].Started = simNow, simNow }, false},
		"two have a leader":                  {func(s *etcd.State) { s.Pods[0].View.Leader, s.Pods[1].View.Leader = 1, 1 }, false},
		"two are on their way out":           {func(s *etcd.State) { s.Pods[0].Terminating, s.Pods[1].Terminating = true, true }, false},
		"one has no vote, another is silent": {func(s *etcd.State) { s.Pods[0].View.Learner, s.Pods[1].View = true, nil }, false},
	} {
		plan := etcd.Next(leaderless(tc.change))
		if says := strings.Contains(plan.Message, "If that lasts, look at what keeps them from reaching each other at port 2380"); says != tc.says || plan.Reason != etcd.ReasonNoQuorum {
			t.Errorf("%s: %s: %s", name, plan.Reason, plan.Message)
		}
	}
}

// An approval is for one loss: the next volumes of the same members may hold other data.
func TestALossOfOtherVolumesIsAnotherIncident(t *testing.T) {
	other := lossOf(func(s *etcd.State) { s.Claims[0].UID = "of the next volume" }).Incident
	if other == "" || other == incident {
		t.Errorf("incident %q after %q", other, incident)
	}
}

func TestAMemberThatAnswersHasNotLostItsData(t *testing.T) {
	s := lostQuorum(func(s *etcd.State) {
		view := *s.Pods[2].View
		view.MemberID = 1
		s.Pods[0].View, s.Pods[0].Gate, s.Pods[0].EverRan = &view, nil, true
		s.Claims[0].Lost = "its node is gone"
	})
	if plan := etcd.Next(s); plan.Step != nil {
		t.Errorf("planned %s (%s), and two of three members answer", plan.Step, plan.Message)
	}
}
