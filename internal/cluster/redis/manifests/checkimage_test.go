package manifests

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
)

func TestACheckRunsInTheImageOfTheClusterWhereThatReadsTheData(t *testing.T) {
	own := func(engine v1alpha1.RedisEngine, version string) *v1alpha1.RedisCluster {
		return &v1alpha1.RedisCluster{Spec: v1alpha1.RedisClusterSpec{Engine: &engine, Version: version, Image: ptr.To("registry.example/mine")}}
	}
	public := func(version, runs string) *v1alpha1.RedisCluster {
		return &v1alpha1.RedisCluster{Spec: v1alpha1.RedisClusterSpec{Version: version}, Status: v1alpha1.RedisClusterStatus{CurrentVersion: runs}}
	}
	const mine = "registry.example/mine"
	for name, tc := range map[string]struct {
		cluster     *v1alpha1.RedisCluster
		engine      v1alpha1.RedisEngine
		wrote, want string
	}{
		"the same version":           {own("redis", "8.0.2"), "redis", "8.0.2", mine},
		"upgraded meanwhile":         {own("valkey", "9.1.2"), "valkey", "8.1.1", mine},
		"by its version":             {public("8.0.2-bookworm", "8.0.2"), "redis", "7.0.15", "docker.io/library/redis:8.0.2-bookworm"},
		"about to be upgraded":       {public("8.0.99", "8.0.2"), "redis", "8.0.2", "docker.io/library/redis:8.0.2"},
		"made anew, older":           {own("valkey", "8.1.1"), "valkey", "9.1.2", "docker.io/valkey/valkey:9.1.2"},
		"made anew, another engine":  {own("valkey", "9.1.2"), "redis", "7.0.15", "docker.io/library/redis:7.0.15"},
		"the cluster is gone":        {nil, "valkey", "9.1.2", "docker.io/valkey/valkey:9.1.2"},
		"a tag with a suffix":        {nil, "redis", "8.0.2-bookworm", "docker.io/library/redis:8.0.2-bookworm"},
		"nobody knows what wrote it": {own("redis", "8.0.2"), "redis", "", ""},
		"an engine of another kind":  {nil, "etcd", "3.6.16", ""},
	} {
		if got := CheckImage(tc.cluster, tc.engine, tc.wrote, ""); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestTheRegistryOfTheInstallationHoldsWhatTheSpecificationDoesNotName(t *testing.T) {
	valkey := &v1alpha1.RedisClusterSpec{Engine: ptr.To(v1alpha1.EngineValkey), Version: "8.1.1"}
	for name, tc := range map[string]struct{ got, want string }{
		"Redis":     {Image(&v1alpha1.RedisClusterSpec{Version: "8.0.2"}, "registry.example.com"), "registry.example.com/library/redis:8.0.2"},
		"Valkey":    {Image(valkey, "registry.example.com"), "registry.example.com/valkey/valkey:8.1.1"},
		"a check":   {CheckImage(nil, v1alpha1.EngineRedis, "8.0.2", "registry.example.com"), "registry.example.com/library/redis:8.0.2"},
		"its image": {Image(&v1alpha1.RedisClusterSpec{Image: ptr.To("quay.io/own/redis:1")}, "registry.example.com"), "quay.io/own/redis:1"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("%s, want %s", tc.got, tc.want)
			}
		})
	}
}
