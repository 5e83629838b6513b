package config

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/redistest"
)

// What is derived is not in the file: a server that starts has the data of the time before, whatever its limit has become.
func TestServersStartWithMaxMemoryOnlyAsACache(t *testing.T) {
	limits := &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
	for name, tc := range map[string]struct {
		resources *corev1.ResourceRequirements
		config    *v1alpha1.RedisConfig
		file      bool
		live      string
	}{
		"nothing is said":   {live: "0"},
		"a limit":           {resources: limits},
		"a limit, no cache": {limits, &v1alpha1.RedisConfig{MaxMemory: ptr.To(resource.MustParse("100Mi"))}, false, "104857600"},
		"a cache":           {limits, &v1alpha1.RedisConfig{MaxMemory: ptr.To(resource.MustParse("100Mi")), MaxMemoryPolicy: ptr.To("allkeys-lfu")}, true, "104857600"},
		"a derived cache":   {resources: limits, config: &v1alpha1.RedisConfig{MaxMemoryPolicy: ptr.To("allkeys-lfu")}},
		"only what expires": {limits, &v1alpha1.RedisConfig{MaxMemory: ptr.To(resource.MustParse("100Mi")), MaxMemoryPolicy: ptr.To("volatile-lru")}, false, "104857600"},
	} {
		c := redistest.Cluster(v1alpha1.EngineRedis, "8.0.2")
		c.Spec.Resources, c.Spec.Config = tc.resources, tc.config
		file, err := Config(&c.Spec)
		if err != nil {
			t.Fatal(err)
		}
		live, err := LiveConfig(&c.Spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(file, "\nmaxmemory "); got != tc.file || live[model.MaxMemory] != tc.live || live[model.BacklogSize] != "" {
			t.Errorf("%s: in the file %v, told %q, backlog %q", name, got, live[model.MaxMemory], live[model.BacklogSize])
		}
	}
}
