package planner_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

func TestTheRecordSurvivesItsConfigMap(t *testing.T) {
	for _, r := range []model.Record{
		{Bootstrap: model.BootstrapNew, Members: model.Peers("orders", "default", "cluster.local", 3, true)},
		{Bootstrap: model.BootstrapRetained, ClusterID: 1<<63 + 5, Members: model.Peers("orders", "default", "cluster.local", 1, false)},
		{Bootstrap: model.BootstrapNew, Members: model.Peers("orders", "default", "cluster.local", 1, false), Snapshot: snapshotFor(v37)},
		{Bootstrap: model.BootstrapNew, Members: model.Peers("orders", "default", "cluster.local", 1, false), Snapshot: snapshotFor(model.Version{})},
		{Bootstrap: model.BootstrapNew, Members: model.Peers("orders", "default", "cluster.local", 3, true), MinAvailable: 3, Hibernated: true},
	} {
		got, err := model.ParseRecord(r.Data())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
