package etcd_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

const undo = "abc123-20260501T000000Z"

// theUndo is a Restore that was confirmed.
func theUndo() *etcd.Anew {
	return &etcd.Anew{
		Noun: "Restore undo", Plan: "abc123",
		Restore: etcd.Restore{Destination: theBucket, Directory: "orders-1", AtLeast: 70, Bump: etcd.RestoreBump, Token: "undo-uid"},
	}
}

// anew is a cluster that begins anew, in a phase of that.
func anew(phase etcd.RecoveryPhase, change func(*etcd.State)) etcd.State {
	return settled(func(s *etcd.State) {
		restore := theUndo().Restore
		s.Record.Recovery = etcd.Recovery{Incident: undo, Phase: phase, Since: simNow, Anew: &restore}
		if change != nil {
			change(s)
		}
	})
}

// allEnded is one whose members have all ended.
func allEnded(change func(*etcd.State)) etcd.State {
	return anew(etcd.RecoveryHeld, func(s *etcd.State) {
		s.Members, s.Auth = nil, nil
		for i := range s.Pods {
			p := &s.Pods[i]
			p.View, p.Ready, p.EverRan, p.Drained, p.Gate = nil, false, false, true, held(etcd.GateHeld)
		}
		if change != nil {
			change(s)
		}
	})
}

