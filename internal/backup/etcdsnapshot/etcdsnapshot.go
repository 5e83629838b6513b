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

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrDamaged is what Stream returns for data that is not the whole snapshot that a member sent.
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
