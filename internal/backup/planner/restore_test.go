package planner

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
)

// found is a Restore whose backup is known.
func found(change func(*RestoreState)) RestoreState {
	s := RestoreState{
		Now: testNow, Name: "undo", UID: "u-1",
		Target: &Target{Noun: "EtcdCluster orders", Replaces: "What there is goes.", Doing: "all members are well"},
		Found:  &Found{Stored: job.Stored{Directory: "orders-1", Engine: "etcd", Version: "3.6.16", Size: 3 << 20, Revision: 41, Finished: testNow}},
	}
	if change != nil {
		change(&s)
	}
	return s
}

// confirmed is one that may be carried out.
func confirmed(change func(*RestoreState)) RestoreState {
	return found(func(s *RestoreState) {
		s.Confirmed = s.Plan()
		if change != nil {
			change(s)
		}
	})
}

// unknown is one whose backup has yet to be looked up.
func unknown(change func(*RestoreState)) RestoreState {
	return found(func(s *RestoreState) {
		s.Found, s.Request = nil, &RestoreRequest{Field: "spec.from", Noun: "Backup good", Sum: "s1"}
		if change != nil {
			change(s)
		}
	})
}

func TestNextOfRestore(t *testing.T) {
	saved := func(change func(*Saved)) RestoreState {
		return confirmed(func(s *RestoreState) {
			s.Saves, s.Saved = true, &Saved{Name: "undo-before", Activity: "taking it"}
			change(s.Saved)
		})
	}
	for name, tc := range map[string]struct {
		state   RestoreState
		want    string // the step, or the reason
		says    string
		stalled bool
	}{
		"it is looked up first":               {unknown(nil), "look the backup up", "Backup good is to be restored", false},
		"a Backup that is not there":          {unknown(func(s *RestoreState) { s.Request.Missing = "there is no Backup good" }), ReasonRestoreRefused, "spec.from: there is no Backup good", true},
		"a claim is not in the way":           {unknown(func(s *RestoreState) { s.Request.Job = running("find"); s.Request.Job.For = "s1" }), ReasonRestoring, "is being looked up", false},
		"then there is a plan":                {found(nil), ReasonUnconfirmed, "EtcdCluster orders is restored from orders-1, 3.0 MiB of etcd 3.6.16 from 2026-05-01T12:00:00Z, revision 41. What there is goes.", true},
		"which says how to confirm it":        {found(nil), ReasonUnconfirmed, "kubectl annotate restores.quorate.dev undo quorate.dev/confirm=" + found(nil).Plan(), true},
		"another plan is not confirmed":       {found(func(s *RestoreState) { s.Confirmed = "abcdef" }), ReasonUnconfirmed, "plan abcdef, which is confirmed, is another one", true},
		"changes after the snapshot are told": {found(func(s *RestoreState) { s.Found.Target = 99 }), ReasonUnconfirmed, "up to revision 99", true},
		"and of when the last one is":         {found(func(s *RestoreState) { s.Found.Target, s.Found.LastChange = 99, &testNow }), ReasonUnconfirmed, "up to revision 99, the last change until then, of 2026-05-01T12:00:00Z.", true},
		"confirmed":                           {confirmed(nil), ReasonRestoring, "EtcdCluster orders begins as soon as it can: all members are well", false},
		"what there is is saved first":        {confirmed(func(s *RestoreState) { s.Saves = true }), ReasonSaving, "is backed up when all of it is well: all members are well", false},
		"and waited for":                      {saved(func(*Saved) {}), ReasonSaving, "undo-before: taking it", false},
		"without it nothing is replaced":      {saved(func(b *Saved) { b.Failed = "the store is full." }), ReasonSaving, "the store is full. Remove the cause and delete Backup undo-before, or create another Restore with spec.saveCurrent: false", true},
		"what waits for somebody":             {saved(func(b *Saved) { b.Stalled = true }), ReasonSaving, "cannot be backed up as undo-before, and is not replaced before: taking it. Remove the cause, or create", true},
		"a Backup of somebody else":           {saved(func(b *Saved) { b.Foreign = true }), v1alpha1.ReasonForeignObject, "Backup undo-before was not made for this Restore of this cluster: delete it", true},
		"what cannot be saved is said":        {confirmed(func(s *RestoreState) { s.Saves, s.Target.Unsaved = true, "it is being restored" }), ReasonSaving, "it is being restored. Create another Restore with spec.saveCurrent: false", true},
		"saved":                               {saved(func(b *Saved) { b.Complete = true }), ReasonRestoring, "begins as soon as it can", false},
		"no cluster":                          {found(func(s *RestoreState) { s.Target = nil }), ReasonClusterMissing, "spec.bootstrap.restore", true},
		"a cluster that goes":                 {confirmed(func(s *RestoreState) { s.Target.Leaving = true }), ReasonClusterMissing, "is being deleted", true},
		"a cluster that hibernates":           {confirmed(func(s *RestoreState) { s.Target.Missing = "it is hibernated" }), ReasonRestoreRefused, "it is hibernated", true},
		"a backup that does not fit":          {confirmed(func(s *RestoreState) { s.Target.Refused = "it is of etcd 3.4" }), ReasonRestoreRefused, "cannot be restored from orders-1: it is of etcd 3.4", true},
		"the cluster has begun":               {confirmed(func(s *RestoreState) { s.Target.Begun, s.Target.Doing = true, "all members end" }), ReasonRestoring, "all members end", false},
		"there is no way back":                {found(func(s *RestoreState) { s.Target.Begun = true }), ReasonRestoring, "is being restored", false},
		"done":                                {confirmed(func(s *RestoreState) { s.Target.Restored = &job.Restored{Revision: 7} }), "", "restored", false},
		"done, and the cluster knows no more": {confirmed(func(s *RestoreState) { s.Complete = &job.Restored{} }), "", "restored", false},
		"done long ago":                       {RestoreState{Complete: &job.Restored{}}, "", "restored", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := NextOfRestore(tc.state)
			got := p.Reason
			if p.Step != nil {
				got = p.Step.String()
			}
			if got != tc.want || !strings.Contains(p.Message, tc.says) || p.Stalled != tc.stalled {
				t.Errorf("%q %q (stalled %t), want %q %q", got, p.Message, p.Stalled, tc.want, tc.says)
			}
		})
	}
}

