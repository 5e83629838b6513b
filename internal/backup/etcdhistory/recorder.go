package etcdhistory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"github.com/quorate/quorate/internal/goroutine"
)

// Recorder records the history of one etcd. It holds at most two segments in memory, one that grows and one on its way to the store, and
// what etcd sends at once: a revision is never divided. While the store does not take segments, nothing is read from etcd; afterwards the
// recorder goes on with the next revision, if etcd still has it.
//
//	etcd --watch--> growing segment --full or Interval over--> segment --until it is there--> Store
type Recorder struct {
	// Client of the etcd, as a user that may read everything.
	Client *clientv3.Client
	Store  Store
	// Timeline of the history, see Name.
	Timeline string
	// Interval is how long a change is kept before it is put away; 0 is 10 s.
	Interval time.Duration
	// Size in bytes from which a segment is put away at once; 0 is 8 MiB.
	Size int
	// Grace is how long Run goes on trying to put the last segment away when it has to end; 0 is 10 s.
	Grace time.Duration
	// Clock dates the changes; nil is the system's.
	Clock clock.WithTicker

	// mu guards status and marks.
	mu     sync.Mutex
	status Status
	marks  []mark

	growing *growing
	partial []*mvccpb.Event
	cluster uint64
	leases  leases
	// gapAt is a revision behind which the last watch left some out.
	gapAt int64
	// idle has a token while the uploader waits for a segment.
	idle   chan struct{}
	upload chan sealed
}

// Status is how far a Recorder is.
type Status struct {
	// Source is the newest revision that the etcd was seen to have, Recorded the newest one that arrived here, and Durable the newest one
	// that is in the store.
	Source, Recorded, Durable int64
	// DurableTime is when the etcd was asked which revision is the newest, for the newest answer that is in the store: whatever was
	// acknowledged before is safe. It also proceeds when nothing is written. Zero: not known yet.
	DurableTime time.Time
	// StoreErr, WatchErr and AskErr are what went wrong last with the store, with the watch, and with asking for the newest revision. Each
	// is nil once that works again.
	StoreErr, WatchErr, AskErr error
}

// Behind is how many revisions of the etcd are not in the store.
func (s Status) Behind() int64 { return max(0, s.Source-s.Durable) }

// mark says that everything acknowledged before a time is in the revisions up to this one.
type mark struct {
	at       time.Time
	revision int64
}

// growing is the segment that changes are added to.
type growing struct {
	buffer bytes.Buffer
	writer *writer
	from   int64
	// ripe tells when the segment has to be put away, once.
	ripe <-chan time.Time
	due  bool
}

// sealed is a segment that is to be stored.
type sealed struct {
	name Name
	data []byte
}

const (
	defaultInterval = 10 * time.Second
	defaultSize     = 8 << 20
	defaultGrace    = 10 * time.Second
	// firstBackoff and lastBackoff are the pauses before something is tried again.
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 10 * time.Second
	// callTimeout is for a question to etcd, and putTimeout for the attempt to store one segment.
	callTimeout = 5 * time.Second
	putTimeout  = time.Minute
)

// Status tells how far the recorder is. It may be called at any time.
func (r *Recorder) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

func (r *Recorder) note(change func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
	// What is durable has a time as soon as it includes what a mark asks for.
	for len(r.marks) > 0 && r.marks[0].revision <= r.status.Durable {
		r.status.DurableTime = r.marks[0].at
		r.marks = r.marks[1:]
	}
}

// Run records everything after the revision base, which a full snapshot has to hold, or after what segments in the store already lead to
// from there, or to before it. It ends when ctx does, with nil, or with a CompactedError, ErrGap or ErrDiverged, after which recording has to begin anew
// from another full snapshot; everything else it tries again, and tells in Status. A Recorder runs once.
func (r *Recorder) Run(ctx context.Context, base int64) error {
	if !timelines.MatchString(r.Timeline) {
		return fmt.Errorf("%q cannot be the name of a timeline", r.Timeline)
	}
	if base < 1 {
		return fmt.Errorf("no etcd has the revision %d", base)
	}
	r.setDefaults()
	from, err := r.resume(ctx, base)
	if err != nil {
		return nil // ctx has ended before there was anything to do.
	}
	r.note(func(s *Status) { s.Recorded, s.Durable = from, from })

	uploading, stopUploading := context.WithCancel(context.WithoutCancel(ctx))
	defer stopUploading()
	running, stop := context.WithCancelCause(ctx)
	uploaded, marking := make(chan struct{}), make(chan struct{})
	goroutine.Go(func() error {
		r.uploadAll(uploading)
		return nil
	}, func(err error) {
		stop(err)
		close(uploaded)
	})
	goroutine.Go(func() error { return r.markAll(running) }, func(err error) {
		stop(err)
		close(marking)
	})
	err = r.record(running)
	stop(nil)
	<-marking

	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Grace)
	defer cancel()
	r.flushLast(grace)
	close(r.upload)
	defer context.AfterFunc(grace, stopUploading)()
	<-uploaded
	return err
}

