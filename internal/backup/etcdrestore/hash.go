package etcdrestore

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/maphash"

	"go.etcd.io/bbolt"
)

// ErrNotComparable is returned by HashKV for a database of which etcd's own hash cannot be told.
var ErrNotComparable = errors.New("the hash cannot be told")

// maxChanged bounds what HashKV remembers: about 40 MB.
const maxChanged = 1_000_000

// HashKV computes what etcd, with this database, tells as its HashKV up to a revision, and the revision up to which it was compacted:
// only with that equal are the hashes of two members comparable. It is ErrNotComparable in the middle of a compaction, and with more than
// a million changes since the last one.
//
// etcd leaves out what a compaction at that revision would delete, but only of what was there at the last compaction
// (server/storage/mvcc/hash.go in etcd).
func HashKV(ctx context.Context, path string, revision int64) (hash uint32, compacted int64, err error) {
	err = readOnly(path, func(tx *bbolt.Tx) error {
		if _, _, err := about(tx); err != nil {
			return err
		}
		meta := tx.Bucket(bucketMeta)
		compacted = mainRevision(meta.Get(metaFinishedCompact))
		if mainRevision(meta.Get(metaScheduledCompact)) > compacted {
			return fmt.Errorf("%w: a compaction is not finished", ErrNotComparable)
		}
		h := hasher{ctx: ctx, keys: tx.Bucket(bucketKey), compacted: compacted, revision: revision, superseded: map[uint64]struct{}{}}
		hash, err = h.sum()
		return err
	})
	return hash, compacted, err
}

type hasher struct {
	ctx                 context.Context //nolint:containedctx // It is that of the one call that this is for.
	keys                *bbolt.Bucket
	compacted, revision int64
	// superseded are the keys, as hashes, that changed after the compaction.
	superseded map[uint64]struct{}
}

func (h *hasher) sum() (uint32, error) {
	live, err := h.changed()
	if err != nil {
		return 0, err
	}
	sum := crc32.Checksum(bucketKey, castagnoli)
	err = h.each(func(revision int64, tombstone bool, key, k, v []byte) {
		if revision <= h.compacted && live {
			if _, gone := h.superseded[maphash.Bytes(seed, key)]; gone {
				return
			}
		}
		// Older versions delete the last tombstone with a compaction and newer ones do not: it does not count.
		if revision != h.compacted || !tombstone {
			sum = crc32.Update(crc32.Update(sum, castagnoli, k), castagnoli, v)
		}
	})
	return sum, err
}

// changed collects what changed after the compaction, and tells whether there is any key at the revision: if not, etcd leaves nothing out.
func (h *hasher) changed() (live bool, err error) {
	if h.compacted == 0 {
		return false, nil // There was none, so there is nothing to leave out.
	}
	c := newCounter(h.compacted, h.compacted)
	err = h.each(func(revision int64, _ bool, key, k, v []byte) {
		_ = c.record(k, v) // each has read it already.
		if revision > h.compacted && len(h.superseded) <= maxChanged {
			h.superseded[maphash.Bytes(seed, key)] = struct{}{}
		}
	})
	if err == nil && len(h.superseded) > maxChanged {
		err = fmt.Errorf("%w: more than %d keys changed since revision %d", ErrNotComparable, maxChanged, h.compacted)
	}
	return c.Keys > 0, err
}

// each calls for all changes up to the revision.
func (h *hasher) each(call func(revision int64, tombstone bool, key, k, v []byte)) error {
	c, n := h.keys.Cursor(), 0
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if n++; n%10_000 == 0 && h.ctx.Err() != nil {
			return fmt.Errorf("read the database: %w", context.Cause(h.ctx))
		}
		revision, tombstone, ok := parseRevision(k)
		key, _, valid := kvFields(v)
		if !ok || !valid {
			return fmt.Errorf("%w: a change is stored under %x that etcd could not read", ErrDamaged, k)
		}
		if revision > h.revision {
			return nil
		}
		call(revision, tombstone, key, k, v)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seed of hashes that tell keys apart.
var seed = maphash.MakeSeed()
