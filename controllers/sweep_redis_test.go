package controllers

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
)

// redisWorkloads are what users do with a RedisCluster, from nothing to a cluster that is Ready.
var redisWorkloads = map[string]func(*redisStage){
	"created": (*redisStage).served,
	"created and changed": func(s *redisStage) {
		s.served()
		s.edit(func(spec *v1alpha1.RedisClusterSpec) {
			spec.Config = &v1alpha1.RedisConfig{Extra: map[string]v1alpha1.ConfigValue{"tcp-backlog": "100"}}
		})
		s.settle()
	},
	"with other replicas": func(s *redisStage) {
		s.served()
		for _, n := range []int32{2, 0, 1} {
			s.edit(func(spec *v1alpha1.RedisClusterSpec) { spec.ReplicasPerShard = &n })
			s.settle()
		}
	},
	"resharded": func(s *redisStage) {
		s.served()
		for _, n := range []int32{4, 3} {
			s.edit(func(spec *v1alpha1.RedisClusterSpec) { spec.Shards = n })
			s.settle()
		}
	},
	"upgraded": func(s *redisStage) {
		s.served()
		s.edit(func(spec *v1alpha1.RedisClusterSpec) { spec.Version = "8.2.1" })
		s.settle()
	},
	"deleted and created again": func(s *redisStage) {
		s.served()
		s.recreate()
		s.settle()
	},
}

// edit changes the cluster as a user would.
func (s *redisStage) edit(change func(*v1alpha1.RedisClusterSpec)) {
	s.t.Helper()
	o := s.cluster()
	change(&o.Spec)
	o.Generation++
	if err := s.api.Update(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

// recreate is a user who deletes the cluster, which leaves him the claims and what they need, and makes it again.
func (s *redisStage) recreate() {
	s.t.Helper()
	o := s.cluster()
	again := &v1alpha1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Generation: 1}, Spec: o.Spec}
	remake(s.t, s, o, again)
	for _, server := range s.servers {
		server.Stop()
	}
}

// sampled are the slots that have a key.
const sampled = 500

// served makes a cluster with keys in it.
func (s *redisStage) served() {
	s.t.Helper()
	s.settle()
	s.write()
}

// write has clients write the keys.
func (s *redisStage) write() {
	s.t.Helper()
	for slot := 0; slot < redis.SlotCount; slot += sampled {
		for _, server := range s.owners(slot) {
			server.Data[redisfake.Key{Slot: slot}] = 1
		}
	}
	for range 5 {
		s.net.Tick()
	}
}

// owners are the primaries that take a slot for theirs.
func (s *redisStage) owners(slot int) []*redisfake.Server {
	var out []*redisfake.Server
	for _, server := range s.servers {
		if server.Up && server.Primary() == "" && server.Owns(slot) {
			out = append(out, server)
		}
	}
	return out
}

// covered are the slots that any primary takes for its own.
func (s *redisStage) covered() redis.Slots {
	var all []redis.Slots
	for _, server := range s.servers {
		if server.Up && server.Primary() == "" {
			all = append(all, server.Slots())
		}
	}
	return redis.Union(all...)
}

// sound fails the test when a slot has not one owner, or a key is gone.
func (s *redisStage) sound() {
	s.t.Helper()
	if missing := s.covered().Missing(); len(missing) > 0 {
		s.t.Errorf("nobody owns the slots %s", missing)
	}
	for slot := 0; slot < redis.SlotCount; slot += sampled {
		owners := s.owners(slot)
		if len(owners) != 1 {
			s.t.Errorf("slot %d has the owners %v", slot, owners)
			continue
		}
		if owners[0].Data[redisfake.Key{Slot: slot}] != 1 {
			s.t.Errorf("the key of slot %d is not on %s", slot, owners[0])
		}
	}
}

func (s *redisStage) line() *wire { return s.wire }

func (s *redisStage) round() { s.pass() }

func (s *redisStage) parts() ready {
	if s.first.turns == s.turns {
		return ready{}
	}
	return s.first
}

// guard fails the test when a write of an operator leaves slots without an owner, or deletes what it must not.
func (s *redisStage) guard(c *call) func(error) {
	s.t.Helper()
	before := s.covered()
	if c.object != nil {
		s.guardDeletion(c)
	}
	return func(err error) {
		if lost := before.Minus(s.covered()); err == nil && len(lost) > 0 {
			s.t.Errorf("%s leaves the slots %s without an owner", c, lost)
		}
	}
}

// guardDeletion wants a deletion to be of the very object that was decided on, and a pod or claim not to be that of a primary with slots.
func (s *redisStage) guardDeletion(c *call) {
	s.t.Helper()
	if !conditional(c) {
		s.t.Errorf("%s deletes whatever has that name", c)
	}
	pod := strings.TrimPrefix(c.object.GetName(), cluster.VolumeData+"-")
	switch c.object.(type) {
	case *corev1.Pod, *corev1.PersistentVolumeClaim:
	default:
		return
	}
	if server := s.servers[pod]; server != nil && server.Up && server.Primary() == "" && len(server.Slots()) > 0 {
		s.t.Errorf("%s: it owns slots", c)
	}
}

