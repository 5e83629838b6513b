// Package kinds simulates clusters with their own reconcilers, for tests of what builds on those. The
// packages of the reconcilers themselves pass their constructors to package controllersim.
package kinds

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/etcdcluster"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/controllers/rediscluster"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	etcdmodel "github.com/quorate/quorate/internal/cluster/etcd/model"
	redismodel "github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	redissteps "github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/internal/goroutine"
	"github.com/quorate/quorate/test/controllersim"
)

// NewEtcd returns a simulated Kubernetes with o and more objects in it.
func NewEtcd(t *testing.T, o *v1alpha1.EtcdCluster, more ...client.Object) *controllersim.Etcd {
	t.Helper()
	return controllersim.NewEtcd(t, etcdKind, o, more...)
}

// etcdKind runs defragmentations in the foreground: the etcd in memory takes one call at a time.
func etcdKind(c *owned.Client, connect func(etcdclient.Config) controllersim.MemberClient) reconcile.Kind[*v1alpha1.EtcdCluster, etcdmodel.State] {
	kind := etcdcluster.New(c)
	kind.SetMaintenance(0, func(f func() error, end func(error)) { end(goroutine.Try(f)) })
	kind.Connect = func(cfg etcdclient.Config) etcdcluster.MemberClient { return connect(cfg) }
	return kind
}

// NewRedis returns a simulated Kubernetes with o and more objects in it.
func NewRedis(t *testing.T, o *v1alpha1.RedisCluster, more ...client.Object) *controllersim.Redis {
	t.Helper()
	return controllersim.NewRedis(t, redisKind, o, more...)
}

func redisKind(
	c *owned.Client, connect func(redisclient.Options) redissteps.Client, connectMover func(redisclient.Options) redissteps.Mover,
) reconcile.Kind[*v1alpha1.RedisCluster, redismodel.State] {
	kind := rediscluster.New(c)
	kind.Connect, kind.ConnectMover = connect, connectMover
	return kind
}
