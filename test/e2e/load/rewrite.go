package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/test/e2e/load/updates"
)

// rewriter is a store whose keys can be updated. Each call is sent once: a client that sends an
// increment again after a timeout would itself apply it twice.
type rewriter interface {
	put(ctx context.Context, key, value string) error
	remove(ctx context.Context, key string) error
	// add increments a counter that its only writer left at was, and returns the new value.
	add(ctx context.Context, key string, was int) (int, error)
	look(ctx context.Context, key string) (updates.State, error)
}

// rewritePace is the time between two updates of a key.
const rewritePace = 250 * time.Millisecond

// rewrite updates so many keys at a time until the context ends.
func rewrite(ctx context.Context, o options, now func() rewriter, book *updates.Book) {
	l := rewriteLoad{o, now, book}
	var writers sync.WaitGroup
	for n := range o.updates {
		writers.Go(func() {
			tick := time.NewTicker(rewritePace)
			defer tick.Stop()
			l.lane(ctx, n, tick.C)
		})
	}
	writers.Wait()
}

// rewriteLoad updates keys and writes down the answers.
type rewriteLoad struct {
	options
	// now returns the connection to use.
	now  func() rewriter
	book *updates.Book
}

// lane updates one key at each tick, and goes on with another key after an update without an
// answer, or after a fault. Every third lane has counters.
func (l rewriteLoad) lane(ctx context.Context, lane int, tick <-chan time.Time) {
	for generation := 0; ; generation++ {
		key := fmt.Sprintf("updates/%s/%d/%d", l.run, lane, generation)
		counter := lane%3 == 2
		l.book.Open(key, counter)
		for i := 1; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
			opCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.opTimeout)
			goesOn := l.update(opCtx, key, counter, i)
			cancel()
			if !goesOn {
				break
			}
		}
	}
}

// update reads a key, makes its update i, and reports whether it may be updated again. A key is
// deleted at every third update.
func (l rewriteLoad) update(ctx context.Context, key string, counter bool, i int) bool {
	s, book := l.now(), l.book
	if got, err := s.look(ctx, key); err == nil && !book.Look(key, got) {
		return false
	}
	to := updates.State{Value: strconv.Itoa(i), There: true}
	var err error
	switch {
	case counter:
		var got int
		if got, err = s.add(ctx, key, i-1); err == nil && got != i {
			book.Ack(key, to)
			return book.Look(key, updates.State{Value: strconv.Itoa(got), There: true})
		}
	case i%3 == 0:
		to = updates.State{}
		err = s.remove(ctx, key)
	default:
		err = s.put(ctx, key, to.Value)
	}
	if err != nil {
		book.Miss(key, to)
		return false
	}
	book.Ack(key, to)
	return true
}

// checkUpdates reads every key once more, trying again while the data store does not answer.
func checkUpdates(ctx context.Context, now func() rewriter, book *updates.Book) (*updates.Summary, error) {
	for _, key := range book.Names() {
		for {
			got, err := now().look(ctx, key)
			if err == nil {
				book.Look(key, got)
				break
			}
			fmt.Fprintln(os.Stderr, "check updates:", err)
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("read back %s: %w", key, err)
			case <-time.After(time.Second):
			}
		}
	}
	s := book.Summary()
	return &s, nil
}
