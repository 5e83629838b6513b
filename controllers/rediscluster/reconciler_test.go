package rediscluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/gate"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestARedisClusterBecomesReadyAndIsThenLeftAlone(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	status := s.Cluster().Status
	if status.Ready != "6/6" || status.Slots != "16384/16384" || status.ConnectionSecret != "carts-connection" {
		t.Errorf("status %+v", status)
	}
	for _, typ := range []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionSlotsCovered, v1alpha1.ConditionTLSReady} {
		if !meta.IsStatusConditionTrue(status.Conditions, typ) {
			t.Errorf("%s is not true", typ)
		}
	}
	before := s.API.Writes.Load()
	for range 20 {
		s.Pass()
	}
	if n := s.API.Writes.Load() - before; n != 0 {
		t.Errorf("%d writes to a settled cluster", n)
	}
}

// An autoscaler multiplies what it measures by the number of pods that are selected, and asks for as many shards.
func TestTheScaleSubresourceSelectsAPodOfEachShard(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	selector, err := labels.Parse(s.Cluster().Status.Selector)
	if err != nil {
		t.Fatal(err)
	}
	var pods corev1.PodList
	if err := s.API.List(t.Context(), &pods, client.MatchingLabelsSelector{Selector: selector}); err != nil {
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
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	id := s.Cluster().Status.Shards[0].Nodes[0].ID
	if err := s.API.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		s.Pass()
	}
	s.Settle()
	if got := s.Cluster().Status.Shards[0].Nodes[0].ID; got != id {
		t.Errorf("node %s became %s", id, got)
	}
}

func TestARedisRolloutRestartsEveryPodAndNoPrimary(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	o := s.Cluster()
	o.Spec.Config = &v1alpha1.RedisConfig{Extra: map[string]v1alpha1.ConfigValue{"tcp-backlog": "100"}}
	if err := s.API.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	old := s.Uids()
	for range 10 {
		s.Pass()
		for pod, role := range s.Deleted {
			if role != v1alpha1.RedisReplica {
				t.Errorf("pod %s was deleted while it was a %s", pod, role)
			}
		}
	}
	s.Settle()
	if len(s.Deleted) != 6 {
		t.Errorf("deleted: %v", s.Deleted)
	}
	for pod, uid := range s.Uids() {
		if old[pod] == uid {
			t.Errorf("pod %s was not restarted", pod)
		}
	}
}

func TestARedisClusterDoesNotTakeWhatBelongsToOthers(t *testing.T) {
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "carts-config"}}
	s := newRedisStage(t, fakeapi.RedisCluster(), foreign)
	s.Pass()
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonForeignObject {
		t.Errorf("stalled: %+v", c)
	}
}

// TestTheReplicasOfARedisClusterChange: the sets follow, the claims of pods that left go as well, and the spec is followed also
// where the cache has not heard of the last step yet.
func TestTheReplicasOfARedisClusterChange(t *testing.T) {
	o := fakeapi.RedisCluster()
	policy := v1alpha1.DeletionDelete
	o.Spec.Storage.DeletionPolicy = &policy
	s := newRedisStage(t, o)
	s.Settle()
	for _, replicas := range []int32{2, 0, 1} {
		o := s.Cluster()
		o.Spec.ReplicasPerShard = &replicas
		if err := s.API.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		s.Pass()
		s.Settle()
		if n := len(s.Uids()); n != 3*(1+int(replicas)) {
			t.Errorf("%d pods with %d replicas", n, replicas)
		}
		if got, want := s.Cluster().Status.Ready, fmt.Sprintf("%[1]d/%[1]d", 3*(1+replicas)); got != want {
			t.Errorf("ready %s, want %s", got, want)
		}
		if replicas > 0 {
			continue
		}
		if err := s.API.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "data-carts-1-1"}, &corev1.PersistentVolumeClaim{}); !apierrors.IsNotFound(err) {
			t.Errorf("the claim of a pod that left: %v", err)
		}
	}
}

