package etcdhistory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/quorate/quorate/internal/goroutine"
)

// Merging says what to merge.
type Merging struct {
	Timeline string
	// Span is what one merged segment covers at most, an hour for example: two segments are merged when they were begun in the same one.
	Span time.Duration
	// Before is when the newest segment to merge was begun at the latest: at least a Span ago, or segments are merged more than once.
	Before time.Time
	// Size in bytes that a merged segment does not exceed, unless a single one does.
	Size int64
}

// Merge replaces segments that follow one another by a larger one with the same changes. Parts are deleted only after the whole was read
// back. It can be stopped anywhere: what it leaves are segments more than necessary, which the next call deletes. Memory use does not depend
// on the sizes. It returns the segments that it wrote.
func Merge(ctx context.Context, store Store, m Merging) ([]Name, error) {
	objects, err := store.List(ctx, Prefix(m.Timeline))
	if err != nil {
		return nil, fmt.Errorf("list segments: %w", err)
	}
	chain, contained := contiguous(Names(objects, m.Timeline))
	if err := sweep(ctx, store, chain, contained); err != nil {
		return nil, err
	}
	groups, err := m.groups(ctx, store, chain, sizes(objects))
	if err != nil {
		return nil, err
	}
	var merged []Name
	for _, parts := range groups {
		whole, err := join(ctx, store, parts)
		if err != nil {
			return merged, fmt.Errorf("merge %s: %w", whole, err)
		}
		merged = append(merged, whole)
	}
	return merged, nil
}

func sizes(objects []Object) map[string]int64 {
	out := map[string]int64{}
	for _, o := range objects {
		out[o.Name] = o.Size
	}
	return out
}

// contiguous tells the segments that reach farther than all before them from those that lie within another one.
func contiguous(names []Name) (chain, contained []Name) {
	reached := int64(-1)
	for _, n := range sorted(names) {
		if n.To > reached {
			chain, reached = append(chain, n), n.To
		} else {
			contained = append(contained, n)
		}
	}
	return chain, contained
}

// sweep deletes segments whose changes are in another one, if that is whole.
func sweep(ctx context.Context, store Store, chain, contained []Name) error {
	whole := map[Name]bool{}
	for _, n := range contained {
		for _, by := range chain {
			if by.From > n.From || by.To < n.To {
				continue
			}
			if _, checked := whole[by]; !checked {
				_, err := Check(ctx, store, by)
				if err != nil && !errors.Is(err, ErrDamaged) {
					return err
				}
				whole[by] = err == nil
			}
			if !whole[by] {
				continue
			}
			if err := store.Delete(ctx, n.String()); err != nil {
				return fmt.Errorf("delete %s, which is in %s: %w", n, by, err)
			}
			break
		}
	}
	return nil
}

// groups finds what to merge.
func (m Merging) groups(ctx context.Context, store Store, chain []Name, sizes map[string]int64) (groups [][]Name, err error) {
	var group []Name
	var size int64
	var began time.Time
	flush := func() {
		if len(group) > 1 {
			groups = append(groups, group)
		}
		group, size = nil, 0
	}
	for _, n := range chain {
		header, err := headerOf(ctx, store, n)
		if err != nil {
			return nil, err
		}
		if header.Began.After(m.Before) {
			break
		}
		follows := len(group) > 0 && n.From == group[len(group)-1].To && header.Began.Truncate(m.Span).Equal(began)
		if !follows || size+sizes[n.String()] > m.Size {
			flush()
		}
		group, size, began = append(group, n), size+sizes[n.String()], header.Began.Truncate(m.Span)
	}
	flush()
	return groups, nil
}

func headerOf(ctx context.Context, store Store, n Name) (h Header, err error) {
	object, err := store.Open(ctx, n.String())
	if err != nil {
		return h, fmt.Errorf("open %s: %w", n, err)
	}
	defer func() { err = errors.Join(err, object.Close()) }()
	r, err := NewReader(object)
	if err != nil {
		return h, fmt.Errorf("%s: %w", n, err)
	}
	return r.Header(), nil
}

// join writes one segment with the changes of all parts, reads it back, and deletes the parts.
func join(ctx context.Context, store Store, parts []Name) (Name, error) {
	whole := Name{parts[0].Timeline, parts[0].From, parts[len(parts)-1].To}
	header, err := headerOf(ctx, store, parts[0])
	if err != nil {
		return whole, err
	}
	r, w := io.Pipe()
	goroutine.Go(func() error { return copyAll(ctx, store, parts, newWriter(w, header)) }, func(err error) {
		_ = w.CloseWithError(err) // It never fails.
	})
	err = store.Put(ctx, whole.String(), r)
	_ = r.Close() // So that the writer ends where Put did not read to the end.
	if err != nil {
		return whole, fmt.Errorf("write: %w", err)
	}
	if _, err := Check(ctx, store, whole); err != nil {
		return whole, fmt.Errorf("read back: %w", err)
	}
	for _, n := range parts {
		if err := store.Delete(ctx, n.String()); err != nil {
			return whole, fmt.Errorf("delete %s: %w", n, err)
		}
	}
	return whole, nil
}

func copyAll(ctx context.Context, store Store, parts []Name, w *writer) error {
	for r, err := range Replay(ctx, store, parts, parts[0].From, Target{}) {
		if err != nil {
			return err
		}
		if r.Kind != Granted && r.Revision != w.last {
			w.revision(r.Revision, r.Time)
		}
		switch r.Kind {
		case Put:
			w.put(r.KV)
		case Delete:
			w.delete(r.KV.Key)
		default:
			w.lease(r.Lease)
		}
		if w.err != nil {
			return fmt.Errorf("write a segment: %w", w.err)
		}
	}
	return w.finish()
}

// Content is what a segment was found to hold.
type Content struct {
	// Revisions and Changes in it.
	Revisions, Changes int64
	// First and Last are when its first and last revision were recorded.
	First, Last time.Time
}

// Check reads a segment and fails with ErrDamaged if it is not whole, or not what its name says.
func Check(ctx context.Context, store Store, n Name) (c Content, err error) {
	for r, err := range Replay(ctx, store, []Name{n}, n.From, Target{}) {
		if err != nil {
			return c, err
		}
		if r.Kind == Granted {
			continue
		}
		if c.Changes == 0 {
			c.First = r.Time
		}
		c.Changes++
		c.Revisions, c.Last = r.Revision-n.From, r.Time
	}
	return c, nil
}
