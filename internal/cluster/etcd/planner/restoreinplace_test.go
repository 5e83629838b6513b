package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/etcdtest"
)

const undo = "abc123-20260501T000000Z"

// theUndo is a Restore that was confirmed.
func theUndo() *model.InPlaceRestore {
	return &model.InPlaceRestore{
		Noun: "Restore undo", Plan: "abc123",
		Restore: model.Restore{Destination: etcdtest.Bucket, Directory: "orders-1", AtLeast: 70, Bump: model.RestoreBump, Token: "undo-uid"},
	}
}

// restoring is a cluster in a phase of a restore in place.
func restoring(phase model.RecoveryPhase, change func(*model.State)) model.State {
	return settled(func(s *model.State) {
		restore := theUndo().Restore
		s.Record.Recovery = model.Recovery{Incident: undo, Phase: phase, Since: simNow, Restore: &restore}
		if change != nil {
			change(s)
		}
	})
}

// allEnded is one whose members have all ended.
func allEnded(change func(*model.State)) model.State {
	return restoring(model.RecoveryHeld, func(s *model.State) {
		s.Members, s.Auth = nil, nil
		for i := range s.Pods {
			p := &s.Pods[i]
			p.Status, p.Ready, p.EverRan, p.Drained, p.Gate = nil, false, false, true, held(model.GateHeld)
		}
		if change != nil {
			change(s)
		}
	})
}

