package kubecache

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTheCacheKeepsOfANodeWhatIsUsed(t *testing.T) {
	full := nodeWith(corev1.Taint{Key: "a"})
	full.Spec.Unschedulable, full.Labels, full.Annotations = true, map[string]string{"a": "b"}, map[string]string{"c": "d"}
	full.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
	got, err := TransformNode(full)
	if err != nil {
		t.Fatal(err)
	}
	node, ok := got.(*corev1.Node)
	if !ok || node.Name != "n" || !node.Spec.Unschedulable || len(node.Spec.Taints) != 1 || len(node.Status.Images) > 0 || len(node.Annotations) > 0 || node.Labels["a"] != "b" {
		t.Errorf("%+v", got)
	}
}
