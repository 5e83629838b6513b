package redisdump

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Waits between attempts.
const (
	firstWait = 20 * time.Millisecond
	lastWait  = 2 * time.Second
)

// deliver sends a batch until all of it is taken.
func (l *loader) deliver(b *batch) error {
	left, c := b.items, b.server
	wait, progress := firstWait, l.options.Now()
	for {
		before := len(left)
		last, err := l.attempt(&left, c, b.number)
		switch {
		case err != nil:
			return err
		case len(left) == 0:
			return nil
		case len(left) < before:
			wait, progress = firstWait, l.options.Now()
		case l.options.Now().Sub(progress) > l.options.Patience:
			return fmt.Errorf("%w: %d keys for %s, the last answer was %w", ErrNoProgress, len(left), l.options.Patience, last)
		}
		l.to.refresh(l.ctx)
		l.generation.Add(1)
		if err := pause(l.ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, lastWait)
		c = nil // From now on each key's server is looked for.
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// attempt sends keys once, to one server or each to its own, and leaves those that are to be sent again, and the last reason for that.
func (l *loader) attempt(left *[]*item, c *goredis.Client, number int) (last, err error) {
	groups := map[*goredis.Client][]*item{}
	if c != nil {
		groups[c] = *left
	} else {
		for _, i := range *left {
			node, err := l.to.node(l.ctx, i.key)
			if err != nil {
				return err, nil // There may be one at the next attempt.
			}
			groups[node] = append(groups[node], i)
		}
	}
	var again []*item
	for node, items := range groups {
		more, reason, err := l.send(items, l.databases.of(node, number), number)
		if err != nil {
			return nil, err
		}
		if again = append(again, more...); reason != nil {
			last = reason
		}
	}
	*left = again
	return last, nil
}

// send sends keys to one server, and returns those that it did not take yet.
func (l *loader) send(items []*item, c *goredis.Client, number int) (again []*item, reason, err error) {
	pipe := c.Pipeline()
	commands := make([]*goredis.StatusCmd, len(items))
	for n, i := range items {
		commands[n] = i.command(l.ctx, l.options.Asking)
		_ = pipe.Process(l.ctx, commands[n]) // It is only put in line.
	}
	_, _ = pipe.Exec(l.ctx) // Each command has its own answer.
	if l.ctx.Err() != nil {
		return nil, nil, context.Cause(l.ctx)
	}
	var done tally
	for n, i := range items {
		answer := commands[n].Err()
		if number == 0 && (goredis.HasErrorPrefix(answer, "ASK") || goredis.HasErrorPrefix(answer, "TRYAGAIN")) {
			answer = l.to.redirected(l.ctx, i.command(l.ctx, l.options.Asking))
		}
		switch verdict, why := judge(answer); verdict {
		case taken, present:
			done.add(i, verdict)
		case retry:
			again, reason = append(again, i), answer
		default:
			l.count(done)
			return nil, nil, fmt.Errorf("restore the key %.100q of %d bytes: %w", i.key, len(i.payload), why)
		}
	}
	l.count(done)
	return again, reason, nil
}

// verdict is what an answer to RESTORE means.
type verdict int

const (
	taken verdict = iota
	present
	retry
	refusal
)

// passing are the answers of servers that will take a key later, or know who does.
var passing = []string{
	"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY", "NOREPLICAS", "ERR max number of clients",
}

// final are the answers that nothing but a change of something else will alter.
var final = []struct {
	prefix string
	err    error
}{
	{"OOM", ErrNoMemory},
	{"ERR DUMP payload version", ErrIncompatible},
	{"ERR Bad data format", ErrIncompatible},
	{"NOPERM", ErrNoPermission},
	{"WRONGPASS", ErrWrongPassword},
	{"NOAUTH", ErrWrongPassword},
}

func judge(answer error) (verdict, error) {
	var fromServer goredis.Error
	switch {
	case answer == nil:
		return taken, nil
	case !errors.As(answer, &fromServer):
		return retry, answer // The connection failed.
	case goredis.HasErrorPrefix(answer, "BUSYKEY"):
		return present, nil
	}
	for _, prefix := range passing {
		if goredis.HasErrorPrefix(answer, prefix) {
			return retry, answer
		}
	}
	for _, r := range final {
		if goredis.HasErrorPrefix(answer, r.prefix) {
			return refusal, fmt.Errorf("%w: %w", r.err, answer)
		}
	}
	return refusal, answer
}

// tally is what became of the keys of a batch.
type tally struct {
	restored, present, bytes int64
	slots                    []int
}

func (t *tally) add(i *item, v verdict) {
	if v == present {
		t.present++
	} else {
		t.restored++
	}
	t.bytes += int64(len(i.payload))
	t.slots = append(t.slots, i.slot)
}

func (l *loader) count(t tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.summary
	s.Restored += t.restored
	s.Present += t.present
	s.Bytes += t.bytes
	for _, slot := range t.slots {
		s.KeysPerSlot[slot]++
	}
	if l.options.Progress != nil && len(t.slots) > 0 {
		l.options.Progress(s.Bytes, s.Restored+s.Present)
	}
}
