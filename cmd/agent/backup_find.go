package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/etcdrestore"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/redisdump"
)

// findBackup looks up the backup that a cluster is to begin with.
type findBackup struct {
	backupJob
	kind     string
	software redisdump.Software
	revision int64
	time     time.Time
}

// runBackupFind finds a backup and tells what it is. It reads what it takes to know that it can be restored, and changes nothing.
func runBackupFind(ctx context.Context, args []string) error {
	f := &findBackup{}
	fs := flag.NewFlagSet("backup find", flag.ContinueOnError)
	f.flags(fs)
	fs.StringVar(&f.kind, "kind", "", "kind of the cluster that is to begin with it")
	fs.StringVar(&f.software.Engine, "engine", "", "redis or valkey, where one of them is to begin with it")
	fs.StringVar(&f.software.Version, "version", "", "version of that")
	fs.Int64Var(&f.revision, "revision", 0, "revision of etcd that is wanted, 0 for all that there is")
	fs.Func("time", "time (RFC 3339) at which the data is wanted", func(text string) (err error) {
		f.time, err = time.Parse(time.RFC3339, text)
		return err
	})
	if err := fs.Parse(args); err != nil {
		return err
	}
	return f.run(ctx, f.find)
}

func (f *findBackup) find(ctx context.Context) (job.Report, error) {
	f.say("looking for a backup")
	dir, m, err := f.choose(ctx)
	if err != nil {
		return job.Report{}, err
	}
	if m.Encrypted && len(f.keys.Identities) == 0 {
		return job.Report{}, fmt.Errorf("backup %s: %w", dir, backup.ErrKey)
	}
	if m.Redis != nil {
		from := redisdump.Software{Engine: m.Engine, Version: m.EngineVersion}
		if err := redisdump.Compatible(from, m.Redis.RDBVersion, f.software); err != nil {
			return job.Report{}, fmt.Errorf("backup %s: %w", dir, err)
		}
	}
	f.say("found %s: %s %s/%s, %s %s, finished at %s", dir, m.Kind, m.Namespace, m.Cluster, m.Engine, m.EngineVersion, m.Finished.Format(time.RFC3339))
	report := job.Report{Backup: stored(dir, m)}
	report.Target, report.LastChange, err = f.target(ctx, m)
	return report, err
}

// target is the newest revision that is to be restored: the one asked for, the last one before the time asked for, or the newest that leads on
// from the backup; 0: the backup holds all there is. Where a time is asked for, changed is when it was recorded.
func (f *findBackup) target(ctx context.Context, m backup.Manifest) (revision int64, changed *time.Time, err error) {
	if m.Etcd == nil {
		return 0, nil, nil
	}
	names, _, err := f.segments(ctx, m.Etcd.Timeline)
	if err != nil {
		return 0, nil, err
	}
	latest := etcdhistory.Latest(names, m.Etcd.Revision)
	switch {
	case f.revision > max(latest, m.Etcd.Newest), f.revision > 0 && f.revision < m.Etcd.Newest:
		return 0, nil, fmt.Errorf("revision %d: %w, which leads from %d to %d", f.revision, etcdrestore.ErrOutOfRange, m.Etcd.Newest, max(latest, m.Etcd.Newest))
	case f.revision > 0:
		latest = f.revision
	case !f.time.IsZero() && f.time.Before(m.Etcd.Taken):
		return 0, nil, fmt.Errorf("%s: %w, which leads from %s on", f.time.Format(time.RFC3339), etcdrestore.ErrOutOfRange, m.Etcd.Taken.Add(time.Second-1).Format(time.RFC3339))
	case !f.time.IsZero():
		if latest, changed, err = f.at(ctx, m, names, latest); err != nil {
			return 0, nil, err
		}
	}
	if latest <= m.Etcd.Revision {
		return 0, nil, nil
	}
	f.say("changes are recorded up to revision %d, and the target is %d", etcdhistory.Latest(names, m.Etcd.Revision), latest)
	return latest, changed, nil
}

