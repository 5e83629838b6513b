// Package etcdhistory keeps what changes in an etcd after a full snapshot, so that a store can be restored as it was at any revision or
// time: the increments of a backup.
//
//	Recorder  watches everything and puts the changes away in segments, each within seconds
//	Chain     says which segments lead from a snapshot to a revision
//	Replay    reads them back, one change after the other
//	Merge     makes few large segments out of many small ones
//
// The package knows a Store for whole objects, which it declares itself, and nothing of where that keeps them; it decides neither when
// a full snapshot is taken nor what is kept.
//
// Every revision of etcd changes something (a transaction that does not gets none), so the revisions of a whole history have no holes.
// All parts of this package rely on that to prove that nothing is missing.
package etcdhistory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

var (
	// ErrDamaged is returned for a segment that is not, to the byte, what was written.
	ErrDamaged = errors.New("the segment is damaged")
	// ErrNewer is returned for a segment in a format that this version does not know.
	ErrNewer = errors.New("the segment is of a newer format")
	// ErrGap is returned when revisions are missing between segments, or where a watch leaves some out.
	ErrGap = errors.New("revisions are missing")
	// ErrDiverged is returned when the etcd that is watched is not, or no longer, the one whose history is recorded: it has another
	// cluster ID, or is at a lower revision than before. A restore in place does that. A new timeline has to begin, with a full snapshot.
	ErrDiverged = errors.New("this is another history")
)

// CompactedError is what a Recorder returns when the etcd has thrown away changes that were not recorded yet. A full snapshot is
// necessary, after which recording can begin with its revision.
type CompactedError struct {
	// Need is the first revision that is necessary.
	Need int64
	// Compacted is the revision up to which, exclusively, changes are gone.
	Compacted int64
}

func (e *CompactedError) Error() string {
	return fmt.Sprintf("the changes from revision %d on are needed, and the etcd was compacted up to %d", e.Need, e.Compacted)
}

// Store keeps objects under names with slashes. Its errors are taken for temporary by the Recorder.
type Store interface {
	// Put makes an object of what it reads. Afterwards, and never before, the object is there, whole; an object of the same name is
	// replaced. The reader's error is an error of Put, and nothing is there then.
	Put(ctx context.Context, name string, r io.Reader) error
	// List returns the objects whose names begin with the prefix, in any order.
	List(ctx context.Context, prefix string) ([]Object, error)
	// Open reads an object.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Delete removes an object. That it is not there is no error.
	Delete(ctx context.Context, name string) error
}

// Object is an entry of a Store.
type Object struct {
	Name string
	// Size in bytes.
	Size int64
}

// Kind tells what a Record is.
type Kind byte

const (
	// Put is a key's new value.
	Put Kind = iota + 1
	// Delete is a key's end.
	Delete
	// Granted is a lease that a change in the same segment was the first to use.
	Granted
	// Beyond says that there is a change after the target of a replay: nothing was left out that belongs to it. It ends the replay.
	Beyond
)

// Record is one entry of a segment.
type Record struct {
	Kind Kind
	// Revision and Sub tell the changes of etcd apart: Sub counts those of one revision, from 0.
	Revision, Sub int64
	// Time is when the revision was recorded, by the clock of the recorder.
	Time time.Time
	// KV is what etcd stores for the change: of a Delete it has the key only.
	KV *mvccpb.KeyValue
	// Lease of a Granted.
	Lease Lease
}

// Lease is what can be told of a lease.
type Lease struct {
	ID int64
	// TTL in seconds that it was granted with, 0 if nobody could tell: it was gone before it could be asked for.
	TTL int64
}

// Header begins a segment.
type Header struct {
	// Timeline is whose history this is.
	Timeline string
	// From is the revision before the first one in the segment.
	From int64
	// Began is when the segment was begun, by the clock of the recorder.
	Began time.Time
}

// Target is where a replay ends: after a Revision, or with the newest one that is not later than Time, or, if both are zero, at the end.
type Target struct {
	Revision int64
	Time     time.Time
}

// excludes tells whether a revision is beyond the target.
func (t Target) excludes(revision int64, at time.Time) bool {
	return t.Revision != 0 && revision > t.Revision || !t.Time.IsZero() && at.After(t.Time)
}
