package redisclient_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// pulled is the engine in front of which a puller stands.
const pulled = "redis-8.0"

// byKey are the steps that moved keys one by one.
func (w *world) byKey() []string {
	return slices.DeleteFunc(slices.Clone(w.steps), func(s string) bool { return !strings.Contains(s, "{Slots:") })
}

// TestTargetsPullSlots changes the number of shards, out and in, while a client writes.
func TestTargetsPullSlots(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pulled, 3, 1, false)
	x := w.pull()
	w.startAll()
	w.settle()
	w.write(w.clients())
	k := w.count()
	for _, shards := range []int32{4, 3} {
		w.cluster.Spec.Shards = shards
		w.grow()
		t.Logf("%d shards after %s", shards, w.settle())
	}
	k.expect(t)
	w.expect(w.clients())
	if left := w.byKey(); len(left) > 0 {
		t.Errorf("keys were moved one by one: %v", left)
	}
	if done := x.count("import", "completed"); done < 3 {
		t.Errorf("%d migrations", done)
	}
	t.Log(last(w.steps, 20))
}

// count is the number of tasks that all processes together have in their books.
func (x *puller) count(operation, state string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for _, books := range x.books {
		for _, t := range books {
			if t.operation == operation && t.state == state {
				n++
			}
		}
	}
	return n
}

// TestPulledSlotsSurviveWhatBreaks breaks the first migration that runs in every way that there is, while a client writes.
func TestPulledSlotsSurviveWhatBreaks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fail func(attempt int) string
		// spoil is done while the first migration is held.
		spoil func(w *world, source, target *process, id string)
		// loses says that a replica takes over, which may not have the last writes.
		loses bool
		// byKey says that keys are moved one by one in the end.
		byKey bool
	}{
		"two attempts fail": {fail: func(attempt int) string {
			if attempt < 2 {
				return "Sync buffer drain timeout"
			}
			return ""
		}},
		"every attempt fails": {fail: func(int) string { return "Sync buffer drain timeout" }, byKey: true},
		"it is cancelled at its source alone": {spoil: func(w *world, source, _ *process, id string) {
			w.cancel(source, id)
		}},
		"it is cancelled": {spoil: func(w *world, source, target *process, id string) {
			w.cancel(target, id)
			w.cancel(source, id)
		}},
		"its source restarts": {spoil: func(w *world, source, _ *process, _ string) { w.kill(source); w.run(source) }},
		"its target restarts": {spoil: func(w *world, _, target *process, _ string) { w.kill(target); w.run(target) }},
		"its source is replaced by its replica": {spoil: func(w *world, source, _ *process, _ string) {
			w.kill(source)
			w.expectSuccessor(source)
			w.recreate(source, false)
		}, loses: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pulled, 3, 1, false)
			x := w.pull()
			x.fail = tc.fail
			w.startAll()
			w.settle()
			w.write(w.clients())
			k := w.count()
			w.steps = nil
			w.cluster.Spec.Shards = 4
			w.grow()
			if tc.spoil != nil {
				release := x.hold()
				move := w.untilMigrating().Moves[0]
				w.settleUntil(steps.ReasonMoveSlots)
				tc.spoil(w, w.pods[move.From], w.pods[move.To], w.migrations()[0].Name)
				release()
			}
			t.Logf("settled after %s\n%s", w.settle(), last(w.steps, 40))
			if tc.loses {
				k.stop()
				k.done.Wait()
			} else {
				k.expectKept(t)
			}
			w.expect(w.clients())
			if byKey := len(w.byKey()) > 0; byKey != tc.byKey {
				t.Errorf("keys were moved one by one: %t, want %t", byKey, tc.byKey)
			}
		})
	}
}

func (w *world) cancel(p *process, id string) {
	w.t.Helper()
	c := w.connect(p)
	defer func() { _ = c.Close() }()
	if err := c.CancelMigration(w.t.Context(), id); err != nil {
		w.t.Error(err)
	}
}

// TestAMigrationThatNobodyKnowsIsCancelled is what an operator meets that repeats itself, or whose servers have restarted.
func TestAMigrationThatNobodyKnowsIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pulled, 3, 0, false)
	w.pull()
	w.startAll()
	w.settle()
	for _, p := range w.pods {
		w.cancel(p, strings.Repeat("0", 40))
	}
	for _, p := range w.observe(t.Context()).Pods {
		if !p.Node.Pulls || p.Node.Migrations == nil || len(p.Node.Migrations) > 0 {
			t.Errorf("%s: %t %v", p.Name, p.Node.Pulls, p.Node.Migrations)
		}
	}
}
