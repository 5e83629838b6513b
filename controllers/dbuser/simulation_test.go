package dbuser

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/controllers/rediscluster"
	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/test/controllersim"
)

func newRedisStage(t *testing.T, o *v1alpha1.RedisCluster, more ...client.Object) *controllersim.Redis {
	t.Helper()
	return controllersim.NewRedis(t, redisUnderTest, o, more...)
}

func redisUnderTest(
	c *owned.Client, connect func(redisclient.Options) redis.Client, connectMover func(redisclient.Options) redis.Mover,
) reconcile.Kind[*v1alpha1.RedisCluster, redis.State] {
	kind := rediscluster.New(c)
	kind.Connect, kind.ConnectMover = connect, connectMover
	return kind
}
