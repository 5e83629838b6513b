package etcdcluster

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// podState is what the API server says of a member's pod.
func podState(p *corev1.Pod) model.Pod {
	n, _ := cluster.Number(p.Name[strings.LastIndexByte(p.Name, '-')+1:]) // Not by its label, which can be changed.
	problem := ""
	full := owned.FatalStart(p, model.DiskFull, manifests.ContainerEtcd)
	if cause := owned.CannotRunReason(p, manifests.ContainerEtcd); cause != "" && full != "" {
		problem = "cannot run: " + full + ": set a larger spec.storage.size"
	} else if cause != "" {
		problem = "cannot run: " + cause
	}
	made, _ := model.ParseVersion(p.Annotations[v1alpha1.AnnotationVersion]) // Zero for one that was made by hand.
	return model.Pod{
		Version: made,
		Agreed:  agreedBefore(p, made),
		Name:    p.Name, UID: string(p.UID), ResourceVersion: p.ResourceVersion, Ordinal: n,
		Ready:        owned.PodReady(p),
		Terminating:  p.DeletionTimestamp != nil,
		Plain:        hasPort(p.Spec, model.PlainPeerPort),
		TLS:          hasPort(p.Spec, model.PeerPort),
		TemplateHash: p.Annotations[v1alpha1.AnnotationTemplateHash],
		EverRan:      owned.HasRun(p, manifests.ContainerEtcd),
		Started:      owned.StartedAt(p, manifests.ContainerEtcd),
		Stuck:        problem != "",
		Fatal:        owned.FatalStart(p, model.FatalStart, manifests.ContainerEtcd),
		Full:         full != "",
		Problem:      problem,
		Gate:         gateReport(p),
		Drained:      p.Labels[v1alpha1.LabelServing] != "true",
	}
}

// hasPort reports whether etcd was made to listen at a port.
func hasPort(p corev1.PodSpec, port int32) bool {
	return slices.ContainsFunc(p.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(o corev1.ContainerPort) bool { return o.ContainerPort == port })
	})
}

// Running reports whether etcd runs in the pod, so that it can be asked.
func Running(p *corev1.Pod) bool {
	return owned.ContainerStatus(p.Status.ContainerStatuses, manifests.ContainerEtcd).State.Running != nil && p.Status.PodIP != ""
}

// agreedBefore is the minor version that the members had agreed on by what the gate found on the disk, or what etcd says why it does not
// start; 0: unknown.
func agreedBefore(p *corev1.Pod, made model.Version) int {
	last := owned.ContainerStatus(p.Status.ContainerStatuses, manifests.ContainerEtcd)
	for _, t := range []*corev1.ContainerStateTerminated{last.State.Terminated, last.LastTerminationState.Terminated} {
		if t != nil && t.ExitCode != 0 && model.RefusesVersion(t.Message) {
			return made.Minor + 1 // An upgrade is of one minor version.
		}
	}
	t := owned.ContainerStatus(p.Status.InitContainerStatuses, manifests.ContainerGate).State.Terminated
	if t == nil || t.ExitCode != 0 {
		return 0
	}
	r, _ := model.ParseGateReport(t.Message) // A gate of old has left none.
	return r.Agreed
}

// gateReport is what the start gate said last, unless it has let the member go.
func gateReport(p *corev1.Pod) *model.GateReport {
	gate := owned.ContainerStatus(p.Status.InitContainerStatuses, manifests.ContainerGate)
	if t := gate.State.Terminated; t != nil && t.ExitCode == 0 {
		return nil
	}
	for _, t := range []*corev1.ContainerStateTerminated{gate.State.Terminated, gate.LastTerminationState.Terminated} {
		if t == nil {
			continue
		}
		if r, ok := model.ParseGateReport(t.Message); ok {
			return &r
		}
	}
	return nil
}
