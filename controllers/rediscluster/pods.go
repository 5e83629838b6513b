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
	"github.com/quorate/quorate/internal/cluster/redis"
)

// pods returns the pods of these StatefulSets.
func (k *Reconciler) pods(ctx context.Context, o *v1alpha1.RedisCluster) ([]corev1.Pod, error) {
	sets, err := k.sets(ctx, o)
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := k.List(ctx, &list, client.InNamespace(o.Namespace), client.MatchingLabels(redis.Selector(o))); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return k.PodsOfSets(ctx, o, list.Items, sets, func(pod *corev1.Pod) string {
		shard, _, ok := redis.ParsePod(o.Name, pod.Name)
		if !ok {
			return ""
		}
		return cluster.ShardSet(o.Name, shard)
	})
}

func (k *Reconciler) observePods(ctx context.Context, o *v1alpha1.RedisCluster, s *redis.State) error {
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
		shard, ordinal, _ := redis.ParsePod(o.Name, pod.Name)
		h, err := wanted.hashes(pod, shard)
		if err != nil {
			return err
		}
		p := podOf(pod, shard, ordinal)
		p.Stood = redis.LastElection(pod.Annotations[redis.AnnotationElection], p.Started, s.Now)
		p.Outdated = !h.has(pod) || b.Stale(pod.Annotations, proven(o)) || redis.Retired(pod.Annotations[redis.AnnotationLive], s.Spec.LiveNames)
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
func (k *Reconciler) observeStranded(ctx context.Context, pod *corev1.Pod, pods []corev1.Pod, p *redis.Pod, s *redis.State) error {
	i := slices.IndexFunc(s.Claims, func(c redis.Claim) bool { return c.Shard == p.Shard && c.Ordinal == p.Ordinal })
	if i < 0 {
		return nil
	}
	why, err := k.StrandedReason(ctx, pod, s.Claims[i].Name, pods)
	if why != "" {
		s.Claims[i].Stranded, p.Stuck = why, owned.AddStranded(p.Stuck, why)
	}
	return err
}

func podOf(pod *corev1.Pod, shard, ordinal int) redis.Pod {
	p := redis.Pod{
		Name: pod.Name, UID: string(pod.UID), Shard: shard, Ordinal: ordinal,
		Made:      pod.CreationTimestamp.Time,
		NodeName:  pod.Spec.NodeName,
		Deleting:  pod.DeletionTimestamp != nil,
		EndsSoon:  pod.DeletionTimestamp != nil && ptr.Deref(pod.DeletionGracePeriodSeconds, int64(math.MaxInt64)) <= int64(atOnce),
		Ready:     owned.PodReady(pod),
		Stuck:     cmp.Or(heldBack(pod), owned.CannotRunReason(pod, redis.ContainerServer)),
		Fatal:     owned.FatalStart(pod, redis.FatalStart, redis.ContainerGate, redis.ContainerServer),
		Unready:   unreadySince(pod),
		HeldUntil: owned.BackOffUntil(pod, redis.ContainerServer),
		Started:   startedAt(pod, redis.ContainerServer),
		Ended:     endedBy(pod, redis.ContainerServer),
		HasRun:    owned.HasRun(pod, redis.ContainerServer),
		Role:      pod.Labels[v1alpha1.LabelRole],
		Gate:      gateRemark(pod),
		Since:     owned.ReadySince(pod),
	}
	if pod.Status.PodIP != "" {
		p.Addr = redis.Address{IP: pod.Status.PodIP, Port: redis.ClientPort}
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
	gate := owned.ContainerStatus(pod.Status.InitContainerStatuses, redis.ContainerGate)
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
	gate := owned.ContainerStatus(pod.Status.InitContainerStatuses, redis.ContainerGate)
	if t := gate.State.Terminated; t != nil && t.ExitCode == 0 {
		return ""
	}
	if remark := gateRemark(pod); strings.HasPrefix(remark, redis.HeldBack) {
		return remark
	}
	return ""
}
