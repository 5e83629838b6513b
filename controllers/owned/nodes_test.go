package owned

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
		"out of service":      {node: nodeWith(corev1.Taint{Key: TaintOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}), want: says + "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"},
		"a node of others":    {node: nodeWith(dedicated), want: says + "dedicated=etcd:NoSchedule"},
		"a node of its own":   {node: nodeWith(dedicated), tolerations: []corev1.Toleration{{Key: "dedicated", Value: "etcd"}}},
		"a wish":              {node: nodeWith(corev1.Taint{Key: "a", Effect: corev1.TaintEffectPreferNoSchedule})},
		"its own, and outage": {node: nodeWith(dedicated, outage), tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}, want: says + "node.kubernetes.io/unreachable:NoExecute"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := CordonReason(logr.Discard(), tc.node, tc.tolerations); got != tc.want {
				t.Errorf("%q instead of %q", got, tc.want)
			}
		})
	}
}

func TestAHeartbeatOfANodeIsNoNews(t *testing.T) {
	news := nodeChanged()
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

func TestWhichNodesSuitAPodAndItsVolume(t *testing.T) {
	node := nodeWith()
	node.Labels = map[string]string{corev1.LabelHostname: "host", corev1.LabelTopologyZone: "a", "cores": "8"}
	terms := func(terms ...corev1.NodeSelectorTerm) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: terms}
	}
	label := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	name := func(values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: values}}}
	}
	for what, tc := range map[string]struct {
		labels       map[string]string
		pod, volumes *corev1.NodeSelector
		want         bool
	}{
		"nothing is asked for":          {want: true},
		"its labels":                    {labels: map[string]string{"cores": "8"}, want: true},
		"other labels":                  {labels: map[string]string{"cores": "8", "disk": "fast"}},
		"a volume that is there":        {volumes: terms(label(corev1.LabelHostname, corev1.NodeSelectorOpIn, "host")), want: true},
		"a volume of another node":      {volumes: terms(label(corev1.LabelHostname, corev1.NodeSelectorOpIn, "other"))},
		"a volume of its zone":          {volumes: terms(label(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "a", "b")), want: true},
		"a volume of another zone":      {volumes: terms(label(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "b"))},
		"another node or this one":      {pod: terms(name("m"), name("n")), want: true},
		"another node by name":          {pod: terms(name("m"))},
		"a term that asks for nothing":  {pod: terms(corev1.NodeSelectorTerm{})},
		"not this zone":                 {pod: terms(label(corev1.LabelTopologyZone, corev1.NodeSelectorOpNotIn, "a"))},
		"without a label that it lacks": {pod: terms(label("gpu", corev1.NodeSelectorOpDoesNotExist)), want: true},
		"a label that it lacks":         {pod: terms(label("gpu", corev1.NodeSelectorOpExists))},
		"more than it has":              {pod: terms(label("cores", corev1.NodeSelectorOpGt, "8"))},
		"less than it may have":         {pod: terms(label("cores", corev1.NodeSelectorOpLt, "9")), want: true},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: tc.labels, Affinity: &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: tc.pod},
		}}}
		volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: tc.volumes}}}
		if got := FitsNode(pod, volume, node); got != tc.want {
			t.Errorf("%s: %t", what, got)
		}
	}
	if !FitsNode(&corev1.Pod{}, nil, node) {
		t.Error("a pod without anything does not suit")
	}
}