// An operator that was just started may see a StatefulSet and a specification of long ago: it must not take pods away from a shard that got
// more since.
func TestNoPodsLeaveForAnOldStatefulSet(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	old := s.Cluster()
	set := &appsv1.StatefulSet{}
	key := client.ObjectKey{Namespace: "default", Name: cluster.ShardSet("carts", 0)}
	if err := s.API.Get(t.Context(), key, set); err != nil {
		t.Fatal(err)
	}
	s.Edit(func(spec *v1alpha1.RedisClusterSpec) { spec.ReplicasPerShard = new(int32(2)) })
	s.Pass()
	s.Settle()
	s.Restart()
	kind, ok := s.Loop.Kind.(*Reconciler)
	if !ok {
		t.Fatalf("%T", s.Loop.Kind)
	}
	kind.Client.Client = &controllersim.Outdated{Client: kind.Client.Client, Old: set.DeepCopy(), Reads: 1000}
	for what, o := range map[string]*v1alpha1.RedisCluster{"specification": old, "StatefulSet": s.Cluster()} {
		var hold cluster.Hold
		if err := kind.Ensure(t.Context(), o); !errors.As(err, &hold) || !strings.Contains(hold.Message, what) {
			t.Errorf("it goes on by an old %s: %v", what, err)
		}
		if err := s.API.Get(t.Context(), key, set); err != nil || *set.Spec.Replicas != 3 {
			t.Errorf("%d pods are left of 3 (%v)", *set.Spec.Replicas, err)
		}
	}
}

// A StatefulSet that has lost the label by which the cache finds it gets that back, and keeps the pods that somebody gave it.
func TestAStatefulSetWithoutItsLabelsIsFound(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	set := &appsv1.StatefulSet{}
	key := client.ObjectKey{Namespace: "default", Name: cluster.ShardSet("carts", 0)}
	if err := s.API.Get(t.Context(), key, set); err != nil {
		t.Fatal(err)
	}
	want := set.Labels
	set.Labels, set.Spec.Replicas = nil, new(int32(3))
	if err := s.API.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	if err := s.Loop.Kind.Ensure(t.Context(), s.Cluster()); err != nil {
		t.Error(err)
	}
	if err := s.API.Get(t.Context(), key, set); err != nil || *set.Spec.Replicas != 3 || !maps.Equal(set.Labels, want) {
		t.Errorf("%d pods, labels %v (%v)", *set.Spec.Replicas, set.Labels, err)
	}
}

// TestARedisClusterWithoutReplicasIsUpgraded: no primary is restarted, and no pod is left over.
func TestARedisClusterWithoutReplicasIsUpgraded(t *testing.T) {
	t.Parallel()
	o := fakeapi.RedisCluster()
	none := int32(0)
	o.Spec.ReplicasPerShard, o.Spec.Storage = &none, nil
	s := newRedisStage(t, o)
	s.Settle()
	o = s.Cluster()
	o.Spec.Version = "8.2.1"
	if err := s.API.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	old := s.Uids()
	s.Pass()
	s.Settle()
	for pod, role := range s.Deleted {
		if role != v1alpha1.RedisReplica {
			t.Errorf("pod %s was deleted while it was a %s", pod, role)
		}
	}
	now := s.Uids()
	if len(now) != 3 || s.Cluster().Status.CurrentVersion != "8.2.1" || s.Cluster().Status.Ready != "3/3" {
		t.Errorf("%d pods of version %s, %s ready", len(now), s.Cluster().Status.CurrentVersion, s.Cluster().Status.Ready)
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
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	for name := range s.Servers {
		s.Servers[name].Config = map[string]string{"appendfsync": "everysec", "hz": "10", "timeout": "0"}
	}
	old := s.Uids()
	set := func(edit func(c *v1alpha1.RedisConfig)) {
		t.Helper()
		o := s.Cluster()
		if o.Spec.Config == nil {
			o.Spec.Config = &v1alpha1.RedisConfig{}
		}
		edit(o.Spec.Config)
		if err := s.API.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			s.Pass()
		}
		s.Settle()
	}
	fsync := "always"
	set(func(c *v1alpha1.RedisConfig) {
		c.AppendFsync, c.Extra = &fsync, map[string]v1alpha1.ConfigValue{"hz": "20", "timeout": "60"}
	})
	set(func(c *v1alpha1.RedisConfig) { c.Extra["hz"] = "30" })
	want := map[string]string{"appendfsync": "always", "hz": "30", "timeout": "60"}
	for name, server := range s.Servers {
		if diff := cmp.Diff(want, server.Config); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	set(func(c *v1alpha1.RedisConfig) { c.AppendFsync = nil })
	if diff := cmp.Diff(old, s.Uids()); diff != "" {
		t.Errorf("pods were restarted (-before +after):\n%s", diff)
	}
	set(func(c *v1alpha1.RedisConfig) { delete(c.Extra, "timeout") })
	for pod, uid := range s.Uids() {
		if old[pod] == uid {
			t.Errorf("pod %s was not restarted", pod)
		}
	}
}

// What a stale StatefulSet or budget says would undo the last step.
func TestAStaleCacheUndoesNeitherTheSizeNorTheBudgetOfAShard(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	old := s.FirstSet()
	kind := s.Loop.Kind.(*Reconciler)
	s.Alive.View.Behind = map[string]int{"StatefulSet": s.Past.Now(), "PodDisruptionBudget": s.Past.Now()}
	if err := kind.Act(t.Context(), s.Cluster(), steps.Guard{Protect: []int{0}}); err != nil {
		t.Fatal(err)
	}
	err := kind.scaleShard(t.Context(), s.Cluster(), steps.SetSize{Shard: 0, From: 2, To: 1, UID: string(old.UID), ResourceVersion: old.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	if err := kind.Ensure(t.Context(), s.Cluster()); err != nil {
		t.Fatal(err)
	}
	var state model.State
	if err := kind.observeSets(t.Context(), s.Cluster(), &state); err != nil {
		t.Fatal(err)
	}
	if set := state.Sets[0]; set.Replicas != 1 || !set.Guarded || state.Sets[1].Guarded || *s.FirstSet().Spec.Replicas != 1 {
		t.Errorf("observed %+v and %+v; there are %d pods, want 1", set, state.Sets[1], *s.FirstSet().Spec.Replicas)
	}
	var budget policyv1.PodDisruptionBudget
	if err := s.API.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "carts-0"}, &budget); err != nil || budget.Spec.MaxUnavailable.IntValue() != 0 {
		t.Errorf("the budget is %v (%v)", budget.Spec.MaxUnavailable, err)
	}
	// What was decided on an old set is not done to a newer one.
	err = kind.scaleShard(t.Context(), s.Cluster(), steps.SetSize{Shard: 0, From: 2, To: 3, UID: string(old.UID), ResourceVersion: old.ResourceVersion})
	if got := s.FirstSet(); err != nil || *got.Spec.Replicas != 1 {
		t.Errorf("%d pods, %v", *got.Spec.Replicas, err)
	}
}

// TestABudgetAllowsNoEvictionsWhileAReplicaIsNotInSync: neither does Ensure take that back, nor does it cost a write when
// nothing changes.
func TestABudgetAllowsNoEvictionsWhileAReplicaIsNotInSync(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	most := func(shard string) int {
		t.Helper()
		var b policyv1.PodDisruptionBudget
		if err := s.API.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "carts-" + shard}, &b); err != nil {
			t.Fatal(err)
		}
		return b.Spec.MaxUnavailable.IntValue()
	}
	primary, replica := s.Servers["carts-1-0"], s.Servers["carts-1-1"]
	primary.Data[redisfake.Key{Slot: 8000}] = 5
	replica.Refused = true
	for range 3 {
		s.Pass()
	}
	if most("1") != 0 || most("0") != 1 {
		t.Errorf("carts-1 allows %d, carts-0 %d; want 0 and 1", most("1"), most("0"))
	}
	before := s.API.Writes.Load()
	for range 10 {
		s.Pass()
	}
	if n := s.API.Writes.Load() - before; n > 1 {
		t.Errorf("%d writes while nothing changed", n)
	}
	replica.Refused = false
	s.Settle()
	if most("1") != 1 {
		t.Errorf("carts-1 still allows %d", most("1"))
	}
}

