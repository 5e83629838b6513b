package rediscluster

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	redisgate "github.com/quorate/quorate/internal/cluster/redis/gate"
	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/manifests"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// pods returns the pods of these StatefulSets.
func (k *Reconciler) pods(ctx context.Context, o *v1alpha1.RedisCluster) ([]corev1.Pod, error) {
	sets, err := k.sets(ctx, o)
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := k.List(ctx, &list, client.InNamespace(o.Namespace), client.MatchingLabels(manifests.Selector(o))); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return k.PodsOfSets(ctx, o, list.Items, sets, func(pod *corev1.Pod) string {
		shard, _, ok := model.ParsePod(o.Name, pod.Name)
		if !ok {
			return ""
		}
		return cluster.ShardSet(o.Name, shard)
	})
}

func (k *Reconciler) observePods(ctx context.Context, o *v1alpha1.RedisCluster, s *model.State) error {
	pods, err := k.pods(ctx, o)
	if err != nil {
		return err
	}
	b, err := k.builder(ctx, o)
	if err != nil {
		return err
	}
	wanted := templates{Builder: b, hashed: k.hashed(o)}
	for i := range pods {
		pod := &pods[i]
		shard, ordinal, _ := model.ParsePod(o.Name, pod.Name)
		h, err := wanted.hashes(pod, shard)
		if err != nil {
			return err
		}
		p := podOf(pod, shard, ordinal)
		p.Stood = history.LastElection(pod.Annotations[history.AnnotationElection], p.Started, s.Now)
		p.Outdated = !h.has(pod) || b.Stale(pod.Annotations, proven(o)) || config.Retired(pod.Annotations[config.AnnotationLive], s.Spec.LiveNames)
		k.observeResize(ctx, o, pod, h, &p)
		if p.Cordoned, err = k.CordonOf(ctx, pod); err != nil {
			return err
		}
		if err := k.observeStranded(ctx, pod, pods, &p, s); err != nil {
			return err
		}
		s.Pods = append(s.Pods, p)
	}
	return nil
}

// observeStranded fills in why a pod will not be scheduled because of its volume.
func (k *Reconciler) observeStranded(ctx context.Context, pod *corev1.Pod, pods []corev1.Pod, p *model.Pod, s *model.State) error {
	i := slices.IndexFunc(s.Claims, func(c model.Claim) bool { return c.Shard == p.Shard && c.Ordinal == p.Ordinal })
	if i < 0 {
		return nil
	}
	why, err := k.StrandedReason(ctx, pod, s.Claims[i].Name, pods)
	if why != "" {
		s.Claims[i].Stranded, p.Stuck = why, owned.AddStranded(p.Stuck, why)
	}
	return err
}

func podOf(pod *corev1.Pod, shard, ordinal int) model.Pod {
	p := model.Pod{
		Name: pod.Name, UID: string(pod.UID), Shard: shard, Ordinal: ordinal,
		Made:      pod.CreationTimestamp.Time,
		NodeName:  pod.Spec.NodeName,
		Deleting:  pod.DeletionTimestamp != nil,
		EndsSoon:  pod.DeletionTimestamp != nil && ptr.Deref(pod.DeletionGracePeriodSeconds, int64(math.MaxInt64)) <= int64(atOnce),
		Ready:     owned.PodReady(pod),
		Stuck:     cmp.Or(heldBack(pod), owned.CannotRunReason(pod, manifests.ContainerServer)),
		Fatal:     owned.FatalStart(pod, model.FatalStart, manifests.ContainerGate, manifests.ContainerServer),
		Unready:   unreadySince(pod),
		HeldUntil: owned.BackOffUntil(pod, manifests.ContainerServer),
		Started:   startedAt(pod, manifests.ContainerServer),
		Ended:     endedBy(pod, manifests.ContainerServer),
		HasRun:    owned.HasRun(pod, manifests.ContainerServer),
		Role:      pod.Labels[v1alpha1.LabelRole],
		Gate:      gateRemark(pod),
		Since:     owned.ReadySince(pod),
	}
	if pod.Status.PodIP != "" {
		p.Addr = model.Address{IP: pod.Status.PodIP, Port: model.ClientPort}
	}
	return p
}

// unreadySince is when a pod became what it is when it is not ready; zero when it is.
func unreadySince(pod *corev1.Pod) time.Time {
	since := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type != corev1.PodReady:
		case c.Status == corev1.ConditionTrue:
			return time.Time{}
		case !c.LastTransitionTime.IsZero():
			since = c.LastTransitionTime.Time
		}
	}
	return since
}

// startedAt is when a container that runs was started; zero when it does not run.
func startedAt(pod *corev1.Pod, container string) time.Time {
	if r := owned.ContainerStatus(pod.Status.ContainerStatuses, container).State.Running; r != nil {
		return r.StartedAt.Time
	}
	return time.Time{}
}

// endedBy is when the process of a container that ran before had ended at the latest: the one before it, or that of an earlier pod of the name, which was
// gone when this pod was made.
func endedBy(pod *corev1.Pod, container string) time.Time {
	status := owned.ContainerStatus(pod.Status.ContainerStatuses, container)
	for _, t := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
		if t != nil && !t.FinishedAt.IsZero() {
			return t.FinishedAt.Time
		}
	}
	if started := startedAt(pod, container); status.RestartCount > 0 && !started.IsZero() {
		return started // The node was started anew, and nobody knows.
	}
	return pod.CreationTimestamp.Time
}

// gateRemark is what the start gate said at its end, this time or the last, empty when it had nothing to remark.
func gateRemark(pod *corev1.Pod) string {
	gate := owned.ContainerStatus(pod.Status.InitContainerStatuses, manifests.ContainerGate)
	for _, t := range []*corev1.ContainerStateTerminated{gate.State.Terminated, gate.LastTerminationState.Terminated} {
		if t != nil && t.Message != "" {
			return t.Message
		}
	}
	return ""
}

// heldBack returns why the start gate does not let the server start, empty when it does or has not said so. The gate is
// started again and again; its last word stands while it runs.
func heldBack(pod *corev1.Pod) string {
	gate := owned.ContainerStatus(pod.Status.InitContainerStatuses, manifests.ContainerGate)
	if t := gate.State.Terminated; t != nil && t.ExitCode == 0 {
		return ""
	}
	if remark := gateRemark(pod); strings.HasPrefix(remark, redisgate.HeldBack) {
		return remark
	}
	return ""
}
