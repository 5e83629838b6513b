package rediscluster

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
)

func newRedisStage(t *testing.T, o *v1alpha1.RedisCluster, more ...client.Object) *controllersim.Redis {
	t.Helper()
	return controllersim.NewRedis(t, redisUnderTest, o, more...)
}

func redisUnderTest(
	c *owned.Client, connect func(redisclient.Options) steps.Client, connectMover func(redisclient.Options) steps.Mover,
) reconcile.Kind[*v1alpha1.RedisCluster, model.State] {
	kind := New(c)
	kind.Connect, kind.ConnectMover = connect, connectMover
	return kind
}

func newTimedRedis(t *testing.T) *controllersim.TimedRedis {
	t.Helper()
	return controllersim.NewTimedRedis(newRedisStage(t, fakeapi.RedisCluster()))
}
