package controllers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// redisStage is a fake API server, servers in memory, a kubelet that connects the two, and the loop.
type redisStage struct {
	t       *testing.T
	api     *world
	net     *redisfake.Network
	servers map[string]*redisfake.Server
	loop    *Loop[*v1alpha1.RedisCluster, redis.State]
	name    types.NamespacedName
	ips     int
	// deleted is what the server of each pod was when the operator deleted the pod.
	deleted map[string]v1alpha1.RedisRole
	// graces is how many seconds they were given to end in, if the operator said so.
	graces map[string]int64
	// wire is between the operators and the rest, and equip what an operator is given beyond what it needs.
	*wire
	equip func(*Children)
	// newKind makes what is under test, and children is what the last one was given.
	newKind  newRedisKind
	children *Children
	// first is when the cluster was Ready for the first time.
	first ready
}

func redisCluster() *v1alpha1.RedisCluster {
	replicas := int32(1)
	return &v1alpha1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "carts", UID: "u-1", Generation: 1},
		Spec: v1alpha1.RedisClusterSpec{
			Version: "8.0.2", Shards: 3, ReplicasPerShard: &replicas, Storage: &v1alpha1.StorageSpec{Size: resource.MustParse("1Gi")},
		},
	}
}

// newRedisKind makes the kind under test. connect makes a client of a server, and connectMover one that moves keys.
type newRedisKind func(
	c *Children, connect func(redisclient.Options) redis.Client, connectMover func(redisclient.Options) redis.Mover,
) Kind[*v1alpha1.RedisCluster, redis.State]

func newRedisStageOf(t *testing.T, newKind newRedisKind, o *v1alpha1.RedisCluster, more ...client.Object) *redisStage {
	t.Helper()
	w := newWorld(t, append(more, o)...)
	s := &redisStage{
		t: t, api: w, newKind: newKind, servers: map[string]*redisfake.Server{}, name: client.ObjectKeyFromObject(o),
		net: redisfake.NewNetwork(5*time.Second, rand.New(rand.NewPCG(1, 2))), wire: newWire(w.past),
	}
	s.deleted, s.graces = map[string]v1alpha1.RedisRole{}, map[string]int64{}
	inner, ok := w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", w.Client)
	}
	w.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if server := s.servers[o.GetName()]; server != nil {
				s.deleted[o.GetName()] = v1alpha1.RedisPrimary
				if server.Primary() != "" {
					s.deleted[o.GetName()] = v1alpha1.RedisReplica
				}
			}
			var how client.DeleteOptions
			how.ApplyOptions(opts)
			if how.GracePeriodSeconds != nil {
				s.graces[o.GetName()] = *how.GracePeriodSeconds
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	s.net.Gate = s.users
	s.net.Mounted = func(*redisfake.Server) string {
		return clustertls.LeafFingerprint(s.secret(cluster.ServerTLSSecret("carts")).Data[corev1.TLSCertKey])
	}
	s.restart()
	return s
}

// minuteLater is when the operator has forgotten the Secrets that it remembered.
func (s *redisStage) minuteLater() {
	s.t.Helper()
	s.children.ForgetSecrets()
}

// restart starts another operator.
func (s *redisStage) restart() {
	op := s.operator()
	seen := op.client(s.past.client(s.api), false)
	children := newChildren(&world{Client: s.tapped(seen)})
	children.Direct = PastCache(s.tapped(op.client(s.api, true)), clockOf(children))
	if s.equip != nil {
		s.equip(children)
	}
	s.children = children
	kind := s.newKind(children, func(o redisclient.Options) redis.Client {
		pod, _, _ := strings.Cut(o.TLS.ServerName, ".")
		return &wiredRedis{Client: s.connect(o), op: op, pod: pod}
	}, func(o redisclient.Options) redis.Mover {
		pod, _, _ := strings.Cut(o.TLS.ServerName, ".")
		return &wiredMover{Mover: s.connectMover(o), op: op, pod: pod}
	})
	s.loop = &Loop[*v1alpha1.RedisCluster, redis.State]{Kind: kind, Client: seen, Direct: children.Direct, Events: events.NewFakeRecorder(1000)}
}

