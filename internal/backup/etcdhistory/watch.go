package etcdhistory

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/goroutine"
)

// The watch uses the connection of clientv3, with its balancing and credentials, but not its Watcher: that one puts fragments together
// again and keeps what nobody reads in a list without limit (watch.go in go.etcd.io/etcd/client/v3), where a stream of its own stops at
// the window of its flow control.

// errStalled ends a watch that nobody reads because the store does not take segments: it would hold memory of the server for nothing.
var errStalled = errors.New("the store has not taken a segment for too long")

// errSilent ends a watch that lacks revisions which the etcd is known to have.
var errSilent = errors.New("the watch tells nothing of newer revisions")

// record watches until ctx ends or it is of no use any more.
func (r *Recorder) record(ctx context.Context) error {
	pause := firstBackoff
	for {
		before := r.Status().Recorded
		err := r.follow(ctx)
		r.partial = nil // The next watch begins with this revision again.
		switch {
		case ctx.Err() != nil:
			if cause := context.Cause(ctx); errors.Is(cause, ErrDiverged) || goroutine.Panicked(cause) {
				return cause
			}
			return nil
		case permanent(err):
			return err
		case errors.Is(err, ErrGap) && r.gapAt == before:
			return err
		}
		if errors.Is(err, ErrGap) {
			r.gapAt = r.Status().Recorded
		}
		r.note(func(s *Status) { s.WatchErr = err })
		if r.Status().Recorded > before {
			pause = firstBackoff
		}
		if !r.awaitRoom(ctx) || r.sleep(ctx, pause) != nil {
			continue // Which ends with ctx.
		}
		pause = min(2*pause, lastBackoff)
	}
}

// awaitRoom waits until a full segment is on its way.
func (r *Recorder) awaitRoom(ctx context.Context) bool {
	if !r.full() {
		return true
	}
	select {
	case <-r.idle:
		if err := r.seal(); err != nil {
			r.note(func(s *Status) { s.StoreErr = err })
		}
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *Recorder) full() bool { return r.growing != nil && r.growing.buffer.Len() >= r.Size }

// follow reads one watch to its end.
func (r *Recorder) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	responses, ended := make(chan *pb.WatchResponse), make(chan error, 1)
	stopped := make(chan struct{})
	defer func() {
		cancel()
		<-stopped
	}()
	from := r.Status().Recorded + 1
	goroutine.Go(func() error { return r.watch(ctx, from, responses) }, func(err error) {
		ended <- err
		close(stopped)
	})
	heard := r.Clock.Now()
	alarm := r.Clock.NewTicker(max(r.Interval, time.Second))
	defer alarm.Stop()
	for {
		incoming, ripe, ready := r.wanted(responses)
		select {
		case response := <-incoming:
			heard = r.Clock.Now()
			if err := r.take(ctx, response); err != nil {
				return err
			}
		case <-ripe:
			r.growing.due = true
		case <-ready:
			if err := r.seal(); err != nil {
				return err
			}
			heard = r.Clock.Now()
		case <-alarm.C():
			if err := r.quiet(r.Clock.Since(heard)); err != nil {
				return err
			}
		case err := <-ended:
			return err
		}
	}
}

// wanted says what follow waits for: more, unless the segment is full; the time to put it away; and the uploader, if it is that time.
func (r *Recorder) wanted(responses <-chan *pb.WatchResponse) (_ <-chan *pb.WatchResponse, ripe <-chan time.Time, ready <-chan struct{}) {
	switch {
	case r.growing == nil:
		return responses, nil, nil
	case r.full():
		return nil, nil, r.idle
	case r.growing.due:
		return responses, nil, r.idle
	}
	return responses, r.growing.ripe, nil
}

// quiet says what is wrong when nothing was heard for so long.
func (r *Recorder) quiet(d time.Duration) error {
	status := r.Status()
	switch {
	case d < 3*r.Interval:
		return nil
	case r.full():
		return errStalled
	case status.Source > status.Recorded:
		return fmt.Errorf("%w: it is at %d, the etcd at %d", errSilent, status.Recorded, status.Source)
	}
	return nil
}

// watch sends everything from a revision on to the channel, in pieces no larger than a request to etcd can be.
func (r *Recorder) watch(ctx context.Context, from int64, responses chan<- *pb.WatchResponse) error {
	stream, err := pb.NewWatchClient(r.Client.ActiveConnection()).Watch(clientv3.WithRequireLeader(ctx))
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	all := &pb.WatchCreateRequest{Key: []byte{0}, RangeEnd: []byte{0}, StartRevision: from, Fragment: true}
	if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: all}}); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		select {
		case responses <- response:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take adds what the etcd has sent to the growing segment.
func (r *Recorder) take(ctx context.Context, response *pb.WatchResponse) error {
	switch id := response.Header.GetClusterId(); {
	case r.cluster == 0:
		r.cluster = id
	case id != 0 && id != r.cluster:
		return fmt.Errorf("%w: the ID of the cluster is %x, and was %x before", ErrDiverged, id, r.cluster)
	}
	if response.Canceled || response.CompactRevision != 0 {
		return r.canceled(response)
	}
	r.note(func(s *Status) { s.WatchErr = nil })
	for _, event := range response.Events {
		if len(r.partial) > 0 && r.partial[0].Kv.ModRevision != event.Kv.ModRevision {
			if err := r.complete(); err != nil {
				return err
			}
		}
		r.partial = append(r.partial, event)
	}
	if response.Fragment {
		return nil // The revision may go on.
	}
	if err := r.complete(); err != nil {
		return err
	}
	r.grant(ctx)
	return nil
}

func (r *Recorder) canceled(response *pb.WatchResponse) error {
	if response.CompactRevision != 0 {
		return &CompactedError{Need: r.Status().Recorded + 1, Compacted: response.CompactRevision}
	}
	return fmt.Errorf("the etcd ended the watch: %s", response.CancelReason)
}

// complete adds a whole revision to the growing segment.
func (r *Recorder) complete() error {
	events := r.partial
	if len(events) == 0 {
		return nil
	}
	r.partial = nil
	recorded, revision := r.Status().Recorded, events[0].Kv.ModRevision
	switch {
	case revision <= recorded:
		return nil
	case revision > recorded+1:
		return fmt.Errorf("%w: the watch goes from %d to %d", ErrGap, recorded, revision)
	}
	now := r.Clock.Now()
	if r.growing == nil {
		r.growing = &growing{from: recorded, ripe: r.Clock.After(r.Interval)}
		r.growing.writer = newWriter(&r.growing.buffer, Header{r.Timeline, recorded, now})
	}
	w := r.growing.writer
	w.revision(revision, now)
	for _, e := range events {
		if e.Type == mvccpb.Event_DELETE {
			w.delete(e.Kv.Key)
			continue
		}
		w.put(e.Kv)
		r.leases.met(e.Kv.Lease)
	}
	r.note(func(s *Status) {
		s.Recorded = revision
		s.Source = max(s.Source, revision)
	})
	return w.err
}

// grant adds the leases that were met first in what was just added.
func (r *Recorder) grant(ctx context.Context) {
	for _, l := range r.leases.resolve(ctx) {
		r.growing.writer.lease(l)
	}
}
