package redisclient_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/redis"
)

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
			_ = patient.Ping(w.t.Context()).Err()
			longest = max(longest, time.Since(began))
		}
	}()
	return func() time.Duration { close(ended); return <-silent }
}

// TestKeysForATargetThatHangsHoldUpTheSourceForAMoment sends the keys of many slots to a server that hangs.
func TestKeysForATargetThatHangsHoldUpTheSourceForAMoment(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string, secure bool) {
		t.Helper()
		w := newWorld(t, engine, 3, 0, secure)
		w.startAll()
		w.settle()
		c, from, to := w.clients(), w.pods["carts-0-0"], w.pods["carts-1-0"]
		var batches [][]redis.Key
		for i := 0; len(batches) < 64; i++ {
			if key := fmt.Sprintf("key-%d", i); c.ClusterKeySlot(t.Context(), key).Val() < 16384/3 {
				must(t, c.Set(t.Context(), key, "value", 0).Err())
				batches = append(batches, []redis.Key{{Name: key, Bytes: 64}})
			}
		}
		source := w.mover(from)
		defer func() { _ = source.Close() }()
		stop := w.asked(from)
		must(t, to.cmd.Process.Signal(syscall.SIGSTOP))
		_, err := source.Send(t.Context(), w.address(to), batches, false, nodeTimeout/5)
		silent := stop()
		must(t, to.cmd.Process.Signal(syscall.SIGCONT))
		t.Logf("the source said nothing for %s: %v", silent.Round(time.Millisecond), err)
		if err == nil || !strings.Contains(err.Error(), "IOERR") {
			t.Errorf("keys were sent to a server that hangs: %v", err)
		}
		if silent < nodeTimeout/10 || silent > nodeTimeout {
			t.Errorf("the source answered nobody for %s, and its patience is %s for each of two", silent, nodeTimeout/5)
		}
	})
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
			w.startAll()
			w.settle()
			c := w.clients()
			w.write(c)
			w.fill(c, 50_000)
			primaries := []string{w.primary(t, 0), w.primary(t, 1), w.primary(t, 2)}
			var stops []func() time.Duration
			for _, name := range primaries {
				stops = append(stops, w.asked(w.pods[name]))
			}
			w.steps = nil
			w.cluster.Spec.Shards = 4
			w.grow()
			to := w.pods["carts-3-0"]
			hung := make(chan struct{})
			go func() {
				defer close(hung)
				held := w.client(to)
				defer func() { _ = held.Close() }()
				for held.DBSize(t.Context()).Val() < 500 {
					time.Sleep(time.Millisecond)
				}
				_ = to.cmd.Process.Signal(syscall.SIGSTOP)
				time.Sleep(3 * nodeTimeout)
				_ = to.cmd.Process.Signal(syscall.SIGCONT)
			}()
			w.settle()
			<-hung
			for shard, name := range primaries {
				if silent := stops[shard](); silent > nodeTimeout {
					t.Errorf("%s said nothing for %s", name, silent)
				} else {
					t.Logf("%s said nothing for %s at most", name, silent.Round(time.Millisecond))
				}
				if now := w.primary(t, shard); now != name {
					t.Errorf("%s leads in the place of %s", now, name)
				}
			}
			t.Log(last(w.steps, 40))
			w.expect(w.clients())
		})
	}
}