// turn lets the operator make a pass, and another one take its place where it crashes. It reports whether all went well.
func (s *redisStage) turn() bool {
	s.t.Helper()
	if !s.wire.turn() {
		return false
	}
	well := false
	for range max(1, s.again) {
		o, life := &v1alpha1.RedisCluster{}, s.alive
		if err := life.shown(s.api, s.name, o); err != nil {
			return false
		}
		_, err := s.loop.Reconcile(s.t.Context(), o)
		if well = err == nil && !life.dead; life.dead {
			s.restart()
		} else if err != nil {
			s.t.Logf("reconcile: %v", err)
		}
	}
	s.again = 0
	return well
}

// connect finds the server by the name that the operator wants to see in its certificate.
func (s *redisStage) connect(o redisclient.Options) redis.Client {
	if l := o.Logins[0]; l.Username != redis.UserOperator || l.Password == "" || o.TLS == nil {
		s.t.Errorf("connection as %q, TLS %v", l.Username, o.TLS != nil)
	}
	pod, _, _ := strings.Cut(o.TLS.ServerName, ".")
	if server := s.servers[pod]; server != nil && slices.ContainsFunc(o.Logins, func(l redisclient.Login) bool { return lets(server, l) }) {
		return server
	}
	return &redisfake.Server{}
}

func (s *redisStage) connectMover(o redisclient.Options) redis.Mover {
	if l := o.Logins[0]; l.Username != redis.UserMigration || l.Password == "" {
		s.t.Errorf("keys are moved as %q", l.Username)
	}
	pod, _, _ := strings.Cut(o.TLS.ServerName, ".")
	return s.servers[pod]
}

// lets tells whether a server takes a user and a password; one without a list of users takes any.
func lets(server *redisfake.Server, l redisclient.Login) bool {
	return len(server.Users) == 0 || slices.ContainsFunc(server.Users, func(u redis.User) bool {
		return u.Name == l.Username && (u.NoPassword || slices.Contains(u.Passwords, redis.Hash(l.Password)))
	})
}

// users are what the start gate makes of the auth Secret.
func (s *redisStage) users(w *redisfake.Server) []redis.User {
	s.t.Helper()
	passwords := map[string]string{}
	for key, value := range s.secret(cluster.AuthSecret("carts")).Data {
		passwords[key] = string(value)
	}
	name, _, _ := strings.Cut(w.Host, ".")
	w.ReplicationPassword = redis.Hash(redis.ShardPassword(passwords[redis.PasswordReplication], name))
	users, err := redis.Access{Passwords: passwords}.Users(name, redis.Software{Engine: v1alpha1.EngineRedis, Version: "8.0.2"})
	if err != nil {
		s.t.Fatal(err)
	}
	return users
}

func (s *redisStage) cluster() *v1alpha1.RedisCluster {
	s.t.Helper()
	var o v1alpha1.RedisCluster
	if err := s.api.Get(s.t.Context(), s.name, &o); err != nil {
		s.t.Fatal(err)
	}
	return &o
}

// kubelet creates the pods that the StatefulSets ask for and keeps a server in each.
func (s *redisStage) kubelet(ctx context.Context) {
	s.t.Helper()
	var sets appsv1.StatefulSetList
	if err := s.api.List(ctx, &sets); err != nil {
		s.t.Fatal(err)
	}
	s.abandon(ctx, sets.Items)
	for i := range sets.Items {
		set := &sets.Items[i]
		if set.Spec.Replicas == nil {
			set.Spec.Replicas = new(int32(1)) // As the API server does.
		}
		s.evict(ctx, set)
		for ordinal := range int(*set.Spec.Replicas) {
			name := cluster.Pod(set.Name, ordinal)
			var pod corev1.Pod
			err := s.api.Get(ctx, types.NamespacedName{Namespace: set.Namespace, Name: name}, &pod)
			switch {
			case apierrors.IsNotFound(err) && s.mounts(ctx):
				s.run(ctx, set, name)
			case client.IgnoreNotFound(err) != nil:
				s.t.Fatal(err)
			}
		}
	}
}

// mounts tells whether the auth Secret has all keys that a pod mounts. No container of it starts before.
func (s *redisStage) mounts(ctx context.Context) bool {
	s.t.Helper()
	var auth corev1.Secret
	err := s.api.Get(ctx, types.NamespacedName{Namespace: "default", Name: cluster.AuthSecret("carts")}, &auth)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	return !slices.ContainsFunc(redis.PasswordKeys, func(key string) bool { return len(auth.Data[key]) == 0 })
}

