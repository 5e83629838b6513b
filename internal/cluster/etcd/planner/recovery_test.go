package planner_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// lostQuorum is a cluster of which orders-0 and orders-1 have lost their disks.
func lostQuorum(change func(*model.State)) model.State {
	return settled(func(s *model.State) {
		s.Members, s.Auth = nil, nil
		for i := range s.Pods[:2] {
			s.Pods[i].Status, s.Pods[i].Ready, s.Pods[i].EverRan, s.Pods[i].Gate = nil, false, false, held(model.GateLostDisk)
		}
		s.Pods[2].Ready, s.Pods[2].Started = false, simNow.Add(-time.Hour)
		s.Pods[2].Status.Leader, s.Pods[2].Status.Revision = 0, 41
		if change != nil {
			change(s)
		}
	})
}

// incident is what such a loss is called.
var incident = planner.Next(lostQuorum(nil)).Step.(steps.SetRecovery).To.Incident

// lossOf is what is written down first of such a cluster.
func lossOf(change func(*model.State)) model.Recovery {
	step, _ := planner.Next(lostQuorum(change)).Step.(steps.SetRecovery)
	return step.To
}

// lostAfter is a cluster that loses its quorum with another recovery in its record.
func lostAfter(r model.Recovery) model.State {
	return lostQuorum(func(s *model.State) { s.Record.Recovery = r })
}

// reportedAfter is what is written down of a loss after another one that was recovered from.
func reportedAfter(former string) steps.SetRecovery {
	sum := lossOf(func(s *model.State) { s.Record.Recovery = model.Recovery{Incident: former, Phase: model.RecoveryOver} }).Incident
	return steps.SetRecovery{To: model.Recovery{Incident: sum, Former: former, Phase: model.RecoveryReported, Since: simNow, Candidates: []string{"orders-2"}}}
}

// unequipped is such a cluster with a fourth member whose pod could not be started yet. None of those that lost their disk can ask whether it may join.
func unequipped(pending bool) model.State {
	return lostQuorum(func(s *model.State) {
		s.Pods[0].Gate, s.Pods[1].Gate = held(model.GateNoPeers), held(model.GateNoPeers)
		s.Record.Members = append(s.Record.Members, model.Peer{Name: "orders-3"})
		s.Claims = append(s.Claims, model.Claim{Name: "data-orders-3", Ordinal: 3, Pending: pending})
		s.Pods = append(s.Pods, model.Pod{Name: "orders-3", Ordinal: 3, UID: "uid-orders-3"})
	})
}

// undecided is a cluster of so many members of which orders-0 and orders-1 have empty disks, and the others do not answer.
func undecided(size int, change func(*model.State)) model.State {
	return lostQuorum(func(s *model.State) {
		s.Pods[0].Gate, s.Pods[1].Gate, s.Pods[2].Status = held(model.GateNoPeers), held(model.GateNoPeers), nil
		for i := len(s.Record.Members); i < size; i++ {
			name := fmt.Sprintf("orders-%d", i)
			s.Record.Members = append(s.Record.Members, model.Peer{Name: name})
			s.Claims = append(s.Claims, model.Claim{Name: "data-" + name, Ordinal: i})
			s.Pods = append(s.Pods, model.Pod{Name: name, Ordinal: i, UID: "uid-" + name, EverRan: true, Age: time.Hour})
		}
		change(s)
	})
}

// recovering is such a cluster in a phase of its recovery.
func recovering(phase model.RecoveryPhase, change func(*model.State)) model.State {
	return lostQuorum(func(s *model.State) {
		s.Record.Recovery = model.Recovery{Incident: incident, Phase: phase, Since: simNow.Add(-time.Minute), Candidates: []string{"orders-2"}}
		if phase == model.RecoveryStarted || phase == model.RecoveryOver {
			s.Record.Recovery.Survivor = "orders-2"
		}
		if change != nil {
			change(s)
		}
	})
}

// allHeld is one whose members have ended, and whose gates have told what there is.
func allHeld(ends ...*model.LogEnd) model.State {
	return recovering(model.RecoveryHeld, func(s *model.State) {
		s.Record.Recovery.Candidates = []string{"orders-0", "orders-1", "orders-2"}
		for i, end := range ends {
			s.Pods[i].Status, s.Pods[i].EverRan, s.Pods[i].Gate = nil, false, held(model.GateHeld)
			s.Pods[i].Gate.Log = end
		}
	})
}

