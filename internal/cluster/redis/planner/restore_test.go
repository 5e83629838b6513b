package planner

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// lookedUp is a wish whose backup was looked up.
func lookedUp() *planner.RestoreRequest {
	return &planner.RestoreRequest{
		Field: "spec.bootstrap.restore",
		Noun:  "Backup first", Sum: "s-1", Source: v1alpha1.RestoreSource{Destination: &v1alpha1.BackupDestination{URL: "s3://bucket"}},
		Job: &planner.Job{Name: "c-restore", UID: "u-1", For: "s-1", Ended: true, Since: now, Report: &job.Report{Backup: &job.Stored{
			Directory: "c-1", Engine: "redis", Version: "8.0.2", Keys: 7, Shards: 5, Size: 100,
		}}},
	}
}

func loading(j *planner.Job) *model.Restore {
	return &model.Restore{Loading: &planner.Loading{Noun: "backup c-1", Job: j}}
}

func TestAClusterBeginsWithABackup(t *testing.T) {
	restored := job.Restored{Keys: 6, Present: 1}
	for name, tc := range map[string]struct {
		change        func(*fixture)
		step          cluster.Step
		reason, words string
	}{
		"it is looked up before anything else": {
			change: func(f *fixture) {
				w := lookedUp()
				w.Job = nil
				*f = fixture{model.State{Now: now, Spec: f.Spec, Restore: &model.Restore{Wish: w}}}
			},
			step: planner.FindBackup{Sum: "s-1"}, reason: planner.ReasonRestoring,
		},
		"what was found is recorded": {
			change: func(f *fixture) {
				*f = fixture{model.State{Now: now, Spec: f.Spec, Restore: &model.Restore{Wish: lookedUp()}}}
			},
			step: steps.RecordBackup{Record: model.RestoreRecord{Destination: v1alpha1.BackupDestination{URL: "s3://bucket"}, Directory: "c-1"}}, reason: planner.ReasonRestoring, words: "7 keys of 5 shards",
		},
		"data of an earlier cluster is not overwritten": {
			change: func(f *fixture) {
				*f = fixture{model.State{Now: now, Spec: f.Spec, Restore: &model.Restore{Wish: lookedUp()}, Claims: []model.Claim{{Name: "data-c-0-0"}}}}
			},
			reason: planner.ReasonRestoreRefused, words: "data-c-0-0",
		},
		"servers that all serve are loaded": {
			change: func(f *fixture) { f.Restore = loading(nil) },
			step:   steps.LoadBackup{}, reason: planner.ReasonRestoring,
		},
		"not before": {
			change: func(f *fixture) { f.Restore, f.Pods[3].Node = loading(nil), nil },
			reason: ReasonUnreachable,
		},
		"loading takes its time": {
			change: func(f *fixture) {
				f.Restore = loading(&planner.Job{Since: now, Flow: &job.Flow{Doing: "loading c-1", Bytes: 1 << 20, Total: 1 << 21, Seconds: 2}})
			},
			reason: planner.ReasonRestoring, words: "1.0 MiB of 2.0 MiB at 512.0 KiB/s",
		},
		"a load that failed is told": {
			change: func(f *fixture) {
				f.Restore = loading(&planner.Job{Ended: true, Failed: true, Since: now, Report: &job.Report{Problem: &job.Problem{Reason: "NoRoom", Message: "no memory"}}})
			},
			reason: "NoRoom", words: "no memory",
		},
		"and is tried again": {
			change: func(f *fixture) {
				f.Restore = loading(&planner.Job{Name: "c-load", UID: "u-2", Ended: true, Failed: true, Since: now.Add(-time.Minute)})
			},
			step: planner.DropRestoreJob{Name: "c-load", UID: "u-2"}, reason: planner.ReasonRestoring,
		},
		"also where its pod runs on": {
			change: func(f *fixture) {
				f.Restore = loading(&planner.Job{Name: "c-load", UID: "u-2", Ended: true, Failed: true, Held: true, Again: true, Since: now.Add(-time.Minute)})
			},
			step: planner.DropRestoreJob{Name: "c-load", UID: "u-2"}, reason: planner.ReasonRestoring,
		},
		"that it is loaded is remembered": {
			change: func(f *fixture) {
				f.Restore = loading(&planner.Job{Ended: true, Since: now, Report: &job.Report{Restored: &restored}})
			},
			step: planner.NoteLoaded{Restored: restored}, reason: "Restored", words: "6 keys",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := formed()
			tc.change(f)
			p := Next(f.State)
			if !reflect.DeepEqual(p.Step, tc.step) || p.Reason != tc.reason || !strings.Contains(p.Message, tc.words) {
				t.Errorf("got %+v", p)
			}
		})
	}
}

