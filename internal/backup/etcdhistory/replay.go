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
		for _, name := range chain {
			if p.ended {
				return
			}
			if err := p.segment(ctx, store, name); err != nil {
				p.emit(Record{}, fmt.Errorf("replay %s: %w", name, err))
				return
			}
		}
	}
}

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

func (p *player) segment(ctx context.Context, store Store, name Name) (err error) {
	object, err := store.Open(ctx, name.String())
	if err != nil {
		return fmt.Errorf("open: %w", err)
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