// abandon ends the servers whose StatefulSet is gone. Those that have ended already keep their disk.
func (s *redisStage) abandon(ctx context.Context, sets []appsv1.StatefulSet) {
	s.t.Helper()
	for name, server := range s.servers {
		of := name[:strings.LastIndex(name, "-")]
		if !server.Up || slices.ContainsFunc(sets, func(set appsv1.StatefulSet) bool { return set.Name == of }) {
			continue
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		if err := client.IgnoreNotFound(s.api.Delete(ctx, pod)); err != nil {
			s.t.Fatal(err)
		}
		s.net.Remove(server)
		delete(s.servers, name)
	}
}

// evict deletes the pods that a StatefulSet has no room for.
func (s *redisStage) evict(ctx context.Context, set *appsv1.StatefulSet) {
	s.t.Helper()
	for ordinal := int(*set.Spec.Replicas); ; ordinal++ {
		name := cluster.Pod(set.Name, ordinal)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: name}}
		server := s.servers[name]
		err := s.api.Delete(ctx, pod)
		if client.IgnoreNotFound(err) != nil {
			s.t.Fatal(err)
		}
		if err != nil && server == nil {
			return
		}
		if server != nil {
			s.net.Remove(server)
			delete(s.servers, name)
		}
	}
}

// claim makes the claim of a pod, unless there is one of its name.
func (s *redisStage) claim(ctx context.Context, set *appsv1.StatefulSet, pod string) {
	s.t.Helper()
	if len(set.Spec.VolumeClaimTemplates) == 0 {
		return
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, Name: cluster.VolumeData + "-" + pod, Labels: set.Spec.VolumeClaimTemplates[0].Labels,
	}}
	if err := s.api.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
}

func (s *redisStage) run(ctx context.Context, set *appsv1.StatefulSet, name string) {
	s.t.Helper()
	s.ips++
	ip := fmt.Sprintf("10.0.0.%d", s.ips)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name, UID: types.UID(fmt.Sprintf("uid-%d", s.ips)),
			Labels: maps.Clone(set.Spec.Template.Labels), Annotations: set.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: redis.ContainerServer, Resources: set.Spec.Template.Spec.Containers[0].Resources}}},
		Status: corev1.PodStatus{PodIP: ip, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	s.claim(ctx, set, name)
	pod.Labels[appsv1.PodIndexLabel] = name[strings.LastIndex(name, "-")+1:]
	problem := misfit(&set.Spec)
	if problem != nil {
		pod.Status = *problem
	}
	if err := s.api.Create(ctx, pod); err != nil {
		s.t.Fatal(err)
	}
	if problem != nil {
		if server := s.servers[name]; server != nil { // It ended with its pod.
			server.Stop()
		}
		return
	}
	addr := redis.Address{IP: ip, Port: redis.ClientPort}
	if server := s.servers[name]; server != nil {
		server.Stop()
		server.Start(addr)
		server.Version = versionOf(set)
		s.announce(ctx, server, ip)
		return
	}
	shard, err := strconv.Atoi(set.Labels[v1alpha1.LabelShard])
	if err != nil {
		s.t.Fatal(err)
	}
	s.servers[name] = s.net.Add(addr, shard, name+".carts-peers")
	s.servers[name].Version = versionOf(set)
	s.announce(ctx, s.servers[name], ip)
}

// versionOf is the version that the template of a StatefulSet is for.
func versionOf(set *appsv1.StatefulSet) string {
	for _, arg := range set.Spec.Template.Spec.InitContainers[0].Args {
		if version, ok := strings.CutPrefix(arg, "--version="); ok {
			return version
		}
	}
	return ""
}

func (s *redisStage) pass() {
	s.t.Helper()
	collect(s.t, s)
	ctx := s.t.Context()
	s.kubelet(ctx)
	s.allocate(ctx)
	for range 2 {
		s.net.Tick()
	}
	s.turn()
}

// admit tells whether all servers may be copied also after they have restarted in place.
func (s *redisStage) admit() bool {
	for _, server := range s.servers {
		if server.Up && server.StartedEmpty() {
			return false
		}
	}
	return true
}

// settle runs the operator until the cluster is Ready and there is nothing left to do.
func (s *redisStage) settle() {
	s.t.Helper()
	for range 300 {
		s.pass()
		o := s.cluster()
		if o.Status.ObservedGeneration != o.Generation || !meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) {
			continue
		}
		if s.first == (ready{}) {
			s.first = ready{calls: len(s.calls), turns: s.turns}
		}
		if meta.IsStatusConditionFalse(o.Status.Conditions, v1alpha1.ConditionReconciling) && s.admit() {
			return
		}
	}
	s.t.Fatalf("not ready: %+v", s.cluster().Status)
}

