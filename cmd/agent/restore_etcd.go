package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/etcdrestore"
)

// etcdTarget is what is to be restored of the history of an etcd cluster.
type etcdTarget struct {
	// Directory of the full backup.
	directory string
	// Upto is the newest change that is taken, 0: only what the full backup holds. Exact says that it must be reached.
	upto  int64
	exact bool
}

// restoreEtcd makes a data directory of a backup, and of the changes that were recorded since.
func (j *backupJob) restoreEtcd(ctx context.Context, target etcdTarget, o etcdrestore.Options) (etcdrestore.Result, error) {
	var r etcdrestore.Result
	m, err := j.store.ReadManifest(ctx, target.directory, j.keys)
	if err != nil {
		return r, fmt.Errorf("backup %s: %w", target.directory, err)
	}
	part, err := snapshotPart(m)
	if err != nil {
		return r, fmt.Errorf("backup %s: %w", target.directory, err)
	}
	o.SnapshotSize, o.SnapshotVersion, o.SnapshotTime = part.Size, m.EngineVersion, m.Started
	if target.exact {
		o.Target.Revision = target.upto
	}
	if target.upto > 0 {
		if o.Changes, o.ChangesSize, err = j.changes(ctx, m, target.upto); err != nil {
			return r, err
		}
	}
	j.total.Store(part.Size)
	j.say("restoring %s: %s %s of %s/%s, %d bytes", target.directory, m.Engine, m.EngineVersion, m.Namespace, m.Cluster, part.Size)
	err = j.store.ReadPart(ctx, target.directory, part, j.keys, func(snapshot io.Reader) (err error) {
		o.Snapshot = snapshot
		r, err = etcdrestore.Restore(ctx, o)
		return err
	})
	if err != nil {
		return r, fmt.Errorf("restore %s: %w", target.directory, err)
	}
	j.say("restored revision %d with %d keys, of these %d changes from after the snapshot", r.Revision, r.State.Keys, r.Applied)
	return r, nil
}

func snapshotPart(m backup.Manifest) (backup.Part, error) {
	for _, p := range m.Parts {
		if p.Name == partSnapshot && m.Etcd != nil {
			return p, nil
		}
	}
	return backup.Part{}, finalError{errors.New("it is no backup of etcd")}
}

// history is where the changes are kept that were recorded between full backups.
func (j *backupJob) history() backup.Sealed { return backup.Sealed{Store: j.store, Keys: j.keys} }

// segments lists what was recorded of a timeline.
func (j *backupJob) segments(ctx context.Context, timeline string) ([]etcdhistory.Name, int64, error) {
	objects, err := j.history().List(ctx, etcdhistory.Prefix(timeline))
	if err != nil {
		return nil, 0, fmt.Errorf("list the recorded changes: %w", err)
	}
	var size int64
	for _, o := range objects {
		size += o.Size
	}
	return etcdhistory.Names(objects, timeline), size, nil
}

// changes replays what was recorded after a full backup, up to a revision.
func (j *backupJob) changes(ctx context.Context, m backup.Manifest, upto int64) (func(int64) iter.Seq2[etcdhistory.Record, error], int64, error) {
	_, size, err := j.segments(ctx, m.Etcd.Timeline)
	if err != nil {
		return nil, 0, err
	}
	return func(revision int64) iter.Seq2[etcdhistory.Record, error] {
		return etcdhistory.Follow(ctx, j.history(), etcdhistory.Span{Timeline: m.Etcd.Timeline, After: revision, To: upto}, etcdhistory.Target{Revision: upto})
	}, size, nil
}
