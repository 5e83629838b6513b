package redisclient_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// TestRealCluster runs the planner against real servers, from nothing through the faults that a cluster has to survive.
func TestRealCluster(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, true)
			w.startAll()
			t.Logf("formed and in sync after %s\n%s", w.settle(), strings.Join(w.steps, "\n"))
			c := w.clients()
			w.write(c)
			w.expect(c)

			comeBack(t, w)
			changeAddresses(t, w)
			handOver(t, w, engine)
		})
	}
}

// comeBack has servers start again in place or in another pod, with their data or without it.
func comeBack(t *testing.T, w *world) {
	t.Helper()
	t.Run("all pods come back at once with other addresses", func(t *testing.T) {
		w.steps = nil
		w.terminate(slices.Collect(maps.Values(w.pods))...)
		for _, p := range w.pods {
			w.recreate(p, false)
		}
		t.Logf("after %s\n%s", w.settle(), strings.Join(w.steps, "\n"))
		w.expect(w.clients())
	})
	t.Run("a primary is killed and restarted in place", func(t *testing.T) {
		w.steps = nil
		p := w.pods[w.primary(t, 0)]
		w.kill(p)
		w.start(p)
		t.Logf("after %s\n%s", w.settle(), strings.Join(w.steps, "\n"))
		w.expect(w.clients())
	})
	t.Run("a primary loses its disk", func(t *testing.T) {
		w.steps = nil
		p := w.pods[w.primary(t, 1)]
		w.kill(p)
		w.recreate(p, true)
		t.Logf("after %s\n%s", w.settle(), strings.Join(w.steps, "\n"))
		w.expect(w.clients())
	})
	t.Run("a primary restarts empty under its old identity", func(t *testing.T) {
		w.steps = nil
		p := w.pods[w.primary(t, 2)]
		w.kill(p)
		if err := os.RemoveAll(filepath.Join(p.dir, model.AppendDir)); err != nil {
			t.Fatal(err)
		}
		w.recreate(p, false)
		if p.gate == "" {
			t.Fatal("the gate let an empty primary start under its old identity")
		}
		t.Logf("after %s\n%s", w.settle(), strings.Join(w.steps, "\n"))
		w.expect(w.clients())
	})
	t.Run("a primary that was started empty restarts in place", func(t *testing.T) {
		w.steps = nil
		p := w.pods[w.primary(t, 2)]
		w.kill(p)
		w.writeFiles(p, false)
		w.run(p)
		t.Logf("after %s\n%s", w.settle(), strings.Join(w.steps, "\n"))
		w.expect(w.clients())
	})
	t.Run("a primary comes back empty in place", func(t *testing.T) {
		w.steps = nil
		p := w.pods[w.primary(t, 2)]
		w.kill(p)
		if err := os.RemoveAll(filepath.Join(p.dir, model.AppendDir)); err != nil {
			t.Fatal(err)
		}
		w.writeFiles(p, false)
		w.run(p)
		t.Logf("after %s\n%s", w.settle(), strings.Join(w.steps, "\n"))
		w.expect(w.clients())
	})
}

// changeAddresses has servers start at the address of a primary that is gone.
func changeAddresses(t *testing.T, w *world) {
	t.Helper()
	t.Run("an empty server gets the address of the primary that it replaces", func(t *testing.T) {
		w.steps = nil
		p := w.pods[w.primary(t, 1)]
		w.kill(p)
		w.recreateAt(p, p.ip, true)
		t.Logf("after %s\n%s", w.settle(), strings.Join(w.steps, "\n"))
		w.expect(w.clients())
	})
	t.Run("a server of another shard gets the address of a dead primary", func(t *testing.T) {
		w.steps = nil
		p, other := w.pods[w.primary(t, 1)], w.pods[w.primary(t, 0)]
		w.kill(p)
		w.kill(other)
		w.recreateAt(other, p.ip, false)
		w.recreate(p, true)
		t.Logf("after %s\n%s", w.settle(), strings.Join(w.steps, "\n"))
		w.expect(w.clients())
	})
}

