package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/test/harness"
)

// TestRedisIsReshardedUnderLoad takes a cluster of each engine from three shards to five and back while a writer runs. The servers of
// Valkey 9 move slots by themselves, and those of the others key by key.
func TestRedisIsReshardedUnderLoad(t *testing.T) {
	for version, engine := range map[string]v1alpha1.RedisEngine{
		"REDIS_7_0": v1alpha1.EngineRedis, "REDIS_8_0": v1alpha1.EngineRedis,
		"VALKEY_8_1": v1alpha1.EngineValkey, "VALKEY_9_1": v1alpha1.EngineValkey,
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			var c *v1alpha1.RedisCluster
			feature := features.New("reshard").Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
				c = s.redisOf(t, "carts", 1)
				c.Spec.Engine, c.Spec.Version = &engine, s.version(t, version)
				createReady(ctx, t, s, c)
			}))
			for _, shards := range [][2]int32{{3, 5}, {5, 3}} {
				feature.Assess(fmt.Sprintf("%d to %d", shards[0], shards[1]), step(func(ctx context.Context, t *testing.T, s *scope) {
					summary := underLoad(ctx, t, s, c, fmt.Sprintf("%d to %d shards", shards[0], shards[1]), func() { reshard(ctx, t, s, c, shards[1]) })
					nothingLost(t, summary)
					noErrors(t, summary)
					wantResharded(ctx, t, s, c, int(shards[1]))
					wantMigrated(ctx, t, s, c, version == "VALKEY_9_1")
				}))
			}
			suite.Test(t, feature.Feature())
		})
	}
}

// reshard sets the number of shards through the scale subresource, as kubectl scale does, and waits until the operator is at it.
func reshard(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, shards int32) {
	t.Helper()
	_, err := s.Run(ctx, "--namespace", s.ns, "scale", "rediscluster", c.Name, fmt.Sprintf("--replicas=%d", shards))
	must(t, err)
	must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "slots on their way", Within: 2 * time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
		moving := c.Status.Resharding != nil && c.Status.Resharding.SlotsMoved > 0
		return c.Spec.Shards == shards && (moving || c.Status.ShardCount == shards), c.Status.Activity
	}))
	r := c.Status.Resharding
	if r == nil {
		figure(t, "the slots had moved before anybody could look")
		return
	}
	figure(t, "midway: %d slots left; %d moved, with %d keys of %d bytes", r.SlotsLeft, r.SlotsMoved, r.KeysMoved, r.BytesMoved)
}

// wantMigrated checks that servers have moved slots by themselves, or that they cannot.
func wantMigrated(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, want bool) {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	migrated := 0
	for _, pod := range s.pods(ctx, t, c) {
		r, err := s.Redis(s.ns, pod.Name, conn)
		must(t, err)
		jobs, err := r.Do(ctx, "CLUSTER", "GETSLOTMIGRATIONS").Slice()
		_ = r.Close()
		if want {
			must(t, err)
		}
		for _, job := range jobs {
			fields, _ := job.(map[any]any)
			if fields["state"] != "success" {
				t.Errorf("%s: %v", pod.Name, fields)
			}
			migrated++
		}
	}
	figure(t, "the servers have %d migrations in their books", migrated)
	if want != (migrated > 0) {
		t.Errorf("%d migrations", migrated)
	}
}

// wantResharded checks that the cluster has so many shards with as many slots each, and no object of another one.
func wantResharded(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, shards int) {
	t.Helper()
	waitReady(ctx, t, s, c)
	if len(c.Status.Shards) != shards || c.Status.Resharding != nil {
		t.Errorf("the status has %d shards instead of %d, and resharding %v", len(c.Status.Shards), shards, c.Status.Resharding)
	}
	if pods := s.pods(ctx, t, c); len(pods) != 2*shards {
		t.Errorf("there are %d pods instead of %d", len(pods), 2*shards)
	}
	var sets appsv1.StatefulSetList
	var budgets policyv1.PodDisruptionBudgetList
	ours := []client.ListOption{client.InNamespace(s.ns), client.MatchingLabels(manifests.Selector(c))}
	must(t, s.List(ctx, &sets, ours...))
	must(t, s.List(ctx, &budgets, ours...))
	if len(sets.Items) != shards || len(budgets.Items) != shards {
		t.Errorf("there are %d StatefulSets and %d budgets for %d shards", len(sets.Items), len(budgets.Items), shards)
	}
	for i, row := range c.Status.Shards {
		if want := cluster.ShardSet(c.Name, i); row.Name != want || row.Primary == "" || len(row.Nodes) != 2 {
			t.Errorf("shard %d: %+v", i, row)
		}
	}
}
