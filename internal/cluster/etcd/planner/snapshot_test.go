package planner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// snapshotFor was verified ten minutes ago, on the way to a version.
func snapshotFor(v model.Version) model.Snapshot {
	return model.Snapshot{
		Backup: "orders-before-3-7-3", UID: "backup-1", URL: "pvc://orders-snapshot/upgrades", Directory: "orders-1",
		Revision: 7, Size: 20 << 20, From: v36, For: v, Time: simNow.Add(-10 * time.Minute),
	}
}

// saving is a cluster with a Backup to be made before another version, and that Backup in a state.
func saving(b *model.Backup, change func(*model.State)) model.State {
	return running(v36, v37, func(s *model.State) {
		s.Want.Snapshot, s.Want.SnapshotPlace = true, true
		if b != nil {
			b.Name, b.UID, b.From, b.For = "orders-before-3-7-3", "backup-2", v36, v37
			b.Own, b.URL, b.Directory, b.Revision, b.Size = true, "pvc://orders-snapshot/upgrades", "orders-2", 9, 20<<20
			s.Backups, s.BackupNames = []model.Backup{*b}, []string{b.Name}
		}
		if change != nil {
			change(s)
		}
	})
}

// failed is a Backup that nothing will come of.
func failed(since time.Duration) *model.Backup {
	return &model.Backup{Failed: "no room.", Stalled: "no backup was taken", Since: ago(since)}
}

func ago(d time.Duration) time.Time { return simNow.Add(-d) }

// A name that the API server refuses would hold the upgrade for good.
func TestTheNameOfABackupFits(t *testing.T) {
	s := saving(nil, func(s *model.State) {
		s.Want.Name = strings.Repeat("o", 40)
		s.Want.Version = model.Version{Major: 3, Minor: 7, Patch: 99}
	})
	for range 12 {
		step, ok := planner.Next(s).Step.(steps.TakeSnapshot)
		if !ok || len(step.Name) > 56 || slices.Contains(s.BackupNames, step.Name) {
			t.Fatalf("%+v", step)
		}
		s.BackupNames = append(s.BackupNames, step.Name)
	}
}

func TestASnapshotIsSpentAtTheEndOfItsWay(t *testing.T) {
	r := model.Record{Version: v35, Snapshot: snapshotFor(v37)}
	if got := r.With(v36).Snapshot.For; got != v37 {
		t.Errorf("on the way it serves %s", got)
	}
	if got := r.With(v36).With(v37).Snapshot; got.For != (model.Version{}) || got.Backup == "" {
		t.Errorf("at the end it is %+v", got)
	}
}

func TestTheStatusNamesTheSnapshot(t *testing.T) {
	var st v1alpha1.EtcdClusterStatus
	planner.Status(&st, settled(nil))
	if st.Snapshot != nil {
		t.Errorf("before the first: %+v", st.Snapshot)
	}
	planner.Status(&st, settled(func(s *model.State) { s.Record.Snapshot = snapshotFor(model.Version{}) }))
	if s := st.Snapshot; s == nil || s.Backup != "orders-before-3-7-3" || s.URL != "pvc://orders-snapshot/upgrades" || s.Directory != "orders-1" || s.Version != "3.6.16" || s.Revision != 7 || s.Size != 20<<20 {
		t.Errorf("%+v", s)
	}
}

func TestARecordThatNamesNoBackupIsNone(t *testing.T) {
	data := model.Record{Bootstrap: model.BootstrapNew, Version: v36, Members: model.Peers("orders", "default", "cluster.local", 1, false)}.Data()
	data["snapshot"] = `{"file":"3.5.35-7.db","revision":7,"size":20,"from":"3.5.35","for":"3.6.16","job":"j"}`
	r, err := model.ParseRecord(data)
	if err != nil || r.Snapshot != (model.Snapshot{}) {
		t.Errorf("%+v, %v", r.Snapshot, err)
	}
}
