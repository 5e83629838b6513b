package controllers

import (
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func nodeWith(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: taints}}
}

func TestWhatEmptiesANode(t *testing.T) {
	const says = "is on node n, which has the taint "
	outage := corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute}
	dedicated := corev1.Taint{Key: "dedicated", Value: "etcd", Effect: corev1.TaintEffectNoSchedule}
	for name, tc := range map[string]struct {
		node        *corev1.Node
		tolerations []corev1.Toleration
		want        string
	}{
		"nothing":   {node: nodeWith()},
		"a cordon":  {node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Unschedulable: true}}, want: "is on node n, which is cordoned"},
		"an outage": {node: nodeWith(outage), want: says + "node.kubernetes.io/unreachable:NoExecute"},
		"an outage that pods bear for five minutes": {
			node:        nodeWith(outage),
			tolerations: []corev1.Toleration{{Key: outage.Key, Operator: corev1.TolerationOpExists, TolerationSeconds: ptr.To[int64](300)}},
			want:        says + "node.kubernetes.io/unreachable:NoExecute",
		},
		"out of service":      {node: nodeWith(corev1.Taint{Key: taintOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}), want: says + "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"},
		"a node of others":    {node: nodeWith(dedicated), want: says + "dedicated=etcd:NoSchedule"},
		"a node of its own":   {node: nodeWith(dedicated), tolerations: []corev1.Toleration{{Key: "dedicated", Value: "etcd"}}},
		"a wish":              {node: nodeWith(corev1.Taint{Key: "a", Effect: corev1.TaintEffectPreferNoSchedule})},
		"its own, and outage": {node: nodeWith(dedicated, outage), tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}, want: says + "node.kubernetes.io/unreachable:NoExecute"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cordoned(logr.Discard(), tc.node, tc.tolerations); got != tc.want {
				t.Errorf("%q instead of %q", got, tc.want)
			}
		})
	}
}

func TestAHeartbeatOfANodeIsNoNews(t *testing.T) {
	news := nodeNews()
	taint := corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule}
	heartbeat := nodeWith(taint)
	heartbeat.ResourceVersion, heartbeat.Status.Conditions = "2", []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
	stamped := nodeWith(corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule, TimeAdded: ptr.To(metav1.Now())})
	cordon := nodeWith(taint)
	cordon.Spec.Unschedulable = true
	for name, tc := range map[string]struct {
		was, is *corev1.Node
		want    bool
	}{
		"a heartbeat":     {nodeWith(taint), heartbeat, false},
		"the time":        {nodeWith(taint), stamped, false},
		"a cordon":        {nodeWith(taint), cordon, true},
		"an uncordon":     {cordon, nodeWith(taint), true},
		"a taint":         {nodeWith(), nodeWith(taint), true},
		"a taint is gone": {nodeWith(taint), nodeWith(), true},
		"another value":   {nodeWith(taint), nodeWith(corev1.Taint{Key: "a", Value: "b", Effect: corev1.TaintEffectNoSchedule}), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := news.Update(event.UpdateEvent{ObjectOld: tc.was, ObjectNew: tc.is}); got != tc.want {
				t.Errorf("%t", got)
			}
		})
	}
	if news.Create(event.CreateEvent{Object: nodeWith()}) || !news.Delete(event.DeleteEvent{Object: nodeWith()}) {
		t.Error("a node that comes is no news, and one that goes is")
	}
}

func TestTheCacheKeepsOfANodeWhatIsUsed(t *testing.T) {
	full := nodeWith(corev1.Taint{Key: "a"})
	full.Spec.Unschedulable, full.Labels = true, map[string]string{"a": "b"}
	full.Status.Images = []corev1.ContainerImage{{Names: []string{"x"}}}
	got, err := onlyScheduling(full)
	if err != nil {
		t.Fatal(err)
	}
	node, ok := got.(*corev1.Node)
	if !ok || node.Name != "n" || !node.Spec.Unschedulable || len(node.Spec.Taints) != 1 || len(node.Status.Images) > 0 || len(node.Labels) > 0 {
		t.Errorf("%+v", got)
	}
}
