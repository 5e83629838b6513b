package redisclient_test

import (
	"testing"
	"time"
)

// What anomalies are found by is told by every engine.
func TestReadingsOfRealServers(t *testing.T) {
	t.Parallel()
	for _, engine := range allEngines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 1, 0, true)
			w.limit("64Mi")
			w.startAll()
			w.settle()
			before := w.observe(t.Context()).Pods[0].Node
			c := w.clients()
			w.write(c)
			if err := w.do(w.pods["carts-0-0"], "BGREWRITEAOF"); err != nil {
				t.Fatal(err)
			}
			asked := time.Now()
			after := w.observe(t.Context()).Pods[0].Node
			answered := time.Now()
			if after.Commands <= before.Commands {
				t.Errorf("%d commands after %d, with writes in between", after.Commands, before.Commands)
			}
			if after.Clock.Before(asked.Truncate(time.Millisecond)) || after.Clock.After(answered) {
				t.Errorf("its clock, which is ours, says %s between %s and %s", after.Clock, asked, answered)
			}
			if after.Fork <= 0 {
				t.Errorf("the fork that it has made took %s", after.Fork)
			}
			m := after.Memory
			if m.Used <= m.Uncounted || m.Uncounted < 0 || m.Resident == 0 || m.Max == 0 || m.Evicts {
				t.Errorf("memory %+v", m)
			}
		})
	}
}
