package e2e

import (
	"context"
	"maps"
	"slices"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
)

func TestEveryEtcdVersionBecomesReady(t *testing.T) {
	t.Parallel()
	var clusters []*v1alpha1.EtcdCluster
	feature := features.New("etcd 3.5, 3.6 and 3.7").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			for name, size := range map[string]int32{"ETCD_3_5": 3, "ETCD_3_6": 1, "ETCD_3_7": 3} {
				version := s.version(t, name)
				c := s.etcdOf(t, "v"+digits(version), size, func(e *v1alpha1.EtcdClusterSpec) { e.Version = version })
				s.create(ctx, t, c)
				clusters = append(clusters, c)
			}
		})).
		Assess("each is Ready with its version and takes data", step(func(ctx context.Context, t *testing.T, s *scope) {
			for _, c := range clusters {
				waitReady(ctx, t, s, c)
				if c.Status.CurrentVersion != c.Spec.Version {
					t.Errorf("%s runs %q, want %q", c.Name, c.Status.CurrentVersion, c.Spec.Version)
				}
				writeMarks(ctx, t, s, c)
				checkMarks(ctx, t, s, c)
			}
		}))
	suite.Test(t, feature.Feature())
}

func TestEveryRedisAndValkeyVersionBecomesReady(t *testing.T) {
	t.Parallel()
	type entry struct {
		key      string
		engine   v1alpha1.RedisEngine
		replicas int32
	}
	// Two at a time: the machine is small.
	batches := map[string][]entry{
		"Redis 7.0 and 8.0":  {{"REDIS_7_0", v1alpha1.EngineRedis, 1}, {"REDIS_8_0", v1alpha1.EngineRedis, 0}},
		"Valkey 8.1 and 9.1": {{"VALKEY_8_1", v1alpha1.EngineValkey, 0}, {"VALKEY_9_1", v1alpha1.EngineValkey, 1}},
	}
	feature := features.New("versions")
	for _, name := range slices.Sorted(maps.Keys(batches)) {
		feature.Assess(name, step(func(ctx context.Context, t *testing.T, s *scope) {
			var clusters []*v1alpha1.RedisCluster
			for _, e := range batches[name] {
				version := s.version(t, e.key)
				c := s.redisOf(t, string(e.engine)+digits(version), e.replicas, func(r *v1alpha1.RedisClusterSpec) {
					r.Engine, r.Version = ptr.To(e.engine), version
				})
				s.create(ctx, t, c)
				clusters = append(clusters, c)
			}
			for _, c := range clusters {
				redisWorks(ctx, t, s, c)
			}
		}))
	}
	suite.Test(t, feature.Feature())
}

// redisWorks waits for a cluster, checks its version and its data, and removes it.
func redisWorks(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster) {
	t.Helper()
	waitReady(ctx, t, s, c)
	if c.Status.CurrentVersion != c.Spec.Version {
		t.Errorf("%s runs %q, want %q", c.Name, c.Status.CurrentVersion, c.Spec.Version)
	}
	writeMarks(ctx, t, s, c)
	checkMarks(ctx, t, s, c)
	must(t, s.Delete(ctx, c))
}

// digits makes a version fit into a name: 3.6.16 -> 3-6-16.
func digits(version string) string {
	out := []byte(version)
	for i := range out {
		if out[i] == '.' {
			out[i] = '-'
		}
	}
	return string(out)
}