// handOver has replicas take over, and keeps those from it that lack data or have none on disk.
func handOver(t *testing.T, w *world, engine string) {
	t.Helper()
	t.Run("a replica without a copy is not elected while its primary restarts", func(t *testing.T) {
		w.steps = nil
		primary := w.pods[w.primary(t, 0)]
		replica := w.pods["carts-0-0"]
		if primary == replica {
			replica = w.pods["carts-0-1"]
		}
		w.refuseReplicas(primary)
		w.kill(replica)
		w.recreate(replica, true)
		w.settleUntil(planner.ReasonSync)
		id := w.nodeID(primary)
		w.kill(primary)
		w.expectNoSuccessor(primary, id)
		w.start(primary)
		t.Logf("after %s\n%s", w.settle(), strings.Join(w.steps, "\n"))
		w.expect(w.clients())
	})
	t.Run("a shard is handed to a copy only when that is on disk", func(t *testing.T) {
		w.steps = nil
		from := w.primary(t, 0)
		replica := w.pods["carts-0-0"]
		if replica.name == from {
			replica = w.pods["carts-0-1"]
		}
		w.kill(replica)
		w.recreate(replica, true)
		for w.do(replica, "CONFIG", "SET", "rdb-key-save-delay", 100000) != nil { // 100 ms for each key: 10 s, longer than it takes to settle.
			pause(t.Context(), 50*time.Millisecond)
		}
		w.settle()
		plan := w.planRestart(t, from)
		// Valkey 9 keeps the file that it received, and has everything on disk at once.
		if plan.Reason != planner.ReasonDisk && !strings.HasPrefix(engine, "valkey-9") {
			t.Fatalf("planned %s: %s, want to wait for the disk", plan.Reason, plan.Message)
		}
		for end := time.Now().Add(time.Minute); plan.Reason == planner.ReasonDisk && time.Now().Before(end); {
			pause(t.Context(), 100*time.Millisecond)
			plan = w.planRestart(t, from)
		}
		if admit, ok := plan.Step.(steps.AdmitReplicas); ok { // It may be copied after a restart as well, now that it has everything on disk.
			if err := w.act(t.Context(), admit); err != nil {
				t.Fatal(err)
			}
			plan = w.planRestart(t, from)
		}
		if _, ok := plan.Step.(steps.Failover); !ok {
			t.Fatalf("planned %s: %s, want a failover", plan.Reason, plan.Message)
		}
		if err := w.act(t.Context(), plan.Step); err != nil {
			t.Fatal(err)
		}
		w.kill(replica)
		w.run(replica)
		w.settle()
		w.expect(w.clients())
	})
	t.Run("a shard is handed over", func(t *testing.T) {
		w.steps = nil
		from := w.primary(t, 0)
		plan := w.planRestart(t, from)
		if _, ok := plan.Step.(steps.Failover); !ok {
			t.Fatalf("planned %s (%s), want a failover", plan.Step, plan.Message)
		}
		started := time.Now()
		if err := w.act(t.Context(), plan.Step); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s took %s; settled after %s", plan.Step, time.Since(started), w.settle())
		if w.primary(t, 0) == from {
			t.Fatalf("%s is still the primary", from)
		}
		w.expect(w.clients())
	})
}

// TestRealClusterInPlainText covers what certificates would prevent, and a cluster without passwords for clients.
func TestRealClusterInPlainText(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, false)
			w.startAll()
			t.Logf("formed and in sync after %s", w.settle())
			c := w.clients()
			w.write(c)

			t.Run("another cluster gets the address of a primary that lost its disk", func(t *testing.T) {
				w.steps = nil
				p := w.pods[w.primary(t, 1)]
				w.kill(p)
				w.squat(p.ip)
				w.recreate(p, true)
				t.Logf("after %s\n%s", w.settle(), strings.Join(w.steps, "\n"))
				w.expect(w.clients())
			})
		})
	}
}

// planRestart is what is planned while the template of a pod is outdated.
func (w *world) planRestart(t *testing.T, pod string) cluster.Plan {
	t.Helper()
	s := w.observe(t.Context())
	for i := range s.Pods {
		s.Pods[i].Outdated = s.Pods[i].Name == pod
	}
	return planner.Next(s)
}

// primary names the pod that owns the slots of a shard.
func (w *world) primary(t *testing.T, shard int) string {
	t.Helper()
	for _, p := range w.observe(t.Context()).Pods {
		if p.Shard == shard && p.Node != nil && len(p.Node.Self().Slots) > 0 {
			return p.Name
		}
	}
	t.Fatalf("shard %d has no primary", shard)
	return ""
}