func TestNextBeginsAnew(t *testing.T) {
	confirmed := func(change func(*etcd.State)) etcd.State {
		return settled(func(s *etcd.State) {
			s.Want.Anew = theUndo()
			for i := range s.Pods {
				s.Pods[i].View.Revision = 41
			}
			if change != nil {
				change(s)
			}
		})
	}
	begun := func(bump int64) etcd.SetRecovery {
		restore := theUndo().Restore
		restore.Bump = bump
		return etcd.SetRecovery{To: etcd.Recovery{Incident: undo, Phase: etcd.RecoveryHeld, Since: simNow, Anew: &restore}}
	}
	started := anew(etcd.RecoveryStarted, nil).Record.Recovery
	first := etcd.DeletePod{Name: "orders-0", UID: "uid-orders-0", ResourceVersion: "7"}
	for name, tc := range map[string]planRow{
		"it is written down first":          {state: confirmed(nil), step: begun(etcd.RestoreBump), says: "Restore undo is confirmed: all members end"},
		"the revision is above all of now":  {state: confirmed(func(s *etcd.State) { s.Pods[1].View.Revision = 1070 }), step: begun(etcd.RestoreBump + 1000)},
		"and above all that was seen":       {state: confirmed(func(s *etcd.State) { s.Upkeep.Newest.Revision = 75 }), step: begun(etcd.RestoreBump + 5)},
		"and above that of a restore":       {state: confirmed(func(s *etcd.State) { s.Record.Restore = &etcd.Restore{Revision: 3, Bump: 100, Token: "former"} }), step: begun(etcd.RestoreBump + 33)},
		"what was carried out is not again": {state: confirmed(func(s *etcd.State) { s.Record.Restore = &etcd.Restore{Token: "undo-uid"} })},
		"one that hibernates stays asleep": {
			state:  confirmed(func(s *etcd.State) { s.Want.Hibernated, s.Record.Hibernated, s.Pods = true, true, nil }),
			reason: "Hibernated",
		},
		"one that was never founded is not": {
			state:  confirmed(func(s *etcd.State) { s.Record.ClusterID, s.Members = 0, nil }),
			reason: etcd.ReasonStarting,
		},
		"a quorum that is lost is no matter": {
			state: lostQuorum(func(s *etcd.State) { s.Want.Anew = theUndo() }), step: begun(etcd.RestoreBump),
		},
		"nor one that is being recovered": {
			state: recovering(etcd.RecoveryHeld, func(s *etcd.State) { s.Want.Anew = theUndo() }), step: begun(etcd.RestoreBump),
		},
		"one that has begun is not disturbed by another": {
			state: allEnded(func(s *etcd.State) {
				s.Want.Anew = theUndo()
				s.Want.Anew.Restore.Token, s.Pods[0].Terminating = "another", true
			}),
			reason: etcd.ReasonRestoring, says: "orders-0 is being deleted",
		},
		"unless no member can be filled": {state: unfillable(func(s *etcd.State) { s.Want.Anew = theUndo(); s.Want.Anew.Restore.Token = "another" }), step: begunAs("another")},
		"not while one may be filled": {state: unfillable(func(s *etcd.State) {
			s.Want.Anew = theUndo()
			s.Want.Anew.Restore.Token = "another"
			s.Pods[2].Gate, s.Pods[2].EverRan = nil, true
		}), reason: etcd.ReasonRestoring},
		"what cannot be filled is no loss of a quorum": {
			state: unfillable(nil), reason: etcd.ReasonRestoring, says: "delete this Restore and confirm another one): orders-0 is held back",
		},
		"a stuck pod without a volume does not hold it up": {state: confirmed(stickFirst), step: first, says: "cannot pull its image"},
		"nor once it has begun":                            {state: anew(etcd.RecoveryHeld, stickFirst), step: first},
		"unless nobody has confirmed anything": {
			state:  settled(stickFirst),
			reason: etcd.ReasonRollout, stalled: true, says: "delete the pod yourself to accept that",
		},
		"all members end":                 {state: anew(etcd.RecoveryHeld, nil), step: first, says: "because the cluster begins anew with orders-1"},
		"one that ends is waited for":     {state: allEnded(func(s *etcd.State) { s.Pods[0].Terminating = true }), reason: etcd.ReasonRestoring, says: "orders-0 is being deleted"},
		"unless its node is gone":         {state: allEnded(func(s *etcd.State) { s.Pods[0].Terminating, s.Pods[0].Gone = true, true }), step: etcd.DeletePod{Name: "orders-0", UID: "uid-orders-0", ResourceVersion: "7", Gone: true}},
		"a pod that is not there, too":    {state: allEnded(func(s *etcd.State) { s.Pods = s.Pods[1:] }), reason: etcd.ReasonRestoring, says: "orders-0 has no pod yet"},
		"a gate of before is asked again": {state: allEnded(func(s *etcd.State) { s.Pods[0].Gate = held(etcd.GateLostDisk) }), step: first},
		"a pod that clients find is made": {state: allEnded(func(s *etcd.State) { s.Pods[0].Drained = false }), step: first},
		"a volume that is lost is given up": {
			state: allEnded(func(s *etcd.State) { s.Claims[0].Lost = "its node is gone" }),
			step:  etcd.DeleteClaim{Name: "data-orders-0", UID: "claim-0"},
		},
		"along with its pod":        {state: allEnded(func(s *etcd.State) { s.Claims[0].Lost, s.Claims[0].Leaving = "its node is gone", true }), step: first},
		"a deleted claim is let go": {state: allEnded(func(s *etcd.State) { deleted(s, 0); s.Members = nil }), step: first},
		"then the identity goes":    {state: allEnded(nil), step: etcd.StartAnew{To: started}},
		"held gates get to know":    {state: allEnded(func(s *etcd.State) { s.Record.Recovery, s.Record.ClusterID = started, 0 }), step: first},
		"members are being filled":  {state: founding(started, func(s *etcd.State) { s.Members = nil }), reason: etcd.ReasonRestoring, says: "3 members are being restored from orders-1"},
		"no client comes before":    {state: founding(started, func(s *etcd.State) { s.Members = nil; s.Pods[0].Drained = true }), reason: etcd.ReasonRestoring},
		"the identity comes first":  {state: founding(started, nil), step: etcd.RecordClusterID{ClusterID: settled(nil).Record.ClusterID}},
		"then authentication":       {state: founded(started, func(s *etcd.State) { s.Auth.Enabled = false }), step: etcd.EnableAuth{Pod: "orders-1"}},
		"then it is over":           {state: founded(started, nil), step: etcd.SetRecovery{To: anew(etcd.RecoveryOver, nil).Record.Recovery}, says: etcd.CopyName(undo)},
		"and clients come back":     {state: anew(etcd.RecoveryOver, func(s *etcd.State) { s.Pods[0].Drained = true }), step: etcd.ServeAgain{Pod: "orders-0", UID: "uid-orders-0"}},
	} {
		t.Run(name, func(t *testing.T) { tc.check(t) })
	}
}

// stickFirst has no quorum answer, and a pod without a volume that cannot start before it is made anew.
func stickFirst(s *etcd.State) {
	s.Want.Persistent, s.Members, s.Auth = false, nil, nil
	p := &s.Pods[0]
	p.View, p.Ready, p.Stuck, p.TemplateHash, p.Problem = nil, false, true, "old", "cannot pull its image"
}

// unfillable is a cluster whose members cannot be filled from the backup that they begin anew with.
func unfillable(change func(*etcd.State)) etcd.State {
	return founding(anew(etcd.RecoveryStarted, nil).Record.Recovery, func(s *etcd.State) {
		s.Members, s.Auth = nil, nil
		for i := range s.Pods {
			p := &s.Pods[i]
			p.View, p.Ready, p.EverRan, p.Drained, p.Gate = nil, false, false, true, held(etcd.GateRestore)
		}
		if change != nil {
			change(s)
		}
	})
}

