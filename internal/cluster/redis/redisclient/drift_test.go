package redisclient_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/config"
)

// TestAParameterThatAClientChangesIsSetBack has a client change every pinned parameter of all servers, and ends all of them once they have their own values
// again: what was written meanwhile is on their disks.
func TestAParameterThatAClientChangesIsSetBack(t *testing.T) {
	t.Parallel()
	changes := [][2]string{
		{"appendonly", "no"}, {"save", "3600 1"}, {"replica-read-only", "no"}, {"repl-diskless-sync", "no"}, {"repl-diskless-sync-delay", "7"}, {"protected-mode", "yes"},
	}
	clustered := [][2]string{
		{"cluster-allow-replica-migration", "yes"}, {"cluster-replica-validity-factor", "0"}, {"cluster-require-full-coverage", "yes"},
	}
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 2, 1, true)
			w.startAll()
			w.settle()
			c := w.clients()
			for _, p := range w.pods {
				for _, change := range append(changes, clustered...) {
					must(t, w.do(p, "CONFIG", "SET", change[0], change[1]))
				}
			}
			w.write(c)
			if s := w.observe(t.Context()); s.Pods[0].Node.OnDisk {
				t.Errorf("%s counts as a copy that is on disk", s.Pods[0].Name)
			}
			w.settle()
			w.loopUntil(func() bool { return w.allOnDisk(t) })
			w.hasItsConfiguration(t)
			pods := make([]*process, 0, len(w.pods))
			for _, p := range w.pods {
				w.kill(p)
				pods = append(pods, p)
			}
			for _, p := range pods {
				w.start(p)
			}
			w.settle()
			w.expect(c)
		})
	}
}

// allOnDisk reports whether every server has on its disk what it serves.
func (w *world) allOnDisk(t *testing.T) bool {
	t.Helper()
	for _, p := range w.observe(t.Context()).Pods {
		if p.Node == nil || !p.Node.OnDisk {
			return false
		}
	}
	return true
}

// hasItsConfiguration compares what servers answer with what they were started with.
func (w *world) hasItsConfiguration(t *testing.T) {
	t.Helper()
	want, err := config.LiveConfig(&w.cluster.Spec)
	must(t, err)
	for _, p := range w.observe(t.Context()).Pods {
		for name, value := range want {
			if have, known := p.Node.Config[name]; known && have != value {
				t.Errorf("%s of %s is %q, want %q", name, p.Name, have, value)
			}
		}
	}
}

// TestAppendOnlyIsSetBackInTheModeReplicated has a client switch off the append-only files of both servers, as a user of the default password can.
func TestAppendOnlyIsSetBackInTheModeReplicated(t *testing.T) {
	t.Parallel()
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newReplicatedWorld(t, engine, 1, true)
			w.startAll()
			w.settle()
			for _, p := range w.pods {
				must(t, w.do(p, "CONFIG", "SET", "appendonly", "no", "replica-read-only", "no"))
			}
			w.settle()
			w.loopUntil(func() bool { return w.allOnDisk(t) })
			w.hasItsConfiguration(t)
		})
	}
}
