package redisclient_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
)

// limit gives the containers of all servers so much memory, as far as the planner lets it.
func (w *world) limit(memory string) {
	w.cluster.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}}
}

// wantSetting insists on a setting of all servers, as soon as all have answered.
func (w *world) wantSetting(name, want string) {
	w.t.Helper()
	pods := w.observe(w.t.Context()).Pods
	for tries := 0; tries < 10 && slices.ContainsFunc(pods, func(p model.Pod) bool { return p.Node == nil }); tries++ {
		pause(w.t.Context(), time.Second)
		pods = w.observe(w.t.Context()).Pods
	}
	for _, p := range pods {
		if p.Node == nil {
			w.t.Errorf("%s does not answer", p.Name)
			continue
		}
		if got := p.Node.Config[name]; got != want {
			w.t.Errorf("%s of %s is %s instead of %s", name, p.Name, got, want)
		}
	}
}

// enlargeTo writes so many keys of a MiB each into one slot.
func (w *world) enlargeTo(c *goredis.ClusterClient, n int) {
	w.t.Helper()
	for i := range n {
		if err := c.Set(w.t.Context(), fmt.Sprintf("{large}%d", i), strings.Repeat("x", 1<<20), 0).Err(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestMemoryOfARealClusterFollowsItsLimit raises and lowers the limit while a client writes, and lowers it further than the data allows.
func TestMemoryOfARealClusterFollowsItsLimit(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, true)
			w.limit("256Mi")
			w.startAll()
			w.settle()
			w.wantSetting("maxmemory", "195035136")
			w.wantSetting("repl-backlog-size", "8388608")
			c := w.clients()
			w.write(c)
			began := w.startTimes()
			l := w.startLoad(c)
			w.limit("384Mi")
			raised := w.settle()
			w.wantSetting("maxmemory", "294125568")
			w.limit("256Mi")
			lowered := w.settle()
			w.wantSetting("maxmemory", "195035136")
			l.end(w, c)
			t.Logf("raised after %s, lowered after %s", raised, lowered)
			if l.failed.Load() > 0 {
				t.Errorf("%d writes failed: %s", l.failed.Load(), l.why[0])
			}

			w.enlargeTo(c, 100)
			w.limit("128Mi")
			w.settleUntil(planner.ReasonNoRoom)
			w.enlargeTo(c, 110) // Writes go on.
			w.limit("256Mi")
			w.settle()
			w.wantSetting("maxmemory", "195035136")
			for name, at := range w.startTimes() {
				if !at.Equal(began[name]) {
					t.Errorf("%s was restarted", name)
				}
			}

			// An update of the operator: servers that have no maxmemory get none that they exceed, whatever keys would go.
			w.cluster.Spec.Config.MaxMemoryPolicy = ptr.To("allkeys-lru")
			w.settle()
			w.limit("128Mi")
			for _, p := range w.pods {
				p.limit = 128 << 20
				if err := w.do(p, "CONFIG", "SET", "maxmemory", "0"); err != nil {
					t.Fatal(err)
				}
			}
			w.settle()
			kept := 0
			for _, p := range w.observe(t.Context()).Pods {
				if p.Node.Config["maxmemory"] == "0" {
					kept++
				}
			}
			n := 0
			for i := range 110 {
				found, err := c.Exists(t.Context(), fmt.Sprintf("{large}%d", i)).Result()
				if err != nil {
					t.Fatal(err)
				}
				n += int(found)
			}
			if kept != 2 || n != 110 {
				t.Errorf("%d servers keep their maxmemory, and %d of 110 keys are there", kept, n)
			}
			w.expect(c)
		})
	}
}

