// Package etcdsnapshot takes snapshots of etcd members and proves that they are whole. Data goes straight from the member to
// where it is kept, in pieces: how much memory that takes does not depend on its size. The package decides neither which member
// is asked nor when.
package etcdsnapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrDamaged is what Stream and Verify return for data that is not the whole snapshot that a member sent.
var ErrDamaged = errors.New("the snapshot is damaged")

// Source is a client of one member. The client of etcd is one, if it has a single endpoint.
type Source interface {
	SnapshotWithVersion(ctx context.Context) (*clientv3.SnapshotResponse, error)
}

// Content is what a snapshot holds.
type Content struct {
	// Size in bytes, including the checksum at the end.
	Size int64
	// SHA256 of the database, in hexadecimal. etcd appends it to the stream, and etcdutl checks it when it restores.
	SHA256 string
	// Revision of the newest change in it. Stream does not know it.
	Revision int64
}

// Stream copies a snapshot of a member to w, and fails when what arrived is not what the member sent.
func Stream(ctx context.Context, member Source, w io.Writer) (Content, error) {
	response, err := member.SnapshotWithVersion(ctx)
	if err != nil {
		return Content{}, fmt.Errorf("ask for a snapshot: %w", err)
	}
	defer func() { _ = response.Snapshot.Close() }()
	sum := newTrailer()
	size, err := io.Copy(io.MultiWriter(w, sum), response.Snapshot)
	if err != nil {
		return Content{}, fmt.Errorf("copy the snapshot, after %d bytes: %w", size, err)
	}
	return sum.content(size)
}

// Verify reads a snapshot back from a file and proves that it can be restored: its checksum is right, it opens as a database of
// etcd's, and every page of that is in its place.
func Verify(path string) (Content, error) {
	content, err := checksum(path)
	if err != nil {
		return content, err
	}
	db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return content, fmt.Errorf("%w: it does not open as a database: %w", ErrDamaged, err)
	}
	defer func() { _ = db.Close() }()
	err = db.View(func(tx *bolt.Tx) error {
		if err := walk(tx); err != nil {
			return err
		}
		if err := check(tx); err != nil {
			return err
		}
		content.Revision, err = revision(tx)
		return err
	})
	return content, err
}

func checksum(path string) (Content, error) {
	f, err := os.Open(path) //nolint:gosec // The path is the caller's to choose.
	if err != nil {
		return Content{}, fmt.Errorf("read the snapshot back: %w", err)
	}
	defer func() { _ = f.Close() }()
	sum := newTrailer()
	size, err := io.Copy(sum, f)
	if err != nil {
		return Content{}, fmt.Errorf("read the snapshot back: %w", err)
	}
	return sum.content(size)
}

// walk reads every page that belongs to a key. The database panics at one that is not what it should be, also in a goroutine of its own
// that check starts and nobody can recover: so what panics has to do so here.
func walk(tx *bolt.Tx) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if flaw := recover(); flaw != nil {
			err = fmt.Errorf("%w: the database is inconsistent: %v", ErrDamaged, flaw)
		}
	}()
	return tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
		return b.ForEach(func(_, _ []byte) error { return nil })
	})
}

// check returns the first flaw that the database's own check finds. It has to be heard to its end.
func check(tx *bolt.Tx) (first error) {
	for err := range tx.Check() {
		if first == nil {
			first = fmt.Errorf("%w: the database is inconsistent: %w", ErrDamaged, err)
		}
	}
	return first
}

// Buckets and keys of etcd's database (server/storage/schema in etcd).
var (
	bucketKey  = []byte("key")
	bucketMeta = []byte("meta")
	// compactions are the revisions up to which history was thrown away, or is to be.
	compactions = [][]byte{[]byte("scheduledCompactRev"), []byte("finishedCompactRev")}
)

// revisionBytes is how long a revision is that counts the changes of all keys: the beginning of a key in the database.
const revisionBytes = 8

// revision is that of the newest change. A compaction may have thrown it away, when it deleted something.
func revision(tx *bolt.Tx) (int64, error) {
	keys, meta := tx.Bucket(bucketKey), tx.Bucket(bucketMeta)
	if keys == nil || meta == nil {
		return 0, fmt.Errorf("%w: it is no database of etcd: there are no buckets key and meta", ErrDamaged)
	}
	last, _ := keys.Cursor().Last()
	newest := int64(1) // That of an etcd which nobody has written to.
	for _, raw := range [][]byte{last, meta.Get(compactions[0]), meta.Get(compactions[1])} {
		if len(raw) < revisionBytes {
			continue
		}
		newest = max(newest, int64(binary.BigEndian.Uint64(raw))) //nolint:gosec // etcd counts in int64 itself.
	}
	return newest, nil
}

// trailer computes the checksum of all but the last bytes that it is given, which are the checksum that was sent.
type trailer struct {
	hash hash.Hash
	last []byte
}

func newTrailer() *trailer {
	return &trailer{hash: sha256.New(), last: make([]byte, 0, 2*sha256.Size)}
}

// Write never fails.
func (t *trailer) Write(p []byte) (int, error) {
	written := len(p)
	if cut := len(p) - sha256.Size; cut > 0 {
		t.hash.Write(t.last)
		t.hash.Write(p[:cut])
		t.last, p = t.last[:0], p[cut:]
	}
	t.last = append(t.last, p...)
	if cut := len(t.last) - sha256.Size; cut > 0 {
		t.hash.Write(t.last[:cut])
		t.last = append(t.last[:0], t.last[cut:]...)
	}
	return written, nil
}

func (t *trailer) content(size int64) (Content, error) {
	sum := t.hash.Sum(nil)
	// A database consists of whole pages, so a checksum is missing where the size does not tell that one follows them.
	if size%512 != sha256.Size || !bytes.Equal(sum, t.last) {
		return Content{}, fmt.Errorf("%w: after %d bytes its checksum is wrong or missing", ErrDamaged, size)
	}
	return Content{Size: size, SHA256: hex.EncodeToString(sum)}, nil
}
