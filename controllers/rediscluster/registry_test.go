package rediscluster

import (
	"testing"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

func TestServersAndChecksOfBackupsComeFromTheRegistryOfTheInstallation(t *testing.T) {
	o := fakeapi.RedisCluster()
	children := ownedtest.New(fakeapi.New(t, o))
	children.Registry = "registry.example.com"
	kind := New(children)
	builder, err := kind.builder(t.Context(), o)
	if err != nil || builder.Registry != children.Registry {
		t.Errorf("servers come from %q, %v", builder.Registry, err)
	}
	for want, of := range map[string]struct {
		cluster string
		backup  job.Stored
	}{
		"registry.example.com/library/redis:8.0.2": {o.Name, job.Stored{Engine: string(v1alpha1.EngineRedis), Version: "8.0.2"}},
		"registry.example.com/valkey/valkey:8.1.1": {"gone", job.Stored{Engine: string(v1alpha1.EngineValkey), Version: "8.1.1"}},
	} {
		if got, err := kind.ServerImage(t.Context(), o.Namespace, of.cluster, of.backup); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}
