package redisclient_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// TestFewPrimariesHandOver hands every shard of a cluster with one primary or two to its replica and back, while a client
// writes: the primary that hands over is one of those who vote on it.
func TestFewPrimariesHandOver(t *testing.T) {
	for _, engine := range engines {
		for _, shards := range []int32{1, 2} {
			t.Run(fmt.Sprintf("%s with %d", engine, shards), func(t *testing.T) {
				w := newWorld(t, engine, shards, 1, true)
				w.startAll()
				t.Logf("formed and in sync after %s", w.settle())
				c := w.clients()
				l := w.startLoad(c)
				for range 2 {
					for shard := range int(shards) {
						from := w.primary(t, shard)
						plan := w.planRestart(t, from)
						if _, ok := plan.Step.(redis.Failover); !ok {
							t.Fatalf("planned %s (%s), want a failover", plan.Step, plan.Message)
						}
						began := time.Now()
						if err := w.act(t.Context(), plan.Step); err != nil {
							t.Fatal(err)
						}
						took := time.Since(began)
						t.Logf("%s took %s; settled after %s", plan.Step, took.Round(time.Millisecond), w.settle().Round(time.Millisecond))
						if w.primary(t, shard) == from {
							t.Fatalf("%s is still the primary", from)
						}
					}
				}
				l.end(w, c)
				if l.failed.Load() > 0 {
					t.Errorf("%d writes failed", l.failed.Load())
				}
			})
		}
	}
}

var _ = strings.Join
var _ = cluster.Pod
