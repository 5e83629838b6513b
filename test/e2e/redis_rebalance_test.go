package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/test/harness"
)

// TestRedisIsRebalancedUnderLoad fills one shard more than the others, reads what is proposed because of it, approves of that, and compares
// what the servers hold then, while a writer runs.
func TestRedisIsRebalancedUnderLoad(t *testing.T) {
	var c *v1alpha1.RedisCluster
	feature := features.New("rebalance").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1, func(r *v1alpha1.RedisClusterSpec) {
				r.Engine, r.Version = ptr.To(v1alpha1.EngineValkey), s.version(t, "VALKEY_9_1")
				r.Rebalance = &v1alpha1.RedisRebalanceSpec{By: ptr.To(v1alpha1.RebalanceByMemory)}
			})
			createReady(ctx, t, s, c)
		})).
		Assess("a proposal is carried out when it is approved", step(func(ctx context.Context, t *testing.T, s *scope) {
			fillShard(ctx, t, s, c, 1)
			proposal := awaitProposal(ctx, t, s, c)
			summary := underLoad(ctx, t, s, c, "rebalanced", func() {
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRebalance, proposal)
				must(t, s.Patch(ctx, c, client.RawPatch(types.MergePatchType, patch)))
				must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "balanced shards", Within: 2 * time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
					return meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionBalanced), c.Status.Activity
				}))
			})
			nothingLost(t, summary)
			noErrors(t, summary)
			wantLevel(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}

// fillShard writes 1 MiB into each of 90 slots of a shard of a fresh cluster of three.
func fillShard(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, shard int) {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	r, err := s.Redis(s.ns, primaryOf(ctx, t, s, c, shard).Name, conn)
	must(t, err)
	defer func() { _ = r.Close() }()
	own, text := slots.Share(shard, 3), strings.Repeat("x", 64<<10)
	for i, filled := 0, 0; filled < 90; i++ {
		tag := fmt.Sprintf("{fill-%d}", i)
		slot, err := r.ClusterKeySlot(ctx, tag).Result()
		must(t, err)
		if !own.Has(int(slot)) {
			continue
		}
		filled++
		must(t, r.Eval(ctx, "for i = 1, 16 do redis.call('SET', KEYS[1] .. i, ARGV[1]) end return 1", []string{tag}, text).Err())
	}
}

// awaitProposal waits until the status explains what would move, and until then nothing does.
func awaitProposal(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster) string {
	t.Helper()
	began := time.Now()
	must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "a proposal", Within: 3 * time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
		return c.Status.Rebalancing != nil && c.Status.Rebalancing.Proposal != "", conditionText(c, v1alpha1.ConditionBalanced)
	}))
	r := c.Status.Rebalancing
	figure(t, "proposal after %.1f s: %s", time.Since(began).Seconds(), conditionText(c, v1alpha1.ConditionBalanced))
	if !strings.Contains(conditionText(c, v1alpha1.ConditionBalanced), v1alpha1.AnnotationRebalance+"="+r.Proposal) {
		t.Error("the condition does not say how to approve of it")
	}
	if len(r.Shards) != 3 || r.Shards[1].Now < 200 || r.Shards[1].After > 120 || c.Status.Resharding != nil {
		t.Errorf("%+v; %+v", r, c.Status.Resharding)
	}
	must(t, harness.Eventually(ctx, "an event that tells of the proposal", time.Minute, func(ctx context.Context) (bool, string, error) {
		notes, err := s.notes(ctx, planner.ReasonProposed)
		return len(notes) > 0, fmt.Sprint(notes), err
	}))
	return r.Proposal
}

// wantLevel compares what the primaries hold.
func wantLevel(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster) {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	var used []int64
	total, most := int64(0), int64(0)
	for shard := range 3 {
		r, err := s.Redis(s.ns, primaryOf(ctx, t, s, c, shard).Name, conn)
		must(t, err)
		stats, err := r.Do(ctx, "MEMORY", "STATS").Result()
		_ = r.Close()
		must(t, err)
		fields, _ := stats.(map[any]any)
		bytes, _ := fields["dataset.bytes"].(int64)
		used, total, most = append(used, bytes>>20), total+bytes, max(most, bytes)
	}
	figure(t, "the shards hold %d MiB", used)
	if most > total/3*14/10 {
		t.Errorf("the heaviest of %d MiB is too heavy", used)
	}
}
