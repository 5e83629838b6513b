package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// gateMemory is what a start gate needs at least, as limit.
var gateMemory = resource.MustParse("128Mi")

// GateResources is what the start gate of a server gets: an amount of whatever the server has one of, because the pod would be in another
// class of service without, and a quota on limits would refuse it. It is as much as the server has, and at most what most says. A pod
// reserves the larger of the two for good, so that this costs nothing but where the server has less than a gate needs.
func GateResources(server *corev1.ResourceRequirements, most corev1.ResourceList) (*corev1ac.ResourceRequirementsApplyConfiguration, error) {
	if server == nil {
		return nil, nil //nolint:nilnil // No resources are a valid answer.
	}
	out := server.DeepCopy()
	for name, limit := range server.Limits {
		limit = lesser(limit, most, name)
		if name == corev1.ResourceMemory && limit.Cmp(gateMemory) < 0 {
			limit = gateMemory
		}
		out.Limits[name] = limit
	}
	for name, request := range server.Requests {
		if limit, ok := server.Limits[name]; ok && limit.Cmp(request) == 0 {
			out.Requests[name] = out.Limits[name]
			continue
		}
		out.Requests[name] = lesser(request, most, name)
	}
	return Convert[corev1ac.ResourceRequirementsApplyConfiguration](out)
}

func lesser(q resource.Quantity, most corev1.ResourceList, name corev1.ResourceName) resource.Quantity {
	if m, ok := most[name]; ok && q.Cmp(m) > 0 {
		return m
	}
	return q
}
