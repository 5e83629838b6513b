package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/harness"
)

// noRedisVersion is a release that there is no image of.
const noRedisVersion = "8.99.0"

// TestRedisIsUpgradedUnderLoad takes a cluster to a version that cannot be had and back, and then to the next major version,
// while a writer runs.
func TestRedisIsUpgradedUnderLoad(t *testing.T) {
	var c *v1alpha1.RedisCluster
	feature := features.New("redis").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1, func(r *v1alpha1.RedisClusterSpec) { r.Version = s.version(t, "REDIS_7_0") })
			createReady(ctx, t, s, c)
		})).
		Assess("a version that cannot be had is set back", step(func(ctx context.Context, t *testing.T, s *scope) {
			nothingLost(t, underLoad(ctx, t, s, c, "version that cannot be had", func() { missed(ctx, t, s, c) }))
			wantCurrent(ctx, t, s, c)
		})).
		Assess("from 7.0 to 8.0", step(func(ctx context.Context, t *testing.T, s *scope) {
			upgrade(ctx, t, s, c, s.version(t, "REDIS_8_0"))
		})).
		Assess("back to 7.0 is refused", step(func(ctx context.Context, t *testing.T, s *scope) {
			before := refresh(ctx, t, s, c).DeepCopy()
			c.Spec.Version = s.version(t, "REDIS_7_0")
			must(t, s.Patch(ctx, c, client.MergeFrom(before)))
			must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "the way back to be refused", Within: time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
				text := conditionText(c, v1alpha1.ConditionStalled)
				return strings.Contains(text, "VersionMismatch") && strings.Contains(text, "set spec.version to"), text
			}))
			figure(t, "back to 7.0: %s", conditionText(c, v1alpha1.ConditionStalled))
		}))
	suite.Test(t, feature.Feature())
}

// TestValkeyIsUpgradedUnderLoad does so without replicas: no slot may be out of service for longer than a hand-over takes.
func TestValkeyIsUpgradedUnderLoad(t *testing.T) {
	var c *v1alpha1.RedisCluster
	feature := features.New("valkey").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 0, func(r *v1alpha1.RedisClusterSpec) {
				r.Engine, r.Version, r.Storage = ptr.To(v1alpha1.EngineValkey), s.version(t, "VALKEY_8_1"), nil
			})
			createReady(ctx, t, s, c)
		})).
		Assess("from 8.1 to 9.1 without replicas and storage", step(func(ctx context.Context, t *testing.T, s *scope) {
			upgrade(ctx, t, s, c, s.version(t, "VALKEY_9_1"))
			if pods := s.pods(ctx, t, c); len(pods) != 3 {
				t.Errorf("there are %d pods instead of 3", len(pods))
			}
		}))
	suite.Test(t, feature.Feature())
}

// upgrade changes the version under load.
func upgrade(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, version string) {
	t.Helper()
	what := string(c.Spec.ServerEngine()) + " from " + c.Spec.Version + " to " + version
	nothingLost(t, underLoad(ctx, t, s, c, what, func() {
		change(ctx, t, s, c, func() { c.Spec.Version = version })
	}))
	if refresh(ctx, t, s, c).Status.CurrentVersion != version {
		t.Errorf("the cluster runs %s instead of %s", c.Status.CurrentVersion, version)
	}
	wantCurrent(ctx, t, s, c)
}

// missed asks for a version whose first replica cannot start, and takes it back when the status names it.
func missed(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster) {
	t.Helper()
	was := c.Spec.Version
	change(ctx, t, s, c, func() { c.Spec.Version = noRedisVersion })
	must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "the image to be missed", Within: 2 * time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
		text := conditionText(c, v1alpha1.ConditionReady)
		return strings.Contains(text, "ImagePull"), text
	}))
	figure(t, "with a version that cannot be had: %s", conditionText(c, v1alpha1.ConditionReady))
	before := refresh(ctx, t, s, c).DeepCopy()
	c.Spec.Version = was
	must(t, s.Patch(ctx, c, client.MergeFrom(before)))
}
