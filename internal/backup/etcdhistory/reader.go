package etcdhistory

import (
	"bufio"
	"bytes"
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

// Reader reads one segment. It never takes more memory than the largest record that is really there.
type Reader struct {
	from    *bufio.Reader
	sum     hash.Hash
	content bytes.Buffer
	header  Header

	current Record
	changes uint64
	ended   bool
}

// NewReader reads the beginning of a segment. Whether the segment is whole is known when Next has returned io.EOF, not before.
func NewReader(r io.Reader) (*Reader, error) {
	s := &Reader{from: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	start := make([]byte, len(magic)+1)
	if _, err := io.ReadFull(s.from, start); err != nil {
		return nil, cut(err)
	}
	s.sum.Write(start)
	if string(start[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: it does not begin like one", ErrDamaged)
	}
	if start[len(magic)] != formatVersion {
		return nil, fmt.Errorf("%w: %d, where %d is the newest known", ErrNewer, start[len(magic)], formatVersion)
	}
	kind, content, err := s.record()
	if err != nil {
		return nil, err
	}
	f := fields{rest: content}
	s.header = Header{Timeline: string(f.bytes()), From: f.revision(), Began: f.time()}
	if kind != recordHeader || !f.done() || !timelines.MatchString(s.header.Timeline) {
		return nil, fmt.Errorf("%w: its header is not one", ErrDamaged)
	}
	s.current.Revision = s.header.From
	return s, nil
}

// Header of the segment.
func (s *Reader) Header() Header { return s.header }

// Last is the newest revision that Next has returned something of.
func (s *Reader) Last() int64 { return s.current.Revision }

// Next returns the next change or lease, and io.EOF after the last one of a segment that is whole.
func (s *Reader) Next() (Record, error) {
	if s.ended {
		return Record{}, io.EOF
	}
	for {
		kind, content, err := s.record()
		if err != nil {
			return Record{}, err
		}
		switch kind {
		case recordRevision:
			err = s.revision(content)
		case recordPut, recordDelete:
			return s.change(kind, content)
		case recordLease:
			return s.lease(content)
		case recordEnd:
			return Record{}, s.end(content)
		default:
			err = fmt.Errorf("%w: a record of kind %#x", ErrDamaged, kind)
		}
		if err != nil {
			return Record{}, err
		}
	}
}

// record reads the next record. The content is valid until the next call.
func (s *Reader) record() (kind byte, content []byte, err error) {
	if kind, err = s.from.ReadByte(); err != nil {
		return 0, nil, cut(err)
	}
	length, err := s.length()
	if err != nil {
		return 0, nil, err
	}
	s.content.Reset()
	// The buffer grows with what arrives, not with what the length promises.
	if _, err := io.CopyN(&s.content, s.from, int64(length)); err != nil { //nolint:gosec // It is at most maxRecord.
		return 0, nil, cut(err)
	}
	if kind != recordEnd { // Which holds the sum of what is before it.
		s.sum.Write(binary.AppendUvarint([]byte{kind}, length))
		s.sum.Write(s.content.Bytes())
	}
	return kind, s.content.Bytes(), nil
}

// length reads that of a record.
func (s *Reader) length() (uint64, error) {
	raw := make([]byte, 0, binary.MaxVarintLen64)
	for more := true; more && len(raw) < binary.MaxVarintLen64; more = raw[len(raw)-1] >= 0x80 {
		b, err := s.from.ReadByte()
		if err != nil {
			return 0, cut(err)
		}
		raw = append(raw, b)
	}
	length, n := binary.Uvarint(raw)
	if n <= 0 || length > maxRecord {
		return 0, fmt.Errorf("%w: a record of %d bytes", ErrDamaged, length)
	}
	return length, nil
}

// cut explains the error of a read inside a segment.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early", ErrDamaged)
	}
	return fmt.Errorf("read the segment: %w", err)
}

func (s *Reader) revision(content []byte) error {
	f := fields{rest: content}
	next := Record{Revision: f.revision(), Time: f.time(), Sub: -1}
	if !f.done() || next.Revision != s.current.Revision+1 || !s.complete() {
		return fmt.Errorf("%w: revision %d after %d", ErrDamaged, next.Revision, s.current.Revision)
	}
	s.current = next
	return nil
}

// complete tells whether the current revision has a change.
func (s *Reader) complete() bool { return s.current.Revision == s.header.From || s.current.Sub >= 0 }

func (s *Reader) change(kind byte, content []byte) (Record, error) {
	if s.current.Revision == s.header.From {
		return Record{}, fmt.Errorf("%w: a change outside of a revision", ErrDamaged)
	}
	s.current.Sub++
	s.changes++
	out := s.current
	if kind == recordDelete {
		out.Kind, out.KV = Delete, &mvccpb.KeyValue{Key: bytes.Clone(content)}
	} else {
		out.Kind, out.KV = Put, &mvccpb.KeyValue{}
		if err := proto.Unmarshal(content, out.KV); err != nil {
			return Record{}, fmt.Errorf("%w: revision %d: %w", ErrDamaged, out.Revision, err)
		}
	}
	if !plausible(out) {
		return Record{}, fmt.Errorf("%w: revision %d has a change that etcd would not make", ErrDamaged, out.Revision)
	}
	return out, nil
}

// plausible checks a change by the rules of etcd's data model (https://etcd.io/docs/v3.6/learning/data_model/).
func plausible(r Record) bool {
	kv := r.KV
	if len(kv.Key) == 0 || len(kv.ProtoReflect().GetUnknown()) > 0 {
		return false
	}
	if r.Kind == Delete {
		return true
	}
	return kv.ModRevision == r.Revision && kv.CreateRevision > 0 && kv.CreateRevision <= r.Revision &&
		kv.Version > 0 && (kv.Version == 1) == (kv.CreateRevision == r.Revision)
}

func (s *Reader) lease(content []byte) (Record, error) {
	f := fields{rest: content}
	out := s.current
	out.Kind, out.Lease = Granted, Lease{ID: f.varint(), TTL: f.varint()}
	if !f.done() || out.Lease.TTL < 0 || out.Lease.ID == 0 {
		return Record{}, fmt.Errorf("%w: a lease that etcd would not grant", ErrDamaged)
	}
	return out, nil
}

// end compares what the last record says with what was read.
func (s *Reader) end(content []byte) error {
	f := fields{rest: content}
	last, changes := f.revision(), f.uvarint()
	if f.failed || !bytes.Equal(f.rest, s.sum.Sum(nil)) {
		return fmt.Errorf("%w: its checksum is wrong", ErrDamaged)
	}
	if last != s.current.Revision || changes != s.changes || !s.complete() {
		return fmt.Errorf("%w: it has %d changes up to revision %d, and says %d up to %d",
			ErrDamaged, s.changes, s.current.Revision, changes, last)
	}
	switch _, err := s.from.ReadByte(); {
	case err == nil:
		return fmt.Errorf("%w: something is behind its end", ErrDamaged)
	case !errors.Is(err, io.EOF):
		return cut(err)
	}
	s.ended = true
	return io.EOF
}

// fields takes the content of a record apart.
type fields struct {
	rest   []byte
	failed bool
}

func (f *fields) uvarint() uint64 {
	v, n := binary.Uvarint(f.rest)
	return taken(f, v, n)
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.rest)
	return taken(f, v, n)
}

func taken[T int64 | uint64](f *fields, v T, n int) T {
	if f.failed || n <= 0 {
		f.failed = true
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

func (f *fields) revision() int64 {
	v := int64(f.uvarint()) //nolint:gosec // What does not fit is negative, and fails.
	f.failed = f.failed || v < 0
	return v
}

func (f *fields) time() time.Time { return time.Unix(0, f.varint()).UTC() }

func (f *fields) bytes() []byte {
	n := f.uvarint()
	if f.failed || n > uint64(len(f.rest)) {
		f.failed = true
		return nil
	}
	out := f.rest[:n]
	f.rest = f.rest[n:]
	return out
}

// done tells whether all fields were there, and no more.
func (f *fields) done() bool { return !f.failed && len(f.rest) == 0 }
