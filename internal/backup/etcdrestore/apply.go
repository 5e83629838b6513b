package etcdrestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/backup/etcdhistory"
)

const (
	// A transaction ends after so many changes, or bytes of them: what it has changed is in memory until then.
	batchChanges = 4_000
	batchBytes   = 1 << 20
	// fill is how full pages get. Changes only come at the end of the bucket, so none is in the way of later ones; etcd does the same.
	fill = 0.9
)

// replay applies the changes up to the target.
func (o Options) replay(ctx context.Context, db *database, count *counter, r *Result) error {
	if o.Changes != nil {
		a := &applier{db: db, count: count, result: r, target: o.Target}
		defer a.abandon()
		for record, err := range o.Changes(r.Snapshot.Revision) {
			if err == nil && ctx.Err() != nil {
				err = fmt.Errorf("apply changes: %w", context.Cause(ctx))
			}
			if err != nil {
				return damaged(err)
			}
			if err := guarded(func() error { return a.take(record) }); err != nil {
				return err
			}
		}
		if err := guarded(a.end); err != nil {
			return err
		}
	}
	if o.Target.Revision > r.Revision {
		return fmt.Errorf("%w: revision %d is after the last change; there are %d to %d", ErrOutOfRange,
			o.Target.Revision, r.Snapshot.Revision, r.Revision)
	}
	r.Complete = r.Complete || o.Target.Revision != 0
	return nil
}

// damaged gives what is wrong with a segment the name that it has in this package.
func damaged(err error) error {
	if errors.Is(err, etcdhistory.ErrDamaged) || errors.Is(err, etcdhistory.ErrGap) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// applier writes changes into a database.
type applier struct {
	db     *database
	count  *counter
	result *Result
	target etcdhistory.Target
	// sub is the last change of the current revision.
	sub int64

	tx             *bbolt.Tx
	keys, leases   *bbolt.Bucket
	changes, bytes int
	value          []byte
}

func (a *applier) take(r etcdhistory.Record) error {
	if err := a.begin(); err != nil {
		return err
	}
	switch r.Kind {
	case etcdhistory.Beyond:
		a.result.Complete = true
		return nil
	case etcdhistory.Granted:
		return a.granted(r.Lease)
	default:
		return a.change(r)
	}
}

// begin begins a transaction if there is none, or enough is in the current one.
func (a *applier) begin() (err error) {
	if a.changes >= batchChanges || a.bytes >= batchBytes {
		if err := a.commit(); err != nil {
			return err
		}
	}
	if a.tx != nil {
		return nil
	}
	if a.tx, err = a.db.Begin(true); err != nil {
		return fmt.Errorf("change the database: %w", err)
	}
	a.keys = a.tx.Bucket(bucketKey)
	a.keys.FillPercent = fill
	if a.leases, err = a.tx.CreateBucketIfNotExists(bucketLease); err != nil {
		return fmt.Errorf("change the database: %w", err)
	}
	return nil
}

func (a *applier) commit() error {
	tx := a.tx
	a.tx, a.changes, a.bytes = nil, 0, 0
	if tx == nil {
		return nil
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("write changes to the database: %w", err)
	}
	return nil
}

// abandon gives up what was not committed.
func (a *applier) abandon() {
	if a.tx != nil {
		_ = a.tx.Rollback() // The whole file is thrown away.
	}
}

func (a *applier) change(r etcdhistory.Record) error {
	if err := a.follow(r); err != nil {
		return err
	}
	tombstone := r.Kind == etcdhistory.Delete
	value, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(a.value[:0], r.KV)
	if err != nil {
		return fmt.Errorf("encode a change: %w", err)
	}
	a.value = value
	key := revisionKey(r.Revision, r.Sub, tombstone)
	// The database refers to both until the transaction ends.
	if err := a.keys.Put(key, bytes.Clone(value)); err != nil {
		return fmt.Errorf("write a change to the database: %w", err)
	}
	if err := a.count.record(key, value); err != nil {
		return err
	}
	a.changes++
	a.bytes += len(key) + len(value)
	a.result.Applied++
	if r.KV.Lease != 0 && !tombstone {
		return a.used(r.KV.Lease)
	}
	return nil
}

// follow checks that a change is the next one: there are no revisions without a change, and none twice.
func (a *applier) follow(r etcdhistory.Record) error {
	last := a.result.Revision
	switch {
	case r.Revision == last+1 && r.Sub == 0:
	case r.Revision == last && r.Sub == a.sub+1 && a.result.Applied > 0:
	default:
		return fmt.Errorf("%w: change %d of revision %d after change %d of revision %d", ErrDamaged, r.Sub, r.Revision, a.sub, last)
	}
	if a.target.Revision != 0 && r.Revision > a.target.Revision {
		return fmt.Errorf("%w: revision %d is beyond the target", ErrDamaged, r.Revision)
	}
	a.result.Revision, a.sub, a.result.Time = r.Revision, r.Sub, r.Time.UTC()
	return nil
}

// used makes sure that there is a lease which a change is attached to. What its TTL is may be told later.
func (a *applier) used(id int64) error {
	if a.leases.Get(bigEndian(id)) != nil {
		return nil
	}
	return a.putLease(id, 0)
}

// granted tells the TTL of a lease. It is of no interest if nothing uses the lease up to here, or if the snapshot knows it.
func (a *applier) granted(l etcdhistory.Lease) error {
	known, err := parseLease(a.leases.Get(bigEndian(l.ID)))
	if err != nil {
		return err
	}
	if known == nil || known.TTL != 0 {
		return nil
	}
	return a.putLease(l.ID, l.TTL)
}

func (a *applier) putLease(id, ttl int64) error {
	raw, err := proto.Marshal(&leasepb.Lease{ID: id, TTL: ttl})
	if err != nil {
		return fmt.Errorf("encode a lease: %w", err)
	}
	a.changes++
	if err := a.leases.Put(bigEndian(id), raw); err != nil {
		return fmt.Errorf("write a lease to the database: %w", err)
	}
	return nil
}

func parseLease(raw []byte) (*leasepb.Lease, error) {
	if raw == nil {
		return nil, nil //nolint:nilnil // There is none, and that is no error.
	}
	l := &leasepb.Lease{}
	if err := proto.Unmarshal(raw, l); err != nil {
		return nil, fmt.Errorf("%w: a lease cannot be read: %w", ErrDamaged, err)
	}
	return l, nil
}

// end gives leases a TTL that nobody knows that of.
func (a *applier) end() error {
	if err := a.commit(); err != nil {
		return err
	}
	var unknown []int64
	err := a.db.View(func(tx *bbolt.Tx) error {
		leases := tx.Bucket(bucketLease)
		if leases == nil {
			return nil
		}
		return leases.ForEach(func(_, raw []byte) error {
			l, err := parseLease(raw)
			if err == nil && l.TTL == 0 {
				unknown = append(unknown, l.ID)
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	for _, id := range unknown {
		if err := a.begin(); err != nil {
			return err
		}
		if err := a.putLease(id, LeaseTTL); err != nil {
			return err
		}
	}
	a.result.UnknownLeases = len(unknown)
	return a.commit()
}
