package controllersim

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/test/fakeapi"
)

// redisWorkloads are what users do with a RedisCluster, from nothing to a cluster that is Ready.
var redisWorkloads = map[string]func(*Redis){
	"created": (*Redis).Served,
	"created and changed": func(s *Redis) {
		s.Served()
		s.Edit(func(spec *v1alpha1.RedisClusterSpec) {
			spec.Config = &v1alpha1.RedisConfig{Extra: map[string]v1alpha1.ConfigValue{"tcp-backlog": "100"}}
		})
		s.Settle()
	},
	"with other replicas": func(s *Redis) {
		s.Served()
		for _, n := range []int32{2, 0, 1} {
			s.Edit(func(spec *v1alpha1.RedisClusterSpec) { spec.ReplicasPerShard = &n })
			s.Settle()
		}
	},
	"resharded": func(s *Redis) {
		s.Served()
		for _, n := range []int32{4, 3} {
			s.Edit(func(spec *v1alpha1.RedisClusterSpec) { spec.Shards = n })
			s.Settle()
		}
	},
	"upgraded": func(s *Redis) {
		s.Served()
		s.Edit(func(spec *v1alpha1.RedisClusterSpec) { spec.Version = "8.2.1" })
		s.Settle()
	},
	"deleted and created again": func(s *Redis) {
		s.Served()
		s.recreate()
		s.Settle()
	},
}

// redisScenes are the workloads on stages that are guarded.
func redisScenes() map[string]workload {
	out := map[string]workload{}
	for name, work := range redisWorkloads {
		out[name] = workload{
			build: func(t *testing.T) scene {
				t.Helper()
				s := newRedisStage(t, fakeapi.RedisCluster())
				// A pass takes a second: shards wait for some before they leave.
				s.Equip = func(c *owned.Client) {
					c.Now = func() time.Time { return fakeapi.Now.Add(time.Duration(s.turns) * time.Second) }
				}
				s.Restart()
				s.Wire.guard = s.guard
				return s
			},
			work: func(s scene) { work(s.(*Redis)) }, //nolint:forcetypeassert // It was built above.
		}
	}
	out["authority replaced"] = workload{
		build: func(t *testing.T) scene {
			t.Helper()
			s := newTimedRedis(t)
			s.Wire.guard = s.guard
			return s
		},
		work: func(s scene) { s.(*TimedRedis).rotate() }, //nolint:forcetypeassert // It was built above.
	}
	return out
}

// Whatever goes wrong once at any moment, the end is the same as if it had not, and nothing is made or deleted on the way that would not
// have been.
func TestRedisEndsTheSameWhateverGoesWrongOnce(t *testing.T) {
	t.Parallel()
	for _, c := range combinations(t, redisScenes()) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sweep(t, c.load, c.sparse, c.points)
		})
	}
}

// redisCast is a RedisCluster with what can be done to it.
func redisCast() cast {
	edit := func(change func(*v1alpha1.RedisClusterSpec)) operation {
		return operation{settings: true, begin: func(s scene) { s.(*Redis).Edit(change) }} //nolint:forcetypeassert // It was built below.
	}
	on := func(do func(*Redis)) operation {
		return operation{begin: func(s scene) { do(s.(*Redis)) }} //nolint:forcetypeassert // It was built below.
	}
	return cast{
		build: redisScenes()["created"].build,
		ready: func(played scene) {
			s := played.(*Redis) //nolint:forcetypeassert // It was built above.
			if s.first == (ready{}) {
				s.Served()
				return
			}
			s.Pass()
			s.Settle()
		},
		cluster: func(s scene) client.Object { return s.(*Redis).Cluster() }, //nolint:forcetypeassert // It was built above.
		operations: map[string]operation{
			"created":     on(func(*Redis) {}),
			"scaled out":  edit(func(spec *v1alpha1.RedisClusterSpec) { spec.ReplicasPerShard = new(int32(2)) }),
			"scaled in":   edit(func(spec *v1alpha1.RedisClusterSpec) { spec.ReplicasPerShard = new(int32(0)) }),
			"more shards": edit(func(spec *v1alpha1.RedisClusterSpec) { spec.Shards = 4 }),
			"upgraded":    edit(func(spec *v1alpha1.RedisClusterSpec) { spec.Version = "8.2.1" }),
			"configured": edit(func(spec *v1alpha1.RedisClusterSpec) {
				spec.Config = &v1alpha1.RedisConfig{Extra: map[string]v1alpha1.ConfigValue{"tcp-backlog": "100"}}
			}),
			"authority replaced": edit(func(spec *v1alpha1.RedisClusterSpec) {
				spec.TLS = &v1alpha1.TLSSpec{Rotation: &v1alpha1.RotationSpec{After: &metav1.Time{Time: fakeapi.Now}}}
			}),
			"password changed": on((*Redis).forget),
			"pod lost":         on(func(s *Redis) { s.kill("carts-1-0") }),
			"made again":       on((*Redis).recreate),
		},
		takeBack: on(func(s *Redis) { s.Edit(func(spec *v1alpha1.RedisClusterSpec) { *spec = fakeapi.RedisCluster().Spec }) }),
		refused:  func(s scene) bool { return s.(*Redis).isRefused(planner.ReasonVersion) }, //nolint:forcetypeassert // It was built above.
	}
}

// Whatever a user begins while something else is under way, the cluster ends as a new one would that was made so, without his help.
func TestRedisOperationsMeet(t *testing.T) {
	t.Parallel()
	pairs(t, redisCast())
}

func TestRedisIsDeletedInTheMiddle(t *testing.T) {
	t.Parallel()
	goodbyes(t, redisCast())
}
