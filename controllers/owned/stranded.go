package owned

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Pods that were made while other nodes were cordoned run on one node, and their local volumes are bound to it. The hard
// spread (maxSkew 1, NodeTaintsPolicy Honor) counts the other nodes again later, so a pod that is recreated fits on no
// node: its volume is on this one, and the spread asks for another one.

// StrandedReason says why a pod will not be scheduled: its volume is local to nodes where other pods of its StatefulSet run,
// while another node has room under the spread. Empty where that is not so, or cannot be known.
func (c *Client) StrandedReason(ctx context.Context, pod *corev1.Pod, claim string, pods []corev1.Pod) (string, error) {
	if c.Nodes == nil || !foundNoNode(pod) {
		return "", nil
	}
	volume, err := c.VolumeOfClaim(ctx, pod.Namespace, claim)
	if err != nil || volume == nil {
		return "", err
	}
	hosts := localTo(volume)
	if len(hosts) == 0 {
		return "", nil
	}
	var nodes corev1.NodeList
	if err := c.Nodes.List(ctx, &nodes); err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	if beside := besideOthers(ctx, pod, hosts, pods, nodes.Items); beside != "" {
		return fmt.Sprintf("volume %s is on %s, and the topology spread asks for another node", volume.Name, beside), nil
	}
	return "", nil
}

// besideOthers names a node with the volume of a pod, and another pod that runs there, where the pod fits
// on no node with its volume and on some node without; empty otherwise.
func besideOthers(ctx context.Context, pod *corev1.Pod, hosts []string, pods []corev1.Pod, nodes []corev1.Node) string {
	beside, elsewhere := "", false
	for i := range nodes {
		n := &nodes[i]
		other := siblingOn(n.Name, pod, pods)
		if !slices.Contains(hosts, n.Labels[corev1.LabelHostname]) {
			elsewhere = elsewhere || (other == "" && FitsNode(pod, nil, n) && CordonReason(log.FromContext(ctx), n, pod.Spec.Tolerations) == "")
			continue
		}
		if other == "" || CordonReason(log.FromContext(ctx), n, pod.Spec.Tolerations) != "" {
			return "" // It may start there, now or when the node is uncordoned.
		}
		beside = fmt.Sprintf("node %s, where %s runs", n.Name, other)
	}
	if !elsewhere {
		return ""
	}
	return beside
}

// strandedCure is what lets a pod start beside the others, where its data must not go.
const strandedCure = "cordon the other nodes until it runs, if no other copy has its data"

// siblingOn names another pod of the same StatefulSet that runs on a node, empty for none.
func siblingOn(node string, pod *corev1.Pod, pods []corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	for i := range pods {
		p := &pods[i]
		of := metav1.GetControllerOf(p)
		if owner != nil && of != nil && of.UID == owner.UID && p.Name != pod.Name && p.Spec.NodeName == node && p.DeletionTimestamp == nil {
			return p.Name
		}
	}
	return ""
}

// foundNoNode reports whether the scheduler found no node for a pod.
func foundNoNode(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// AddStranded completes what is said of a pod that is stranded.
func AddStranded(problem, why string) string {
	return problem + "; " + why + ": " + strandedCure
}
