package main

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/test/e2e/load/updates"
)

// memory is a store that keeps every promise.
type memory map[string]updates.State

func (m memory) put(_ context.Context, key, value string) error {
	m[key] = updates.State{Value: value, There: true}
	return nil
}

func (m memory) remove(_ context.Context, key string) error {
	delete(m, key)
	return nil
}

func (m memory) add(_ context.Context, key string, _ int) (int, error) {
	n, _ := strconv.Atoi(m[key].Value)
	m[key] = updates.State{Value: strconv.Itoa(n + 1), There: true}
	return n + 1, nil
}

func (m memory) look(_ context.Context, key string) (updates.State, error) { return m[key], nil }

// liar breaks one promise of the store behind it. lie is called before each call.
type liar struct {
	rewriter
	lie func(ctx context.Context, s *liar, call, key string) error
	// twice applies the next increment twice.
	twice bool
	// late makes the next update time out: it takes effect if applies is true, otherwise after the
	// writer went on.
	late, applies bool
	later         []func() error
}

var errLate = errors.New("timed out")

func (s *liar) change(ctx context.Context, call, key string, apply func() error) error {
	if err := s.lie(ctx, s, call, key); err != nil {
		return err
	}
	if !s.late {
		return apply()
	}
	s.late = false
	if !s.applies {
		s.later = append(s.later, apply)
		return errLate
	}
	return errors.Join(errLate, apply())
}

func (s *liar) put(ctx context.Context, key, value string) error {
	return s.change(ctx, "put", key, func() error { return s.rewriter.put(ctx, key, value) })
}

func (s *liar) remove(ctx context.Context, key string) error {
	return s.change(ctx, "remove", key, func() error { return s.rewriter.remove(ctx, key) })
}

func (s *liar) add(ctx context.Context, key string, was int) (n int, err error) {
	err = s.change(ctx, "add", key, func() (err error) {
		if n, err = s.rewriter.add(ctx, key, was); err == nil && s.twice {
			s.twice = false
			n, err = s.rewriter.add(ctx, key, n)
		}
		return err
	})
	return n, err
}

func (s *liar) look(ctx context.Context, key string) (updates.State, error) {
	if err := s.lie(ctx, s, "look", key); err != nil {
		return updates.State{}, err
	}
	return s.rewriter.look(ctx, key)
}

// lie is what a liar does before a call.
type lie = func(ctx context.Context, s *liar, call, key string) error

// updatesOf makes n updates of one lane through a liar, then checks. The name of the test is the
// run.
func updatesOf(t *testing.T, behind rewriter, lane, n int, lie lie) updates.Summary {
	t.Helper()
	s := &liar{rewriter: behind, lie: lie}
	now := func() rewriter { return s }
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	book, ticks, ended := updates.New(time.Now), make(chan time.Time), make(chan struct{})
	go func() {
		defer close(ended)
		rewriteLoad{options{run: t.Name(), opTimeout: time.Minute}, now, book}.lane(ctx, lane, ticks)
	}()
	for range n {
		ticks <- time.Time{}
	}
	stop()
	<-ended
	for _, apply := range s.later {
		if err := apply(); err != nil {
			t.Fatal(err)
		}
	}
	summary, err := checkUpdates(t.Context(), now, book)
	if err != nil {
		t.Fatal(err)
	}
	return *summary
}

// before does something before the nth call of a kind.
func before(call string, n int, do func(ctx context.Context, s *liar, key string) error) lie {
	calls := 0
	return func(ctx context.Context, s *liar, called, key string) error {
		if called != call {
			return nil
		}
		if calls++; calls != n {
			return nil
		}
		return do(ctx, s, key)
	}
}

func hold(value string) func(context.Context, *liar, string) error {
	return func(ctx context.Context, s *liar, key string) error { return s.rewriter.put(ctx, key, value) }
}

func drop(ctx context.Context, s *liar, key string) error { return s.rewriter.remove(ctx, key) }

func twice(_ context.Context, s *liar, _ string) error {
	s.twice = true
	return nil
}

// missing removes a key before the nth read, and brings it back before the next one.
func missing(n int) lie {
	var key, kept string
	calls := 0
	return func(ctx context.Context, s *liar, call, called string) error {
		if call != "look" {
			return nil
		}
		switch calls++; calls {
		case n:
			got, err := s.rewriter.look(ctx, called)
			if err != nil {
				return err
			}
			key, kept = called, got.Value
			return s.rewriter.remove(ctx, key)
		case n + 1:
			return s.rewriter.put(ctx, key, kept)
		}
		return nil
	}
}

