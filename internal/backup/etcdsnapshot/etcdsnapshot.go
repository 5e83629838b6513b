// Package etcdsnapshot copies snapshots of etcd members, and finds out whether what arrived is what the member sent. Data goes straight
// from the member to where it is kept, in pieces: how much memory that takes does not depend on its size. The package decides neither
// which member is asked nor when.
package etcdsnapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/readahead"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrDamaged is what Stream returns for data that is not the whole snapshot that a member sent.
var ErrDamaged = errors.New("the snapshot is damaged")

// Source is a client of one member. The client of etcd is one, if it has a single endpoint.
type Source interface {
	SnapshotWithVersion(ctx context.Context) (*clientv3.SnapshotResponse, error)
}

// The member sends so many pieces of so many bytes while earlier ones are hashed and written.
const (
	aheadPieces = 8
	aheadSize   = 256 << 10
)

// Content is what a snapshot holds.
type Content struct {
	// Size in bytes, including the checksum at the end.
	Size int64
	// SHA256 of the database, in hexadecimal. etcd appends it to the stream, and etcdutl checks it when it restores.
	SHA256 string
	// Revision of the newest change in it. Stream does not know it.
	Revision int64
}

// Hasher is a writer that hashes what it is given with SHA-256. Sum appends the hash of all that was written so far to b, and changes nothing.
type Hasher interface {
	io.Writer
	Sum(b []byte) []byte
}

type hasher struct {
	io.Writer
	hash hash.Hash
}

func (h *hasher) Write(p []byte) (int, error) {
	n, err := h.Writer.Write(p)
	h.hash.Write(p[:n])
	return n, err
}

func (h *hasher) Sum(b []byte) []byte { return h.hash.Sum(b) }

// Stream copies a snapshot of a member to w, and fails when what arrived is not what the member sent. If w is a Hasher, nothing must have
// been written to it before, and the snapshot is not hashed again.
func Stream(ctx context.Context, member Source, w io.Writer) (Content, error) {
	to, ok := w.(Hasher)
	if !ok {
		to = &hasher{w, sha256.New()}
	}
	response, err := member.SnapshotWithVersion(ctx)
	if err != nil {
		return Content{}, fmt.Errorf("ask for a snapshot: %w", err)
	}
	ahead, err := readahead.NewReaderSize(response.Snapshot, aheadPieces, aheadSize)
	if err != nil {
		return Content{}, errors.Join(err, response.Snapshot.Close())
	}
	defer func() {
		_ = response.Snapshot.Close() // First: it ends a read that goes on.
		_ = ahead.Close()
	}()
	end := &trailer{to: to, last: make([]byte, 0, 2*sha256.Size)}
	size, err := io.Copy(end, ahead)
	if err != nil {
		return Content{}, fmt.Errorf("copy the snapshot, after %d bytes: %w", size, err)
	}
	return end.content(size)
}

// trailer passes on all but the last bytes that it is given: they are the checksum of the others, as it was sent.
type trailer struct {
	to   Hasher
	last []byte
}

func (t *trailer) Write(p []byte) (int, error) {
	head := p[:max(0, len(p)-sha256.Size)]
	keep := max(0, sha256.Size-len(p)) // So much of what is held back stays the last.
	if cut := len(t.last) - keep; cut > 0 {
		if _, err := t.to.Write(t.last[:cut]); err != nil {
			return 0, err
		}
		t.last = append(t.last[:0], t.last[cut:]...)
	}
	if len(head) > 0 {
		if _, err := t.to.Write(head); err != nil {
			return 0, err
		}
	}
	t.last = append(t.last, p[len(head):]...)
	return len(p), nil
}

// content compares the checksum, and passes it on as well.
func (t *trailer) content(size int64) (Content, error) {
	sum := t.to.Sum(nil)
	// A database consists of whole pages, so a checksum is missing where the size does not tell that one follows them.
	if size%512 != sha256.Size || !bytes.Equal(sum, t.last) {
		return Content{}, fmt.Errorf("%w: after %d bytes its checksum is wrong or missing", ErrDamaged, size)
	}
	if _, err := t.to.Write(t.last); err != nil {
		return Content{}, fmt.Errorf("copy the checksum of the snapshot: %w", err)
	}
	return Content{Size: size, SHA256: hex.EncodeToString(sum)}, nil
}
