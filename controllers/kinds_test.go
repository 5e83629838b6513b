package controllers

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/goroutine"
)

func newStage(t *testing.T, o *v1alpha1.EtcdCluster, more ...client.Object) *stage {
	t.Helper()
	return newEtcdStage(t, etcdUnderTest, o, more...)
}

// etcdUnderTest runs defragmentations in the foreground: the etcd in memory takes one call at a time.
func etcdUnderTest(c *Children, connect func(etcdclient.Config) *lazyClient) Kind[*v1alpha1.EtcdCluster, etcd.State] {
	kind := NewEtcdKind(c)
	kind.SetUpkeep(0, func(f func() error, end func(error)) { end(goroutine.Try(f)) })
	kind.Connect = func(cfg etcdclient.Config) memberClient { return connect(cfg) }
	return kind
}

func newRedisStage(t *testing.T, o *v1alpha1.RedisCluster, more ...client.Object) *redisStage {
	t.Helper()
	return newRedisStageOf(t, redisUnderTest, o, more...)
}

func redisUnderTest(
	c *Children, connect func(redisclient.Options) redis.Client, connectMover func(redisclient.Options) redis.Mover,
) Kind[*v1alpha1.RedisCluster, redis.State] {
	kind := NewRedisKind(c)
	kind.Connect, kind.ConnectMover = connect, connectMover
	return kind
}

func newTimed(t *testing.T, o *v1alpha1.EtcdCluster, more ...client.Object) *timed {
	t.Helper()
	return timedFrom(newStage(t, o, more...))
}

func newTimedRedis(t *testing.T) *timedRedis {
	t.Helper()
	return timedRedisFrom(newRedisStage(t, redisCluster()))
}