func TestNextRestoresInPlace(t *testing.T) {
	confirmed := func(change func(*model.State)) model.State {
		return settled(func(s *model.State) {
			s.Want.RestoreInPlace = theUndo()
			for i := range s.Pods {
				s.Pods[i].Status.Revision = 41
			}
			if change != nil {
				change(s)
			}
		})
	}
	begun := func(bump int64) steps.SetRecovery {
		restore := theUndo().Restore
		restore.Bump = bump
		return steps.SetRecovery{To: model.Recovery{Incident: undo, Phase: model.RecoveryHeld, Since: simNow, Restore: &restore}}
	}
	started := restoring(model.RecoveryStarted, nil).Record.Recovery
	first := steps.DeletePod{Name: "orders-0", UID: "uid-orders-0", ResourceVersion: "7"}
	for name, tc := range map[string]planRow{
		"it is written down first":          {state: confirmed(nil), step: begun(model.RestoreBump), says: "Restore undo is confirmed: all members end"},
		"the revision is above all of now":  {state: confirmed(func(s *model.State) { s.Pods[1].Status.Revision = 1070 }), step: begun(model.RestoreBump + 1000)},
		"and above all that was seen":       {state: confirmed(func(s *model.State) { s.Maintenance.Newest.Revision = 75 }), step: begun(model.RestoreBump + 5)},
		"and above that of a restore":       {state: confirmed(func(s *model.State) { s.Record.Restore = &model.Restore{Revision: 3, Bump: 100, Token: "former"} }), step: begun(model.RestoreBump + 33)},
		"what was carried out is not again": {state: confirmed(func(s *model.State) { s.Record.Restore = &model.Restore{Token: "undo-uid"} })},
		"one that hibernates stays asleep": {
			state:  confirmed(func(s *model.State) { s.Want.Hibernated, s.Record.Hibernated, s.Pods = true, true, nil }),
			reason: "Hibernated",
		},
		"one that was never founded is not": {
			state:  confirmed(func(s *model.State) { s.Record.ClusterID, s.Members = 0, nil }),
			reason: steps.ReasonStarting,
		},
		"a quorum that is lost is no matter": {
			state: lostQuorum(func(s *model.State) { s.Want.RestoreInPlace = theUndo() }), step: begun(model.RestoreBump),
		},
		"nor one that is being recovered": {
			state: recovering(model.RecoveryHeld, func(s *model.State) { s.Want.RestoreInPlace = theUndo() }), step: begun(model.RestoreBump),
		},
		"one that has begun is not disturbed by another": {
			state: allEnded(func(s *model.State) {
				s.Want.RestoreInPlace = theUndo()
				s.Want.RestoreInPlace.Restore.Token, s.Pods[0].Terminating = "another", true
			}),
			reason: steps.ReasonRestoring, says: "orders-0 is being deleted",
		},
		"unless no member can be filled": {state: unfillable(func(s *model.State) {
			s.Want.RestoreInPlace = theUndo()
			s.Want.RestoreInPlace.Restore.Token = "another"
		}), step: begunAs("another")},
		"not while one may be filled": {state: unfillable(func(s *model.State) {
			s.Want.RestoreInPlace = theUndo()
			s.Want.RestoreInPlace.Restore.Token = "another"
			s.Pods[2].Gate, s.Pods[2].EverRan = nil, true
		}), reason: steps.ReasonRestoring},
		"what cannot be filled is no loss of a quorum": {
			state: unfillable(nil), reason: steps.ReasonRestoring, says: "delete this Restore and confirm another one): orders-0 is held back",
		},
		"a stuck pod without a volume does not hold it up": {state: confirmed(stickFirst), step: first, says: "cannot pull its image"},
		"nor once it has begun":                            {state: restoring(model.RecoveryHeld, stickFirst), step: first},
		"unless nobody has confirmed anything": {
			state:  settled(stickFirst),
			reason: planner.ReasonRollout, stalled: true, says: "delete the pod yourself to accept that",
		},
		"all members end":                 {state: restoring(model.RecoveryHeld, nil), step: first, says: "because the cluster begins anew with orders-1"},
		"one that ends is waited for":     {state: allEnded(func(s *model.State) { s.Pods[0].Terminating = true }), reason: steps.ReasonRestoring, says: "orders-0 is being deleted"},
		"unless its node is gone":         {state: allEnded(func(s *model.State) { s.Pods[0].Terminating, s.Pods[0].Gone = true, true }), step: steps.DeletePod{Name: "orders-0", UID: "uid-orders-0", ResourceVersion: "7", Gone: true}},
		"a pod that is not there, too":    {state: allEnded(func(s *model.State) { s.Pods = s.Pods[1:] }), reason: steps.ReasonRestoring, says: "orders-0 has no pod yet"},
		"a gate of before is asked again": {state: allEnded(func(s *model.State) { s.Pods[0].Gate = held(model.GateLostDisk) }), step: first},
		"a pod that clients find is made": {state: allEnded(func(s *model.State) { s.Pods[0].Drained = false }), step: first},
		"a volume that is lost is given up": {
			state: allEnded(func(s *model.State) { s.Claims[0].Lost = "its node is gone" }),
			step:  steps.DeleteClaim{Name: "data-orders-0", UID: "claim-0"},
		},
		"along with its pod":        {state: allEnded(func(s *model.State) { s.Claims[0].Lost, s.Claims[0].Leaving = "its node is gone", true }), step: first},
		"a deleted claim is let go": {state: allEnded(func(s *model.State) { deleted(s, 0); s.Members = nil }), step: first},
		"then the identity goes":    {state: allEnded(nil), step: steps.StartRestore{To: started}},
		"held gates get to know":    {state: allEnded(func(s *model.State) { s.Record.Recovery, s.Record.ClusterID = started, 0 }), step: first},
		"members are being filled":  {state: founding(started, func(s *model.State) { s.Members = nil }), reason: steps.ReasonRestoring, says: "3 members are being restored from orders-1"},
		"no client comes before":    {state: founding(started, func(s *model.State) { s.Members = nil; s.Pods[0].Drained = true }), reason: steps.ReasonRestoring},
		"the identity comes first":  {state: founding(started, nil), step: steps.RecordClusterID{ClusterID: settled(nil).Record.ClusterID}},
		"then authentication":       {state: founded(started, func(s *model.State) { s.Auth.Enabled = false }), step: steps.EnableAuth{Pod: "orders-1"}},
		"then it is over":           {state: founded(started, nil), step: steps.SetRecovery{To: restoring(model.RecoveryOver, nil).Record.Recovery}, says: model.CopyName(undo)},
		"and clients come back":     {state: restoring(model.RecoveryOver, func(s *model.State) { s.Pods[0].Drained = true }), step: steps.ServeAgain{Pod: "orders-0", UID: "uid-orders-0"}},
	} {
		t.Run(name, func(t *testing.T) { tc.Check(t) })
	}
}

// stickFirst has no quorum answer, and a pod without a volume that cannot start before it is
// recreated.
func stickFirst(s *model.State) {
	s.Want.Persistent, s.Members, s.Auth = false, nil, nil
	p := &s.Pods[0]
	p.Status, p.Ready, p.Stuck, p.TemplateHash, p.Problem = nil, false, true, "old", "cannot pull its image"
}

// unfillable is a cluster whose members cannot be filled from the backup of a restore in place.
func unfillable(change func(*model.State)) model.State {
	return founding(restoring(model.RecoveryStarted, nil).Record.Recovery, func(s *model.State) {
		s.Members, s.Auth = nil, nil
		for i := range s.Pods {
			p := &s.Pods[i]
			p.Status, p.Ready, p.EverRan, p.Drained, p.Gate = nil, false, false, true, held(model.GateRestore)
		}
		if change != nil {
			change(s)
		}
	})
}

