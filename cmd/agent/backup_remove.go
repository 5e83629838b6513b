package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"time"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/plan"
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
	return j.run(ctx, func(ctx context.Context) (plan.Report, error) {
		timeline := ""
		m, err := j.store.ReadManifest(ctx, j.directory)
		if err == nil && m.Etcd != nil { // Of what is damaged or half deleted nothing is known, and nothing has to be.
			timeline = m.Etcd.Timeline
		}
		j.say("deleting %s", j.directory)
		if err := j.store.DeleteBackup(ctx, j.directory); err != nil {
			return plan.Report{}, fmt.Errorf("delete backup %s: %w", j.directory, err)
		}
		if timeline != "" {
			if err := j.sweepHistory(ctx, timeline, time.Now()); err != nil {
				return plan.Report{}, fmt.Errorf("delete the recorded changes that nothing leads to: %w", err)
			}
		}
		return plan.Report{Backup: &plan.Stored{Directory: j.directory}}, nil
	})
}

// sweepHistory deletes the recorded changes of a timeline that no full backup needs any more. Where a manifest cannot be read, which one
// needs what is not known, and all stays.
func (j *backupJob) sweepHistory(ctx context.Context, timeline string, now time.Time) error {
	dirs, err := j.store.Backups(ctx)
	if err != nil {
		return err
	}
	oldest := int64(math.MaxInt64)
	for _, dir := range dirs {
		m, err := j.store.ReadManifest(ctx, dir)
		if errors.Is(err, backup.ErrNotFound) {
			continue // It is being deleted.
		}
		if err != nil {
			return fmt.Errorf("backup %s: %w", dir, err)
		}
		if m.Etcd != nil && m.Etcd.Timeline == timeline {
			oldest = min(oldest, m.Etcd.Revision)
		}
	}
	objects, err := j.store.List(ctx, etcdhistory.Prefix(timeline))
	if err != nil {
		return err
	}
	deleted := 0
	for _, o := range objects {
		name, ok := etcdhistory.ParseName(o.Path)
		if !ok || name.To > oldest || (oldest == math.MaxInt64 && now.Sub(o.Modified) < historyGrace) {
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
