package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/quorate/quorate/test/e2e/load/ledger"
	"github.com/quorate/quorate/test/e2e/load/updates"
)

// progressEvery is how often a line of progress is printed.
const progressEvery = 10 * time.Second

// writeUntilTold writes until POST /pause, and returns after POST /stop, or when the context or the duration ends. What
// happens to the data store between the two is not measured, but checked afterwards. finish ends what looks on.
func writeUntilTold(ctx context.Context, o options, s *reopening, book *ledger.Ledger, changed *updates.Book) (finish func(context.Context) *ledger.RegisterSummary, err error) {
	ctx, stop := context.WithTimeout(ctx, o.duration)
	defer stop()
	writing, pause := context.WithCancel(ctx)
	defer pause()
	closeServer, err := serve(ctx, o.listen, book, pause, stop)
	if err != nil {
		return nil, err
	}
	defer closeServer()
	finish = func(context.Context) *ledger.RegisterSummary { return nil }
	if o.watch || o.registers > 0 {
		w, err := testify(writing, o, s, book)
		if err != nil {
			return nil, err
		}
		finish = w.finish
	}
	var rewriters sync.WaitGroup
	rewriters.Go(func() { rewrite(writing, o, s.rewriter, changed) })
	writeUntilDone(writing, o, s, book)
	rewriters.Wait()
	<-ctx.Done()
	return finish, nil
}

// writeUntilDone runs the writers of all lanes and closes the ledger behind them.
func writeUntilDone(ctx context.Context, o options, s store, book *ledger.Ledger) {
	var writers sync.WaitGroup
	for _, l := range s.lanes() {
		writers.Go(func() { writeLane(ctx, o, s, l, book) })
	}
	go report(ctx, book)
	if o.lookBack {
		writers.Go(func() { lookBack(ctx, s, book) })
	}
	writers.Wait()
	book.Close()
}

// writeLane starts a write at every tick of its pace, whether or not those before it were answered. A writer that waits
// for one answer before the next question would not notice how long the silence really was.
func writeLane(ctx context.Context, o options, s store, l lane, book *ledger.Ledger) {
	pace := rate.NewLimiter(rate.Limit(o.rate/float64(len(s.lanes()))), 1)
	open := make(chan struct{}, o.inFlight)
	var pending sync.WaitGroup
	defer pending.Wait()
	for i := 0; ; i++ {
		key := fmt.Sprintf("load/%s/%s/%08d", o.run, l.name, i)
		if !l.owns(key) {
			continue
		}
		if pace.Wait(ctx) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case open <- struct{}{}:
		}
		pending.Go(func() {
			defer func() { <-open }()
			// A write that has begun is finished, so that its outcome is known.
			opCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.opTimeout)
			defer cancel()
			write(opCtx, s, l, key, book)
		})
	}
}

// write makes one write and notes its outcome.
func write(ctx context.Context, s store, l lane, key string, book *ledger.Ledger) {
	floor := book.Begin()
	receipt, err := s.write(ctx, key, valueOf(key))
	if err != nil {
		book.Miss(l.name, key, s.outcome(err), err)
		return
	}
	book.Ack(l.name, key, receipt, floor)
}

const (
	// lookBackEvery is how often a batch of what was acknowledged is looked for, and lookAgainEvery how often all that is recent.
	lookBackEvery  = 100 * time.Millisecond
	lookAgainEvery = time.Second
	// recent is for how long a write is looked for so often: it may not have reached a replica at first.
	recent = 15 * time.Second
)

// lookBack looks for what was acknowledged, all that is recent every second, and beside that batch by batch, from the beginning when it is
// through: the time at which a write is lost says what lost it. Where the data store does not answer, nothing is noted.
func lookBack(ctx context.Context, s store, book *ledger.Ledger) {
	look := func(keys []string) {
		if found, _, err := s.read(ctx, keys); err == nil {
			book.Look(keys, found, valueOf)
		}
	}
	back, again := time.NewTicker(lookBackEvery), time.NewTicker(lookAgainEvery)
	defer back.Stop()
	defer again.Stop()
	next := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			look(book.Recent(recent))
		case <-back.C:
			keys := book.From(next, batch)
			if next += len(keys); len(keys) == 0 {
				next = 0
			}
			look(keys)
		}
	}
}

func report(ctx context.Context, book *ledger.Ledger) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fmt.Fprintln(os.Stderr, book.Progress())
		}
	}
}

// serve answers GET /progress with the figures so far, measures stalls afresh, and calls pause and stop when told to.
func serve(ctx context.Context, addr string, book *ledger.Ledger, pause, stop func()) (func(), error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /progress", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(book.Progress()) // A client that went away is not our concern.
	})
	mux.HandleFunc("POST /afresh", func(http.ResponseWriter, *http.Request) { book.Afresh() })
	mux.HandleFunc("POST /pause", func(http.ResponseWriter, *http.Request) { pause() })
	mux.HandleFunc("POST /stop", func(http.ResponseWriter, *http.Request) { stop() })
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for commands: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "serve:", err)
		}
	}()
	return func() { _ = server.Close() }, nil
}
