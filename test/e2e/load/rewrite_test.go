package main

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/test/e2e/load/updates"
)

// lyingStore keeps its keys in memory and breaks one promise. lie is called before each call.
type lyingStore struct {
	held map[string]updates.State
	lie  func(s *lyingStore, call, key string)
	// twice applies the next increment twice. late makes the next update time out: it takes effect if applies is true, and later if later is.
	twice, late, applies bool
	later                []func()
}

var errLate = errors.New("timed out")

func (s *lyingStore) change(call, key string, apply func()) error {
	s.lie(s, call, key)
	switch {
	case !s.late:
		apply()
		return nil
	case s.applies:
		apply()
	default:
		s.later = append(s.later, apply)
	}
	s.late = false
	return errLate
}

func (s *lyingStore) put(_ context.Context, key, value string) error {
	return s.change("put", key, func() { s.held[key] = updates.State{Value: value, There: true} })
}

func (s *lyingStore) remove(_ context.Context, key string) error {
	return s.change("remove", key, func() { delete(s.held, key) })
}

func (s *lyingStore) add(_ context.Context, key string, _ int) (n int, err error) {
	err = s.change("add", key, func() {
		n, _ = strconv.Atoi(s.held[key].Value)
		n++
		if s.twice {
			n++
			s.twice = false
		}
		s.held[key] = updates.State{Value: strconv.Itoa(n), There: true}
	})
	return n, err
}

func (s *lyingStore) look(_ context.Context, key string) (updates.State, error) {
	s.lie(s, "look", key)
	return s.held[key], nil
}

// updatesOf makes n updates of one lane through a store, then checks.
func updatesOf(t *testing.T, lane, n int, lie func(s *lyingStore, call, key string)) updates.Summary {
	t.Helper()
	s := &lyingStore{held: map[string]updates.State{}, lie: lie}
	now := func() rewriter { return s }
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	book, ticks, ended := updates.New(time.Now), make(chan time.Time), make(chan struct{})
	go func() {
		defer close(ended)
		rewriteLane(ctx, options{run: "run", opTimeout: time.Minute}, now, book, lane, ticks)
	}()
	for range n {
		ticks <- time.Time{}
	}
	stop()
	<-ended
	for _, apply := range s.later {
		apply()
	}
	summary, err := checkUpdates(t.Context(), now, book)
	if err != nil {
		t.Fatal(err)
	}
	return *summary
}

// before does something before the nth call of a kind.
func before(call string, n int, do func(s *lyingStore, key string)) func(*lyingStore, string, string) {
	calls := 0
	return func(s *lyingStore, called, key string) {
		if called != call {
			return
		}
		if calls++; calls == n {
			do(s, key)
		}
	}
}

func hold(value string) func(*lyingStore, string) {
	return func(s *lyingStore, key string) { s.held[key] = updates.State{Value: value, There: true} }
}

func TestAStoreThatLosesUpdatesIsReported(t *testing.T) {
	const registers, counters = 0, 2
	const last = 9 // Eight updates read first, and then the check does.
	missing := func() func(*lyingStore, string, string) {
		var kept updates.State
		calls := 0
		return func(s *lyingStore, call, key string) {
			if call != "look" {
				return
			}
			switch calls++; calls {
			case 3:
				kept = s.held[key]
				delete(s.held, key)
			case 4:
				s.held["updates/run/0/0"] = kept
			}
		}
	}
	tests := map[string]struct {
		lane, updates int
		lie           func(*lyingStore, string, string)
		want          string
	}{
		"an overwrite is rolled back while updates go on":    {registers, 8, before("look", 3, hold("1")), updates.RolledBack},
		"an overwrite is rolled back before the check":       {registers, 8, before("look", last, hold("7")), updates.RolledBack},
		"a deleted key is resurrected while updates go on":   {registers, 8, before("look", 4, hold("2")), updates.Resurrected},
		"a deleted key is resurrected before the check":      {registers, 3, before("look", 4, hold("2")), updates.Resurrected},
		"an increment is applied twice and told":             {counters, 8, before("add", 4, func(s *lyingStore, _ string) { s.twice = true }), updates.AppliedTwice},
		"an increment is applied once more before the check": {counters, 8, before("look", last, hold("9")), updates.AppliedTwice},
		"an increment is rolled back":                        {counters, 8, before("look", 5, hold("3")), updates.RolledBack},
		"an increment is rolled back between read and add":   {counters, 8, before("add", 5, hold("2")), updates.RolledBack},
		"a key is gone":     {registers, 8, before("look", last, func(s *lyingStore, key string) { delete(s.held, key) }), updates.Gone},
		"a counter is gone": {counters, 8, before("look", 5, func(s *lyingStore, key string) { delete(s.held, key) }), updates.Gone},
		"a key is gone for one read and comes back": {registers, 8, missing(), updates.Gone},
		"a value appears that no writer sent":       {registers, 8, before("look", 3, hold("x")), updates.Foreign},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := updatesOf(t, tc.lane, tc.updates, tc.lie)
			if s.Wrong != 1 || len(s.Faults) != 1 || s.Faults[0].Kind != tc.want {
				t.Errorf("%+v, want one fault of the kind %q", s, tc.want)
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
					s := updatesOf(t, lane, 60, func(s *lyingStore, called, _ string) {
						if called != call {
							return
						}
						calls++
						s.late, s.applies = calls%5 == 0, applies
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
	looks := 0
	s := updatesOf(t, 0, 5, func(s *lyingStore, call, key string) {
		switch call {
		case "put":
			s.late, s.applies = s.held[key].Value == "1", true
		case "look":
			if looks++; looks == 3 {
				s.held["updates/run/0/0"] = updates.State{}
			}
		}
	})
	if s.Wrong != 1 || s.Faults[0].Kind != updates.Gone || s.Faults[0].Key != "updates/run/0/0" {
		t.Errorf("%+v", s)
	}
}