func redisClaim(o *v1alpha1.RedisCluster, name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: manifests.Selector(o)}}
}

func TestARedisClusterIsNotMadeBesideTheClaimsOfALargerOne(t *testing.T) {
	o := fakeapi.RedisCluster()
	s := newRedisStage(t, o, redisClaim(o, "data-carts-0-0"), redisClaim(o, "data-carts-0-2"))
	for range 20 {
		s.Pass()
	}
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Reason != planner.ReasonRetained || !strings.Contains(c.Message, "data-carts-0-2") || strings.Contains(c.Message, "data-carts-0-0") {
		t.Fatalf("stalled: %+v", c)
	}
	if err := s.API.Delete(t.Context(), redisClaim(o, "data-carts-0-2")); err != nil {
		t.Fatal(err)
	}
	s.Settle()
}

func TestARedisShardWaitsForTheClaimsOfAnEarlierCluster(t *testing.T) {
	o := fakeapi.RedisCluster()
	claim := redisClaim(o, "data-carts-1-0")
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "carts-1", UID: "earlier"}}
	claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	s := newRedisStage(t, o, claim)
	s.Pass()
	var sets appsv1.StatefulSetList
	if err := s.API.List(t.Context(), &sets); err != nil || len(sets.Items) != 1 {
		t.Fatalf("%d StatefulSets, %v; want only that of the shard before", len(sets.Items), err)
	}
	if c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionReady); c == nil || !strings.Contains(c.Message, "data-carts-1-0") {
		t.Errorf("ready: %+v", c)
	}
	if err := s.API.Patch(t.Context(), claim, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	s.Settle()
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
	held := waiting(manifests.ContainerGate, "CrashLoopBackOff")
	held[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Message: "the server is held back"}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	beside := func(server corev1.ContainerState, reason string) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: append(waiting("mesh", reason), corev1.ContainerStatus{Name: manifests.ContainerServer, State: server})}
	}
	const refusal = gate.HeldBack + "its data was written by valkey 9.1.2"
	gate := func(now, last corev1.ContainerState) corev1.PodStatus {
		return corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: manifests.ContainerGate, State: now, LastTerminationState: last}}}
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
		"creating":                                   {corev1.PodStatus{ContainerStatuses: waiting(manifests.ContainerServer, "ContainerCreating")}, ""},
		"no image":                                   {corev1.PodStatus{ContainerStatuses: waiting(manifests.ContainerServer, "ImagePullBackOff")}, "ImagePullBackOff: why"},
		"held by the gate":                           {corev1.PodStatus{InitContainerStatuses: held}, "CrashLoopBackOff: the server is held back"},
		"running beside one that has no image":       {beside(running, "ImagePullBackOff"), ""},
		"running beside one that ends again":         {beside(running, "CrashLoopBackOff"), ""},
		"ended, beside one that has no image":        {beside(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}, "ImagePullBackOff"), ""},
		"without an image, beside one that has none": {beside(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName"}}, "ImagePullBackOff"), "InvalidImageName"},
		"held by somebody's container before it": {corev1.PodStatus{
			InitContainerStatuses: waiting("mesh", "ImagePullBackOff"), ContainerStatuses: waiting(manifests.ContainerServer, "PodInitializing"),
		}, "ImagePullBackOff: why"},
		"running, with a container before it that ends again": {corev1.PodStatus{
			InitContainerStatuses: waiting("mesh", "CrashLoopBackOff"), ContainerStatuses: []corev1.ContainerStatus{{Name: manifests.ContainerServer, State: running}},
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
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	kind, ok := s.Loop.Kind.(*Reconciler)
	if !ok {
		t.Fatalf("%T", s.Loop.Kind)
	}
	for _, answers := range []string{"carts-1-1", "carts-1-0"} {
		server := s.Servers[answers]
		kind.Connect = func(redisclient.Options) steps.Client { return server }
		pods := []model.Pod{{Name: "carts-1-0", Addr: server.Addr}}
		kind.readServers(t.Context(), func(user string, to endpoint) redisclient.Options {
			if user != acl.UserOperator || to.pod != "carts-1-0" {
				t.Errorf("connection as %s to %s", user, to.pod)
			}
			return redisclient.Options{}
		}, &model.State{Spec: model.Spec{Name: "carts", Namespace: s.Cluster().Namespace}, Pods: pods})
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
	steps.Client
	met func(model.Address)
}

func (m meetRecorder) Meet(ctx context.Context, to model.Address, bus int) error {
	m.met(to)
	return m.Client.Meet(ctx, to, bus)
}

// TestOnlyTheExpectedServerIsMet: the address of a pod may have been reused by a server of another
// cluster, and one CLUSTER MEET would merge the two clusters.
func TestOnlyTheExpectedServerIsMet(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, fakeapi.RedisCluster())
	s.Settle()
	own, foreign := s.Servers["carts-1-0"], s.Servers["carts-2-0"]
	pair := func(w *redisfake.Server, pod, id string) steps.Introduction {
		return steps.Introduction{Pod: "carts-0-0", Other: pod, Addr: w.Addr, Bus: 16379, ID: id}
	}
	for name, tc := range map[string]struct {
		pairs []steps.Introduction
		met   []model.Address
		err   string
	}{
		"the expected server": {
			[]steps.Introduction{pair(own, "carts-1-0", own.ID)}, []model.Address{own.Addr}, "",
		},
		"another server, and the expected one beside it": {
			[]steps.Introduction{pair(foreign, "carts-2-0", strings.Repeat("f", 40)), pair(own, "carts-1-0", own.ID)},
			[]model.Address{own.Addr},
			"pod carts-2-0: node " + foreign.ID[:8] + " answers at",
		},
		"the expected server, elsewhere": {
			[]steps.Introduction{{Pod: "carts-0-0", Other: "carts-2-0", Addr: own.Addr, Bus: 16379, ID: foreign.ID}},
			nil, "pod carts-2-0: its server moved from",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var met []model.Address
			kind := s.Loop.Kind.(*Reconciler)
			connect := kind.Connect
			defer func() { kind.Connect = connect }()
			kind.Connect = func(o redisclient.Options) steps.Client {
				return meetRecorder{s.Connect(o), func(to model.Address) { met = append(met, to) }}
			}
			err := kind.Act(t.Context(), s.Cluster(), steps.Meet{Pairs: tc.pairs})
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.met, met); diff != "" {
				t.Errorf("who was met (-want +got):\n%s", diff)
			}
		})
	}
}
