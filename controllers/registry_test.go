package controllers

import (
	"testing"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/plan"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

func TestServersAndChecksOfBackupsComeFromTheRegistryOfTheInstallation(t *testing.T) {
	e, r := etcdCluster(), redisCluster()
	children := newChildren(newWorld(t, e, r))
	children.Registry = "registry.example.com"
	etcdKind, redisKind := NewEtcdKind(children), NewRedisKind(children)

	blueprint, err := etcdKind.planned(e, etcd.Record{}, etcd.Reach{})
	if err != nil || blueprint.Registry != children.Registry {
		t.Errorf("members of etcd come from %q, %v", blueprint.Registry, err)
	}
	builder, err := redisKind.builder(t.Context(), r)
	if err != nil || builder.Registry != children.Registry {
		t.Errorf("servers of Redis come from %q, %v", builder.Registry, err)
	}
	for what, ask := range map[string]func() (string, error){
		"registry.example.com/coreos/etcd:v3.6.16": func() (string, error) {
			return etcdKind.ServerImage(t.Context(), e.Namespace, e.Name, plan.Stored{Version: "3.6.16"})
		},
		"registry.example.com/coreos/etcd:v3.5.35": func() (string, error) {
			return etcdKind.ServerImage(t.Context(), e.Namespace, "gone", plan.Stored{Version: "3.5.35"})
		},
		"registry.example.com/library/redis:8.0.2": func() (string, error) {
			return redisKind.ServerImage(t.Context(), r.Namespace, r.Name, plan.Stored{Engine: string(v1alpha1.EngineRedis), Version: "8.0.2"})
		},
		"registry.example.com/valkey/valkey:8.1.1": func() (string, error) {
			return redisKind.ServerImage(t.Context(), r.Namespace, "gone", plan.Stored{Engine: string(v1alpha1.EngineValkey), Version: "8.1.1"})
		},
	} {
		if got, err := ask(); err != nil || got != what {
			t.Errorf("%q, %v, want %q", got, err, what)
		}
	}
}
