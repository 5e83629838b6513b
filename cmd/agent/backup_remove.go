package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/job"
)

// historyGrace is how old recorded changes are at least that are deleted when no full backup leads to them: one may be under way.
const historyGrace = 24 * time.Hour

// runBackupRemove deletes a backup from where it is kept, and the recorded changes that no other one leads to.
func runBackupRemove(ctx context.Context, args []string) error {
	j := &backupJob{}
	fs := flag.NewFlagSet("backup remove", flag.ContinueOnError)
	j.flags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	return j.run(ctx, func(ctx context.Context) (job.Report, error) {
		j.say("deleting %s", j.directory)
		if err := j.store.DeleteBackup(ctx, j.directory); err != nil {
			return job.Report{}, fmt.Errorf("delete backup %s: %w", j.directory, err)
		}
		if err := j.sweepHistory(ctx, time.Now()); err != nil {
			return job.Report{}, fmt.Errorf("delete the recorded changes that nothing leads to: %w", err)
		}
		return job.Report{Backup: &job.Stored{Directory: j.directory}}, nil
	})
}

// sweepHistory deletes the recorded changes that no full backup needs any more, also those that an earlier deletion has left because they were too
// young. Where a manifest cannot be read, which ones it needs is not known, and all stay.
func (j *backupJob) sweepHistory(ctx context.Context, now time.Time) error {
	objects, err := j.store.List(ctx, etcdhistory.Directory)
	if len(objects) == 0 || err != nil {
		return err
	}
	oldest, err := j.oldestBases(ctx)
	if err != nil {
		return err
	}
	deleted := 0
	for _, o := range objects {
		name, ok := etcdhistory.ParseName(o.Path)
		least, needed := oldest[name.Timeline]
		if !ok || (needed && name.To > least) || (!needed && now.Sub(o.Modified) < historyGrace) {
			continue
		}
		if err := j.history().Delete(ctx, o.Path); err != nil {
			return err
		}
		deleted++
	}
	if deleted > 0 {
		j.say("deleted %d objects with recorded changes that nothing leads to any more", deleted)
	}
	return nil
}

// oldestBases are the revisions of the oldest full backups, by timeline.
func (j *backupJob) oldestBases(ctx context.Context) (map[string]int64, error) {
	dirs, err := j.store.Backups(ctx)
	if err != nil {
		return nil, err
	}
	oldest := map[string]int64{}
	for _, dir := range dirs {
		m, err := j.store.ReadManifest(ctx, dir, backup.Keys{})
		if errors.Is(err, backup.ErrNotFound) {
			continue // It is being deleted.
		}
		if err != nil {
			return nil, fmt.Errorf("backup %s: %w", dir, err)
		}
		if m.Etcd == nil {
			continue
		}
		if least, known := oldest[m.Etcd.Timeline]; !known || m.Etcd.Revision < least {
			oldest[m.Etcd.Timeline] = m.Etcd.Revision
		}
	}
	return oldest, nil
}