func TestARedisClusterBecomesReadyAndIsThenLeftAlone(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, redisCluster())
	s.settle()
	status := s.cluster().Status
	if status.Ready != "6/6" || status.Slots != "16384/16384" || status.ConnectionSecret != "carts-connection" {
		t.Errorf("status %+v", status)
	}
	for _, typ := range []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionSlotsCovered, v1alpha1.ConditionTLSReady} {
		if !meta.IsStatusConditionTrue(status.Conditions, typ) {
			t.Errorf("%s is not true", typ)
		}
	}
	before := s.api.writes.Load()
	for range 20 {
		s.pass()
	}
	if n := s.api.writes.Load() - before; n != 0 {
		t.Errorf("%d writes to a settled cluster", n)
	}
}

// An autoscaler multiplies what it measures by the number of pods that are selected, and asks for as many shards.
func TestTheScaleSubresourceSelectsAPodOfEachShard(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, redisCluster())
	s.settle()
	selector, err := labels.Parse(s.cluster().Status.Selector)
	if err != nil {
		t.Fatal(err)
	}
	var pods corev1.PodList
	if err := s.api.List(t.Context(), &pods, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		t.Fatal(err)
	}
	shards := map[string]int{}
	for _, p := range pods.Items {
		shards[p.Labels[v1alpha1.LabelShard]]++
	}
	if diff := cmp.Diff(map[string]int{"0": 1, "1": 1, "2": 1}, shards); diff != "" {
		t.Errorf("pods by shard (-want +got):\n%s", diff)
	}
}

func TestRedisPodsThatAllComeBackAtOnceFindEachOther(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, redisCluster())
	s.settle()
	id := s.cluster().Status.Shards[0].Nodes[0].ID
	if err := s.api.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		s.pass()
	}
	s.settle()
	if got := s.cluster().Status.Shards[0].Nodes[0].ID; got != id {
		t.Errorf("node %s became %s", id, got)
	}
}

func TestARedisRolloutRestartsEveryPodAndNoPrimary(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, redisCluster())
	s.settle()
	o := s.cluster()
	o.Spec.Config = &v1alpha1.RedisConfig{Extra: map[string]v1alpha1.ConfigValue{"tcp-backlog": "100"}}
	if err := s.api.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	old := s.uids()
	for range 10 {
		s.pass()
		for pod, role := range s.deleted {
			if role != v1alpha1.RedisReplica {
				t.Errorf("pod %s was deleted while it was a %s", pod, role)
			}
		}
	}
	s.settle()
	if len(s.deleted) != 6 {
		t.Errorf("deleted: %v", s.deleted)
	}
	for pod, uid := range s.uids() {
		if old[pod] == uid {
			t.Errorf("pod %s was not restarted", pod)
		}
	}
}

func (s *redisStage) uids() map[string]types.UID {
	s.t.Helper()
	var pods corev1.PodList
	if err := s.api.List(s.t.Context(), &pods); err != nil {
		s.t.Fatal(err)
	}
	out := map[string]types.UID{}
	for _, p := range pods.Items {
		out[p.Name] = p.UID
	}
	return out
}

func TestARedisClusterDoesNotTakeWhatBelongsToOthers(t *testing.T) {
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "carts-config"}}
	s := newRedisStage(t, redisCluster(), foreign)
	s.pass()
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonForeignObject {
		t.Errorf("stalled: %+v", c)
	}
}

// TestTheReplicasOfARedisClusterChange: the sets follow, the claims of pods that left go as well, and the spec is followed also
// where the cache has not heard of the last step yet.
func TestTheReplicasOfARedisClusterChange(t *testing.T) {
	o := redisCluster()
	policy := v1alpha1.DeletionDelete
	o.Spec.Storage.DeletionPolicy = &policy
	s := newRedisStage(t, o)
	s.settle()
	for _, replicas := range []int32{2, 0, 1} {
		o := s.cluster()
		o.Spec.ReplicasPerShard = &replicas
		if err := s.api.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		s.pass()
		s.settle()
		if n := len(s.uids()); n != 3*(1+int(replicas)) {
			t.Errorf("%d pods with %d replicas", n, replicas)
		}
		if got, want := s.cluster().Status.Ready, fmt.Sprintf("%[1]d/%[1]d", 3*(1+replicas)); got != want {
			t.Errorf("ready %s, want %s", got, want)
		}
		if replicas > 0 {
			continue
		}
		if err := s.api.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "data-carts-1-1"}, &corev1.PersistentVolumeClaim{}); !apierrors.IsNotFound(err) {
			t.Errorf("the claim of a pod that left: %v", err)
		}
	}
}