func TestTheSurvivorLeadsAndTheOthersJoinAgain(t *testing.T) {
	s := recovering(model.RecoveryStarted, func(s *model.State) {
		s.Members = []model.Member{{ID: 3, Name: "orders-2", PeerURL: s.Want.Peers[2].URL, Published: true}}
		s.Auth = &model.Auth{Enabled: true, PasswordWorks: true}
		s.Pods[2].Status.Leader, s.Pods[2].Ready = 3, true
	})
	over, ok := planner.Next(s).Step.(steps.SetRecovery)
	if !ok || over.To.Phase != model.RecoveryOver || over.To.Survivor != "orders-2" {
		t.Fatalf("%+v", planner.Next(s))
	}
	s.Record.Recovery = over.To
	for i := range s.Pods[:2] {
		s.Pods[i].Gate = held(model.GateNotMember)
	}
	if p := planner.Next(s); p.Step != (steps.AddLearner{Name: "orders-0", URL: s.Want.Peers[0].URL, Via: "orders-2"}) {
		t.Errorf("%+v", p)
	}
}

func TestGateInARecovery(t *testing.T) {
	in := func(phase model.RecoveryPhase, disk gate.Disk, epoch string) gate.Input {
		s := recovering(phase, nil)
		return gate.Input{Self: s.Want.Peers[2], Record: *s.Record, Disk: disk, Epoch: epoch, Log: &model.LogEnd{Term: 2, Index: 9}}
	}
	nextLoss := func(epoch string, disk gate.Disk) gate.Input {
		next := in(model.RecoveryReported, disk, epoch)
		next.Record.Recovery.Former = "abcdef"
		return next
	}
	other := in(model.RecoveryStarted, gate.DiskReady, "")
	other.Self = other.Record.Members[1]
	broken := in(model.RecoveryHeld, gate.DiskReady, "")
	broken.LogError = errors.New("crc mismatch")
	unnamed := in(model.RecoveryOver, gate.DiskReady, incident)
	unnamed.Record.Recovery = model.Recovery{}
	for name, tc := range map[string]struct {
		in   gate.Input
		want func(gate.Decision) bool
	}{
		"a plan changes nothing": {in(model.RecoveryReported, gate.DiskReady, ""), func(d gate.Decision) bool { return d.Start && !d.Alone && d.Epoch == "" }},
		"a held member tells":    {in(model.RecoveryHeld, gate.DiskReady, ""), func(d gate.Decision) bool { return !d.Start && d.Report.Log.Index == 9 && d.Report.Final() }},
		"one without a log too": {in(model.RecoveryHeld, gate.DiskEmpty, ""), func(d gate.Decision) bool {
			return !d.Start && d.Report.Reason == model.GateHeld && d.Report.Log == nil
		}},
		"and one that is broken": {broken, func(d gate.Decision) bool {
			return !d.Start && d.Report.Reason == model.GateHeld && d.Report.Log == nil
		}},
		"the survivor goes on":               {in(model.RecoveryStarted, gate.DiskReady, ""), func(d gate.Decision) bool { return d.Start && d.Alone && d.Epoch == incident }},
		"later, too":                         {in(model.RecoveryOver, gate.DiskReady, "earlier"), func(d gate.Decision) bool { return d.Start && d.Alone && d.Epoch == incident }},
		"but only once":                      {in(model.RecoveryOver, gate.DiskReady, incident), func(d gate.Decision) bool { return d.Start && !d.Alone }},
		"nor when the next loss is reported": {nextLoss("abcdef", gate.DiskReady), func(d gate.Decision) bool { return d.Start && !d.Alone && d.Epoch == "abcdef" }},
		"which does not let older data in":   {nextLoss("", gate.DiskReady), func(d gate.Decision) bool { return d.SetAside && !d.Start }},
		"data of an incident that the record does not name is not set aside": {unnamed, func(d gate.Decision) bool { return d.Start && !d.SetAside && !d.Alone }},
		"the others' data is kept": {other, func(d gate.Decision) bool { return d.SetAside && !d.Start }},
	} {
		t.Run(name, func(t *testing.T) {
			if d := gate.Decide(tc.in); !tc.want(d) {
				t.Errorf("%+v", d)
			}
		})
	}
}

