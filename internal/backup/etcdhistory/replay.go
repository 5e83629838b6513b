package etcdhistory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// Replay reads the changes after a revision from a chain of segments (see Chain) up to the target. Every segment that it takes something
// from is read to its end, because only then is it known to be whole: what was yielded before an error must not be used. A time that goes
// back, because clocks of recorders differ, counts as the latest time before it. The leases of a segment come in any place after the
// change that made them known, and may be of changes beyond the target.
func Replay(ctx context.Context, store Store, chain []Name, after int64, target Target) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		p := player{reached: after, target: target, yield: yield}
		if err := p.all(ctx, store, chain); err != nil {
			p.emit(Record{}, err)
		}
	}
}

// Span is a range of revisions of one history: the changes after one revision up to another.
type Span struct {
	Timeline  string
	After, To int64
}

// Follow replays what leads from a revision to another in a store to which changes are still recorded. A segment that is gone when its turn comes
// is a part of a larger one by then: the store is asked again, and the replay goes on with that one.
func Follow(ctx context.Context, store Store, span Span, target Target) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		p := player{reached: span.After, target: target, yield: yield}
		var missed Name
		for {
			err := p.follow(ctx, store, span.Timeline, span.To)
			var unopened unopenedError
			if errors.As(err, &unopened) && unopened.name != missed {
				missed = unopened.name
				continue
			}
			if err != nil {
				p.emit(Record{}, err)
			}
			return
		}
	}
}

// unopenedError is of a segment that could not be opened: nothing of it has been replayed.
type unopenedError struct {
	name Name
	error
}

func (e unopenedError) Unwrap() error { return e.error }

// player is the state of one Replay.
type player struct {
	target  Target
	yield   func(Record, error) bool
	reached int64
	latest  time.Time
	// beyond is the first change after the target, if there is one.
	beyond *Record
	// ended: the consumer wants no more, or there is no more for it.
	ended bool
}

func (p *player) emit(r Record, err error) {
	p.ended = p.ended || !p.yield(r, err)
}

// follow replays what the store has now.
func (p *player) follow(ctx context.Context, store Store, timeline string, to int64) error {
	objects, err := store.List(ctx, Prefix(timeline))
	if err != nil {
		return fmt.Errorf("list segments: %w", err)
	}
	chain, err := Chain(Names(objects, timeline), p.reached, max(to, p.reached))
	if err != nil {
		return err
	}
	return p.all(ctx, store, chain)
}

// all replays segments one after the other.
func (p *player) all(ctx context.Context, store Store, chain []Name) error {
	for _, name := range chain {
		if p.ended {
			return nil
		}
		if err := p.segment(ctx, store, name); err != nil {
			return fmt.Errorf("replay %s: %w", name, err)
		}
	}
	return nil
}

func (p *player) segment(ctx context.Context, store Store, name Name) (err error) {
	object, err := store.Open(ctx, name.String())
	if err != nil {
		return unopenedError{name, fmt.Errorf("open: %w", err)}
	}
	defer func() { err = errors.Join(err, object.Close()) }()
	r, err := NewReader(object)
	if err != nil {
		return err
	}
	if h := r.Header(); h.Timeline != name.Timeline || h.From != name.From {
		return fmt.Errorf("%w: it is of timeline %s from revision %d", ErrDamaged, h.Timeline, h.From)
	}
	if name.From > p.reached {
		return fmt.Errorf("%w: from %d to %d", ErrGap, p.reached+1, name.From)
	}
	for !p.ended {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return p.finish(r.Last(), name)
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stopped: %w", context.Cause(ctx))
		}
		p.take(record)
	}
	return nil
}

func (p *player) take(r Record) {
	if r.Time.Before(p.latest) {
		r.Time = p.latest
	}
	p.latest = r.Time
	switch {
	case r.Kind == Granted:
		p.emit(r, nil)
	case r.Revision <= p.reached || p.beyond != nil:
		return
	case p.target.excludes(r.Revision, r.Time):
		p.beyond = &Record{Kind: Beyond, Revision: r.Revision, Time: r.Time}
	default:
		p.emit(r, nil)
	}
}

// finish comes after a segment that is whole.
func (p *player) finish(last int64, name Name) error {
	if last != name.To {
		return fmt.Errorf("%w: it ends with revision %d", ErrDamaged, last)
	}
	p.reached = max(p.reached, last)
	if p.beyond != nil {
		p.emit(*p.beyond, nil)
		p.ended = true
	}
	return nil
}
