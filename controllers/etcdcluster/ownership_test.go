package etcdcluster

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

func TestAPodBelongsToTheStatefulSetThatControlsIt(t *testing.T) {
	t.Parallel()
	o := fakeapi.EtcdCluster()
	ref := func(kind, name, uid string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(uid), Controller: ptr.To(true)}
	}
	ours := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "orders", UID: "set", Labels: manifests.Labels("orders"),
		OwnerReferences: []metav1.OwnerReference{*ref("EtcdCluster", "orders", string(o.UID))},
	}}
	foreign := ours.DeepCopy()
	foreign.OwnerReferences[0].UID = "another cluster"
	for name, tc := range map[string]struct {
		set  *appsv1.StatefulSet
		pod  *corev1.Pod
		want bool
	}{
		"a pod of the StatefulSet":                     {ours, controllersim.PodOfSet(ours, "orders-1", ref("StatefulSet", "orders", "set")), true},
		"a pod without a controller":                   {ours, controllersim.PodOfSet(ours, "orders-1", nil), true},
		"a pod of an earlier StatefulSet":              {ours, controllersim.PodOfSet(ours, "orders-1", ref("StatefulSet", "orders", "old")), false},
		"a pod whose StatefulSet was deleted":          {nil, controllersim.PodOfSet(ours, "orders-1", ref("StatefulSet", "orders", "old")), true},
		"a pod of a StatefulSet of another controller": {foreign, controllersim.PodOfSet(ours, "orders-1", ref("StatefulSet", "orders", "set")), false},
		"a pod of another StatefulSet":                 {nil, controllersim.PodOfSet(ours, "orders-1", ref("StatefulSet", "other", "set")), false},
		"a pod of a Job":                               {nil, controllersim.PodOfSet(ours, "orders-1", ref("Job", "orders", "set")), false},
		"a number beyond what the API allows":          {ours, controllersim.PodOfSet(ours, "orders-1000", nil), false},
		"another name":                                 {ours, controllersim.PodOfSet(ours, "orders-a", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := []client.Object{o.DeepCopy(), tc.pod}
			if tc.set != nil {
				objects = append(objects, tc.set.DeepCopy())
			}
			k := New(ownedtest.New(fakeapi.New(t, objects...)))
			set, err := k.StatefulSet(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			pods, err := k.Pods(t.Context(), o, set)
			if err != nil || (len(pods) == 1) != tc.want {
				t.Errorf("%d pods, %v: the pod belongs to the cluster: want %t", len(pods), err, tc.want)
			}
		})
	}
}
