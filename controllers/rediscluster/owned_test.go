package rediscluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
)

// copycat returns a StatefulSet that carries the labels of a RedisCluster and is controlled by
// another resource, or by none.
func copycat(o *v1alpha1.RedisCluster, name string, controller *metav1.OwnerReference) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: name, UID: types.UID("of-" + name), Labels: manifests.Labels(o)},
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To(int32(0))},
	}
	if controller != nil {
		set.OwnerReferences = []metav1.OwnerReference{*controller}
	}
	return set
}

func TestAStatefulSetThatOnlyCarriesTheLabelsIsNoShard(t *testing.T) {
	t.Parallel()
	other := fakeapi.EtcdCluster()
	other.UID = "else"
	controller := metav1.NewControllerRef(other, v1alpha1.GroupVersion.WithKind("EtcdCluster"))
	for name, foreign := range map[string]*appsv1.StatefulSet{
		"the next shard, without a controller":    copycat(fakeapi.RedisCluster(), "carts-3", nil),
		"the next shard, of another controller":   copycat(fakeapi.RedisCluster(), "carts-3", controller),
		"a shard beyond what memory has room for": copycat(fakeapi.RedisCluster(), "carts-2000000000", nil),
		"a number that Kubernetes does not write": copycat(fakeapi.RedisCluster(), "carts-03", nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRedisStage(t, fakeapi.RedisCluster(), other.DeepCopy())
			s.Settle()
			before := observed(t, s)
			set := metav1.NewControllerRef(foreign, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
			for _, o := range []client.Object{foreign, controllersim.PodOfSet(foreign, foreign.Name+"-0", set)} {
				if err := s.API.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			after := observed(t, s)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("shards and pods that are observed (-before +after):\n%s", diff)
			}
			for range 10 {
				s.Pass()
			}
			if err := s.API.Get(t.Context(), client.ObjectKeyFromObject(foreign), &appsv1.StatefulSet{}); err != nil {
				t.Errorf("the StatefulSet of another controller: %v", err)
			}
			if o := s.Cluster(); !meta.IsStatusConditionFalse(o.Status.Conditions, v1alpha1.ConditionReconciling) {
				t.Errorf("the cluster is not settled: %s", o.Status.Activity)
			}
		})
	}
}

// observed lists the StatefulSets and pods of a state.
func observed(t *testing.T, s *controllersim.Redis) (out []string) {
	t.Helper()
	state, err := s.Loop.Kind.Observe(t.Context(), s.Cluster())
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
