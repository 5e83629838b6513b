package controllers

import (
	"testing"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/plan"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

func TestMembersAndChecksOfBackupsComeFromTheRegistryOfTheInstallation(t *testing.T) {
	o := etcdCluster()
	children := newChildren(newWorld(t, o))
	children.Registry = "registry.example.com"
	kind := NewEtcdKind(children)
	blueprint, err := kind.planned(o, etcd.Record{}, etcd.Reach{})
	if err != nil || blueprint.Registry != children.Registry {
		t.Errorf("members come from %q, %v", blueprint.Registry, err)
	}
	for want, of := range map[string][2]string{
		"registry.example.com/coreos/etcd:v3.6.16": {o.Name, "3.6.16"},
		"registry.example.com/coreos/etcd:v3.5.35": {"gone", "3.5.35"},
	} {
		if got, err := kind.ServerImage(t.Context(), o.Namespace, of[0], plan.Stored{Version: of[1]}); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

func TestServersAndChecksOfBackupsComeFromTheRegistryOfTheInstallation(t *testing.T) {
	o := redisCluster()
	children := newChildren(newWorld(t, o))
	children.Registry = "registry.example.com"
	kind := NewRedisKind(children)
	builder, err := kind.builder(t.Context(), o)
	if err != nil || builder.Registry != children.Registry {
		t.Errorf("servers come from %q, %v", builder.Registry, err)
	}
	for want, of := range map[string]struct {
		cluster string
		backup  plan.Stored
	}{
		"registry.example.com/library/redis:8.0.2": {o.Name, plan.Stored{Engine: string(v1alpha1.EngineRedis), Version: "8.0.2"}},
		"registry.example.com/valkey/valkey:8.1.1": {"gone", plan.Stored{Engine: string(v1alpha1.EngineValkey), Version: "8.1.1"}},
	} {
		if got, err := kind.ServerImage(t.Context(), o.Namespace, of.cluster, of.backup); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}
