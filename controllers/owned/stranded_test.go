package owned

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/test/fakeapi"
)

func TestAPodIsStrandedWhereItsVolumeIsBesideAnotherCopy(t *testing.T) {
	t.Parallel()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "carts-0", UID: "set"}}
	other := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "carts-1", UID: "other"}}
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	}
	pod := func(name, on string, of *appsv1.StatefulSet) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(of, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		}}
		p.Spec.NodeName = on
		return p
	}
	type situation struct {
		pending *corev1.Pod
		pods    []corev1.Pod
		nodes   map[string]*corev1.Node
		volume  *corev1.PersistentVolume
	}
	for name, tc := range map[string]struct {
		change func(*situation)
		want   string
	}{
		"another copy is on the node, and another node is free": {func(*situation) {}, "volume v is on node a, where carts-0-0 runs"},
		"a pod of another shard is on the node":                 {func(s *situation) { s.pods = []corev1.Pod{pod("carts-1-0", "a", other)} }, ""},
		"the other copy is about to leave the node": {func(s *situation) {
			s.pods[0].DeletionTimestamp = &metav1.Time{}
		}, ""},
		"every other node has a copy":    {func(s *situation) { s.pods = append(s.pods, pod("carts-0-2", "b", set)) }, ""},
		"the other node is cordoned":     {func(s *situation) { s.nodes["b"].Spec.Unschedulable = true }, ""},
		"its own node is cordoned":       {func(s *situation) { s.nodes["a"].Spec.Unschedulable = true }, ""},
		"its own node is gone":           {func(s *situation) { delete(s.nodes, "a") }, ""},
		"its template wants its node":    {func(s *situation) { s.pending.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a"} }, ""},
		"the volume is not local":        {func(s *situation) { s.volume.Spec.NodeAffinity = nil }, ""},
		"the scheduler has said nothing": {func(s *situation) { s.pending.Status.Conditions = nil }, ""},
		"the pod has a node":             {func(s *situation) { s.pending.Spec.NodeName = "a" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pending := pod("carts-0-1", "", set)
			pending.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
			s := &situation{
				pending: &pending, pods: []corev1.Pod{pod("carts-0-0", "a", set)}, nodes: map[string]*corev1.Node{"a": node("a"), "b": node("b")},
				volume: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
					NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
						MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
					}}}},
				}},
			}
			tc.change(s)
			objects := []client.Object{s.volume, &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-carts-0-1"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"},
			}}
			for _, n := range s.nodes {
				objects = append(objects, n)
			}
			w := fakeapi.New(t, objects...)
			c := newChildren(w)
			c.Nodes = w
			got, err := c.StrandedReason(t.Context(), s.pending, "data-carts-0-1", s.pods)
			fakeapi.Must(t, err)
			if !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
