package redisclient_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// TestAKeyThatIsTooLargeStays moves all slots but the one whose key would hold its servers up for longer than the others wait for
// them, says so, and goes on when the key is gone.
func TestAKeyThatIsTooLargeStays(t *testing.T) {
	t.Parallel()
	for _, engine := range engines {
		if engine == "valkey-9.1" {
			continue // It has no such limit.
		}
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, false)
			w.startAll()
			w.settle()
			c := w.clients()
			w.write(c)
			const slot = 5000 // The first shard gives it away.
			key := w.keyOf(c, slot)
			w.enlarge(c, key, 20<<20)
			k := w.count()
			w.cluster.Spec.Shards = 4
			w.grow()
			refusal := w.untilRefused()
			if refusal.Reason != steps.ReasonKeyTooLarge || !strings.Contains(refusal.Message, fmt.Sprintf("a key of slot %d on carts-0-", slot)) {
				t.Errorf("%s: %s", refusal.Reason, refusal.Message)
			}
			for _, p := range w.observe(t.Context()).Pods {
				if len(p.Node.Self().Open) > 0 {
					t.Errorf("%s has open slots", p.Name)
				}
			}
			if err := c.Unlink(t.Context(), key).Err(); err != nil {
				t.Fatal(err)
			}
			w.settle()
			k.expect(t)
			w.expect(w.clients())
			t.Log(refusal.Message)
		})
	}
}

// keyOf is the name of a key of a slot.
func (w *world) keyOf(c *goredis.ClusterClient, slot int64) string {
	w.t.Helper()
	for i := range 1_000_000 {
		key := fmt.Sprintf("big-%d", i)
		if c.ClusterKeySlot(w.t.Context(), key).Val() == slot {
			return key
		}
	}
	w.t.Fatalf("no key of slot %d", slot)
	return ""
}

// enlarge makes a hash of so many bytes, and waits until a replica has it.
func (w *world) enlarge(c *goredis.ClusterClient, key string, size int) {
	w.t.Helper()
	for n := 0; n*1000*80 < size; n++ {
		pipe := c.Pipeline()
		for i := range 1000 {
			pipe.HSet(w.t.Context(), key, fmt.Sprintf("%d-%d", n, i), "sixteen letters.")
		}
		if _, err := pipe.Exec(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// untilRefused runs the loop until a step is refused and one slot is left to move.
func (w *world) untilRefused() cluster.Refusal {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		s := w.observe(ctx)
		left := 0
		for _, m := range slots.Balance(owned(s), int(w.cluster.Spec.Shards)) {
			left += m.Slots.Count()
		}
		p := planner.Next(s)
		if p.Step != nil {
			err := w.act(ctx, p.Step)
			var refusal cluster.Refusal
			if errors.As(err, &refusal) && left == 1 {
				return refusal
			}
		}
		pause(ctx, max(p.After, 20*time.Millisecond))
	}
	w.t.Fatalf("nothing was refused\n%s", strings.Join(w.steps, "\n"))
	return cluster.Refusal{}
}

// owned is what each shard has.
func owned(s model.State) []slots.Set {
	out := make([]slots.Set, s.Spec.Shards)
	for _, p := range s.Pods {
		if p.Node != nil && p.Shard < len(out) {
			out[p.Shard] = slots.Union(out[p.Shard], p.Node.Self().Slots)
		}
	}
	return out
}
