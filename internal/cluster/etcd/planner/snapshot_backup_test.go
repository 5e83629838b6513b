package planner_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestTheBackupBeforeAnUpgradeIsWaitedFor(t *testing.T) {
	take := steps.TakeSnapshot{Name: "orders-before-3-7-3", From: v36, For: v37}
	second, third := take, take
	second.Name, third.Name = "orders-before-3-7-3-2", "orders-before-3-7-3-3"
	drop := steps.DropBackup{Name: "orders-before-3-7-3", UID: "backup-2"}
	with := func(b *model.Backup, change func(*model.Backup)) model.State {
		return saving(b, func(s *model.State) { change(&s.Backups[0]) })
	}
	verified := func(name string, since time.Duration) model.Backup {
		return model.Backup{Name: name, UID: name, From: v35, For: v36, Own: true, Complete: true, Verified: ago(since)}
	}
	rows.Run(t, map[string]planRow{
		"a Backup before an upgrade takes its time": {
			state:  saving(&model.Backup{Activity: "the backup is being taken: 5 MiB"}, nil),
			reason: steps.ReasonSnapshot, says: "3.6.16 -> 3.7.3 waits for Backup orders-before-3-7-3 of about 32Ki: the backup is being taken: 5 MiB",
		},
		"a Backup that was not reconciled yet is reported": {
			state: saving(&model.Backup{}, nil), reason: steps.ReasonSnapshot, says: "it has not begun",
		},
		"a Backup that is stored is not proven": {
			state: saving(&model.Backup{Complete: true, Activity: "is being checked"}, nil), reason: steps.ReasonSnapshot, says: "is being checked",
		},
		"a Backup that cannot go on needs a human": {
			state:  saving(&model.Backup{Stalled: "there is no Secret", Since: ago(time.Hour)}, nil),
			reason: planner.ReasonSnapshotFailed, stalled: true, says: "there is no Secret. Remove the cause and delete Backup orders-before-3-7-3, or set spec.upgrade.snapshot to Skip",
		},
		"a Backup that is verified is recorded": {
			state: saving(&model.Backup{Complete: true, Verified: ago(time.Second)}, nil),
			step: steps.RecordSnapshot{Snapshot: model.Snapshot{
				Backup: "orders-before-3-7-3", UID: "backup-2", URL: "pvc://orders-snapshot/upgrades", Directory: "orders-2",
				Revision: 9, Size: 20 << 20, From: v36, For: v37, Time: ago(time.Second),
			}},
			says: "Backup orders-before-3-7-3 is verified: revision 9, 20Mi",
		},
		"a Backup that was not recorded for an hour is taken again beside it": {
			state: saving(&model.Backup{Complete: true, Verified: ago(2 * time.Hour)}, nil), step: second,
		},
		"a Backup that failed is tried again": {
			state: saving(failed(6*time.Minute), nil), step: drop,
		},
		"a Backup that failed holds the upgrade": {
			state:  saving(failed(time.Minute), nil),
			reason: planner.ReasonSnapshotFailed, stalled: true, says: "3.6.16 -> 3.7.3 waits for Backup orders-before-3-7-3, and that fails: no room (it is tried again every five minutes). Remove",
		},
		"a Backup that did not pass its check is tried again": {
			state: with(failed(6*time.Minute), func(b *model.Backup) { b.Complete = true }), step: drop,
		},
		"a Backup that did not pass its check elsewhere is not tried again, for its data stays": {
			state:  with(failed(6*time.Minute), func(b *model.Backup) { b.Complete, b.Own = true, false }),
			reason: planner.ReasonSnapshotFailed, stalled: true, says: "delete Backup orders-before-3-7-3",
		},
		"a Backup that was never stored elsewhere is tried again": {
			state: with(failed(6*time.Minute), func(b *model.Backup) { b.Own = false }), step: drop,
		},
		"a Backup makes room for itself, except for the newest": {
			state: saving(nil, func(s *model.State) {
				s.Backups = []model.Backup{verified("b", 2*time.Hour), verified("a", 3*time.Hour)}
			}),
			step: steps.DropBackup{Name: "a", UID: "a"}, says: "older than the newest",
		},
	})
}

