package redisclient_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// neighbours returns the servers of the neighbour, as the status of its resource has them.
func (w *world) neighbours() map[string]string {
	if w.neighbour == nil {
		return nil
	}
	out := map[string]string{}
	for _, id := range w.neighbour.ids {
		out[id] = model.ClusterOf(w.neighbour.cluster.Name, w.neighbour.cluster.Namespace)
	}
	return out
}

// noteIDs has the status of the resource name its servers.
func (w *world) noteIDs() {
	w.t.Helper()
	for _, p := range w.observe(w.t.Context()).Pods {
		w.ids = append(w.ids, p.Node.ID)
	}
}

// bumpEpochs gives the primaries of a cluster newer epochs than those of a fresh cluster have.
func (w *world) bumpEpochs() {
	w.t.Helper()
	for range 4 {
		for shard := range w.sets {
			if err := w.do(w.pods[w.primary(w.t, shard)], "CLUSTER", "BUMPEPOCH"); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// knowsAll reports whether every server of a cluster has every server of the other one in its table.
func (w *world) knowsAll(other *world) bool {
	w.t.Helper()
	theirs := other.observe(w.t.Context())
	for _, p := range w.observe(w.t.Context()).Pods {
		for _, o := range theirs.Pods {
			if _, ok := p.Node.Peer(o.Node.ID); !ok {
				return false
			}
		}
	}
	return true
}

// expectNoneOf fails if a server of a cluster has one of the other cluster in its table.
func (w *world) expectNoneOf(other *world) {
	w.t.Helper()
	theirs := other.observe(w.t.Context())
	for _, p := range w.observe(w.t.Context()).Pods {
		for _, o := range theirs.Pods {
			if _, ok := p.Node.Peer(o.Node.ID); ok {
				w.t.Errorf("%s has %s of the other cluster in its table", p.Name, o.Name)
			}
		}
	}
}

// TestTwoClustersThatMetAreParted has one CLUSTER MEET make one cluster of two, as a pod address that is used again may
// do. The primaries of carts have the newer epochs and keep their slots. Those of orders become their replicas, with a
// password that carts refuses, and keep their keys.
func TestTwoClustersThatMetAreParted(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			carts, orders := newWorldOf(t, "carts", engine, 3, 1, false), newWorldOf(t, "orders", engine, 3, 1, false)
			for name, password := range orders.passwords {
				orders.passwords[name] = "of-orders-" + password
			}
			orders.given.Store(orders.passwords[acl.PasswordDefault])
			for _, w := range []*world{carts, orders} {
				w.startAll()
				w.settle()
				w.write(w.clients())
				w.noteIDs()
			}
			carts.neighbour, orders.neighbour = orders, carts
			carts.bumpEpochs()
			if err := carts.do(carts.pods["carts-0-0"], "CLUSTER", "MEET", orders.pods["orders-0-0"].ip, model.ClientPort); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); !carts.knowsAll(orders) || !orders.knowsAll(carts); pause(t.Context(), 100*time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the clusters do not meet")
				}
			}

			carts.settle()
			carts.expectNoneOf(orders)
			carts.expect(carts.clients())

			orders.settleUntil(steps.ReasonForeign)
			plan := planner.Next(orders.observe(t.Context()))
			if !plan.Stalled || !strings.Contains(plan.Message, "carts in namespace shop") || !strings.Contains(plan.Message, "do not delete") {
				t.Errorf("orders says %q", plan.Message)
			}
			carts.stop() // To orders this is what a NetworkPolicy does that keeps the clusters apart.
			orders.settle()
			orders.expect(orders.clients())
		})
	}
}