// TestWritesOfARealClusterAreGuarded restarts all servers while a client writes and every write has to be acknowledged by a replica, and then
// has a replica not answer.
func TestWritesOfARealClusterAreGuarded(t *testing.T) {
	t.Parallel()
	some := someEngines(t)
	for i, engine := range some {
		for j, replicas := range []int32{1, 2} {
			if !picked(some, i, j) {
				continue
			}
			t.Run(fmt.Sprintf("%s with %d replicas", engine, replicas), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, engine, 3, replicas, true)
				w.cluster.Spec.Config.MinReplicasToWrite = ptr.To(replicas)
				w.startAll()
				w.settle()
				w.wantSetting("min-replicas-to-write", fmt.Sprint(replicas))
				w.wantSetting("min-replicas-max-lag", "2")
				c := w.clients()
				refused := &refusals{}
				c.OnNewNode(func(node *goredis.Client) { node.AddHook(refused) })
				w.write(c)
				w.steps = nil
				l := w.startLoad(c)
				for _, p := range w.pods {
					p.version = "another"
				}
				took := w.settle()
				w.wantSetting("min-replicas-to-write", fmt.Sprint(replicas))
				if replicas > 1 {
					w.cluster.Spec.Config.MinReplicasToWrite = ptr.To(replicas - 1)
					w.replicas(replicas - 1)
					w.settle()
					w.wantSetting("min-replicas-to-write", fmt.Sprint(replicas-1))
				}
				l.end(w, c)
				t.Logf("after %s\n%s", took, strings.Join(w.steps, "\n"))
				if l.failed.Load() > 0 {
					t.Errorf("%d writes failed: %s", l.failed.Load(), l.why[0])
				}
				if n := refused.n.Load(); n > 0 {
					t.Errorf("servers refused %d writes, which the client tried again", n)
				}
				w.refusesWithoutReplica(refused, c)
			})
		}
	}
}

// refusals counts what servers refuse for want of replicas. A client tries again by itself.
type refusals struct {
	n atomic.Int64
}

func (r *refusals) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (r *refusals) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (r *refusals) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil && strings.HasPrefix(err.Error(), "NOREPLICAS") {
			r.n.Add(1)
		}
		return err
	}
}

// refusesWithoutReplica has a replica not answer, and insists that its primary stops taking writes, and takes them again afterwards.
func (w *world) refusesWithoutReplica(refused *refusals, c *goredis.ClusterClient) {
	w.t.Helper()
	var replica *process
	for _, p := range w.pods {
		if p.shard == 0 && p.name != w.primary(w.t, 0) {
			replica = p
		}
	}
	key := w.keyOf(c, int64(0))
	if err := replica.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		w.t.Fatal(err)
	}
	await := func(what string, is func(err error) bool) {
		w.t.Helper()
		began := time.Now()
		for {
			ctx, cancel := context.WithTimeout(w.t.Context(), 500*time.Millisecond)
			err := c.Set(ctx, key, "x", 0).Err()
			cancel()
			if is(err) {
				w.t.Logf("%s after %s", what, time.Since(began).Round(100*time.Millisecond))
				return
			}
			if time.Since(began) > 20*time.Second {
				w.t.Fatalf("not %s: %v", what, err)
			}
			if p := planner.Next(w.observe(w.t.Context())); p.Step != nil {
				if err := w.act(w.t.Context(), p.Step); err != nil {
					w.t.Log(err)
				}
			}
			pause(w.t.Context(), 100*time.Millisecond)
		}
	}
	await("refused", func(error) bool { return refused.n.Load() > 0 })
	primary := w.pods[w.primary(w.t, 0)]
	for _, p := range w.observe(w.t.Context()).Pods {
		if p.Name == primary.name && (p.Node == nil || p.Node.Acknowledging == nil || fmt.Sprint(*p.Node.Acknowledging) >= p.Node.Config["min-replicas-to-write"]) {
			w.t.Errorf("%s is taken for one that takes writes: %+v", p.Name, p.Node)
		}
	}
	if err := replica.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		w.t.Fatal(err)
	}
	await("taken again", func(err error) bool { return err == nil })
}
