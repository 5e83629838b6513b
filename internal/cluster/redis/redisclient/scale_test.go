package redisclient_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// scale does what the StatefulSet controller does: pods without room end, and their volumes stay.
func (w *world) scale(step steps.ScaleShards) error {
	for _, size := range step.Sets {
		w.sets[size.Shard] = size.To
		for ordinal := size.To; ordinal < size.From; ordinal++ {
			p := w.pods[cluster.Pod(cluster.ShardSet("carts", size.Shard), ordinal)]
			w.terminate(p)
			w.disks[p.name] = p.dir
			w.change.Lock()
			delete(w.pods, p.name)
			w.change.Unlock()
		}
	}
	w.grow()
	return nil
}

// grow starts the pods that the sets have got.
func (w *world) grow() {
	w.t.Helper()
	w.change.Lock()
	fresh := w.ensure()
	w.change.Unlock()
	for _, p := range fresh {
		w.newIP(p)
		w.start(p)
	}
}

// replicas asks for another number of replicas and starts the pods that the sets get.
func (w *world) replicas(n int32) {
	w.t.Helper()
	w.cluster.Spec.ReplicasPerShard = ptr.To(n)
	w.grow()
}

// load is a client that writes one key after another over all shards, each once, and remembers what was acknowledged.
type load struct {
	acked, failed atomic.Int64
	stall         time.Duration
	// why are the errors of writes that failed. It is to be read when the load has ended.
	why  []string
	stop context.CancelFunc
	done chan struct{}
}

func (w *world) startLoad(c *goredis.ClusterClient) *load {
	ctx, stop := context.WithCancel(w.t.Context())
	l := &load{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		last := time.Now()
		for ctx.Err() == nil {
			if err := c.Set(ctx, fmt.Sprintf("load-%d", l.acked.Load()), "x", 0).Err(); err != nil {
				if ctx.Err() == nil { // Otherwise it was the end of the load that came between.
					l.failed.Add(1)
					l.why = append(l.why, err.Error())
				}
				continue // The same key again: what failed may have been written.
			}
			l.acked.Add(1)
			pause(ctx, time.Millisecond)
			l.stall = max(l.stall, time.Since(last))
			last = time.Now()
		}
	}()
	return l
}

// end stops the client and looks for everything that was acknowledged to it.
func (l *load) end(w *world, c *goredis.ClusterClient) {
	w.t.Helper()
	l.stop()
	<-l.done
	lost := 0
	for i := range l.acked.Load() {
		n, err := c.Exists(w.t.Context(), fmt.Sprintf("load-%d", i)).Result()
		for tries := 0; err != nil && tries < 10; tries++ {
			pause(w.t.Context(), time.Second) // That nobody answers now does not mean that it is lost.
			n, err = c.Exists(w.t.Context(), fmt.Sprintf("load-%d", i)).Result()
		}
		if err != nil || n != 1 {
			lost++
		}
	}
	w.t.Logf("%d acknowledged, %d failed, %d lost, longest stall %s", l.acked.Load(), l.failed.Load(), lost, l.stall.Round(time.Millisecond))
	if lost > 0 {
		w.t.Errorf("%d acknowledged writes are lost", lost)
	}
	if l.acked.Load() == 0 {
		w.t.Error("nothing was acknowledged")
	}
}

// TestReplicasOfARealClusterChange takes shards from one replica to two, to none, and back to one, while a client writes.
// With two of the engines the volumes of the pods that left are there when they come back: Redis 7.0 lets their nodes in at
// once, the others only a minute after they were forgotten.
func TestReplicasOfARealClusterChange(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, true)
			w.startAll()
			t.Logf("formed and in sync after %s", w.settle())
			c := w.clients()
			w.write(c)
			for _, n := range []int32{2, 0, 1} {
				t.Run(fmt.Sprintf("to %d", n), func(t *testing.T) {
					w.steps = nil
					if engine == "redis-8.0" || engine == "valkey-8.1" {
						clear(w.disks)
					}
					l := w.startLoad(c)
					w.replicas(n)
					took := w.settle()
					l.end(w, c)
					t.Logf("after %s\n%s", took, strings.Join(w.steps, "\n"))
					w.expect(w.clients())
					if len(w.pods) != 3*(1+int(n)) {
						t.Errorf("%d pods", len(w.pods))
					}
					for _, p := range w.observe(t.Context()).Pods {
						if len(slices.Collect(p.Node.All())) != len(w.pods) {
							t.Errorf("%s knows %d nodes of %d", p.Name, len(slices.Collect(p.Node.All())), len(w.pods))
						}
					}
				})
			}
			t.Run("the primaries leave", func(t *testing.T) {
				w.steps = nil
				w.promoteSeconds()
				l := w.startLoad(c)
				w.replicas(0)
				took := w.settle()
				l.end(w, c)
				t.Logf("after %s\n%s", took, strings.Join(w.steps, "\n"))
				w.expect(w.clients())
			})
		})
	}
}

// promoteSeconds makes the second pod of every shard its primary.
func (w *world) promoteSeconds() {
	w.t.Helper()
	for shard := range int(w.cluster.Spec.Shards) {
		second := w.pods[cluster.Pod(cluster.ShardSet("carts", shard), 1)]
		from := w.primary(w.t, shard)
		if from == second.name {
			continue
		}
		if err := w.act(w.t.Context(), steps.Failover{Shard: shard, From: from, To: second.name}); err != nil {
			w.t.Fatal(err)
		}
	}
	w.settle()
}
