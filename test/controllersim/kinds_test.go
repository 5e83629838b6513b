package controllersim

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
	"github.com/quorate/quorate/test/fakeapi"
)

func newStage(t *testing.T, o *v1alpha1.EtcdCluster, more ...client.Object) *Etcd {
	t.Helper()
	return NewEtcd(t, etcdUnderTest, o, more...)
}

// etcdUnderTest runs defragmentations in the foreground: the etcd in memory takes one call at a time.
func etcdUnderTest(c *owned.Client, connect func(etcdclient.Config) MemberClient) reconcile.Kind[*v1alpha1.EtcdCluster, etcdmodel.State] {
	kind := etcdcluster.New(c)
	kind.SetMaintenance(0, func(f func() error, end func(error)) { end(goroutine.Try(f)) })
	kind.Connect = func(cfg etcdclient.Config) etcdcluster.MemberClient { return connect(cfg) }
	return kind
}

func newRedisStage(t *testing.T, o *v1alpha1.RedisCluster, more ...client.Object) *Redis {
	t.Helper()
	return NewRedis(t, redisUnderTest, o, more...)
}

func redisUnderTest(
	c *owned.Client, connect func(redisclient.Options) redissteps.Client, connectMover func(redisclient.Options) redissteps.Mover,
) reconcile.Kind[*v1alpha1.RedisCluster, redismodel.State] {
	kind := rediscluster.New(c)
	kind.Connect, kind.ConnectMover = connect, connectMover
	return kind
}

func newTimed(t *testing.T, o *v1alpha1.EtcdCluster, more ...client.Object) *TimedEtcd {
	t.Helper()
	return NewTimedEtcd(newStage(t, o, more...))
}

func newTimedRedis(t *testing.T) *TimedRedis {
	t.Helper()
	return NewTimedRedis(newRedisStage(t, fakeapi.RedisCluster()))
}