// begunAs is the first step of the restore in place of another Restore.
func begunAs(token string) steps.SetRecovery {
	restore := theUndo().Restore
	restore.Token, restore.Bump = token, 2*model.RestoreBump
	return steps.SetRecovery{To: model.Recovery{Incident: undo, Phase: model.RecoveryHeld, Since: simNow, Restore: &restore}}
}

// founding is a cluster whose members found it from a backup.
func founding(r model.Recovery, change func(*model.State)) model.State {
	return settled(func(s *model.State) {
		s.Record.Recovery, s.Record.Restore, s.Record.Bootstrap, s.Record.ClusterID = r, r.Restore, model.BootstrapNew, 0
		if change != nil {
			change(s)
		}
	})
}

func founded(r model.Recovery, change func(*model.State)) model.State {
	return founding(r, func(s *model.State) {
		s.Record.ClusterID = settled(nil).Record.ClusterID
		if change != nil {
			change(s)
		}
	})
}

func TestTheRecordSaysWhatItBeginsWith(t *testing.T) {
	r := *allEnded(nil).Record
	steps.StartRestore{To: restoring(model.RecoveryStarted, nil).Record.Recovery}.Edit(&r)
	back, err := model.ParseRecord(r.Data())
	if err != nil || !back.RestoresFrom("undo-uid") || back.RestoredFrom("undo-uid") || !back.RestoresInPlace() || !back.Restores() || back.InitialBackup().Directory != "orders-1" {
		t.Fatalf("%+v %v", back, err)
	}
	back.ClusterID, back.Recovery.Phase = 7, model.RecoveryOver
	if !back.RestoredFrom("undo-uid") || back.RestoredFrom("another") || back.InitialBackup() != nil {
		t.Errorf("%+v", back)
	}
}

func TestGateOfAClusterThatIsRestoredInPlace(t *testing.T) {
	in := func(phase model.RecoveryPhase, disk gate.Disk, epoch string) gate.Input {
		s := founding(restoring(phase, nil).Record.Recovery, nil)
		return gate.Input{Self: s.Want.Peers[1], Record: *s.Record, Disk: disk, Epoch: epoch, Log: &model.LogEnd{Term: 2, Index: 9}}
	}
	for name, tc := range map[string]struct {
		in   gate.Input
		want func(gate.Decision) bool
	}{
		"it waits until no member runs":  {in(model.RecoveryHeld, gate.DiskReady, ""), func(d gate.Decision) bool { return !d.Start && d.Report.Reason == model.GateHeld }},
		"also with an empty disk":        {in(model.RecoveryHeld, gate.DiskEmpty, ""), func(d gate.Decision) bool { return !d.Start && d.Report.Reason == model.GateHeld }},
		"what there is is set aside":     {in(model.RecoveryStarted, gate.DiskReady, "former"), func(d gate.Decision) bool { return d.SetAside && !d.Start }},
		"then it is filled":              {in(model.RecoveryStarted, gate.DiskEmpty, "former"), func(d gate.Decision) bool { return d.Start && d.Restore && d.State == "new" && d.Epoch == undo }},
		"once more, if interrupted":      {in(model.RecoveryStarted, gate.DiskEmpty, undo), func(d gate.Decision) bool { return d.Start && d.Restore && d.Epoch == undo }},
		"what was filled is not again":   {in(model.RecoveryStarted, gate.DiskReady, undo), func(d gate.Decision) bool { return d.Start && !d.Restore && !d.SetAside }},
		"a former volume is not started": {in(model.RecoveryOver, gate.DiskReady, ""), func(d gate.Decision) bool { return d.SetAside }},
	} {
		t.Run(name, func(t *testing.T) {
			if d := gate.Decide(tc.in); !tc.want(d) {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestVersionsThatABackupSuits(t *testing.T) {
	for backup, want := range map[string]bool{"3.5.20": true, "3.6.1": true, "3.7.0": false, "3.4.9": false, "?": false} {
		if why := model.Unsuited(backup, model.Version{Major: 3, Minor: 6, Patch: 16}); (why == "") != want || (!want && !strings.Contains(why, backup)) {
			t.Errorf("%s: %q", backup, why)
		}
	}
	if text := model.Replaces(3, false, "abc123"); !strings.Contains(text, "no spec.storage") {
		t.Error(text)
	}
	if since := restoring(model.RecoveryHeld, nil).Record.Recovery.Since; !since.Equal(since.Truncate(time.Second)) {
		t.Error(since)
	}
}
