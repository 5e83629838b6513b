package etcdhistory

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// A segment is a sequence of records after a magic number and the version of the format, a byte:
//
//	record    kind (a byte), length of the content (uvarint), content
//	H header    timeline (length as uvarint, text), from (uvarint), began (varint, ns since 1970)
//	R revision  revision (uvarint), time (varint, ns since 1970); the changes that follow are its changes, in order
//	P put       an mvccpb.KeyValue, as etcd stores it
//	D delete    the key
//	L lease     ID (varint), TTL (varint, s)
//	E end       last revision (uvarint), number of changes (uvarint), SHA-256 of all bytes before this record
//
// H is the first record and E the last, with nothing behind it. The revisions begin with the one after from, and none is left out.
const (
	magic         = "QETCDLOG"
	formatVersion = 1

	recordHeader   = 'H'
	recordRevision = 'R'
	recordPut      = 'P'
	recordDelete   = 'D'
	recordLease    = 'L'
	recordEnd      = 'E'

	// maxRecord is more than a request to etcd can be (1.5 MiB unless --max-request-bytes says otherwise).
	maxRecord = 256 << 20
)

var errOrder = errors.New("a segment's revisions have to follow each other")

// writer writes one segment.
type writer struct {
	to      io.Writer
	sum     hash.Hash
	last    int64
	changes uint64
	scratch []byte
	err     error
}

// newWriter begins a segment. Errors of w are told by finish.
func newWriter(w io.Writer, h Header) *writer {
	s := &writer{to: w, sum: sha256.New(), last: h.From}
	s.raw(append([]byte(magic), formatVersion))
	content := binary.AppendUvarint(nil, uint64(len(h.Timeline)))
	content = append(content, h.Timeline...)
	content = binary.AppendUvarint(content, uint64(h.From)) //nolint:gosec // Revisions are not negative.
	s.record(recordHeader, binary.AppendVarint(content, h.Began.UnixNano()))
	return s
}

func (s *writer) raw(p []byte) {
	if s.err == nil {
		s.sum.Write(p)
		_, s.err = s.to.Write(p)
	}
}

func (s *writer) record(kind byte, content []byte) {
	s.raw(binary.AppendUvarint([]byte{kind}, uint64(len(content))))
	s.raw(content)
}

// revision begins the next revision.
func (s *writer) revision(revision int64, at time.Time) {
	if s.err == nil && revision != s.last+1 {
		s.err = fmt.Errorf("%w: %d after %d", errOrder, revision, s.last)
	}
	s.last = revision
	s.scratch = binary.AppendUvarint(s.scratch[:0], uint64(revision)) //nolint:gosec // Revisions are not negative.
	s.scratch = binary.AppendVarint(s.scratch, at.UnixNano())
	s.record(recordRevision, s.scratch)
}

// put adds a change to the current revision.
func (s *writer) put(kv *mvccpb.KeyValue) {
	content, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(s.scratch[:0], kv)
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("encode a change: %w", err)
	}
	s.scratch = content
	s.changes++
	s.record(recordPut, content)
}

// delete adds a change to the current revision.
func (s *writer) delete(key []byte) {
	s.changes++
	s.record(recordDelete, key)
}

func (s *writer) lease(l Lease) {
	s.scratch = binary.AppendVarint(s.scratch[:0], l.ID)
	s.record(recordLease, binary.AppendVarint(s.scratch, l.TTL))
}

// finish writes the end.
func (s *writer) finish() error {
	content := binary.AppendUvarint(nil, uint64(s.last)) //nolint:gosec // Revisions are not negative.
	content = binary.AppendUvarint(content, s.changes)
	s.record(recordEnd, s.sum.Sum(content))
	if s.err != nil {
		return fmt.Errorf("write a segment: %w", s.err)
	}
	return nil
}
