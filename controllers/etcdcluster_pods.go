package controllers

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

// podState is what the API server says of a member's pod.
func podState(p *corev1.Pod) etcd.Pod {
	n := -1
	if set := p.Labels["apps.kubernetes.io/pod-index"]; set != "" {
		n, _ = ordinal("-"+set, "")
	} else if i := lastDash(p.Name); i >= 0 {
		n, _ = ordinal(p.Name, p.Name[:i])
	}
	problem, stuck := problemOf(p)
	return etcd.Pod{
		Name: p.Name, UID: string(p.UID), Ordinal: n,
		Ready:        podReady(p),
		Terminating:  p.DeletionTimestamp != nil,
		TemplateHash: p.Annotations[v1alpha1.AnnotationTemplateHash],
		EverRan:      everRan(p),
		Stuck:        stuck,
		Problem:      problem,
		Gate:         gateReport(p),
	}
}

func lastDash(name string) int {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '-' {
			return i
		}
	}
	return -1
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func containerStatus(list []corev1.ContainerStatus, name string) corev1.ContainerStatus {
	for _, c := range list {
		if c.Name == name {
			return c
		}
	}
	return corev1.ContainerStatus{}
}

// running reports whether etcd runs in the pod, so that it can be asked.
func running(p *corev1.Pod) bool {
	return containerStatus(p.Status.ContainerStatuses, etcd.ContainerEtcd).State.Running != nil && p.Status.PodIP != ""
}

func everRan(p *corev1.Pod) bool {
	c := containerStatus(p.Status.ContainerStatuses, etcd.ContainerEtcd)
	return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil || c.RestartCount > 0
}

// gateReport is what the start gate said last, unless it has let the member go.
func gateReport(p *corev1.Pod) *etcd.GateReport {
	gate := containerStatus(p.Status.InitContainerStatuses, etcd.ContainerGate)
	if t := gate.State.Terminated; t != nil && t.ExitCode == 0 {
		return nil
	}
	for _, t := range []*corev1.ContainerStateTerminated{gate.State.Terminated, gate.LastTerminationState.Terminated} {
		if t == nil {
			continue
		}
		if r, ok := etcd.ParseGateReport(t.Message); ok {
			return &r
		}
	}
	return nil
}

// problemOf says what keeps a pod from running, and whether that will not change by itself. The kubelet does go on
// trying, but with the same image and the same settings.
func problemOf(p *corev1.Pod) (problem string, stuck bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return "cannot be scheduled: " + c.Message, true
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := c.State.Waiting
		if w == nil || w.Reason == "" || w.Reason == "PodInitializing" || w.Reason == "ContainerCreating" {
			continue
		}
		if w.Reason == "CrashLoopBackOff" {
			return crashed(c), true
		}
		return "cannot start its container " + c.Name + ": " + w.Reason, true
	}
	if p.Status.Phase == corev1.PodFailed {
		return "has failed: " + p.Status.Reason, true
	}
	return "", false
}

// crashed says what a container that keeps ending said last.
func crashed(c corev1.ContainerStatus) string {
	text := "its container " + c.Name + " keeps ending"
	t := c.LastTerminationState.Terminated
	if t == nil {
		return text
	}
	if t.Reason == "OOMKilled" {
		return text + ": it needs more memory than its limit"
	}
	return text
}
