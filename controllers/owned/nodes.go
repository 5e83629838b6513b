package owned

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Nodes are watched for what says that they are being emptied, which an installation in namespaces has no right to.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch

// CordonOf says in words why the node of a pod is being emptied, empty when it is not, or that cannot be known.
func (c *Client) CordonOf(ctx context.Context, pod *corev1.Pod) (string, error) {
	if c.Nodes == nil || pod.Spec.NodeName == "" {
		return "", nil
	}
	node := &corev1.Node{}
	err := c.Nodes.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node)
	if apierrors.IsNotFound(err) {
		return "", nil // What is lost with it is seen elsewhere.
	}
	if err != nil {
		return "", fmt.Errorf("read node %s: %w", pod.Spec.NodeName, err)
	}
	return CordonReason(log.FromContext(ctx), node, pod.Spec.Tolerations), nil
}

// CordonReason says in words why a pod on a node is expected to go: a new one like it would not be put there. Empty: it is not.
// What a pod tolerates for a while only ends with its eviction.
func CordonReason(logger klog.Logger, node *corev1.Node, tolerations []corev1.Toleration) string {
	if node.Spec.Unschedulable {
		return "is on node " + node.Name + ", which is cordoned"
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if repels(taint) && !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
			return t.TolerationSeconds == nil && t.ToleratesTaint(logger, taint, true)
		}) {
			return fmt.Sprintf("is on node %s, which has the taint %s", node.Name, taint.ToString())
		}
	}
	return ""
}

// FitsNode tells whether a pod and its volume may be on a node, as far as names and labels go.
func FitsNode(pod *corev1.Pod, volume *corev1.PersistentVolume, node *corev1.Node) bool {
	if volume != nil && volume.Spec.NodeAffinity != nil && !selects(volume.Spec.NodeAffinity.Required, node) {
		return false
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && !selects(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, node) {
		return false
	}
	return labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels))
}

// selects tells whether one of the terms of a selector matches a node; nil: any node does.
func selects(s *corev1.NodeSelector, node *corev1.Node) bool {
	return s == nil || slices.ContainsFunc(s.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return len(t.MatchExpressions)+len(t.MatchFields) > 0 &&
			meets(node.Labels, t.MatchExpressions) && meets(labels.Set{metav1.ObjectNameField: node.Name}, t.MatchFields)
	})
}

// operators are those of node selectors in the terms of label selectors.
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

func meets(of labels.Set, all []corev1.NodeSelectorRequirement) bool {
	return !slices.ContainsFunc(all, func(r corev1.NodeSelectorRequirement) bool {
		q, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
		return err != nil || !q.Matches(of)
	})
}

func repels(t *corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
}

// nodeChanged lets through what changes where pods may be. A node reports on itself all the time.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // Nothing of ours runs there yet, or all of it is looked at anyway.
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, isNode := e.ObjectOld.(*corev1.Node)
			is, stillNode := e.ObjectNew.(*corev1.Node)
			return isNode && stillNode && (was.Spec.Unschedulable != is.Spec.Unschedulable || !slices.EqualFunc(was.Spec.Taints, is.Spec.Taints,
				func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }))
		},
	}
}

// WatchNodes lets a controller notice when a node with pods of its component is to be emptied, or is gone.
func WatchNodes(b *builder.Builder, pods client.Reader, component string) {
	b.Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(ClustersOn(pods, component)), builder.WithPredicates(nodeChanged()))
}

// ClustersOn maps a node to the clusters that have pods there.
func ClustersOn(pods client.Reader, component string) handler.MapFunc {
	owner := RequestForCluster(component)
	return func(ctx context.Context, node client.Object) []ctrl.Request {
		var list corev1.PodList
		if err := pods.List(ctx, &list); err != nil {
			log.FromContext(ctx).Error(err, "list the pods of a node", "node", node.GetName())
			return nil // The next health poll finds it.
		}
		var out []ctrl.Request
		for i := range list.Items {
			if list.Items[i].Spec.NodeName == node.GetName() {
				out = append(out, owner(ctx, &list.Items[i])...)
			}
		}
		return out
	}
}
