package redisclient_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/stores"
)

// restart does what the StatefulSet controller does: the pods end, and are made anew from the current template.
func (w *world) restart(step steps.Restart) {
	w.t.Helper()
	for _, ref := range step.Pods {
		p := w.pods[ref.Name]
		w.terminate(p)
		w.recreate(p, w.ephemeral)
	}
}

// become makes an engine the one of the template.
func (w *world) become(engine string) {
	w.t.Helper()
	server := stores.Newest(w.t, engine)
	w.binary, w.cluster.Spec.Version = server.Program(), server.Version
}

var upgrades = []struct{ from, to string }{{"redis-7.0", "redis-8.0"}, {"valkey-8.1", "valkey-9.1"}}

// TestARealClusterIsUpgraded replaces servers by those of the next major version while a client writes, with a replica for
// each shard and without.
func TestARealClusterIsUpgraded(t *testing.T) {
	t.Parallel()
	for i, u := range upgrades {
		for j, size := range []struct{ shards, replicas int32 }{{3, 0}, {3, 1}, {3, 2}, {1, 0}, {1, 1}, {2, 1}} {
			if testing.Short() && !picked(engines, i, j) {
				continue
			}
			t.Run(fmt.Sprintf("%s to %s, %d shards with %d replicas", u.from, u.to, size.shards, size.replicas), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, u.from, size.shards, size.replicas, true)
				w.startAll()
				w.settle()
				c := w.clients()
				w.write(c)
				w.steps = nil
				l := w.startLoad(c)
				w.become(u.to)
				took := w.settle()
				l.end(w, c)
				t.Logf("after %s\n%s", took, strings.Join(w.steps, "\n"))
				w.expect(w.clients())
				w.wantVersion(t)
			})
		}
	}
}

// wantVersion checks that all servers run the wanted version, and that there are as many as asked for.
func (w *world) wantVersion(t *testing.T) {
	t.Helper()
	pods := w.observe(t.Context()).Pods
	for _, p := range pods {
		if p.Node.Version != w.cluster.Spec.Version {
			t.Errorf("%s runs %s instead of %s", p.Name, p.Node.Version, w.cluster.Spec.Version)
		}
	}
	if want := int(w.cluster.Spec.Shards) * (1 + w.cluster.Spec.Replicas()); len(pods) != want {
		t.Errorf("%d pods instead of %d", len(pods), want)
	}
}

// TestAnUpgradeOfARealClusterIsSetBack: the replica that was newer starts as the older server over what it cannot read, and
// once a primary is newer the way back is refused.
func TestAnUpgradeOfARealClusterIsSetBack(t *testing.T) {
	t.Parallel()
	for _, u := range upgrades {
		t.Run(u.to+" back to "+u.from, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, u.from, 3, 1, true)
			w.startAll()
			w.settle()
			c := w.clients()
			w.write(c)
			l := w.startLoad(c)
			w.become(u.to)
			restarted := w.until("the first replica to be newer", func(step any) bool { _, ok := step.(steps.Restart); return ok })
			w.steps = nil
			w.become(u.from)
			took := w.settle()
			l.end(w, c)
			t.Logf("%s; after %s\n%s", restarted, took, strings.Join(w.steps, "\n"))
			w.expect(w.clients())
			w.wantVersion(t)

			w.become(u.to)
			w.until("the first primary to be newer", func(step any) bool { _, ok := step.(steps.Failover); return ok })
			w.become(u.from)
			w.settleUntil(planner.ReasonVersion)
			w.become(u.to)
			w.settle()
			w.expect(w.clients())
			w.wantVersion(t)
		})
	}
}

// until runs the loop until a step was taken and its effect was read back in sync.
func (w *world) until(what string, is func(step any) bool) string {
	w.t.Helper()
	for range 3000 {
		p := planner.Next(w.observe(w.t.Context()))
		if p.Step != nil {
			if err := w.act(w.t.Context(), p.Step); err != nil {
				w.t.Log(err)
			}
			if is(p.Step) {
				w.inSync()
				return p.Step.String()
			}
		}
		pause(w.t.Context(), p.After)
	}
	w.t.Fatalf("waiting for %s in vain", what)
	return ""
}

// inSync waits until every server answers and every replica follows.
func (w *world) inSync() {
	w.t.Helper()
	for range 3000 {
		ok := true
		for _, p := range w.observe(w.t.Context()).Pods {
			ok = ok && p.Node != nil && (p.Node.LinkUp || !p.Node.Self().Replica)
		}
		if ok {
			return
		}
		pause(w.t.Context(), 20*1000*1000)
	}
	w.t.Fatal("the replicas do not get into sync")
}
