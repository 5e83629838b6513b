package kube

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resizable are the resources that Kubernetes can change while a container runs
// (https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/).
var resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// InPlace is the part of what a container is to have that can change while it runs. What has a limit and no request requests the
// limit, as in every pod.
func InPlace(r *corev1.ResourceRequirements) corev1.ResourceRequirements {
	out := corev1.ResourceRequirements{}
	if r == nil {
		return out
	}
	set := func(list *corev1.ResourceList, name corev1.ResourceName, value resource.Quantity) {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = value
	}
	for _, name := range resizable {
		limit, limited := r.Limits[name]
		request, requested := r.Requests[name]
		if limited {
			set(&out.Limits, name, limit)
		}
		switch {
		case requested:
			set(&out.Requests, name, request)
		case limited:
			set(&out.Requests, name, limit)
		}
	}
	return out
}

// InPlaceText is the same as text, empty for nothing. Equal amounts have equal texts.
func InPlaceText(r *corev1.ResourceRequirements) (string, error) {
	part := InPlace(r)
	if len(part.Limits)+len(part.Requests) == 0 {
		return "", nil
	}
	raw, err := json.Marshal(part)
	if err != nil {
		return "", fmt.Errorf("encode resources: %w", err)
	}
	return string(raw), nil
}

// TakesRestart is what a container is to have without the amounts that can change while it runs: which there are decides on the class of
// the pod, which cannot change.
func TakesRestart(r *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if r == nil {
		return nil
	}
	out := r.DeepCopy()
	for _, list := range []corev1.ResourceList{out.Limits, out.Requests} {
		for _, name := range resizable {
			if _, ok := list[name]; ok {
				list[name] = resource.Quantity{}
			}
		}
	}
	return out
}

// ResizePatch asks for other resources of a container, of the very pod with the UID; in the form of a strategic merge patch.
func ResizePatch(uid, container string, r *corev1.ResourceRequirements) ([]byte, error) {
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": container, "resources": InPlace(r)}}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode resources: %w", err)
	}
	return raw, nil
}

// Resize is how far Kubernetes has got with the resources that a pod asks for.
type Resize struct {
	// Known says that the kubelet tells what a container has, which one that cannot resize it does not.
	Known bool
	// Running says that it has not carried out what is asked for, and Problem why, where it gave a reason.
	Running bool
	Problem string
	// Deferred says that the node has no room at present, and Infeasible that it never will; see Problem.
	Deferred, Infeasible bool
	// MemoryLimit that a container can count on: the one that is in force, or less if that was asked for; 0: none.
	MemoryLimit int64
}

// memoryGrain is how much what is in force may differ from what was asked for: the kernel counts in pages.
const memoryGrain = 1 << 20

// ResizeOf reads it from a pod.
func ResizeOf(p *corev1.Pod, container string) Resize {
	var out Resize
	i := slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	if i < 0 {
		return out
	}
	asked := p.Spec.Containers[i].Resources.Limits.Memory().Value()
	has := asked
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == container && c.Resources != nil {
			out.Known = true
			if limit := c.Resources.Limits.Memory().Value(); limit > 0 {
				has = limit
			}
		}
	}
	out.MemoryLimit = min(has, asked)
	diff := has - asked
	out.Running = diff >= memoryGrain || diff <= -memoryGrain || (p.Status.ObservedGeneration > 0 && p.Status.ObservedGeneration < p.Generation)
	for _, c := range p.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == corev1.PodResizePending:
			out.Running, out.Problem = true, c.Message
			out.Deferred, out.Infeasible = c.Reason == corev1.PodReasonDeferred, c.Reason == corev1.PodReasonInfeasible
		case c.Type == corev1.PodResizeInProgress && !out.Deferred && !out.Infeasible:
			out.Running, out.Problem = true, c.Message
		}
	}
	return out
}