// Revisions that were recorded of one history must never be followed by those of another one.
func TestATimelineNeverComesBack(t *testing.T) {
	lost := func(uid string, r model.Recovery) model.State {
		return lostQuorum(func(s *model.State) { s.Record.UID, s.Record.Recovery = uid, r })
	}
	note := func(s model.State) model.Recovery {
		t.Helper()
		step, ok := planner.Next(s).Step.(steps.SetRecovery)
		if !ok {
			t.Fatalf("%+v", planner.Next(s))
		}
		return step.To
	}
	timeline := func(uid string, r model.Recovery) string { return lost(uid, r).Record.Timeline() }

	const uid = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"
	over := recovering(model.RecoveryOver, nil).Record.Recovery
	reported := note(lost(uid, over))
	back := note(settled(func(s *model.State) { s.Record.UID, s.Record.Recovery = uid, reported }))
	next := reported
	next.Phase = model.RecoveryStarted

	after := model.FormatID(settled(nil).Record.ClusterID) + "-1b9d6bcd-" + incident
	for name, r := range map[string]model.Recovery{"over": over, "lost again": reported, "and back": back} {
		if got := timeline(uid, r); got != after {
			t.Errorf("%s: %s, want %s", name, got, after)
		}
	}
	for name, got := range map[string]string{
		"before":                 timeline(uid, model.Recovery{}),
		"the next recovery":      timeline(uid, next),
		"a record written anew":  timeline("9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", over),
		"one without a recovery": timeline("9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", model.Recovery{}),
	} {
		if got == after {
			t.Errorf("%s: %s is the history of recovery %s", name, got, incident)
		}
	}
}

func TestARecordFromBeforeLossesWereChainedIsRead(t *testing.T) {
	r := *recovering(model.RecoveryReported, nil).Record
	back, err := model.ParseRecord(r.Data())
	if err != nil || strings.Contains(r.Data()[model.KeyRecovery], "former") || back.Recovery.Former != "" || back.Recovery.Incident != incident {
		t.Fatalf("%+v %v", back.Recovery, err)
	}
	r.Recovery.Former = "abcdef"
	if back, err = model.ParseRecord(r.Data()); err != nil || back.Recovery.Former != "abcdef" {
		t.Errorf("%+v %v", back.Recovery, err)
	}
}

func TestMembersThatAnswerAndFindNoLeaderSayWhereToLook(t *testing.T) {
	t.Parallel()
	leaderless := func(change func(s *model.State)) model.State {
		return settled(func(s *model.State) {
			s.Members, s.Auth = nil, nil
			for i := range s.Pods {
				s.Pods[i].Status.Leader, s.Pods[i].Ready, s.Pods[i].Started = 0, false, simNow.Add(-time.Hour)
			}
			change(s)
		})
	}
	for name, tc := range map[string]struct {
		change func(s *model.State)
		says   bool
	}{
		"all of them":                        {func(*model.State) {}, true},
		"one does not answer":                {func(s *model.State) { s.Pods[0].Status = nil }, true},
		"two do not answer":                  {func(s *model.State) { s.Pods[0].Status, s.Pods[1].Status = nil, nil }, false},
		"two have just been started":         {func(s *model.State) { s.Pods[0].Started, s.Pods[1].Started = simNow, simNow }, false},
		"two have a leader":                  {func(s *model.State) { s.Pods[0].Status.Leader, s.Pods[1].Status.Leader = 1, 1 }, false},
		"two are on their way out":           {func(s *model.State) { s.Pods[0].Terminating, s.Pods[1].Terminating = true, true }, false},
		"one has no vote, another is silent": {func(s *model.State) { s.Pods[0].Status.Learner, s.Pods[1].Status = true, nil }, false},
	} {
		plan := planner.Next(leaderless(tc.change))
		if says := strings.Contains(plan.Message, "If that lasts, look at what keeps them from reaching each other at port 2380"); says != tc.says || plan.Reason != planner.ReasonNoQuorum {
			t.Errorf("%s: %s: %s", name, plan.Reason, plan.Message)
		}
	}
}

// An approval is for one loss: the next volumes of the same members may hold other data.
func TestALossOfOtherVolumesIsAnotherIncident(t *testing.T) {
	other := lossOf(func(s *model.State) { s.Claims[0].UID = "of the next volume" }).Incident
	if other == "" || other == incident {
		t.Errorf("incident %q after %q", other, incident)
	}
}

func TestAMemberThatAnswersHasNotLostItsData(t *testing.T) {
	s := lostQuorum(func(s *model.State) {
		view := *s.Pods[2].Status
		view.MemberID = 1
		s.Pods[0].Status, s.Pods[0].Gate, s.Pods[0].EverRan = &view, nil, true
		s.Claims[0].Lost = "its node is gone"
	})
	if plan := planner.Next(s); plan.Step != nil {
		t.Errorf("planned %s (%s), and two of three members answer", plan.Step, plan.Message)
	}
}