func (r *Recorder) setDefaults() {
	if r.Interval == 0 {
		r.Interval = defaultInterval
	}
	if r.Size == 0 {
		r.Size = defaultSize
	}
	if r.Grace == 0 {
		r.Grace = defaultGrace
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	r.leases = leases{client: r.Client, seen: map[int64]bool{}}
	r.idle, r.upload = make(chan struct{}, 1), make(chan sealed, 1)
}

// resume finds the revision after which to begin: what is stored leads to it from the full snapshot, or it is the newest that is stored and from
// before the snapshot, if the etcd still has what came after it. Otherwise there would be a hole that no later recording fills.
func (r *Recorder) resume(ctx context.Context, base int64) (from int64, err error) {
	err = r.retry(ctx, func(ctx context.Context) error {
		objects, err := r.Store.List(ctx, Prefix(r.Timeline))
		r.note(func(s *Status) { s.StoreErr = err })
		if err != nil {
			return err
		}
		stored := Names(objects, r.Timeline)
		from = Latest(stored, base)
		last := newest(stored)
		if last == 0 || last >= base {
			return nil
		}
		kept, err := r.kept(ctx, last+1)
		r.note(func(s *Status) { s.AskErr = err })
		if kept {
			from = last
		}
		return err
	})
	return from, err
}

// kept asks the etcd whether it has a revision and what came after it.
func (r *Recorder) kept(ctx context.Context, revision int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := r.Client.Get(ctx, "\x00", clientv3.WithCountOnly(), clientv3.WithRev(revision))
	switch {
	case errors.Is(err, rpctypes.ErrCompacted), errors.Is(err, rpctypes.ErrFutureRev): // It never had the latter: this is another history.
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ask for revision %d: %w", revision, err)
	}
	return true, nil
}

// retry calls until it succeeds or ctx ends, which alone is an error.
func (r *Recorder) retry(ctx context.Context, call func(context.Context) error) error {
	for pause := firstBackoff; ; pause = min(2*pause, lastBackoff) {
		attempt, cancel := context.WithTimeout(ctx, putTimeout)
		err := call(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if err := r.sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func (r *Recorder) sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-r.Clock.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// uploadAll stores one segment after the other.
func (r *Recorder) uploadAll(ctx context.Context) {
	for {
		r.idle <- struct{}{}
		s, more := <-r.upload
		if !more {
			return
		}
		err := r.retry(ctx, func(ctx context.Context) error {
			err := r.Store.Put(ctx, s.name.String(), bytes.NewReader(s.data))
			if err != nil {
				err = fmt.Errorf("store %s: %w", s.name, err)
			}
			r.note(func(s *Status) { s.StoreErr = err })
			return err
		})
		if err != nil {
			return
		}
		r.note(func(status *Status) { status.Durable = s.name.To })
	}
}

// flushLast hands over what is not stored yet, when the uploader can still take it.
func (r *Recorder) flushLast(ctx context.Context) {
	if r.growing == nil {
		return
	}
	select {
	case <-r.idle:
		_ = r.seal()
	case <-ctx.Done():
	}
}

// seal hands the growing segment to the uploader, which has to be idle.
func (r *Recorder) seal() error {
	g := r.growing
	r.growing = nil
	if err := g.writer.finish(); err != nil {
		return err
	}
	r.upload <- sealed{Name{r.Timeline, g.from, g.writer.last}, g.buffer.Bytes()}
	return nil
}

// markAll asks the etcd, time and again, for its newest revision by a linearizable read: what was acknowledged before the question is
// in it. It ends with ErrDiverged, or when ctx does.
func (r *Recorder) markAll(ctx context.Context) error {
	for {
		at, recorded := r.Clock.Now(), r.Status().Recorded
		revision, err := r.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			r.note(func(s *Status) { s.AskErr = err })
		case revision < recorded:
			return fmt.Errorf("%w: the etcd is at revision %d, and was at %d before", ErrDiverged, revision, recorded)
		default:
			r.mark(mark{at, revision})
		}
		if err := r.sleep(ctx, r.Interval/4); err != nil {
			return err
		}
	}
}

func (r *Recorder) ask(ctx context.Context) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := r.Client.Get(ctx, "\x00", clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("ask for the newest revision: %w", err)
	}
	if response.Header == nil { // Revision 0 would look like another history.
		return 0, errors.New("ask for the newest revision: the answer has no header")
	}
	return response.Header.Revision, nil
}

// maxMarks bounds what is remembered while nothing becomes durable.
const maxMarks = 100

func (r *Recorder) mark(m mark) {
	r.mu.Lock()
	if len(r.marks) == maxMarks {
		r.marks = r.marks[:maxMarks-1]
	}
	r.marks = append(r.marks, m)
	r.mu.Unlock()
	r.note(func(s *Status) {
		s.AskErr = nil
		s.Source = max(s.Source, m.revision)
	})
}

// permanent tells whether it is of no use to watch again.
func permanent(err error) bool {
	var compacted *CompactedError
	return errors.As(err, &compacted) || errors.Is(err, ErrDiverged)
}
