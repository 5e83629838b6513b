package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/test/e2e/load/ledger"
	"github.com/quorate/quorate/test/e2e/load/register"
)

// chronicle is a store that tells what changes in it, and that can compare and swap: etcd.
type chronicle interface {
	// revision of the store now.
	revision(ctx context.Context) (int64, error)
	// watch tells of every write below a prefix from a revision on, until the context or the watch ends. next is where to go on; lost
	// says that the history from there is gone, and that next is what is left of it.
	watch(ctx context.Context, prefix string, from int64, seen func(key, value string, revision int64)) (next int64, lost bool)
	get(ctx context.Context, key string) (string, error)
	swap(ctx context.Context, key, from, to string) (bool, error)
}

const (
	// clientsOfOne is how many clients work on each register, clientPace the time between two operations of one of them.
	clientsOfOne = 2
	clientPace   = 500 * time.Millisecond
	// catchUp is how long a watcher may take in the end to see all that was acknowledged.
	catchUp = time.Minute
	// checkHistory bounds the time to find out whether a history is linearizable.
	checkHistory = time.Minute
)

// witness is what beside the writers looks at the promises of etcd: a watcher of all that they write, and registers that several
// clients work on.
type witness struct {
	book    *ledger.Ledger
	history register.History
	o       options
	s       *reopening
	stop    context.CancelFunc
	running sync.WaitGroup
	// working are the clients of the registers, fence the revision that their watcher has seen.
	working sync.WaitGroup
	fence   atomic.Int64
}

// registerPrefix is what the keys of the registers begin with.
func (w *witness) registerPrefix() string { return "register/" + w.o.run + "/" }

// testify starts a witness. Its watchers stop in finish, the clients of its registers when the context ends.
func testify(ctx context.Context, o options, s *reopening, book *ledger.Ledger) (*witness, error) {
	c, ok := s.now().(chronicle)
	if !ok {
		return nil, fmt.Errorf("-watch and -registers are for etcd")
	}
	from, err := c.revision(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the revision to watch from: %w", err)
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &witness{book: book, o: o, s: s, stop: stop}
	if o.watch {
		book.Follow()
		w.running.Go(func() {
			w.follow(watching, "load/"+o.run+"/", from+1, func(key, _ string, revision int64) { book.Watched(key, revision) }, book.Interrupted)
		})
	}
	if o.registers > 0 {
		w.running.Go(func() {
			w.follow(watching, w.registerPrefix(), from+1, func(_, value string, revision int64) {
				w.history.Seen(value, time.Now())
				w.fence.Store(revision)
			}, w.history.Blind)
		})
	}
	for i := range o.registers * clientsOfOne {
		w.working.Go(func() { w.work(ctx, i%o.registers, i) })
	}
	return w, nil
}

// follow watches a prefix and begins again where it was when the watch ends.
func (w *witness) follow(ctx context.Context, prefix string, from int64, seen func(key, value string, revision int64), interrupted func()) {
	for ctx.Err() == nil {
		c, ok := w.s.now().(chronicle)
		if !ok {
			return
		}
		next, lost := c.watch(ctx, prefix, from, seen)
		if lost {
			interrupted()
		}
		from = next
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// work is one client of a register.
func (w *witness) work(ctx context.Context, which, client int) {
	key := fmt.Sprintf("%s%d", w.registerPrefix(), which)
	tick := time.NewTicker(clientPace)
	defer tick.Stop()
	known := ""
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		o := register.Operation{Kind: register.Kind(rand.IntN(3)), Key: key, From: known, To: fmt.Sprintf("%d-%d", client, i)}
		opCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.o.opTimeout)
		known = w.do(opCtx, o, known)
		cancel()
	}
}

// do carries an operation out, notes it unless it was refused, and returns the value that the client knows of.
func (w *witness) do(ctx context.Context, o register.Operation, known string) string {
	s := w.s.now()
	c := s.(chronicle)
	var err error
	o.Call = time.Now()
	switch o.Kind {
	case register.Read:
		o.Got, err = c.get(ctx, o.Key)
	case register.Write:
		_, err = s.write(ctx, o.Key, o.To)
	case register.Swap:
		o.Swapped, err = c.swap(ctx, o.Key, o.From, o.To)
	}
	o.Return = time.Now()
	if err != nil && s.outcome(err) == ledger.Failed {
		return known
	}
	o.Unknown = err != nil
	w.history.Add(o)
	switch {
	case o.Unknown:
	case o.Kind == register.Read:
		return o.Got
	case o.Kind == register.Write || o.Swapped:
		return o.To
	}
	return known
}

// finish waits until the watchers have seen everything, and adds what the registers did to a summary. The clients have been told to end.
func (w *witness) finish(ctx context.Context) *ledger.RegisterSummary {
	w.working.Wait()
	w.drain(ctx)
	w.stop()
	w.running.Wait()
	if w.o.registers == 0 {
		return nil
	}
	result := w.history.Check(checkHistory)
	return &result
}

// drain writes a last value beside the registers, and waits until both watchers have come to the end.
func (w *witness) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	var fence int64
	for ctx.Err() == nil {
		if w.o.registers > 0 && fence == 0 {
			opCtx, cancel := context.WithTimeout(ctx, w.o.opTimeout)
			if receipt, err := w.s.write(opCtx, w.registerPrefix()+"fence", "the end"); err == nil {
				fence = receipt.Revision
			}
			cancel()
		}
		if (w.o.registers == 0 || fence > 0 && w.fence.Load() >= fence) && (!w.o.watch || w.book.WatchedUpTo()) {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, "the watchers have not caught up")
	w.history.Blind()
}
