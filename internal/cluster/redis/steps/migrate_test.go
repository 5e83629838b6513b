package steps_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// carrier is one end of a move: a process that has some keys.
type carrier struct {
	steps.Mover
	process string
	keys    []model.Key
	batches [][]model.Key
	states  []model.SlotState
	sent    func()
	// sees is what it has heard of the other one, and slow for how long it stands still when it is asked for keys, once for each.
	sees model.Peer
	slow []func()
}

func (c *carrier) SetSlots(_ context.Context, _ slots.Set, state model.SlotState, _ string) error {
	c.states = append(c.states, state)
	return nil
}

func (c *carrier) Sees(context.Context, string) (model.Peer, error) { return c.sees, nil }

func (c *carrier) Keys(context.Context, slots.Set, int) (map[int][]model.Key, error) {
	if len(c.slow) > 0 {
		c.slow[0]()
		c.slow = c.slow[1:]
	}
	if len(c.keys) == 0 {
		return nil, nil
	}
	return map[int][]model.Key{0: c.keys}, nil
}

func (c *carrier) Process(context.Context) (string, error) { return c.process, nil }

func (c *carrier) Send(_ context.Context, _ model.Address, batches [][]model.Key, _ bool, _ time.Duration) ([][]model.Key, error) {
	c.keys, c.batches = nil, append(c.batches, batches...)
	if c.sent != nil {
		c.sent()
	}
	return nil, nil
}

// TestAMoveEndsWithItsServers: a server that restarted may have lost what it had, and is not asked
// what it owns. One that stood still may have been replaced.
func TestAMoveEndsWithItsServers(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(from, to *carrier)
		during func(from, to *carrier)
		keeps  bool // the source keeps its keys
		fails  string
	}{
		"nothing happens":               {},
		"the source misses the target":  {before: func(from, _ *carrier) { from.sees.Failing = true }, keeps: true, fails: "c-0-0: it does not hear from c-1-0"},
		"the target was restarted":      {before: func(_, to *carrier) { to.process = "new" }, keeps: true, fails: "was restarted"},
		"the source restarts meanwhile": {during: func(from, _ *carrier) { from.process = "new" }, fails: "was restarted"},
		"the source is silent":          {during: func(_, to *carrier) { to.sees.Failing = true }, fails: "others may have elected"},
		"the source is found dead":      {during: func(_, to *carrier) { to.sees.Failed = true }, fails: "others may have elected"},
		"the source has been replaced":  {during: func(_, to *carrier) { to.sees.Replica = true }, fails: "is a replica by now"},
		"the source has lost the slots": {during: func(_, to *carrier) { to.sees.Slots = nil }, fails: "owns slots of it by now"},
		"the source stands still while it is asked for its keys": {before: func(from, to *carrier) {
			from.slow = []func(){func() {}, func() { time.Sleep(600 * time.Millisecond) }, func() { to.sees.Failed = true }}
		}, fails: "others may have elected"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := &carrier{process: "a", keys: []model.Key{{Name: "k", Bytes: 1}}}, &carrier{process: "b", sees: model.Peer{Slots: slots.Set{{From: 0, To: 0}}}}
			if tc.before != nil {
				tc.before(from, to)
			}
			if tc.during != nil {
				from.sent = func() { tc.during(from, to) }
			}
			m := steps.SlotMove{From: "c-0-0", To: "c-1-0", FromID: "f", ToID: "t", Slots: slots.Set{{From: 0, To: 0}}, Process: "a", ToProcess: "b", Patience: time.Second}
			_, err := m.Run(t.Context(), from, to, func() bool { return true })
			fails := tc.fails != ""
			if (err != nil) != fails || (err != nil && !strings.Contains(err.Error(), tc.fails)) {
				t.Errorf("%v", err)
			}
			if got := len(from.keys) > 0; got != tc.keeps {
				t.Errorf("the source keeps its keys: %t", got)
			}
			if slices.Contains(from.states, steps.SlotOwner) == fails || slices.Contains(to.states, steps.SlotOwner) == fails {
				t.Errorf("the slots were handed over or not: %v, %v", from.states, to.states)
			}
		})
	}
}

// TestKeysMoveInBatches of 256 KiB at most, and what is larger alone.
func TestKeysMoveInBatches(t *testing.T) {
	sizes := []int64{0, 100 << 10, 156 << 10, 1, 1 << 20, 5, 0, 256 << 10}
	from, to := &carrier{process: "a"}, &carrier{process: "b", sees: model.Peer{Slots: slots.Set{{From: 0, To: 0}}}}
	for _, bytes := range sizes {
		from.keys = append(from.keys, model.Key{Bytes: bytes})
	}
	m := steps.SlotMove{Slots: slots.Set{{From: 0, To: 0}}, Process: "a", ToProcess: "b"}
	done, err := m.Run(t.Context(), from, to, func() bool { return true })
	if err != nil || done.Keys != len(sizes) || done.Bytes != 1<<20+512<<10+6 {
		t.Errorf("%+v, %v", done, err)
	}
	var got []int
	for _, batch := range from.batches {
		got = append(got, len(batch))
	}
	if want := []int{3, 1, 1, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("batches of %v keys instead of %v", got, want)
	}
}