// An operator that was just started may see a StatefulSet and a specification of long ago: it must not take pods away from a shard that got
// more since.
func TestNoPodsLeaveForAnOldStatefulSet(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, redisCluster())
	s.settle()
	old := s.cluster()
	set := &appsv1.StatefulSet{}
	key := client.ObjectKey{Namespace: "default", Name: cluster.ShardSet("carts", 0)}
	if err := s.api.Get(t.Context(), key, set); err != nil {
		t.Fatal(err)
	}
	s.edit(func(spec *v1alpha1.RedisClusterSpec) { spec.ReplicasPerShard = new(int32(2)) })
	s.pass()
	s.settle()
	s.restart()
	kind, ok := s.loop.Kind.(*RedisKind)
	if !ok {
		t.Fatalf("%T", s.loop.Kind)
	}
	kind.Children.Client = &outdated{Client: kind.Children.Client, old: set.DeepCopy(), reads: 1000}
	for what, o := range map[string]*v1alpha1.RedisCluster{"specification": old, "StatefulSet": s.cluster()} {
		var hold cluster.Hold
		if err := kind.Ensure(t.Context(), o); !errors.As(err, &hold) || !strings.Contains(hold.Message, what) {
			t.Errorf("it goes on by an old %s: %v", what, err)
		}
		if err := s.api.Get(t.Context(), key, set); err != nil || *set.Spec.Replicas != 3 {
			t.Errorf("%d pods are left of 3 (%v)", *set.Spec.Replicas, err)
		}
	}
}

// A StatefulSet that has lost the label by which the cache finds it gets that back, and keeps the pods that somebody gave it.
func TestAStatefulSetWithoutItsLabelsIsFound(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, redisCluster())
	s.settle()
	set := &appsv1.StatefulSet{}
	key := client.ObjectKey{Namespace: "default", Name: cluster.ShardSet("carts", 0)}
	if err := s.api.Get(t.Context(), key, set); err != nil {
		t.Fatal(err)
	}
	want := set.Labels
	set.Labels, set.Spec.Replicas = nil, new(int32(3))
	if err := s.api.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	s.restart()
	if err := s.loop.Kind.Ensure(t.Context(), s.cluster()); err != nil {
		t.Error(err)
	}
	if err := s.api.Get(t.Context(), key, set); err != nil || *set.Spec.Replicas != 3 || !maps.Equal(set.Labels, want) {
		t.Errorf("%d pods, labels %v (%v)", *set.Spec.Replicas, set.Labels, err)
	}
}

// TestARedisClusterWithoutReplicasIsUpgraded: no primary is restarted, and no pod is left over.
func TestARedisClusterWithoutReplicasIsUpgraded(t *testing.T) {
	t.Parallel()
	o := redisCluster()
	none := int32(0)
	o.Spec.ReplicasPerShard, o.Spec.Storage = &none, nil
	s := newRedisStage(t, o)
	s.settle()
	o = s.cluster()
	o.Spec.Version = "8.2.1"
	if err := s.api.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	old := s.uids()
	s.pass()
	s.settle()
	for pod, role := range s.deleted {
		if role != v1alpha1.RedisReplica {
			t.Errorf("pod %s was deleted while it was a %s", pod, role)
		}
	}
	now := s.uids()
	if len(now) != 3 || s.cluster().Status.CurrentVersion != "8.2.1" || s.cluster().Status.Ready != "3/3" {
		t.Errorf("%d pods of version %s, %s ready", len(now), s.cluster().Status.CurrentVersion, s.cluster().Status.Ready)
	}
	for pod, uid := range now {
		if old[pod] == uid {
			t.Errorf("pod %s was not restarted", pod)
		}
	}
}

