// Package etcdrestore makes the data directory of an etcd member out of a full snapshot and the changes after it: what
// `etcdutl snapshot restore` does, and history up to any revision or time.
//
//	snapshot --checksum--> db <--changes-- segments
//	                       db: count, hash; bump; members; root's password
//	                       write-ahead log and raft snapshot of a new cluster
//	                       all on the disk, then renamed
//
// Changes are written into the database as the records that etcd itself made of them: a change is kept with everything that etcd stores
// (revision, creation, version, lease), so nothing has to be executed again, and no index of all keys has to be in memory as etcd's own
// store would need. How much memory a restore takes does not depend on sizes. Members of one cluster are restored independently from the
// same options, but for their names, and agree on everything.
//
// The package takes data from where the caller reads it and knows nothing of Kubernetes.
package etcdrestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/etcdsnapshot"
)

var (
	// ErrDamaged is returned for a snapshot or changes that are not what was backed up, or do not belong together.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrOutOfRange is returned for a target that is before the snapshot or after the last change. It names both.
	ErrOutOfRange = errors.New("the target is not in the backup")
	// ErrExists is returned when the data directory is there and not empty.
	ErrExists = errors.New("the data directory is not empty")
	// ErrNoSpace is returned when the volume is too small, with the figures.
	ErrNoSpace = errors.New("the volume is too small")
	// ErrIncompatible is returned for a version of etcd that cannot run with the data.
	ErrIncompatible = errors.New("the versions do not fit together")
)

// Options of a Restore.
type Options struct {
	// Dir is the data directory to make (--data-dir). It may exist if it is empty, and must not be the root of a volume: it is built
	// under another name beside it.
	Dir string
	// Snapshot is what a member sent for a snapshot, with the checksum at its end.
	Snapshot io.Reader
	// SnapshotSize in bytes, if known, so that a volume that is too small is found before anything is written.
	SnapshotSize int64
	// SnapshotTime is when the snapshot was begun, if known. An earlier Target is refused.
	SnapshotTime time.Time
	// SnapshotVersion is the version of the etcd that sent the snapshot, if known; else the data tells what it is for.
	SnapshotVersion string
	// Changes returns what is to be applied to a snapshot of that revision: etcdhistory.Replay with the same Target. nil: nothing.
	Changes func(revision int64) iter.Seq2[etcdhistory.Record, error]
	// ChangesSize in bytes, uncompressed, if known.
	ChangesSize int64
	// Target is where to stop; zero is the last change.
	Target etcdhistory.Target
	// Version of the etcd that is to run, such as 3.6.16. See Compatible. Empty: not checked.
	Version string
	// Member that the directory is for.
	Member Member
	// Bump is added to the revision, and everything up to the sum is marked as compacted, so that watchers and caches of clients that saw
	// later revisions than the restored one find out, instead of waiting for what they believe to have seen. 0 does neither. It is
	// --bump-revision with --mark-compacted of etcdutl, which go together
	// (https://etcd.io/docs/v3.6/op-guide/recovery/#restoring-with-revision-bump).
	Bump int64
	// RootPassword is what the user root is to log in with, if there is such a user; empty leaves what the snapshot has. Other users
	// and roles stay as they were.
	RootPassword string
	// WithoutAuthentication switches authentication off. Otherwise it stays as it was.
	WithoutAuthentication bool
	// Free tells the free bytes of the file system that a directory is on; nil asks the system.
	Free func(path string) (int64, error)
}

// Result of a Restore.
type Result struct {
	// Snapshot is what the snapshot was: its revision, its size in bytes and the SHA-256 of its database in hexadecimal.
	Snapshot etcdsnapshot.Content
	// Revision that was restored, before the bump, and Time when it was recorded: zero if it is that of the snapshot.
	Revision int64
	Time     time.Time
	// Complete: a later change was seen, so that nothing before the target can be missing. A target in time that lies after the last
	// change that was recorded is restored, but is not complete.
	Complete bool
	// BumpedTo is the revision that the new cluster begins with.
	BumpedTo int64
	// State of the data at Revision.
	State State
	// Applied is the number of changes after the snapshot.
	Applied int64
	// UnknownLeases is the number of leases whose TTL was not recorded; they got LeaseTTL.
	UnknownLeases int
	// Alarms is the number of alarms of the old members that were dropped.
	Alarms int
	// ClusterID and MemberID of the new member.
	ClusterID, MemberID uint64
}

