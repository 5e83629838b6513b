package redis

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
)

func TestACheckRunsInTheImageOfTheClusterWhereThatReadsTheData(t *testing.T) {
	own := func(engine v1alpha1.RedisEngine, version string) *v1alpha1.RedisClusterSpec {
		return &v1alpha1.RedisClusterSpec{Engine: &engine, Version: version, Image: ptr.To("registry.example/mine")}
	}
	const mine = "registry.example/mine"
	for name, tc := range map[string]struct {
		spec        *v1alpha1.RedisClusterSpec
		engine      v1alpha1.RedisEngine
		wrote, want string
	}{
		"the same version":           {own("redis", "8.0.2"), "redis", "8.0.2", mine},
		"upgraded meanwhile":         {own("valkey", "9.1.2"), "valkey", "8.1.1", mine},
		"made anew, older":           {own("valkey", "8.1.1"), "valkey", "9.1.2", "docker.io/valkey/valkey:9.1.2"},
		"made anew, another engine":  {own("valkey", "9.1.2"), "redis", "7.0.15", "docker.io/library/redis:7.0.15"},
		"the cluster is gone":        {nil, "valkey", "9.1.2", "docker.io/valkey/valkey:9.1.2"},
		"a tag with a suffix":        {nil, "redis", "8.0.2-bookworm", "docker.io/library/redis:8.0.2-bookworm"},
		"nobody knows what wrote it": {own("redis", "8.0.2"), "redis", "", ""},
		"an engine of another kind":  {nil, "etcd", "3.6.16", ""},
	} {
		if got := CheckImage(tc.spec, tc.engine, tc.wrote); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
