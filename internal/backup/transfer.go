package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"

	"github.com/quorate/quorate/internal/goroutine"
)

// watch ends a context when one call on a stream takes too long: the store takes nothing, or gives nothing. Time between the calls is that
// of the other side, and does not count.
type watch struct {
	limit time.Duration
	timer *time.Timer
}

func newWatch(limit time.Duration, cancel context.CancelCauseFunc) watch {
	w := watch{limit: limit, timer: time.AfterFunc(limit, func() {
		cancel(fmt.Errorf("%w: nothing moved for %s", ErrStalled, limit))
	})}
	w.timer.Stop()
	return w
}

func (w watch) over(call func()) {
	w.timer.Reset(w.limit)
	defer w.timer.Stop()
	call()
}

// digest counts and hashes what flows, and tells a counter that others read.
type digest struct {
	hash  hash.Hash
	size  int64
	total *atomic.Int64
}

func newDigest(total *atomic.Int64) *digest { return &digest{hash: sha256.New(), total: total} }

func (d *digest) add(p []byte) {
	d.hash.Write(p)
	d.size += int64(len(p))
	d.total.Add(int64(len(p)))
}

func (d *digest) sum() string { return hex.EncodeToString(d.Sum(nil)) }

// Sum appends the hash of what has flowed so far to b.
func (d *digest) Sum(b []byte) []byte { return d.hash.Sum(b) }

// sink hashes what it passes on, and keeps the first error: whoever writes to it may not look at it. Compression writes from goroutines of
// its own, so the error has a lock; the digest is read when they have ended.
type sink struct {
	*digest
	to io.Writer

	mu  sync.Mutex
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	if err := s.failed(); err != nil {
		return 0, err
	}
	n, err := s.to.Write(p)
	s.add(p[:n])
	if err != nil {
		s.fail(err)
	}
	return n, err
}

func (s *sink) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail makes err the answer to every later write, unless there is one.
func (s *sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// upload writes an object under a watch. It is a pipe to Bucket.Upload, and no blob.Writer: with that one the driver for Azure panics when
// a store refuses what is written (its writer forgets the pipe that its Close closes).
type upload struct {
	watch
	cancel context.CancelCauseFunc
	w      *io.PipeWriter
	// done is closed when the client of the store has ended, with err.
	done chan struct{}
	err  error
}

func (s *Store) startUpload(ctx context.Context, path string) *upload {
	ctx, cancel := context.WithCancelCause(ctx)
	r, w := io.Pipe()
	u := &upload{watch: newWatch(s.stall, cancel), cancel: cancel, w: w, done: make(chan struct{})}
	goroutine.Go(func() error { return s.bucket.Upload(ctx, path, r, s.options(false)) }, func(err error) {
		u.err = classify(ctx, err)
		_ = r.CloseWithError(cmp.Or(u.err, io.ErrClosedPipe)) // Always nil.
		close(u.done)
	})
	return u
}

func (u *upload) Write(p []byte) (n int, err error) {
	u.over(func() { n, err = u.w.Write(p) })
	return n, err
}

// Close completes the object.
func (u *upload) Close() error {
	_ = u.w.Close() // Always nil.
	u.over(func() { <-u.done })
	u.cancel(nil)
	return u.err
}

// abort makes nothing of it. The context ends first: a driver that takes the end of the pipe for that of the object finds it ended.
func (u *upload) abort(reason error) {
	u.cancel(reason)
	_ = u.w.CloseWithError(reason) // Always nil.
	<-u.done
}

// download reads an object and goes on where it was when a connection breaks. Every opening of the object is one attempt of several that the
// client of the store makes by itself.
type download struct {
	ctx    context.Context // Read gets none.
	store  *Store
	path   string
	offset int64
	// fails counts the attempts since something was read last.
	fails int
	// What belongs to the connection that is open, if one is.
	r       *blob.Reader
	attempt context.Context // The same.
	cancel  context.CancelCauseFunc
	watch   watch
}

const (
	// maxFails is how often a download goes on where it was without getting anywhere.
	maxFails = 5
	// pause before the first of these attempts, doubled for each.
	pause = 200 * time.Millisecond
)

func (d *download) Read(p []byte) (int, error) {
	for {
		n, err := d.read(p)
		if n > 0 {
			d.offset, d.fails = d.offset+int64(n), 0
			if err != nil && !errors.Is(err, io.EOF) {
				err = nil // It comes again at the next call, or does not.
				d.drop()
			}
			return n, err
		}
		if err == nil || errors.Is(err, io.EOF) {
			return 0, err
		}
		if err := d.retry(err); err != nil {
			return 0, err
		}
	}
}

func (d *download) read(p []byte) (n int, err error) {
	if d.r == nil {
		if err := d.open(); err != nil {
			return 0, err
		}
	}
	d.watch.over(func() { n, err = d.r.Read(p) })
	if err != nil && !errors.Is(err, io.EOF) {
		err = classify(d.attempt, err)
	}
	return n, err
}

func (d *download) open() (err error) {
	d.attempt, d.cancel = context.WithCancelCause(d.ctx)
	d.watch = newWatch(d.store.stall, d.cancel)
	d.watch.over(func() { d.r, err = d.store.bucket.NewRangeReader(d.attempt, d.path, d.offset, -1, nil) })
	return classify(d.attempt, err)
}

// drop gives up the connection.
func (d *download) drop() {
	if d.r != nil {
		_ = d.r.Close() // Of something that is read, and failed already or is at its end.
		d.r = nil
	}
	if d.cancel != nil {
		d.cancel(nil)
	}
}

// retry waits before the next attempt, or says why there is none.
func (d *download) retry(err error) error {
	d.drop()
	d.fails++
	if d.ctx.Err() != nil || permanent(err) || d.fails > maxFails {
		return err
	}
	timer := time.NewTimer(pause << (d.fails - 1))
	defer timer.Stop()
	select {
	case <-d.ctx.Done():
		return context.Cause(d.ctx)
	case <-timer.C:
		return nil
	}
}
