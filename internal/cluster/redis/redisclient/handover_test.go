package redisclient_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// TestAnHeirThatStandsStillLosesNothing has a client write while a shard is handed over to a replica that stands still for longer than
// servers wait for it, when it writes down that it asks for votes or that it was elected. It may be slow, so that its primary takes
// writes in vain until somebody tells it that it is none.
func TestAnHeirThatStandsStillLosesNothing(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		for _, tc := range []struct {
			moment int
			still  time.Duration
			guards int32
		}{{0, 7 * time.Second, 0}, {1, 7 * time.Second, 1}, {1, 25 * time.Second, 0}} {
			t.Run(fmt.Sprintf("%s, at moment %d for %s, %d guards", engine, tc.moment, tc.still, tc.guards), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, engine, 3, 1, false)
				w.cluster.Spec.Config.MinReplicasToWrite = ptr.To(tc.guards)
				w.startAll()
				w.settle()
				c := w.clients()
				l := w.startLoad(c)
				pause(t.Context(), 300*time.Millisecond)
				to, err := w.handOverWhile(t, tc.moment, tc.still)
				pause(t.Context(), 2*time.Second)
				w.settle()
				l.end(w, c)
				switch now := w.primary(t, 0); {
				case tc.moment == 1 && tc.still < 15*time.Second && (err != nil || now != to):
					t.Errorf("%v, and %s is the primary: it was elected", err, now)
				case tc.still > 15*time.Second && (err == nil) != (now == to): // It may have told its primary before it was stopped.
					t.Errorf("%v, and %s is the primary", err, now)
				}
				if l.failed.Load() > 0 {
					t.Errorf("%d writes failed: %q", l.failed.Load(), l.why)
				}
			})
		}
	}
}

// handOverWhile hands shard 0 over to a replica that stands still at that moment, and returns its name and what became of it. On a slow
// machine the servers may not have voted in time, before that moment came: then it is tried again.
func (w *world) handOverWhile(t *testing.T, moment int, still time.Duration) (to string, err error) {
	t.Helper()
	for range 5 {
		from, to := w.primary(t, 0), "carts-0-1"
		if from == to {
			to = "carts-0-0"
		}
		w.awaitState(func(s model.State) bool { return everybodyHasForReplica(s, to) })
		steps := planner.Lift(w.observe(t.Context()), steps.Failover{Shard: 0, From: from, To: to})
		step := steps[len(steps)-1]
		for _, before := range steps[:len(steps)-1] {
			must(t, w.act(t.Context(), before))
		}
		end := make(chan struct{})
		stood := w.pods[to].standStill(t, moment, still, end)
		began := time.Now()
		err := w.act(t.Context(), step)
		t.Logf("%s: %v after %s", step, err, time.Since(began).Round(time.Millisecond))
		close(end)
		if <-stood {
			return to, err
		}
	}
	t.Fatal("it never stood still")
	return "", nil
}

// everybodyHasForReplica tells whether all servers know that one is a replica. Until then nobody votes for it, and its primary does not listen.
func everybodyHasForReplica(s model.State, name string) bool {
	i := slices.IndexFunc(s.Pods, func(p model.Pod) bool { return p.Name == name && p.Node != nil })
	return i >= 0 && !slices.ContainsFunc(s.Pods, func(p model.Pod) bool {
		if p.Node == nil {
			return true
		}
		peer, ok := p.Node.Peer(s.Pods[i].Node.ID)
		return !ok || !peer.Replica
	})
}

// standStill stops a server when it writes down what it knows of the cluster for the n-th time, for so long. What it returns tells whether
// it did, as soon as it goes on or the end comes before.
func (p *process) standStill(t *testing.T, n int, d time.Duration, end <-chan struct{}) <-chan bool {
	t.Helper()
	files, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	if err := files.Add(p.dir); err != nil {
		t.Fatal(err)
	}
	stood := make(chan bool, 1)
	go func() {
		defer func() { _ = files.Close() }()
		for {
			select {
			case <-end:
				stood <- false
				return
			case e := <-files.Events:
				inPlace := e.Has(fsnotify.Write) && strings.HasSuffix(e.Name, model.NodesFile)
				anew := e.Has(fsnotify.Create) && strings.Contains(e.Name, model.NodesFile+".tmp-")
				if inPlace || anew {
					n--
				}
			}
			if n < 0 {
				_ = p.cmd.Process.Signal(syscall.SIGSTOP)
				pause(t.Context(), d)
				_ = p.cmd.Process.Signal(syscall.SIGCONT)
				stood <- true
				return
			}
		}
	}()
	return stood
}
