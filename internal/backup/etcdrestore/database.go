package etcdrestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// database is the file db of a member.
type database struct{ *bbolt.DB }

const lockTimeout = time.Second

// openDatabase opens it as etcd does, but that nothing is synced before the end. growth is by how many bytes of changes it will grow.
func openDatabase(path string, growth int64) (*database, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	var db *bbolt.DB
	err = guarded(func() (err error) {
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout: lockTimeout, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, NoSync: true, NoGrowSync: true,
			// So that the file is not mapped anew, again and again, while it grows.
			InitialMmapSize: int(info.Size() + 2*growth + spare),
		})
		return err
	})
	if err != nil && !errors.Is(err, bolterrors.ErrTimeout) && !errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w: it does not open as a database: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	return &database{db}, nil
}

// guarded turns the panics of bbolt, at a database that is not what it should be, into errors.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if flaw := recover(); flaw != nil {
			err = fmt.Errorf("%w: the database is inconsistent: %v", ErrDamaged, flaw)
		}
	}()
	return f()
}

// readOnly opens a database, and looks at it, without changing anything.
func readOnly(path string, look func(*bbolt.Tx) error) error {
	return guarded(func() (err error) {
		db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout})
		if err != nil {
			return fmt.Errorf("%w: it does not open as a database: %w", ErrDamaged, err)
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		return db.View(look)
	})
}

// about returns the newest revision, and the version of etcd that the data is of.
func about(tx *bbolt.Tx) (revision int64, version string, err error) {
	keys, meta := tx.Bucket(bucketKey), tx.Bucket(bucketMeta)
	if keys == nil || meta == nil {
		return 0, "", fmt.Errorf("%w: it is no database of etcd: there are no buckets key and meta", ErrDamaged)
	}
	version = "3.5"
	if v := meta.Get(metaStorageVersion); len(v) > 0 { // etcd 3.6 was the first to write it.
		version = string(v)
	}
	return newest(keys, meta), version, nil
}

// newest is the revision of the newest change. A compaction may have thrown it away, when it deleted something.
func newest(keys, meta *bbolt.Bucket) int64 {
	last, _ := keys.Cursor().Last()
	const untouched = 1 // Nobody has written to this etcd.
	return max(untouched, mainRevision(last), mainRevision(meta.Get(metaScheduledCompact)), mainRevision(meta.Get(metaFinishedCompact)))
}

// State is what a database holds.
type State struct {
	// Revision of the newest change, and Compacted up to which history is gone, 0 if none is.
	Revision, Compacted int64
	// Keys that there are at Revision.
	Keys int64
	// Records is the number of changes that are stored, and Bytes their size.
	Records, Bytes int64
}

// walk reads everything, and counts the changes in the order of their revisions.
func walk(ctx context.Context, tx *bbolt.Tx) (*counter, error) {
	meta := tx.Bucket(bucketMeta)
	c := newCounter(mainRevision(meta.Get(metaFinishedCompact)), mainRevision(meta.Get(metaScheduledCompact)))
	var at int64
	err := tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		changes := bytes.Equal(name, bucketKey)
		return b.ForEach(func(k, v []byte) error {
			if at++; at%10_000 == 0 && ctx.Err() != nil {
				return fmt.Errorf("read the database: %w", context.Cause(ctx))
			}
			if changes {
				return c.record(k, v)
			}
			return nil
		})
	})
	return c, err
}

// Verify reads the database of a member that does not run, or a snapshot without its checksum, to its end, and tells what is in it. The
// error is ErrDamaged if it cannot be read.
func Verify(ctx context.Context, path string) (s State, err error) {
	if err := checkPages(ctx, path); err != nil {
		return s, err
	}
	err = readOnly(path, func(tx *bbolt.Tx) error {
		revision, _, err := about(tx)
		if err != nil {
			return err
		}
		count, err := walk(ctx, tx)
		s = count.result()
		s.Revision = revision
		return err
	})
	return s, err
}

// Agreed tells on which minor version the members have agreed, by the database of one that does not run, or a later one in whose format
// the database still is, as on the way back from it. It looks at a few pages only.
func Agreed(path string) (agreed int, err error) {
	err = readOnly(path, func(tx *bbolt.Tx) error {
		versions, meta := tx.Bucket(bucketCluster), tx.Bucket(bucketMeta)
		if versions == nil || meta == nil {
			return fmt.Errorf("%w: it is no database of etcd: there are no buckets cluster and meta", ErrDamaged)
		}
		agreed, err = minor(string(versions.Get(clusterVersion)))
		if format := meta.Get(metaStorageVersion); err == nil && len(format) > 0 {
			var m int
			m, err = minor(string(format))
			agreed = max(agreed, m)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return agreed, nil
}

// counter counts keys while it sees all stored changes. After a compaction there is exactly one change up to its revision for each key
// that there was: so no list of keys is necessary. If the compaction was not finished, that does not hold, and the keys are told apart by
// hashes of 64 bits.
type counter struct {
	State
	live map[uint64]struct{}
}

func newCounter(finished, scheduled int64) *counter {
	c := &counter{State: State{Compacted: finished}}
	if scheduled > finished {
		c.live = map[uint64]struct{}{}
	}
	return c
}

func (c *counter) record(k, v []byte) error {
	revision, tombstone, ok := parseRevision(k)
	key, version, valid := kvFields(v)
	if !ok || !valid {
		return fmt.Errorf("%w: a change is stored under %x that etcd could not read", ErrDamaged, k)
	}
	c.Records++
	c.Bytes += int64(len(k) + len(v))
	switch {
	case len(v) == 0: // This is the mark of a bump.
	case c.live != nil:
		c.tellApart(key, tombstone)
	case tombstone && revision > c.Compacted:
		c.Keys--
	case !tombstone && (revision <= c.Compacted || version == 1):
		c.Keys++
	}
	return nil
}

func (c *counter) tellApart(key []byte, tombstone bool) {
	h := maphash.Bytes(seed, key)
	if tombstone {
		delete(c.live, h)
	} else {
		c.live[h] = struct{}{}
	}
}

func (c *counter) result() State {
	if c.live != nil {
		c.Keys = int64(len(c.live))
	}
	return c.State
}
