package harness

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster"
)

// Pods returns the pods of a cluster by name; component is etcd or redis.
func (c *Cluster) Pods(ctx context.Context, ns, name, component string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := c.List(ctx, &pods, client.InNamespace(ns), client.MatchingLabels(cluster.Selector(name, component)))
	if err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", name, err)
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods.Items, nil
}

// Incarnation tells one life of a pod's containers from the next.
type Incarnation struct {
	UID      types.UID
	Restarts int32
}

// IncarnationOf is the present life of a pod.
func IncarnationOf(p *corev1.Pod) Incarnation {
	i := Incarnation{UID: p.UID}
	for _, s := range p.Status.ContainerStatuses {
		i.Restarts += s.RestartCount
	}
	return i
}

// WaitReborn waits until a pod has begun another life than before, and is ready.
func (c *Cluster) WaitReborn(ctx context.Context, before *corev1.Pod, timeout time.Duration) (*corev1.Pod, error) {
	old := IncarnationOf(before)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: before.Namespace, Name: before.Name}}
	err := Until(ctx, c, pod, Deadline{What: "pod " + before.Name + " to come back", Within: timeout}, func(p *corev1.Pod) (bool, string) {
		return IncarnationOf(p) != old && p.DeletionTimestamp == nil && IsReady(p), podState(p)
	})
	return pod, err
}

// IsReady reports whether a pod is ready.
func IsReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func podState(p *corev1.Pod) string {
	state := fmt.Sprintf("pod %s is %s", p.Name, p.Status.Phase)
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		switch {
		case s.State.Waiting != nil:
			state += fmt.Sprintf(", %s waits: %s", s.Name, s.State.Waiting.Reason)
		case s.State.Running != nil:
			state += fmt.Sprintf(", %s runs (ready: %v)", s.Name, s.Ready)
		}
	}
	return state
}

// Logs returns what a container of a pod has written.
func (c *Cluster) Logs(ctx context.Context, ns, pod, container string, lines int64) (string, error) {
	o := &corev1.PodLogOptions{Container: container}
	if lines > 0 {
		o.TailLines = &lines
	}
	raw, err := c.Clients.CoreV1().Pods(ns).GetLogs(pod, o).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("logs of pod %s: %w", pod, err)
	}
	return strings.TrimSpace(string(raw)), nil
}
