package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/harness"
)

// TestRedisSettingsTakeEffectUnderLoad changes settings of running servers while a writer runs, and restarts none.
func TestRedisSettingsTakeEffectUnderLoad(t *testing.T) {
	var c *v1alpha1.RedisCluster
	var pods map[string]types.UID
	feature := features.New("settings").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1)
			createReady(ctx, t, s, c)
			pods = uidsOf(ctx, t, s, c)
		})).
		Assess("settings are set in every server", step(func(ctx context.Context, t *testing.T, s *scope) {
			nothingLost(t, underLoad(ctx, t, s, c, "settings without a restart", func() {
				before := refresh(ctx, t, s, c).DeepCopy()
				c.Spec.Config = &v1alpha1.RedisConfig{
					MaxMemory: ptr.To(resource.MustParse("256Mi")), Extra: map[string]v1alpha1.ConfigValue{"hz": "50", "repl-backlog-size": "64mb"},
				}
				must(t, s.Patch(ctx, c, client.MergeFrom(before)))
				must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "the settings", Within: time.Minute}, func(c *v1alpha1.RedisCluster) (bool, string) {
					return configured(ctx, t, s, c, map[string]string{"maxmemory": "268435456", "hz": "50", "repl-backlog-size": "67108864"}), c.Status.Activity
				}))
			}))
			if diff := cmp.Diff(pods, uidsOf(ctx, t, s, c)); diff != "" {
				t.Errorf("pods were restarted:\n%s", diff)
			}
		}))
	suite.Test(t, feature.Feature())
}

func uidsOf(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	for _, p := range s.pods(ctx, t, c) {
		out[p.Name] = p.UID
	}
	return out
}

// configured tells whether all servers have the settings.
func configured(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, want map[string]string) bool {
	t.Helper()
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	for _, p := range s.pods(ctx, t, c) {
		node, err := s.Redis(s.ns, p.Name, conn)
		must(t, err)
		have, err := node.ConfigGet(ctx, "*").Result()
		must(t, errors.Join(err, node.Close()))
		for name, value := range want {
			if have[name] != value {
				return false
			}
		}
	}
	return true
}