// Whoever waits for Available may rely on the data.
func TestAClusterIsNotAvailableBeforeItIsLoaded(t *testing.T) {
	f := formed()
	conditions := Conditions(f.State, Next(f.State), nil)
	if !meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionAvailable) {
		t.Fatalf("it is not Available without a restore: %+v", conditions)
	}
	f.Restore = loading(nil)
	for _, err := range []error{nil, errors.New("spoilt")} {
		conditions = Conditions(f.State, Next(f.State), err)
		if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionAvailable); c == nil || c.Status != "False" || c.Reason != planner.ReasonRestoring {
			t.Errorf("it is %+v", c)
		}
	}
}

// That a load is complete is written down before servers are asked for anything: done again it would take away what was written since.
func TestWhatWasLoadedIsNotLoadedAgain(t *testing.T) {
	done := func(r *job.Report) *planner.Job {
		return &planner.Job{Name: "c-load", UID: "u-2", Ended: true, Since: now, Report: r}
	}
	for name, tc := range map[string]struct {
		restore *model.Restore
		want    cluster.Step
	}{
		"everything":                    {begun(model.RestoreRecord{}, done(&job.Report{Restored: &job.Restored{Keys: 7}})), planner.NoteLoaded{Restored: job.Restored{Keys: 7}}},
		"everything, without a report":  {begun(model.RestoreRecord{}, done(nil)), planner.NoteLoaded{}},
		"slots that are served already": {begun(model.RestoreRecord{Slots: slots.Share(1, 3), Owners: []string{"gone"}, Served: true}, done(nil)), planner.NoteLoaded{}},
	} {
		t.Run(name, func(t *testing.T) {
			f := formed()
			f.Restore = tc.restore
			f.pod("c-0-1").Node = nil // Nobody can tell how the servers are.
			if p := Next(f.State); p.Step != tc.want {
				t.Errorf("%#v (%s), want %#v", p.Step, p.Message, tc.want)
			}
		})
	}
	f := formed()
	f.loseShard("1")
	f.Restore = begun(model.RestoreRecord{Slots: slots.Share(1, 3)}, done(nil))
	if p := Next(f.State); p.Reason == planner.ReasonRestored {
		t.Errorf("slots that nobody has served count as loaded without a report: %s", p.Message)
	}
}

// What there is is backed up when all servers are well, and again when they had to get well since: what was written by then is in it.
func TestEverythingIsReplacedRightAfterItWasSaved(t *testing.T) {
	saved := func(ago time.Duration) *planner.Saved {
		return &planner.Saved{Name: "back-before", Complete: true, Since: now.Add(-ago)}
	}
	record := model.RestoreRecord{Directory: "c-1", Token: "u-2"}
	save, replace := cluster.Step(planner.SaveCurrent{Name: "back-before-2"}), cluster.Step(steps.RecordBackup{Record: record})
	for name, tc := range map[string]struct {
		saved  *planner.Saved
		change func(*fixture)
		step   cluster.Step
		reason string
	}{
		"nothing is saved yet":           {nil, nil, save, planner.ReasonSaving},
		"nor while a server is not well": {nil, func(f *fixture) { f.pod("c-0-1").Node = nil }, nil, ReasonUnreachable},
		"it is being saved":              {&planner.Saved{Name: "back-before"}, nil, nil, planner.ReasonSaving},
		"it was saved just now":          {saved(time.Minute), nil, replace, planner.ReasonRestoring},
		"it was saved too long ago":      {saved(time.Hour), nil, save, planner.ReasonSaving},
		"too long ago for one that is being replaced by another backup already": {saved(time.Hour), func(f *fixture) {
			f.Restore = begun(model.RestoreRecord{Token: "former"}, nil)
		}, replace, planner.ReasonRestoring},
	} {
		t.Run(name, func(t *testing.T) {
			f := formed()
			f.Confirmed = &model.Confirmed{Noun: "Restore back", Saves: true, Saved: tc.saved, SaveAs: "back-before-2", RestoreRecord: record}
			if tc.change != nil {
				tc.change(f)
			}
			if p := Next(f.State); !reflect.DeepEqual(p.Step, tc.step) || p.Reason != tc.reason {
				t.Errorf("%#v %s %s", p.Step, p.Reason, p.Message)
			}
		})
	}
	for name, tc := range map[string]struct {
		restore *model.Restore
		saved   *planner.Saved
	}{
		"what could not be saved":                  {nil, &planner.Saved{Name: "back-before", Failed: "the store is full"}},
		"what waits for somebody":                  {nil, &planner.Saved{Name: "back-before", Stalled: true}},
		"what has the name of its Backup":          {nil, &planner.Saved{Name: "back-before", Foreign: true}},
		"what is being replaced and was not saved": {begun(model.RestoreRecord{Token: "former"}, nil), nil},
	} {
		f := formed()
		f.Restore = tc.restore
		f.Confirmed = &model.Confirmed{Noun: "Restore back", Saves: true, Saved: tc.saved, RestoreRecord: record}
		p := Next(f.State)
		if reflect.DeepEqual(p.Step, replace) || reflect.DeepEqual(p.Step, save) {
			t.Errorf("%s: %#v", name, p.Step)
		}
		if tc.restore == nil && p.Reason == planner.ReasonSaving {
			t.Errorf("%s: the cluster waits for it: %s", name, p.Message)
		}
	}
}
