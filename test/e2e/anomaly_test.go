package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/test/harness"
)

// TestAFullRedisIsToldAndIsOver fills one shard almost up to its limit and empties it again, and reads what is said of it meanwhile.
func TestAFullRedisIsToldAndIsOver(t *testing.T) {
	var c *v1alpha1.RedisCluster
	wait := func(ctx context.Context, t *testing.T, s *scope, want metav1.ConditionStatus) time.Duration {
		t.Helper()
		began := time.Now()
		must(t, harness.WaitCondition(ctx, s.Cluster, c, metav1.Condition{Type: v1alpha1.ConditionPerformanceHealthy, Status: want}, 6*time.Minute))
		t.Log(conditionText(c, v1alpha1.ConditionPerformanceHealthy))
		return time.Since(began).Round(time.Second)
	}
	feature := features.New("anomaly").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 0, func(r *v1alpha1.RedisClusterSpec) {
				r.Config = &v1alpha1.RedisConfig{MaxMemory: ptr.To(resource.MustParse("32Mi"))}
			})
			createReady(ctx, t, s, c)
		})).
		Assess("nothing is found of an idle cluster", step(func(ctx context.Context, t *testing.T, s *scope) {
			wait(ctx, t, s, metav1.ConditionTrue)
		})).
		Assess("a shard that is almost full", step(func(ctx context.Context, t *testing.T, s *scope) {
			fillTo(ctx, t, s, c, 1, 30) // Of 32.
			took := wait(ctx, t, s, metav1.ConditionFalse)
			text := conditionText(c, v1alpha1.ConditionPerformanceHealthy)
			if !strings.Contains(text, "carts-1 uses more than 90 % of its maxmemory of 32 MiB: raise spec.resources.limits.memory or spec.config.maxMemory") {
				t.Errorf("it says %q", text)
			}
			if !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady) {
				t.Errorf("%s, because of what is no failure", conditionText(c, v1alpha1.ConditionReady))
			}
			wantFinding(ctx, t, s, c, 1)
			wantNotes(ctx, t, s, "MemoryForecast")
			figure(t, "a shard that is more than 90 %% full is told after %s", took)
		})).
		Assess("and is over", step(func(ctx context.Context, t *testing.T, s *scope) {
			inShard(ctx, t, s, c, 1, func(r *goredis.Client) { must(t, r.FlushAll(ctx).Err()) })
			took := wait(ctx, t, s, metav1.ConditionTrue)
			wantFinding(ctx, t, s, c, 0)
			wantNotes(ctx, t, s, cluster.ReasonRecovered)
			figure(t, "that it is not any more after %s", took)
		}))
	suite.Test(t, feature.Feature())
}

// fillTo writes keys of 64 KiB into the slots of one of three shards until its primary uses so many MiB.
func fillTo(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, shard int, mib int64) {
	t.Helper()
	inShard(ctx, t, s, c, shard, func(r *goredis.Client) {
		own, text := slots.Share(shard, 3), strings.Repeat("x", 64<<10)
		for i := range 10000 {
			key := fmt.Sprintf("fill-%d", i)
			slot, err := r.ClusterKeySlot(ctx, key).Result()
			must(t, err)
			if !own.Has(int(slot)) {
				continue
			}
			must(t, r.Set(ctx, key, text, 0).Err())
			info, err := r.InfoMap(ctx, "memory").Result()
			must(t, err)
			used, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
			must(t, err)
			if used > mib<<20 {
				t.Logf("%d bytes are used after %d keys", used, i)
				return
			}
		}
		t.Fatal("it does not get full")
	})
}

// inShard does something with a client of the primary of a shard.
func inShard(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, shard int, do func(*goredis.Client)) {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	r, err := s.Redis(s.ns, primaryOf(ctx, t, s, c, shard).Name, conn)
	must(t, err)
	defer func() { _ = r.Close() }()
	do(r)
}

// wantFinding reads the metric of the finding that memory is almost full.
func wantFinding(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, want int) {
	t.Helper()
	_, text, err := s.metrics(ctx, s.token(ctx, t, fmt.Sprint("reader-", want), true))
	must(t, err)
	series := fmt.Sprintf(`quorate_anomaly{finding="MemoryForecast",kind="RedisCluster",name=%q,namespace=%q} 1`, c.Name, c.Namespace)
	if got := strings.Count(text, series); got != want {
		t.Errorf("%d times %s, want %d", got, series, want)
	}
}

// wantNotes asks for one event with a reason.
func wantNotes(ctx context.Context, t *testing.T, s *scope, reason string) {
	t.Helper()
	must(t, harness.Eventually(ctx, "an event "+reason, time.Minute, func(ctx context.Context) (bool, string, error) {
		notes, err := s.notes(ctx, reason)
		return len(notes) == 1, fmt.Sprint(notes), err
	}))
}
