package redisclient_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// hungTimeout is after which time servers are taken for dead here, so long that a busy machine alone does not hold one up for as long.
const hungTimeout = 6 * time.Second

// asked asks a server again and again until it is stopped, and tells for how long the server said nothing at most.
func (w *world) asked(p *process) (stop func() (silent time.Duration)) {
	w.t.Helper()
	o := *w.client(p).Options()
	o.MaxRetries, o.ReadTimeout = -1, 2*time.Minute
	patient := goredis.NewClient(&o)
	must(w.t, patient.Ping(w.t.Context()).Err())
	ended, silent := make(chan struct{}), make(chan time.Duration)
	go func() {
		longest := time.Duration(0)
		for {
			select {
			case <-ended:
				_ = patient.Close()
				silent <- longest
				return
			case <-time.After(time.Millisecond):
			}
			began := time.Now()
			if err := patient.Ping(w.t.Context()).Err(); w.t.Context().Err() != nil {
				return // The test has failed.
			} else if err != nil {
				w.t.Errorf("%s does not answer: %v", p.name, err)
			}
			longest = max(longest, time.Since(began))
		}
	}()
	return func() time.Duration { close(ended); return <-silent }
}

// TestKeysForATargetThatHangsHoldUpTheSourceForAMoment sends the keys of many slots to a server that hangs, and a large one among them.
func TestKeysForATargetThatHangsHoldUpTheSourceForAMoment(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string, secure bool) {
		t.Helper()
		w := newWorld(t, engine, 3, 0, secure)
		w.startAll()
		w.settle()
		c, from, to := w.clients(), w.pods["carts-0-0"], w.pods["carts-1-0"]
		var small [][]model.Key
		for i := 0; len(small) < 65; i++ {
			if key := fmt.Sprintf("key-%d", i); c.ClusterKeySlot(t.Context(), key).Val() < 16384/3 {
				must(t, c.Set(t.Context(), key, "value", 0).Err())
				small = append(small, []model.Key{{Name: key, Bytes: 64}})
			}
		}
		large := small[64]
		noise := make([]byte, 12<<20) // May take a fifth of the time after which servers are taken for dead.
		for i := range noise {
			noise[i] = byte(rand.Uint32()) // It is not sent compressed.
		}
		must(t, c.Set(t.Context(), large[0].Name, noise, 0).Err())
		large[0].Bytes = int64(len(noise))
		const patience = hungTimeout / 6
		for name, batches := range map[string][][]model.Key{"small": small[1:64], "large": append([][]model.Key{large}, small[1:64]...)} {
			source := w.mover(from)
			var err error
			for end := time.Now().Add(30 * time.Second); err == nil || !strings.Contains(err.Error(), "MOVED"); { // The server has a connection from before.
				if time.Now().After(end) {
					t.Fatalf("a key went to a server that does not expect it: %v", err)
				}
				_, err = source.Send(t.Context(), w.address(to), small[:1], true, time.Second)
			}
			stop := w.asked(from)
			must(t, to.cmd.Process.Signal(syscall.SIGSTOP))
			_, err = source.Send(t.Context(), w.address(to), batches, false, patience)
			silent := stop()
			must(t, to.cmd.Process.Signal(syscall.SIGCONT))
			_ = source.Close()
			t.Logf("%s: the source said nothing for %s: %v", name, silent.Round(time.Millisecond), err)
			if err == nil || !strings.Contains(err.Error(), "IOERR") {
				t.Errorf("%s: keys were sent to a server that hangs: %v", name, err)
			}
			if silent < patience/2 || silent > hungTimeout {
				t.Errorf("%s: the source answered nobody for %s, with a patience of %s", name, silent, patience)
			}
		}
	})
}

// TestASourceThatHangsHoldsUpTheOperatorForAMoment sends keys from a server that hangs.
func TestASourceThatHangsHoldsUpTheOperatorForAMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, engines[0], 3, 0, true)
	w.startAll()
	w.settle()
	from, to := w.pods["carts-0-0"], w.pods["carts-1-0"]
	source := w.mover(from)
	defer func() { _ = source.Close() }()
	_, err := source.Process(t.Context())
	must(t, err)
	must(t, from.cmd.Process.Signal(syscall.SIGSTOP))
	began := time.Now()
	_, err = source.Send(t.Context(), w.address(to), [][]model.Key{{{Name: "a", Bytes: 1}}, {{Name: "b", Bytes: 1}}}, false, nodeTimeout/5)
	took := time.Since(began)
	must(t, from.cmd.Process.Signal(syscall.SIGCONT))
	if err == nil || took > 10*time.Second {
		t.Errorf("it took %s: %v", took, err)
	}
}

// TestATargetThatHangsTakesNoSourceWithIt stops the process of a server that is getting keys from three others, for longer than servers wait
// for each other. Those go on.
func TestATargetThatHangsTakesNoSourceWithIt(t *testing.T) {
	t.Parallel()
	for _, engine := range engines {
		if engine == "valkey-9.1" {
			continue // Its servers move slots by themselves.
		}
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, true)
			w.cluster.Spec.Config.NodeTimeout = &metav1.Duration{Duration: hungTimeout}
			w.startAll()
			w.settle()
			c := w.clients()
			w.write(c)
			w.fill(c, 20_000)
			primaries := []string{w.primary(t, 0), w.primary(t, 1), w.primary(t, 2)}
			var stops []func() time.Duration
			for _, name := range primaries {
				stops = append(stops, w.asked(w.pods[name]))
			}
			w.steps = nil
			w.cluster.Spec.Shards = 4
			w.grow()
			to := w.pods["carts-3-0"]
			target := to.cmd.Process
			hung := make(chan struct{})
			go func() {
				defer close(hung)
				held := w.client(to)
				defer func() { _ = held.Close() }()
				for held.DBSize(t.Context()).Val() < 500 {
					if pause(t.Context(), time.Millisecond); t.Context().Err() != nil {
						return // The test has failed.
					}
				}
				_ = target.Signal(syscall.SIGSTOP)
				pause(t.Context(), 2*hungTimeout)
				_ = target.Signal(syscall.SIGCONT)
			}()
			w.settle()
			<-hung
			longest := time.Duration(0)
			for shard, name := range primaries {
				silent := stops[shard]()
				t.Logf("%s said nothing for %s at most", name, silent.Round(time.Millisecond))
				longest = max(longest, silent)
				if now := w.primary(t, shard); now != name {
					t.Errorf("%s leads in the place of %s", now, name)
				}
			}
			if longest > hungTimeout {
				t.Errorf("a source said nothing for %s\n%s", longest, last(w.steps, 40))
			}
			w.expect(w.clients())
		})
	}
}
