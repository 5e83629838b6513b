package rediscluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

func TestWhatServersMoveByThemselvesIsCountedOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	job := func(name string, state model.MigrationState) model.Migration {
		return model.Migration{Name: name, Slots: slots.Set{{From: 0, To: 24}}, State: state}
	}
	m := &meter{}
	for _, step := range []struct {
		what  string
		jobs  []model.Migration
		slots int
	}{
		{"one was over before anybody looked", []model.Migration{job("a", model.MigrationSuccess)}, 0},
		{"another runs", []model.Migration{job("b", "snapshotting"), job("a", model.MigrationSuccess)}, 0},
		{"it is over", []model.Migration{job("b", model.MigrationSuccess)}, 25},
		{"it still is", []model.Migration{job("b", model.MigrationSuccess)}, 25},
		{"one came and went", []model.Migration{job("c", model.MigrationSuccess)}, 50},
		{"one broke", []model.Migration{job("d", model.MigrationFailed)}, 50},
		{"nobody answers", nil, 50},
	} {
		source := &model.Node{
			Keys: 400, Memory: model.Memory{Used: 1400, Empty: 400}, Migrations: step.jobs,
			Peers: []model.Peer{{Myself: true, Slots: slots.Set{{From: 0, To: 99}}}},
		}
		target := &model.Node{}
		for _, j := range step.jobs {
			j.Importing = true
			target.Migrations = append(target.Migrations, j)
		}
		now = now.Add(time.Second)
		m.watch([]model.Pod{{Node: target}, {Node: source}, {}}, now)
		if got := m.read().Slots; got != step.slots {
			t.Errorf("%s: %d slots are counted, want %d", step.what, got, step.slots)
		}
	}
	want := model.Progress{Since: time.Unix(1002, 0), Slots: 50, Keys: 200, Bytes: 500}
	if diff := cmp.Diff(want, m.read()); diff != "" {
		t.Error(diff)
	}
}

// A shard that became wanted again when its claims were deleted and its StatefulSet was not: what it got would go with those disks.
func TestAShardWhoseDisksAreBeingDeletedGetsNoSlots(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Served()
	s.Edit(func(spec *v1alpha1.RedisClusterSpec) { spec.Shards = 4 })
	for !s.Exists(&appsv1.StatefulSet{}, "carts-3") {
		s.Pass()
	}
	claim := redisClaim(s.Cluster(), "data-carts-3-1")
	claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	for _, err := range []error{s.API.Create(t.Context(), claim), s.API.Delete(t.Context(), claim)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 60 {
		s.Pass()
		for name, server := range s.Servers {
			if strings.HasPrefix(name, "carts-3-") && len(server.Slots()) > 0 {
				t.Fatalf("%s has got slots %s", name, server.Slots())
			}
		}
	}
	if s.Exists(&appsv1.StatefulSet{}, "carts-3") {
		t.Errorf("it is not about to start anew: %s", s.Cluster().Status.Activity)
	}
	if err := s.API.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	claim.Finalizers = nil
	if err := s.API.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	s.Settle()
	s.Sound()
	if n := len(s.Uids()); n != 8 {
		t.Errorf("%d pods", n)
	}
}

// A shard leaves with its budget, its StatefulSet after it. Whoever is interrupted between the two, or has not heard of either, makes neither.
func TestNothingOfAShardThatLeftIsMadeAgain(t *testing.T) {
	t.Parallel()
	o := fakeapi.RedisCluster()
	o.Spec.Shards = 4
	s := newRedisStage(t, o)
	s.Settle()
	before := s.Cluster()
	set, budget := &appsv1.StatefulSet{}, &policyv1.PodDisruptionBudget{}
	for _, o := range []client.Object{set, budget} {
		if err := s.API.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "carts-3"}, o); err != nil {
			t.Fatal(err)
		}
	}
	budgets, sets := map[string]int{"PodDisruptionBudget": s.Past.Now()}, map[string]int{"StatefulSet": s.Past.Now()}
	s.Edit(func(spec *v1alpha1.RedisClusterSpec) { spec.Shards = 3 })
	ensure := func(what string, o *v1alpha1.RedisCluster, unheard map[string]int, held bool) {
		t.Helper()
		s.Restart()
		s.Alive.View.Behind = unheard
		err := s.Loop.Kind.Ensure(t.Context(), o)
		if hold := (cluster.Hold{}); errors.As(err, &hold) != held || (!held && err != nil) {
			t.Errorf("%s: %v", what, err)
		}
		if s.Exists(&policyv1.PodDisruptionBudget{}, "carts-3") {
			t.Errorf("%s: there is a budget of the shard that leaves", what)
		}
	}
	s.Drop(budget)
	ensure("interrupted", s.Cluster(), nil, false)
	ensure("an old budget", s.Cluster(), budgets, true)
	s.Drop(set)
	ensure("an old specification", before, nil, true)
	ensure("an old StatefulSet", s.Cluster(), sets, true)
	if s.Exists(&appsv1.StatefulSet{}, "carts-3") {
		t.Error("there is a StatefulSet of the shard that left")
	}
	s.Restart()
	s.Edit(func(spec *v1alpha1.RedisClusterSpec) { spec.Shards = 4 })
	s.Settle()
	if !s.Exists(&policyv1.PodDisruptionBudget{}, "carts-3") {
		t.Error("a shard that came has no budget")
	}
}

// By an old specification servers are too many that have come since.
func TestNobodyLeavesByAnOldSpecification(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Served()
	old := s.Cluster()
	s.Edit(func(spec *v1alpha1.RedisClusterSpec) { spec.Shards, spec.ReplicasPerShard = 4, new(int32(2)) })
	s.Settle()
	set := &appsv1.StatefulSet{}
	if err := s.API.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "carts-3"}, set); err != nil {
		t.Fatal(err)
	}
	for _, step := range []cluster.Step{
		steps.Forget{ID: s.Servers["carts-0-2"].ID, Pods: []string{"carts-0-0"}}, steps.DropShard{Shard: 3, UID: string(set.UID)},
	} {
		if hold := (cluster.Hold{}); !errors.As(s.Loop.Kind.Act(t.Context(), old, step), &hold) {
			t.Errorf("%s: it is carried out", step)
		}
	}
	s.Settle()
	s.Sound()
}

// Shards that are to leave have slots until these have moved.
func TestJobsReachShardsThatAreToLeave(t *testing.T) {
	t.Parallel()
	o, replicas := fakeapi.RedisCluster(), int32(2)
	o.Spec.Shards, o.Spec.ReplicasPerShard = 4, &replicas
	s := newRedisStage(t, o)
	s.Settle()
	s.Edit(func(spec *v1alpha1.RedisClusterSpec) { *spec.ReplicasPerShard, spec.Shards = 1, 3 })
	_, access, err := New(ownedtest.New(s.API)).Source(t.Context(), "default", "carts")
	if err != nil {
		t.Fatal(err)
	}
	var servers []string
	for _, arg := range access.Stream {
		server, _, _ := strings.Cut(arg, ".")
		servers = append(servers, strings.TrimPrefix(server, "--server="))
	}
	want := "0/carts-0-0 0/carts-0-1 0/carts-0-2 1/carts-1-0 1/carts-1-1 1/carts-1-2 2/carts-2-0 2/carts-2-1 2/carts-2-2 3/carts-3-0 3/carts-3-1 3/carts-3-2"
	if got := strings.Join(servers, " "); got != want || access.Streams != 4 {
		t.Errorf("%s, %d at a time", got, access.Streams)
	}
}