// TestSettingsTakeEffectWithoutARestart: but for those that are taken out of spec.config.extra again.
func TestSettingsTakeEffectWithoutARestart(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, redisCluster())
	s.settle()
	for name := range s.servers {
		s.servers[name].Config = map[string]string{"appendfsync": "everysec", "hz": "10", "timeout": "0"}
	}
	old := s.uids()
	set := func(edit func(c *v1alpha1.RedisConfig)) {
		t.Helper()
		o := s.cluster()
		if o.Spec.Config == nil {
			o.Spec.Config = &v1alpha1.RedisConfig{}
		}
		edit(o.Spec.Config)
		if err := s.api.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			s.pass()
		}
		s.settle()
	}
	fsync := "always"
	set(func(c *v1alpha1.RedisConfig) {
		c.AppendFsync, c.Extra = &fsync, map[string]v1alpha1.ConfigValue{"hz": "20", "timeout": "60"}
	})
	set(func(c *v1alpha1.RedisConfig) { c.Extra["hz"] = "30" })
	want := map[string]string{"appendfsync": "always", "hz": "30", "timeout": "60"}
	for name, server := range s.servers {
		if diff := cmp.Diff(want, server.Config); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	set(func(c *v1alpha1.RedisConfig) { c.AppendFsync = nil })
	if diff := cmp.Diff(old, s.uids()); diff != "" {
		t.Errorf("pods were restarted (-before +after):\n%s", diff)
	}
	set(func(c *v1alpha1.RedisConfig) { delete(c.Extra, "timeout") })
	for pod, uid := range s.uids() {
		if old[pod] == uid {
			t.Errorf("pod %s was not restarted", pod)
		}
	}
}

// TestAStatefulSetOfTheCacheHasTheSizeThatItWasGiven: to apply what an old one says would undo the step.
func TestAStatefulSetOfTheCacheHasTheSizeThatItWasGiven(t *testing.T) {
	s := newRedisStage(t, redisCluster())
	s.settle()
	old := s.firstSet()
	kind := s.loop.Kind.(*RedisKind)
	err := kind.scaleShard(t.Context(), s.cluster(), redis.SetSize{Shard: 0, From: 2, To: 1, UID: string(old.UID), ResourceVersion: old.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	kind.correctSize(redisCluster(), old)
	if *old.Spec.Replicas != 1 || *s.firstSet().Spec.Replicas != 1 {
		t.Errorf("the set of the cache has %d pods, the real one %d; want 1", *old.Spec.Replicas, *s.firstSet().Spec.Replicas)
	}
	// What was decided on an old set is not done to a newer one.
	err = kind.scaleShard(t.Context(), s.cluster(), redis.SetSize{Shard: 0, From: 2, To: 3, UID: string(old.UID), ResourceVersion: old.ResourceVersion})
	if got := s.firstSet(); err != nil || *got.Spec.Replicas != 1 {
		t.Errorf("%d pods, %v", *got.Spec.Replicas, err)
	}
}

func (s *redisStage) firstSet() *appsv1.StatefulSet {
	s.t.Helper()
	var set appsv1.StatefulSet
	if err := s.api.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: "carts-0"}, &set); err != nil {
		s.t.Fatal(err)
	}
	return &set
}

// TestABudgetAllowsNoEvictionsWhileAReplicaIsNotInSync: neither does Ensure take that back, nor does it cost a write when
// nothing changes.
func TestABudgetAllowsNoEvictionsWhileAReplicaIsNotInSync(t *testing.T) {
	s := newRedisStage(t, redisCluster())
	s.settle()
	most := func(shard string) int {
		t.Helper()
		var b policyv1.PodDisruptionBudget
		if err := s.api.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "carts-" + shard}, &b); err != nil {
			t.Fatal(err)
		}
		return b.Spec.MaxUnavailable.IntValue()
	}
	primary, replica := s.servers["carts-1-0"], s.servers["carts-1-1"]
	primary.Data[redisfake.Key{Slot: 8000}] = 5
	replica.Refused = true
	for range 3 {
		s.pass()
	}
	if most("1") != 0 || most("0") != 1 {
		t.Errorf("carts-1 allows %d, carts-0 %d; want 0 and 1", most("1"), most("0"))
	}
	before := s.api.writes.Load()
	for range 10 {
		s.pass()
	}
	if n := s.api.writes.Load() - before; n > 1 {
		t.Errorf("%d writes while nothing changed", n)
	}
	replica.Refused = false
	s.settle()
	if most("1") != 1 {
		t.Errorf("carts-1 still allows %d", most("1"))
	}
}

