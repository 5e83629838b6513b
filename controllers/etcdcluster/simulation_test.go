package etcdcluster

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/goroutine"
	"github.com/quorate/quorate/test/controllersim"
)

func newStage(t *testing.T, o *v1alpha1.EtcdCluster, more ...client.Object) *controllersim.Etcd {
	t.Helper()
	return controllersim.NewEtcd(t, etcdUnderTest, o, more...)
}

// etcdUnderTest runs defragmentations in the foreground: the etcd in memory takes one call at a time.
func etcdUnderTest(c *owned.Client, connect func(etcdclient.Config) controllersim.MemberClient) reconcile.Kind[*v1alpha1.EtcdCluster, model.State] {
	kind := New(c)
	kind.SetMaintenance(0, func(f func() error, end func(error)) { end(goroutine.Try(f)) })
	kind.Connect = func(cfg etcdclient.Config) MemberClient { return connect(cfg) }
	return kind
}

func newTimed(t *testing.T, o *v1alpha1.EtcdCluster, more ...client.Object) *controllersim.TimedEtcd {
	t.Helper()
	return controllersim.NewTimedEtcd(newStage(t, o, more...))
}