// LeaseTTL in seconds is for leases whose TTL nobody knows: they were gone in the source right after their last use, so what is attached to
// them goes soon here as well.
const LeaseTTL = 60

// unfinished is the suffix of a directory that is not complete.
const unfinished = ".restoring"

// Restore makes a data directory. It is there, complete and on the disk, or not at all: what a crash leaves has another name, and the next
// Restore to the same place removes it. On the disk it needs, beside the data, 64 MiB for the write-ahead log.
func Restore(ctx context.Context, o Options) (r Result, err error) {
	cluster, err := o.check()
	if err != nil {
		return r, err
	}
	temporary := o.Dir + unfinished
	if err := o.makeRoom(temporary); err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(temporary) // The next attempt removes it if this one cannot.
			err = o.explain(err)
		}
	}()
	path := filepath.Join(temporary, "member", "snap", "db")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return r, fmt.Errorf("create a directory to restore in: %w", err)
	}
	if r.Snapshot, err = fetch(ctx, o.Snapshot, path); err != nil {
		return r, err
	}
	if err := o.database(ctx, path, cluster, &r); err != nil {
		return r, err
	}
	if err := cluster.log(temporary); err != nil {
		return r, err
	}
	r.ClusterID, r.MemberID = uint64(cluster.ID()), uint64(cluster.self.ID)
	return r, publish(temporary, o.Dir)
}

// database does everything that is to be done in the database.
func (o Options) database(ctx context.Context, path string, cluster *cluster, r *Result) (err error) {
	count, err := o.inspect(ctx, path, r)
	if err != nil {
		return err
	}
	db, err := openDatabase(path, o.ChangesSize)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := o.replay(ctx, db, count, r); err != nil {
		return err
	}
	r.State = count.result()
	r.State.Revision, r.BumpedTo = r.Revision, r.Revision+o.Bump
	if err := guarded(func() error { return db.finish(o, cluster, r) }); err != nil {
		return err
	}
	if err := db.Sync(); err != nil {
		return fmt.Errorf("write the database to the disk: %w", err)
	}
	return nil
}

// inspect reads all of the snapshot before anything is changed: bbolt ends the process when it opens a damaged database for writing.
func (o Options) inspect(ctx context.Context, path string, r *Result) (count *counter, err error) {
	if err := checkPages(ctx, path); err != nil {
		return nil, err
	}
	err = readOnly(path, func(tx *bbolt.Tx) error {
		revision, version, err := about(tx)
		if err != nil {
			return err
		}
		r.Snapshot.Revision, r.Revision = revision, revision
		if o.SnapshotVersion != "" {
			version = o.SnapshotVersion
		}
		if o.Version != "" {
			if err := Compatible(version, o.Version); err != nil {
				return err
			}
		}
		if o.Target.Revision != 0 && o.Target.Revision < revision {
			return fmt.Errorf("%w: revision %d is before the snapshot's, which is %d", ErrOutOfRange, o.Target.Revision, revision)
		}
		count, err = walk(ctx, tx)
		return err
	})
	return count, err
}

// check refuses what cannot work.
func (o Options) check() (*cluster, error) {
	if o.Bump < 0 {
		return nil, fmt.Errorf("the revision cannot be bumped by %d", o.Bump)
	}
	if t := o.Target.Time; !t.IsZero() && t.Before(o.SnapshotTime) {
		return nil, fmt.Errorf("%w: %s is before the snapshot, which is of %s", ErrOutOfRange, t.Format(time.RFC3339), o.SnapshotTime.Format(time.RFC3339))
	}
	if o.Version != "" && o.SnapshotVersion != "" {
		if err := Compatible(o.SnapshotVersion, o.Version); err != nil {
			return nil, err
		}
	}
	return newCluster(o.Member)
}

// fetch copies the snapshot to a file, without the checksum at its end, which has to be right.
func fetch(ctx context.Context, from io.Reader, path string) (content etcdsnapshot.Content, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // The path is the caller's to choose.
	if err != nil {
		return content, fmt.Errorf("create the database: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	content, err = etcdsnapshot.Stream(ctx, stream{ctx, from}, f)
	if errors.Is(err, etcdsnapshot.ErrDamaged) {
		return content, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return content, err
	}
	if err := f.Truncate(content.Size - checksumSize); err != nil {
		return content, fmt.Errorf("cut the checksum off the database: %w", err)
	}
	return content, nil
}