func TestAPlanIsOfOneRestoreOfOneBackup(t *testing.T) {
	plans := map[string]bool{}
	for _, change := range []func(*RestoreState){
		nil,
		func(s *RestoreState) { s.UID = "u-2" },
		func(s *RestoreState) { s.Found.Directory = "orders-2" },
		func(s *RestoreState) { s.Found.Target = 42 },
		func(s *RestoreState) { s.Target.Scope = "another cluster of the name" },
	} {
		plans[found(change).Plan()] = true
	}
	if len(plans) != 5 || plans[""] || unknown(nil).Plan() != "" {
		t.Errorf("%v", plans)
	}
}

func TestConditionsOfARestore(t *testing.T) {
	for name, tc := range map[string]struct {
		state               RestoreState
		confirmed, complete bool
	}{
		"unknown":     {unknown(nil), false, false},
		"unconfirmed": {found(nil), false, false},
		"confirmed":   {confirmed(nil), true, false},
		"unsaved":     {confirmed(func(s *RestoreState) { s.Saves, s.Saved = true, &Saved{} }), true, false},
		"stalled":     {confirmed(func(s *RestoreState) { s.Saves, s.Saved = true, &Saved{Stalled: true} }), true, false},
		"foreign":     {confirmed(func(s *RestoreState) { s.Saves, s.Saved = true, &Saved{Foreign: true} }), false, false},
		"misfit":      {confirmed(func(s *RestoreState) { s.Target.Refused = "too old" }), false, false},
		"held up":     {confirmed(func(s *RestoreState) { s.Target.Missing = "it is paused" }), false, false},
		"begun":       {found(func(s *RestoreState) { s.Target.Begun = true }), true, false},
		"done":        {confirmed(func(s *RestoreState) { s.Target.Restored = &job.Restored{Keys: 3, Took: time.Second} }), true, true},
		"done before": {found(func(s *RestoreState) { s.Complete = &job.Restored{} }), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			conditions := RestoreConditions(tc.state, NextOfRestore(tc.state), nil)
			is := func(typ string) bool { return meta.IsStatusConditionTrue(conditions, typ) }
			if is(v1alpha1.ConditionConfirmed) != tc.confirmed || is(v1alpha1.ConditionComplete) != tc.complete || len(conditions) != 4 {
				t.Errorf("%+v", conditions)
			}
		})
	}
}

// The planner of the cluster asks this when nothing else is in the way of the restore.
func TestWhatThereIsIsSavedRightBeforeItIsReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		saved *Saved
		want  string // the step, the reason to wait, or nothing: it may be replaced
	}{
		"not yet":                           {nil, "save what the cluster has as Backup undo-before"},
		"it is being saved":                 {&Saved{Name: "undo-before"}, ReasonSaving},
		"it could not be saved":             {&Saved{Name: "undo-before", Failed: "no room"}, ""},
		"it waits for somebody":             {&Saved{Name: "undo-before", Stalled: true}, ""},
		"it is of somebody else":            {&Saved{Name: "undo-before", Foreign: true}, ""},
		"just now":                          {&Saved{Name: "undo-before", Complete: true, Since: testNow.Add(-time.Minute)}, ""},
		"the cluster had to get well since": {&Saved{Name: "undo-before", Complete: true, Since: testNow.Add(-3 * time.Minute)}, "save what the cluster has as Backup undo-before"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := tc.saved.Save("Restore undo", "undo-before", testNow)
			got := p.Reason
			if p.Step != nil {
				got = p.Step.String()
			}
			if got != tc.want {
				t.Errorf("%q %q, want %q", got, p.Message, tc.want)
			}
		})
	}
}

func TestCopiesOfWhatThereWasHaveNamesThatFit(t *testing.T) {
	long := strings.Repeat("x", 48)
	for want, got := range map[string]string{
		"undo-before": SavedName("undo", 1), "undo-before-2": SavedName("undo", 2), long + "-before": SavedName(long, 1), long[:46] + "-before-12": SavedName(long, 12),
	} {
		if got != want || len(got) > 56 {
			t.Errorf("%s is %s", want, got)
		}
	}
}
