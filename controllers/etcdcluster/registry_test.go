package etcdcluster

import (
	"testing"

	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

func TestMembersAndChecksOfBackupsComeFromTheRegistryOfTheInstallation(t *testing.T) {
	o := fakeapi.EtcdCluster()
	children := ownedtest.New(fakeapi.New(t, o))
	children.Registry = "registry.example.com"
	kind := New(children)
	blueprint, err := kind.planned(o, model.Record{}, model.Transport{})
	if err != nil || blueprint.Registry != children.Registry {
		t.Errorf("members come from %q, %v", blueprint.Registry, err)
	}
	for want, of := range map[string][2]string{
		"registry.example.com/coreos/etcd:v3.6.16": {o.Name, "3.6.16"},
		"registry.example.com/coreos/etcd:v3.5.35": {"gone", "3.5.35"},
	} {
		if got, err := kind.ServerImage(t.Context(), o.Namespace, of[0], job.Stored{Version: of[1]}); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}
