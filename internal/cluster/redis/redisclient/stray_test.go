package redisclient_test

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/clusterbus"
)

// mislead tells a server about itself what was true before it became a replica, as another server that has not heard of that may.
func (w *world) mislead(p, sender *process) {
	w.t.Helper()
	message, err := clusterbus.Update(w.nodeID(sender), w.nodeID(p))
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", net.JoinHostPort(p.ip, strconv.Itoa(model.BusPort)))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write(message); err != nil {
		w.t.Fatal(err)
	}
	pause(w.t.Context(), time.Second)
}

// TestACopyThatTakesItselfForAPrimaryBeginsAnew: nothing but an empty server can be told whom to follow.
func TestACopyThatTakesItselfForAPrimaryBeginsAnew(t *testing.T) {
	t.Parallel()
	for i, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, false)
			w.ephemeral = i%2 == 1
			w.startAll()
			w.settle()
			w.write(w.clients())
			primary := w.pods[w.primary(t, 1)]
			replica := w.pods["carts-1-0"]
			if replica == primary {
				replica = w.pods["carts-1-1"]
			}
			w.steps = nil
			w.mislead(replica, primary)
			for _, p := range w.observe(t.Context()).Pods {
				if p.Name == replica.name && (p.Node.Self().Replica || p.Node.Keys == 0) {
					t.Fatalf("%s is not misled: it is %+v, with %d keys", p.Name, p.Node.Self(), p.Node.Keys)
				}
			}
			t.Logf("settled after %s\n%s", w.settle(), last(w.steps, 10))
			if got := w.followers(1); len(got) != 1 || got[0] != 1 {
				t.Errorf("the replicas of shard 1 copy %v", got)
			}
			w.expect(w.clients())
		})
	}
}