func redisClaim(o *v1alpha1.RedisCluster, name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: redis.Selector(o)}}
}

func TestARedisClusterIsNotMadeBesideTheClaimsOfALargerOne(t *testing.T) {
	o := redisCluster()
	s := newRedisStage(t, o, redisClaim(o, "data-carts-0-0"), redisClaim(o, "data-carts-0-2"))
	for range 20 {
		s.pass()
	}
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Reason != redis.ReasonRetained || !strings.Contains(c.Message, "data-carts-0-2") || strings.Contains(c.Message, "data-carts-0-0") {
		t.Fatalf("stalled: %+v", c)
	}
	if err := s.api.Delete(t.Context(), redisClaim(o, "data-carts-0-2")); err != nil {
		t.Fatal(err)
	}
	s.settle()
}

func TestARedisShardWaitsForTheClaimsOfAnEarlierCluster(t *testing.T) {
	o := redisCluster()
	claim := redisClaim(o, "data-carts-1-0")
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "carts-1", UID: "earlier"}}
	claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	s := newRedisStage(t, o, claim)
	s.pass()
	var sets appsv1.StatefulSetList
	if err := s.api.List(t.Context(), &sets); err != nil || len(sets.Items) != 1 {
		t.Fatalf("%d StatefulSets, %v; want only that of the shard before", len(sets.Items), err)
	}
	if c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionReady); c == nil || !strings.Contains(c.Message, "data-carts-1-0") {
		t.Errorf("ready: %+v", c)
	}
	if err := s.api.Patch(t.Context(), claim, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	s.settle()
}