func TestABackupOfAnotherChangeIsNotTheOneBeforeAnUpgrade(t *testing.T) {
	next := model.Version{Major: 3, Minor: 6, Patch: 17}
	take := steps.TakeSnapshot{Name: "orders-before-3-7-3", From: v36, For: v37}
	second, third := take, take
	second.Name, third.Name = "orders-before-3-7-3-2", "orders-before-3-7-3-3"
	drop := steps.DropBackup{Name: "orders-before-3-7-3", UID: "backup-2"}
	with := func(b *model.Backup, change func(*model.Backup)) model.State {
		return saving(b, func(s *model.State) { change(&s.Backups[0]) })
	}
	rows.Run(t, map[string]planRow{
		"a Backup that is being deleted is none": {
			state: with(&model.Backup{Verified: ago(time.Second)}, func(b *model.Backup) { b.Leaving = true }), step: second,
		},
		"a Backup of another change is not this one": {
			state: with(&model.Backup{}, func(b *model.Backup) { b.For = next }), step: drop, says: "another change",
		},
		"a Backup from another version is not this one": {
			state: with(&model.Backup{}, func(b *model.Backup) { b.From = v35 }), step: drop,
		},
		"a Backup on its way to another destination is not this one": {
			state: with(&model.Backup{}, func(b *model.Backup) { b.Elsewhere = true }), step: drop,
		},
		"a Backup at another destination does not go": {
			state: with(&model.Backup{Verified: ago(time.Second)}, func(b *model.Backup) { b.Elsewhere, b.Own = true, false }), step: second,
		},
		"a Backup that was recorded serves no second change, and stays": {
			state: saving(&model.Backup{Complete: true, Verified: ago(time.Minute)}, func(s *model.State) {
				s.Record.Snapshot = snapshotFor(model.Version{})
				s.Record.Snapshot.UID = "backup-2"
			}),
			step: second,
		},
		"a Backup of a former cluster of the name is none": {
			state: with(&model.Backup{Complete: true, Verified: ago(time.Minute)}, func(b *model.Backup) { b.Former = true }), step: second,
		},
		"a Backup that is being checked again stays": {
			state: with(&model.Backup{Complete: true, Checking: true, Failed: "the store did not answer"}, func(b *model.Backup) { b.For = next }), step: second,
		},
		"a Backup that does not pass its second check goes": {
			state: with(&model.Backup{Complete: true, Failed: "a part is short"}, func(b *model.Backup) { b.For = next }), step: drop,
		},
		"a Backup takes no name that is taken": {
			state: saving(nil, func(s *model.State) { s.BackupNames = []string{take.Name, second.Name} }), step: third,
		},
	})
}

func TestBackupsBeforeUpgradesAreDropped(t *testing.T) {
	take := steps.TakeSnapshot{Name: "orders-before-3-7-3", From: v36, For: v37}
	second, third := take, take
	second.Name, third.Name = "orders-before-3-7-3-2", "orders-before-3-7-3-3"
	verified := func(name string, since time.Duration) model.Backup {
		return model.Backup{Name: name, UID: name, From: v35, For: v36, Own: true, Complete: true, Verified: ago(since)}
	}
	rows.Run(t, map[string]planRow{
		"a Backup that is being deleted is not counted": {
			state: saving(nil, func(s *model.State) {
				s.Backups = []model.Backup{verified("b", 2*time.Hour), verified("a", 3*time.Hour)}
				s.Backups[0].Leaving = true
			}),
			step: take,
		},
		"Backups that are kept elsewhere are left alone": {
			state: saving(nil, func(s *model.State) {
				s.Backups = []model.Backup{verified("b", 2*time.Hour), verified("a", 3*time.Hour)}
				s.Backups[0].Own, s.Backups[1].Own = false, false
			}),
			step: take,
		},
		"a Backup beside one that is kept elsewhere is left alone": {
			state: saving(nil, func(s *model.State) {
				s.Backups = []model.Backup{verified("b", 2*time.Hour), verified("a", 3*time.Hour)}
				s.Backups[1].Own = false
			}),
			step: take,
		},
	})
}