// begunAs begins anew with another Restore.
func begunAs(token string) etcd.SetRecovery {
	restore := theUndo().Restore
	restore.Token, restore.Bump = token, 2*etcd.RestoreBump
	return etcd.SetRecovery{To: etcd.Recovery{Incident: undo, Phase: etcd.RecoveryHeld, Since: simNow, Anew: &restore}}
}

// founding is a cluster whose members are being founded anew.
func founding(r etcd.Recovery, change func(*etcd.State)) etcd.State {
	return settled(func(s *etcd.State) {
		s.Record.Recovery, s.Record.Restore, s.Record.Bootstrap, s.Record.ClusterID = r, r.Anew, etcd.BootstrapNew, 0
		if change != nil {
			change(s)
		}
	})
}

func founded(r etcd.Recovery, change func(*etcd.State)) etcd.State {
	return founding(r, func(s *etcd.State) {
		s.Record.ClusterID = settled(nil).Record.ClusterID
		if change != nil {
			change(s)
		}
	})
}

func TestTheRecordSaysWhatItBeginsWith(t *testing.T) {
	r := *allEnded(nil).Record
	etcd.StartAnew{To: anew(etcd.RecoveryStarted, nil).Record.Recovery}.Edit(&r)
	back, err := etcd.ParseRecord(r.Data())
	if err != nil || !back.BeginsWith("undo-uid") || back.BeganWith("undo-uid") || !back.BeginsAnew() || !back.Restores() || back.BeginWith().Directory != "orders-1" {
		t.Fatalf("%+v %v", back, err)
	}
	back.ClusterID, back.Recovery.Phase = 7, etcd.RecoveryOver
	if !back.BeganWith("undo-uid") || back.BeganWith("another") || back.BeginWith() != nil {
		t.Errorf("%+v", back)
	}
}

func TestGateOfAClusterThatBeginsAnew(t *testing.T) {
	in := func(phase etcd.RecoveryPhase, disk etcd.Disk, epoch string) etcd.GateInput {
		s := founding(anew(phase, nil).Record.Recovery, nil)
		return etcd.GateInput{Self: s.Want.Peers[1], Record: *s.Record, Disk: disk, Epoch: epoch, Log: &etcd.LogEnd{Term: 2, Index: 9}}
	}
	for name, tc := range map[string]struct {
		in   etcd.GateInput
		want func(etcd.GateDecision) bool
	}{
		"it waits until no member runs":  {in(etcd.RecoveryHeld, etcd.DiskReady, ""), func(d etcd.GateDecision) bool { return !d.Start && d.Report.Reason == etcd.GateHeld }},
		"also with an empty disk":        {in(etcd.RecoveryHeld, etcd.DiskEmpty, ""), func(d etcd.GateDecision) bool { return !d.Start && d.Report.Reason == etcd.GateHeld }},
		"what there is is set aside":     {in(etcd.RecoveryStarted, etcd.DiskReady, "former"), func(d etcd.GateDecision) bool { return d.SetAside && !d.Start }},
		"then it is filled":              {in(etcd.RecoveryStarted, etcd.DiskEmpty, "former"), func(d etcd.GateDecision) bool { return d.Start && d.Restore && d.State == "new" && d.Epoch == undo }},
		"once more, if interrupted":      {in(etcd.RecoveryStarted, etcd.DiskEmpty, undo), func(d etcd.GateDecision) bool { return d.Start && d.Restore && d.Epoch == undo }},
		"what was filled is not again":   {in(etcd.RecoveryStarted, etcd.DiskReady, undo), func(d etcd.GateDecision) bool { return d.Start && !d.Restore && !d.SetAside }},
		"a former volume is not started": {in(etcd.RecoveryOver, etcd.DiskReady, ""), func(d etcd.GateDecision) bool { return d.SetAside }},
	} {
		t.Run(name, func(t *testing.T) {
			if d := etcd.DecideStart(tc.in); !tc.want(d) {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestVersionsThatABackupSuits(t *testing.T) {
	for backup, want := range map[string]bool{"3.5.20": true, "3.6.1": true, "3.7.0": false, "3.4.9": false, "?": false} {
		if why := etcd.Unsuited(backup, etcd.Version{Major: 3, Minor: 6, Patch: 16}); (why == "") != want || (!want && !strings.Contains(why, backup)) {
			t.Errorf("%s: %q", backup, why)
		}
	}
	if text := etcd.Replaces(3, false, "abc123"); !strings.Contains(text, "no spec.storage") {
		t.Error(text)
	}
	if since := anew(etcd.RecoveryHeld, nil).Record.Recovery.Since; !since.Equal(since.Truncate(time.Second)) {
		t.Error(since)
	}
}