// TestTheErrorsOfCertificatesAreTheSameEveryTime: what differs would be written to the status on every pass.
func TestTheErrorsOfCertificatesAreTheSameEveryTime(t *testing.T) {
	for want, err := range map[string]error{
		"the server's certificate has expired or is not valid yet":               x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.Expired, Detail: "current time 12:00 is after 11:00"},
		"the server's certificate cannot be verified":                            x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.TooManyIntermediates},
		"the server's certificate is not for its name":                           x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a"},
		"the server's certificate is not of the cluster's certificate authority": x509.UnknownAuthorityError{},
		"the server does not speak TLS":                                          tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
		"the server does not answer":                                             context.DeadlineExceeded,
		"the server cannot be reached: connection refused":                       &net.OpError{Op: "dial", Err: errors.New("connection refused")},
	} {
		if got := briefly(fmt.Errorf("read server: %w", err)); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestWhyAPodIsStuck(t *testing.T) {
	waiting := func(name, reason string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}}}}
	}
	held := waiting(redis.ContainerGate, "CrashLoopBackOff")
	held[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Message: "the server is held back"}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	beside := func(server corev1.ContainerState, reason string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: append(waiting("mesh", reason), corev1.ContainerStatus{Name: redis.ContainerServer, State: server})}
	}
	const refusal = redis.HeldBack + "its data was written by valkey 9.1.2"
	gate := func(now, last corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: redis.ContainerGate, State: now, LastTerminationState: last}}}
	}
	ended := func(code int32, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}}
	}
	tests := map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"its gate has just refused":                 {gate(ended(1, refusal), corev1.ContainerState{}), refusal},
		"its gate runs again after a refusal":       {gate(running, ended(1, refusal)), refusal},
		"its gate has let it go after a refusal":    {gate(ended(0, ""), ended(1, refusal)), ""},
		"its gate has failed, and may not the next": {gate(running, ended(1, "read password: no such file")), ""},
		"running":                                    {corev1.PodStatus{}, ""},
		"creating":                                   {corev1.PodStatus{ContainerStatuses: waiting(redis.ContainerServer, "ContainerCreating")}, ""},
		"no image":                                   {corev1.PodStatus{ContainerStatuses: waiting(redis.ContainerServer, "ImagePullBackOff")}, "ImagePullBackOff: why"},
		"held by the gate":                           {corev1.PodStatus{InitContainerStatuses: held}, "CrashLoopBackOff: the server is held back"},
		"running beside one that has no image":       {beside(running, "ImagePullBackOff"), ""},
		"running beside one that ends again":         {beside(running, "CrashLoopBackOff"), ""},
		"ended, beside one that has no image":        {beside(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}, "ImagePullBackOff"), ""},
		"without an image, beside one that has none": {beside(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName"}}, "ImagePullBackOff"), "InvalidImageName"},
		"held by somebody's container before it": {corev1.PodStatus{
			InitContainerStatuses: waiting("mesh", "ImagePullBackOff"), ContainerStatuses: waiting(redis.ContainerServer, "PodInitializing"),
		}, "ImagePullBackOff: why"},
		"running, with a container before it that ends again": {corev1.PodStatus{
			InitContainerStatuses: waiting("mesh", "CrashLoopBackOff"), ContainerStatuses: []corev1.ContainerStatus{{Name: redis.ContainerServer, State: running}},
		}, ""},
		"no node": {corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes"},
		}}, "Unschedulable: 0/3 nodes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := podOf(&corev1.Pod{Status: tc.status}, 0, 0).Stuck; got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// The address of a pod may be out of date and that of another pod by now.
func TestAServerThatAnswersAtTheAddressOfAnotherPodIsNotTakenForIt(t *testing.T) {
	s := newRedisStage(t, redisCluster())
	s.settle()
	kind, ok := s.loop.Kind.(*RedisKind)
	if !ok {
		t.Fatalf("%T", s.loop.Kind)
	}
	for _, answers := range []string{"carts-1-1", "carts-1-0"} {
		server := s.servers[answers]
		kind.Connect = func(redisclient.Options) redis.Client { return server }
		pods := []redis.Pod{{Name: "carts-1-0", Addr: server.Addr}}
		kind.readServers(t.Context(), func(user string, to endpoint) redisclient.Options {
			if user != redis.UserOperator || to.pod != "carts-1-0" {
				t.Errorf("connection as %s to %s", user, to.pod)
			}
			return redisclient.Options{}
		}, &redis.State{Spec: redis.Spec{Name: "carts", Namespace: s.cluster().Namespace}, Pods: pods})
		p := pods[0]
		if own := answers == p.Name; own != (p.Node != nil) || own != (p.Error == "") {
			t.Errorf("%s answers: node %v, error %q", answers, p.Node != nil, p.Error)
		} else if !own && p.Error != "another server answers at its address" {
			t.Errorf("error %q", p.Error)
		}
	}
}

// meetRecorder records the addresses in CLUSTER MEET commands.
type meetRecorder struct {
	redis.Client
	met func(redis.Address)
}

func (m meetRecorder) Meet(ctx context.Context, to redis.Address, bus int) error {
	m.met(to)
	return m.Client.Meet(ctx, to, bus)
}

// TestOnlyTheExpectedServerIsMet: the address of a pod may have been reused by a server of another
// cluster, and one CLUSTER MEET would merge the two clusters.
func TestOnlyTheExpectedServerIsMet(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, redisCluster())
	s.settle()
	own, foreign := s.servers["carts-1-0"], s.servers["carts-2-0"]
	pair := func(w *redisfake.Server, pod, id string) redis.Introduction {
		return redis.Introduction{Pod: "carts-0-0", Other: pod, Addr: w.Addr, Bus: 16379, ID: id}
	}
	for name, tc := range map[string]struct {
		pairs []redis.Introduction
		met   []redis.Address
		err   string
	}{
		"the expected server": {
			[]redis.Introduction{pair(own, "carts-1-0", own.ID)}, []redis.Address{own.Addr}, "",
		},
		"another server, and the expected one beside it": {
			[]redis.Introduction{pair(foreign, "carts-2-0", strings.Repeat("f", 40)), pair(own, "carts-1-0", own.ID)},
			[]redis.Address{own.Addr},
			"pod carts-2-0: node " + foreign.ID[:8] + " answers at",
		},
		"the expected server, elsewhere": {
			[]redis.Introduction{{Pod: "carts-0-0", Other: "carts-2-0", Addr: own.Addr, Bus: 16379, ID: foreign.ID}},
			nil, "pod carts-2-0: its server moved from",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var met []redis.Address
			kind := s.loop.Kind.(*RedisKind)
			connect := kind.Connect
			defer func() { kind.Connect = connect }()
			kind.Connect = func(o redisclient.Options) redis.Client {
				return meetRecorder{s.connect(o), func(to redis.Address) { met = append(met, to) }}
			}
			err := kind.Act(t.Context(), s.cluster(), redis.Meet{Pairs: tc.pairs})
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.met, met); diff != "" {
				t.Errorf("who was met (-want +got):\n%s", diff)
			}
		})
	}
}
