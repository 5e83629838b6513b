package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// copycat returns a StatefulSet that carries the labels of a RedisCluster and is controlled by
// another resource, or by none.
func copycat(o *v1alpha1.RedisCluster, name string, controller *metav1.OwnerReference) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: name, UID: types.UID("of-" + name), Labels: redis.Labels(o)},
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To(int32(0))},
	}
	if controller != nil {
		set.OwnerReferences = []metav1.OwnerReference{*controller}
	}
	return set
}

func podOfSet(set *appsv1.StatefulSet, name string, controller *metav1.OwnerReference) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: name, UID: types.UID("of-" + name), Labels: set.Labels}}
	if controller != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*controller}
	}
	return pod
}

func TestAStatefulSetThatOnlyCarriesTheLabelsIsNoShard(t *testing.T) {
	t.Parallel()
	other := etcdCluster()
	other.UID = "else"
	controller := metav1.NewControllerRef(other, v1alpha1.GroupVersion.WithKind("EtcdCluster"))
	for name, foreign := range map[string]*appsv1.StatefulSet{
		"the next shard, without a controller":    copycat(redisCluster(), "carts-3", nil),
		"the next shard, of another controller":   copycat(redisCluster(), "carts-3", controller),
		"a shard beyond what memory has room for": copycat(redisCluster(), "carts-2000000000", nil),
		"a number that Kubernetes does not write": copycat(redisCluster(), "carts-03", nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRedisStage(t, redisCluster(), other.DeepCopy())
			s.settle()
			before := observed(t, s)
			set := metav1.NewControllerRef(foreign, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
			for _, o := range []client.Object{foreign, podOfSet(foreign, foreign.Name+"-0", set)} {
				if err := s.api.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			after := observed(t, s)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("shards and pods that are observed (-before +after):\n%s", diff)
			}
			for range 10 {
				s.pass()
			}
			if err := s.api.Get(t.Context(), client.ObjectKeyFromObject(foreign), &appsv1.StatefulSet{}); err != nil {
				t.Errorf("the StatefulSet of another controller: %v", err)
			}
			if o := s.cluster(); !meta.IsStatusConditionFalse(o.Status.Conditions, v1alpha1.ConditionReconciling) {
				t.Errorf("the cluster is not settled: %s", o.Status.Activity)
			}
		})
	}
}

// observed lists the StatefulSets and pods of a state.
func observed(t *testing.T, s *redisStage) (out []string) {
	t.Helper()
	state, err := s.loop.Kind.Observe(t.Context(), s.cluster())
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range state.Sets {
		out = append(out, "StatefulSet "+set.UID)
	}
	for _, p := range state.Pods {
		out = append(out, "pod "+p.UID)
	}
	return out
}

func TestAPodBelongsToTheStatefulSetThatControlsIt(t *testing.T) {
	t.Parallel()
	o := etcdCluster()
	ref := func(kind, name, uid string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(uid), Controller: ptr.To(true)}
	}
	ours := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "orders", UID: "set", Labels: etcd.Labels("orders"),
		OwnerReferences: []metav1.OwnerReference{*ref("EtcdCluster", "orders", string(o.UID))},
	}}
	foreign := ours.DeepCopy()
	foreign.OwnerReferences[0].UID = "another cluster"
	for name, tc := range map[string]struct {
		set  *appsv1.StatefulSet
		pod  *corev1.Pod
		want bool
	}{
		"a pod of the StatefulSet":                     {ours, podOfSet(ours, "orders-1", ref("StatefulSet", "orders", "set")), true},
		"a pod without a controller":                   {ours, podOfSet(ours, "orders-1", nil), true},
		"a pod of an earlier StatefulSet":              {ours, podOfSet(ours, "orders-1", ref("StatefulSet", "orders", "old")), false},
		"a pod whose StatefulSet was deleted":          {nil, podOfSet(ours, "orders-1", ref("StatefulSet", "orders", "old")), true},
		"a pod of a StatefulSet of another controller": {foreign, podOfSet(ours, "orders-1", ref("StatefulSet", "orders", "set")), false},
		"a pod of another StatefulSet":                 {nil, podOfSet(ours, "orders-1", ref("StatefulSet", "other", "set")), false},
		"a pod of a Job":                               {nil, podOfSet(ours, "orders-1", ref("Job", "orders", "set")), false},
		"a number beyond what the API allows":          {ours, podOfSet(ours, "orders-1000", nil), false},
		"another name":                                 {ours, podOfSet(ours, "orders-a", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := []client.Object{o.DeepCopy(), tc.pod}
			if tc.set != nil {
				objects = append(objects, tc.set.DeepCopy())
			}
			k := NewEtcdKind(newChildren(newWorld(t, objects...)))
			set, err := k.statefulSet(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			pods, err := k.pods(t.Context(), o, set)
			if err != nil || (len(pods) == 1) != tc.want {
				t.Errorf("%d pods, %v: the pod belongs to the cluster: want %t", len(pods), err, tc.want)
			}
		})
	}
}
