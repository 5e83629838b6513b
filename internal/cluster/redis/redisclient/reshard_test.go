package redisclient_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// counter writes ever larger values to its keys until it is stopped, and remembers what was acknowledged.
type counter struct {
	w      *world
	c      *goredis.ClusterClient
	acked  []atomic.Int64
	errors atomic.Int64
	// slowest is how long the write took that took longest.
	slowest atomic.Int64
	last    atomic.Value
	stop    context.CancelFunc
	done    sync.WaitGroup
}

const counterKeys = 400

// count starts a writer.
func (w *world) count() *counter {
	ctx, stop := context.WithCancel(w.t.Context())
	k := &counter{w: w, c: w.clients(), acked: make([]atomic.Int64, counterKeys), stop: stop}
	for part := range 4 {
		k.done.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				for i := part; i < counterKeys && ctx.Err() == nil; i += 4 {
					began := time.Now()
					switch err := k.c.Set(context.WithoutCancel(ctx), fmt.Sprintf("counter-%d", i), n, 0).Err(); err {
					case nil:
						k.acked[i].Store(n)
					default:
						k.errors.Add(1)
						k.last.Store(err.Error())
					}
					if took := int64(time.Since(began)); took > k.slowest.Load() {
						k.slowest.Store(took)
					}
				}
			}
		})
	}
	return k
}

// expect stops the writer and insists that every key has what was acknowledged last.
func (k *counter) expect(t *testing.T) {
	t.Helper()
	k.stop()
	k.done.Wait()
	total := int64(0)
	for i := range k.acked {
		want := k.acked[i].Load()
		got, err := k.c.Get(t.Context(), fmt.Sprintf("counter-%d", i)).Int64()
		if err != nil || got < want {
			t.Errorf("counter-%d is %d (%v), and %d was acknowledged", i, got, err, want)
		}
		total += want
	}
	t.Logf("%d writes acknowledged, %d failed (%v), the slowest took %s", total, k.errors.Load(), k.last.Load(), time.Duration(k.slowest.Load()).Round(time.Millisecond))
	if k.errors.Load() > 0 {
		t.Errorf("%d writes failed: %v", k.errors.Load(), k.last.Load())
	}
}

// TestSlotsMoveBetweenRealServers changes the number of shards of a real cluster, out and in, while a client writes.
func TestSlotsMoveBetweenRealServers(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, true)
			w.startAll()
			w.settle()
			c := w.clients()
			w.write(c)
			k := w.count()
			for _, shards := range []int32{4, 5, 3} {
				w.steps = nil
				began := time.Now()
				w.cluster.Spec.Shards = shards
				w.grow()
				w.settle()
				t.Logf("%d shards after %s\n%s", shards, time.Since(began).Round(time.Millisecond), last(w.steps, 25))
				for _, p := range w.pods {
					if p.shard >= int(shards) {
						t.Errorf("%s is still there", p.name)
					}
				}
			}
			k.expect(t)
			w.expect(w.clients())
		})
	}
}

func last(lines []string, n int) string {
	out := ""
	for _, line := range lines[max(0, len(lines)-n):] {
		out += line + "\n"
	}
	return out
}
