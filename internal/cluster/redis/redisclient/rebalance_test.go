package redisclient_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/balance"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// weigh does what the controller does, with every observation.
func (w *world) weigh(ctx context.Context, s *model.State) {
	if !w.rebalance.On() {
		return
	}
	sample := balance.Sample{At: s.Now, Servers: map[string]map[int]model.SlotStat{}}
	for _, p := range s.Pods {
		if p.Node == nil || len(p.Node.Self().Slots) == 0 {
			continue
		}
		c := w.connect(w.pods[p.Name])
		stats, err := c.SlotStats(ctx, p.Node.Self().Slots)
		_ = c.Close()
		if err != nil {
			w.t.Errorf("%s: %v", p.Name, err)
			continue
		}
		sample.Servers[balance.Teller(p.Node)] = stats
	}
	w.samples = append(w.samples, sample)
	for len(w.samples) > 2 && sample.At.Sub(w.samples[1].At) >= time.Second {
		w.samples = w.samples[1:]
	}
	s.Weights, s.Untold = balance.Weigh(w.rebalance.By, w.samples[0], sample, s.Pods)
	w.proposal, _ = balance.Propose(*s, w.proposal)
	s.Proposal = w.proposal
}

// untilProposed runs the loop until there is a proposal.
func (w *world) untilProposed() *model.Proposal {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		p := planner.Next(w.observe(ctx))
		w.steps = append(w.steps, p.Message)
		if w.proposal != nil && w.proposal.ID != "" {
			return w.proposal
		}
		if p.Step != nil {
			if err := w.act(ctx, p.Step); err != nil {
				w.t.Fatal(err)
			}
		}
		pause(ctx, 100*time.Millisecond)
	}
	s := w.observe(w.t.Context())
	w.t.Fatalf("nothing was proposed: %v\n%s", planner.Conditions(s, planner.Next(s), nil), strings.Join(w.steps, "\n"))
	return nil
}

// used is what each shard's data takes, in bytes.
func (w *world) used() []int64 {
	out := make([]int64, w.cluster.Spec.ShardCount())
	for _, p := range w.observe(w.t.Context()).Pods {
		if p.Node != nil && len(p.Node.Self().Slots) > 0 {
			out[p.Shard] = p.Node.Memory.Used - p.Node.Memory.Uncounted - p.Node.Memory.Empty
		}
	}
	return out
}

// tags are hash tags whose slots a shard owns.
func (w *world) tags(shard, n int) []string {
	w.t.Helper()
	var own slots.Set
	for _, p := range w.observe(w.t.Context()).Pods {
		if p.Shard == shard && p.Node != nil && len(p.Node.Self().Slots) > 0 {
			own = p.Node.Self().Slots
		}
	}
	c := w.clients()
	var out []string
	for i := 0; len(out) < n; i++ {
		tag := fmt.Sprintf("tag-%d", i)
		if slot, err := c.ClusterKeySlot(w.t.Context(), tag).Result(); err == nil && own.Has(int(slot)) {
			out = append(out, tag)
		}
	}
	return out
}

// TestShardsAreLevelledByMemory fills one shard more than the others, approves of what is proposed, and compares what the servers hold
// then, while a client writes.
func TestShardsAreLevelledByMemory(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, true)
			w.startAll()
			w.settle()
			c := w.clients()
			w.write(c)
			text := strings.Repeat("x", 3_000)
			tags := w.tags(1, 200)
			for _, tag := range tags {
				pipe := c.Pipeline()
				for i := range 50 {
					pipe.Set(t.Context(), fmt.Sprintf("{%s}-%d", tag, i), text, 0)
				}
				if _, err := pipe.Exec(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			k := w.count()
			w.steps = nil
			w.rebalance = model.Rebalance{By: v1alpha1.RebalanceByMemory, Threshold: 20, CoolDown: time.Hour}
			before := w.used()
			if most := int64(len(tags) * 50 * (len(text) + 600)); slices.Max(before) > most {
				t.Errorf("%d MiB are said to be held, and the values and what goes with them take no more than %d", inMiB(before), most>>20)
			}
			p := w.untilProposed()
			t.Logf("%d MiB; proposed: %v to %v, about %d MiB", inMiB(before), p.Now, p.After, p.Bytes>>20)
			w.settle()
			if after := w.used(); slices.Max(after) < slices.Max(before)/2 {
				t.Errorf("nobody has approved, and now they hold %d MiB", inMiB(after))
			}
			w.rebalance.Approved = p.ID
			t.Logf("carried out in %s", w.settle())
			k.expect(t)
			w.expect(w.clients())
			after := w.used()
			t.Logf("now %d MiB", inMiB(after))
			if total := after[0] + after[1] + after[2]; slices.Max(after) > total/3*13/10 {
				t.Errorf("the heaviest of %d MiB is too heavy", inMiB(after))
			}
			for _, tag := range tags {
				if n, err := c.Exists(t.Context(), "{"+tag+"}-0", "{"+tag+"}-49").Result(); err != nil || n != 2 {
					t.Fatalf("%s has %d of its keys (%v)", tag, n, err)
				}
			}
			if w.proposal != nil && w.proposal.ID != "" {
				t.Errorf("%v to %v is proposed again", w.proposal.Now, w.proposal.After)
			}
			t.Log(last(w.steps, 12))
		})
	}
}

func inMiB(bytes []int64) []int64 {
	out := slices.Clone(bytes)
	for i := range out {
		out[i] >>= 20
	}
	return out
}

// TestShardsAreLevelledByLoad has a client use slots of one shard alone. The servers measure what that costs, so that nothing else runs beside it.
func TestShardsAreLevelledByLoad(t *testing.T) {
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			w := newWorld(t, engine, 3, 1, false)
			w.startAll()
			w.settle()
			c := w.clients()
			w.write(c)
			w.rebalance = model.Rebalance{By: v1alpha1.RebalanceByLoad, Threshold: 20, CoolDown: time.Hour}
			if strings.HasPrefix(engine, "redis") {
				w.settleUntil(planner.ReasonLoadUntold)
				return
			}
			tags := w.tags(0, 60)
			for _, tag := range tags {
				var numbers []any
				for i := range 3000 {
					numbers = append(numbers, i*7919%3001)
				}
				if err := c.RPush(t.Context(), tag, numbers...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				for ctx.Err() == nil {
					for _, tag := range tags {
						c.Sort(ctx, tag, &goredis.Sort{Count: 1}) // What scripts take is not counted.
					}
				}
			}()
			p := w.untilProposed()
			t.Logf("proposed: %v to %v", p.Now, p.After)
			if p.Now[0] < 200 || p.After[0] > 130 {
				t.Errorf("%v to %v", p.Now, p.After)
			}
			w.rebalance.Approved = p.ID
			w.settle()
			stop()
			<-done
			w.expect(w.clients())
			t.Log(last(w.steps, 8))
		})
	}
}