const registers, counters = 0, 2 // The lanes.

// lies returns every way to break a promise, and the fault that is reported for it. A lane of eight
// updates reads nine times, the last time for the check.
func lies() map[string]lieCase {
	const last = 9
	return map[string]lieCase{
		"an overwrite is rolled back while updates go on":    {registers, 8, before("look", 3, hold("1")), updates.RolledBack},
		"an overwrite is rolled back before the check":       {registers, 8, before("look", last, hold("7")), updates.RolledBack},
		"a deleted key is resurrected while updates go on":   {registers, 8, before("look", 4, hold("2")), updates.Resurrected},
		"a deleted key is resurrected before the check":      {registers, 3, before("look", 4, hold("2")), updates.Resurrected},
		"an increment is applied twice and told":             {counters, 8, before("add", 4, twice), updates.AppliedTwice},
		"an increment is applied once more before the check": {counters, 8, before("look", last, hold("9")), updates.AppliedTwice},
		"an increment is rolled back":                        {counters, 8, before("look", 5, hold("3")), updates.RolledBack},
		"an increment is rolled back between read and add":   {counters, 8, before("add", 5, hold("2")), updates.RolledBack},
		"a key is gone":     {registers, 8, before("look", last, drop), updates.Gone},
		"a counter is gone": {counters, 8, before("look", 5, drop), updates.Gone},
		"a key is gone for one read and comes back": {registers, 8, missing(3), updates.Gone},
		"a value appears that no writer sent":       {registers, 8, before("look", 3, hold("7777")), updates.Foreign},
	}
}

type lieCase struct {
	lane, updates int
	lie           lie
	want          string
}

func TestAStoreThatLosesUpdatesIsReported(t *testing.T) {
	reports(t, memory{})
}

// reports checks that a store has no fault of its own, and each lie about it is reported.
func reports(t *testing.T, behind rewriter) {
	t.Helper()
	for name, tc := range lies() {
		t.Run(name, func(t *testing.T) {
			s := updatesOf(t, behind, tc.lane, tc.updates, tc.lie)
			if s.Wrong != 1 || len(s.Faults) != 1 || s.Faults[0].Kind != tc.want {
				t.Errorf("%+v, want one fault of the kind %q", s, tc.want)
			}
		})
	}
	for lane := range 3 {
		t.Run("no promise is broken in lane "+strconv.Itoa(lane), func(t *testing.T) {
			honest := func(context.Context, *liar, string, string) error { return nil }
			if s := updatesOf(t, behind, lane, 20, honest); s.Wrong != 0 || s.Acked != 20 || s.Unknown != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestAStoreThatTimesOutIsNotReported(t *testing.T) {
	for name, applies := range map[string]bool{"the update takes effect": true, "the update takes effect after the writer went on": false} {
		for lane := range 3 {
			for _, call := range []string{"put", "remove", "add"} {
				t.Run(name+"/"+strconv.Itoa(lane)+"/"+call, func(t *testing.T) {
					calls := 0
					s := updatesOf(t, memory{}, lane, 60, func(_ context.Context, s *liar, called, _ string) error {
						if called == call {
							calls++
							s.late, s.applies = calls%5 == 0, applies
						}
						return nil
					})
					if s.Wrong != 0 || s.Acked+s.Unknown != 60 || calls >= 5 && s.Unknown == 0 {
						t.Errorf("%+v after %d calls", s, calls)
					}
				})
			}
		}
	}
}

// An update without an answer excuses its own state alone.
func TestATimeoutExcusesNoOtherLoss(t *testing.T) {
	looks, puts, first := 0, 0, ""
	s := updatesOf(t, memory{}, registers, 5, func(ctx context.Context, s *liar, call, key string) error {
		switch call {
		case "put":
			puts++
			s.late, s.applies = puts == 2, true
		case "look":
			if looks++; looks == 1 {
				first = key
			}
			if looks == 3 {
				return s.rewriter.remove(ctx, first)
			}
		}
		return nil
	})
	if s.Wrong != 1 || s.Faults[0].Kind != updates.Gone || s.Faults[0].Key != first {
		t.Errorf("%+v", s)
	}
}
