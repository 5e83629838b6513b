package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/harness"
)

// TestRedisReplicasChangeUnderLoad takes the shards of a cluster from one replica to two, to none and back to one, and then
// changes its mind midway, while a writer runs.
func TestRedisReplicasChangeUnderLoad(t *testing.T) {
	var c *v1alpha1.RedisCluster
	feature := features.New("replicas").Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
		c = s.redisOf(t, "carts", 1)
		createReady(ctx, t, s, c)
	}))
	for _, n := range [][2]int32{{1, 2}, {2, 0}, {0, 1}} {
		feature.Assess(fmt.Sprintf("%d to %d", n[0], n[1]), step(func(ctx context.Context, t *testing.T, s *scope) {
			what := fmt.Sprintf("replicas %d to %d", n[0], n[1])
			nothingLost(t, underLoad(ctx, t, s, c, what, func() { replicate(ctx, t, s, c, n[1]) }))
			wantReplicas(ctx, t, s, c, n[1])
		}))
	}
	feature.Assess("a number that is taken back midway", step(func(ctx context.Context, t *testing.T, s *scope) {
		nothingLost(t, underLoad(ctx, t, s, c, "replicas 1 to 2 to 1 midway", func() {
			replicate(ctx, t, s, c, 2)
			must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "a third pod", Within: time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
				return len(c.Status.Shards) > 0 && len(c.Status.Shards[0].Nodes) > 2, c.Status.Activity
			}))
			replicate(ctx, t, s, c, 1)
		}))
		wantReplicas(ctx, t, s, c, 1)
	}))
	suite.Test(t, feature.Feature())
}

// replicate sets the number of replicas and waits until the operator is at it.
func replicate(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, n int32) {
	t.Helper()
	before := refresh(ctx, t, s, c).DeepCopy()
	c.Spec.ReplicasPerShard = ptr.To(n)
	must(t, s.Patch(ctx, c, client.MergeFrom(before)))
	must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "the operator to notice", Within: time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
		return c.Status.ObservedGeneration == c.Generation, c.Status.Activity
	}))
}

// wantReplicas checks that every shard has so many replicas, pods and claims, and no more.
func wantReplicas(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, n int32) {
	t.Helper()
	waitReady(ctx, t, s, c)
	want := int(c.Spec.Shards * (1 + n))
	if ready := fmt.Sprintf("%[1]d/%[1]d", want); c.Status.Ready != ready {
		t.Errorf("%s servers are ready instead of %s", c.Status.Ready, ready)
	}
	if pods := s.pods(ctx, t, c); len(pods) != want {
		t.Errorf("there are %d pods instead of %d", len(pods), want)
	}
	var claims corev1.PersistentVolumeClaimList
	must(t, s.List(ctx, &claims, client.InNamespace(s.ns), client.MatchingLabels{cluster.LabelInstance: c.Name}))
	if len(claims.Items) != want {
		t.Errorf("there are %d claims instead of %d", len(claims.Items), want)
	}
}