// redisScenes are the workloads on stages that are guarded.
func redisScenes() map[string]workload {
	out := map[string]workload{}
	for name, work := range redisWorkloads {
		out[name] = workload{
			build: func(t *testing.T) scene {
				t.Helper()
				s := newRedisStage(t, redisCluster())
				// A pass takes a second: shards wait for some before they leave.
				s.equip = func(c *Children) {
					c.Now = func() time.Time { return stageNow.Add(time.Duration(s.turns) * time.Second) }
				}
				s.restart()
				s.wire.guard = s.guard
				return s
			},
			work: func(s scene) { work(s.(*redisStage)) }, //nolint:forcetypeassert // It was built above.
		}
	}
	out["authority replaced"] = workload{
		build: func(t *testing.T) scene {
			t.Helper()
			s := newTimedRedis(t)
			s.wire.guard = s.guard
			return s
		},
		work: func(s scene) { s.(*timedRedis).rotate() }, //nolint:forcetypeassert // It was built above.
	}
	return out
}

func (s *timedRedis) round() { s.pass() }

// rotate asks for another authority, and runs until it is in place.
func (s *timedRedis) rotate() {
	s.t.Helper()
	s.settle()
	s.served()
	s.edit(func(spec *v1alpha1.RedisClusterSpec) {
		spec.TLS = &v1alpha1.TLSSpec{Rotation: &v1alpha1.RotationSpec{
			After: &metav1.Time{Time: s.now}, Hold: &metav1.Duration{Duration: 2 * time.Minute},
		}}
	})
	s.pass()
	s.settle()
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
		return operation{settings: true, begin: func(s scene) { s.(*redisStage).edit(change) }} //nolint:forcetypeassert // It was built below.
	}
	on := func(do func(*redisStage)) operation {
		return operation{begin: func(s scene) { do(s.(*redisStage)) }} //nolint:forcetypeassert // It was built below.
	}
	return cast{
		build: redisScenes()["created"].build,
		ready: func(played scene) {
			s := played.(*redisStage) //nolint:forcetypeassert // It was built above.
			if s.first == (ready{}) {
				s.served()
				return
			}
			s.pass()
			s.settle()
		},
		cluster: func(s scene) client.Object { return s.(*redisStage).cluster() }, //nolint:forcetypeassert // It was built above.
		operations: map[string]operation{
			"created":     on(func(*redisStage) {}),
			"scaled out":  edit(func(spec *v1alpha1.RedisClusterSpec) { spec.ReplicasPerShard = new(int32(2)) }),
			"scaled in":   edit(func(spec *v1alpha1.RedisClusterSpec) { spec.ReplicasPerShard = new(int32(0)) }),
			"more shards": edit(func(spec *v1alpha1.RedisClusterSpec) { spec.Shards = 4 }),
			"upgraded":    edit(func(spec *v1alpha1.RedisClusterSpec) { spec.Version = "8.2.1" }),
			"configured": edit(func(spec *v1alpha1.RedisClusterSpec) {
				spec.Config = &v1alpha1.RedisConfig{Extra: map[string]v1alpha1.ConfigValue{"tcp-backlog": "100"}}
			}),
			"authority replaced": edit(func(spec *v1alpha1.RedisClusterSpec) {
				spec.TLS = &v1alpha1.TLSSpec{Rotation: &v1alpha1.RotationSpec{After: &metav1.Time{Time: stageNow}}}
			}),
			"password changed": on((*redisStage).forget),
			"pod lost":         on(func(s *redisStage) { s.kill("carts-1-0") }),
			"made again":       on((*redisStage).recreate),
		},
		takeBack: on(func(s *redisStage) { s.edit(func(spec *v1alpha1.RedisClusterSpec) { *spec = redisCluster().Spec }) }),
		refused:  func(s scene) bool { return s.(*redisStage).isRefused(redis.ReasonVersion) }, //nolint:forcetypeassert // It was built above.
	}
}

// forget deletes the password of clients, if there is one, so that another one takes its place.
func (s *redisStage) forget() {
	s.t.Helper()
	live := &corev1.Secret{}
	err := s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "default", Name: cluster.AuthSecret("carts")}, live)
	if err == nil {
		delete(live.Data, PasswordKey)
		err = s.api.Update(s.t.Context(), live)
	}
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	s.minuteLater()
}

// isRefused makes passes until the cluster is as it is to be, or says that it cannot be, for that reason.
func (s *redisStage) isRefused(reason string) bool {
	s.t.Helper()
	for range 300 {
		s.pass()
		o := s.cluster()
		if o.Status.ObservedGeneration != o.Generation {
			continue
		}
		if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue && c.Reason == reason {
			return true
		}
		if meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) && meta.IsStatusConditionFalse(o.Status.Conditions, v1alpha1.ConditionReconciling) {
			return false
		}
	}
	return false
}

// kill ends a pod, which another one takes the place of.
func (s *redisStage) kill(name string) {
	s.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := client.IgnoreNotFound(s.api.Delete(s.t.Context(), pod)); err != nil {
		s.t.Fatal(err)
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