// at is the last revision before the time asked for, of those that lead on from the backup, and when it was recorded. Where none of them is from
// after that time, others may be missing: that is refused if it can be told.
func (f *findBackup) at(
	ctx context.Context, m backup.Manifest, names []etcdhistory.Name, latest int64,
) (last int64, changed *time.Time, err error) {
	last = m.Etcd.Revision
	span := etcdhistory.Span{Timeline: m.Etcd.Timeline, After: m.Etcd.Revision, To: latest}
	for r, err := range etcdhistory.Follow(ctx, f.history(), span, etcdhistory.Target{Time: f.time}) {
		if err != nil {
			return 0, nil, fmt.Errorf("look for the last change before %s: %w", f.time.Format(time.RFC3339), err)
		}
		switch r.Kind {
		case etcdhistory.Beyond:
			return last, changed, nil
		case etcdhistory.Put, etcdhistory.Delete:
			last, changed = r.Revision, &r.Time
		}
	}
	if _, err := etcdhistory.Chain(names, m.Etcd.Revision, 0); err != nil {
		return 0, nil, fmt.Errorf("what there was at %s is not known: %w", f.time.Format(time.RFC3339), err)
	}
	return last, changed, f.refuteLatest(ctx, m, latest)
}

// refuteLatest looks for a backup from before the time asked for that has more than what leads on from another one.
func (f *findBackup) refuteLatest(ctx context.Context, from backup.Manifest, latest int64) error {
	dirs, err := f.store.Backups(ctx)
	if err != nil {
		return fmt.Errorf("list the backups: %w", err)
	}
	for _, d := range dirs {
		m, err := f.store.ReadManifest(ctx, d, f.keys)
		if err != nil || m.Etcd == nil || m.Etcd.Timeline != from.Etcd.Timeline || m.Etcd.Taken.After(f.time) {
			continue // One that cannot be read tells nothing.
		}
		if m.Etcd.Revision > latest {
			return fmt.Errorf("what there was at %s does not follow from this backup, but from %s: %w: from %d to %d",
				f.time.Format(time.RFC3339), d, etcdhistory.ErrGap, latest+1, m.Etcd.Revision)
		}
	}
	return nil
}

// choose reads the manifest of the backup that was named, or of the newest one that fits.
func (f *findBackup) choose(ctx context.Context) (dir string, m backup.Manifest, err error) {
	if f.directory != "" {
		m, err = f.store.ReadManifest(ctx, f.directory, f.keys)
		if err == nil && m.Kind != f.kind {
			err = finalError{fmt.Errorf("it is of a %s, and a %s is to begin with it", m.Kind, f.kind)}
		}
		if err != nil {
			err = fmt.Errorf("backup %s: %w", f.directory, err)
		}
		return f.directory, m, err
	}
	dirs, err := f.store.Backups(ctx)
	if err != nil {
		return "", m, fmt.Errorf("list the backups: %w", err)
	}
	var flaws []error
	clusters := map[string]bool{}
	for _, d := range dirs {
		found, err := f.store.ReadManifest(ctx, d, f.keys)
		if err != nil {
			flaws = append(flaws, fmt.Errorf("%s: %w", d, err))
			continue
		}
		if !f.fits(found) {
			continue
		}
		clusters[found.Namespace+"/"+found.Cluster] = true
		if dir == "" || found.Finished.After(m.Finished) {
			dir, m = d, found
		}
	}
	return dir, m, f.judge(dir, dirs, clusters, flaws)
}

// fits reports whether a backup is of the wanted kind, and from before what is wanted.
func (f *findBackup) fits(m backup.Manifest) bool {
	switch {
	case m.Kind != f.kind:
		return false
	case m.Etcd == nil:
		return f.time.IsZero() || !m.Finished.After(f.time)
	case !f.time.IsZero() && m.Etcd.Taken.After(f.time), f.revision > 0 && m.Etcd.Newest > f.revision:
		return false
	}
	return true
}

// judge says why there is nothing to choose, or nothing that can be chosen without asking.
func (f *findBackup) judge(dir string, dirs []string, clusters map[string]bool, flaws []error) error {
	switch {
	case dir == "" && len(flaws) > 0:
		return fmt.Errorf("none of the %d backups here can be read that might fit: %w", len(dirs), errors.Join(flaws...))
	case dir == "":
		return fmt.Errorf("%w: there are %d complete backups here, and none of a %s from before what is wanted", backup.ErrNotFound, len(dirs), f.kind)
	case len(clusters) > 1:
		names := slices.Sorted(func(yield func(string) bool) {
			for c := range clusters {
				if !yield(c) {
					return
				}
			}
		})
		return finalError{fmt.Errorf("there are backups of several clusters here (%s): name the directory of one", strings.Join(names, ", "))}
	}
	return nil
}
