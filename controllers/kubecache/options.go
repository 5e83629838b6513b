package kubecache

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster"
)

// TransformNode leaves of a node what decisions need: labels and taints (owned.CordonReason), addresses
// and what it can hold (package rediscluster). The images on the nodes would be most of its memory.
func TransformNode(o any) (any, error) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels},
		Spec:       corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, Taints: node.Spec.Taints},
		Status:     corev1.NodeStatus{Addresses: node.Status.Addresses, Allocatable: node.Status.Allocatable},
	}, nil
}

// Options limits the cache to the given namespaces (none: all) and to what carries our labels, so that the
// manager's memory does not grow with what else runs in the cluster.
func Options(namespaces []string) cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{cluster.LabelManagedBy: cluster.ManagedBy})}
	o := cache.Options{
		DefaultTransform: Transform,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: ours, &corev1.PersistentVolumeClaim{}: ours, &corev1.ConfigMap{}: ours, &corev1.Service{}: ours,
			&appsv1.StatefulSet{}: ours, &appsv1.Deployment{}: ours, &policyv1.PodDisruptionBudget{}: ours, &batchv1.Job{}: ours,
			&corev1.Node{}: {Transform: TransformNode},
		},
	}
	if len(namespaces) > 0 {
		o.DefaultNamespaces = map[string]cache.Config{}
		for _, n := range namespaces {
			o.DefaultNamespaces[n] = cache.Config{}
		}
	}
	return o
}

// Transform leaves out of objects what the operator never reads, before they are kept in memory: who manages their fields, and what it
// has written into pods and StatefulSets itself, which is most of them. Whether a StatefulSet is as it was applied is told by its version.
// TestACachedObjectDecidesLikeTheWholeOne fails for a field that a decision reads and the cache
// does not hold.
func Transform(o any) (any, error) {
	if a, err := meta.Accessor(o); err == nil {
		a.SetManagedFields(nil)
	}
	switch o := o.(type) {
	case *corev1.Pod:
		spec := corev1.PodSpec{NodeName: o.Spec.NodeName, NodeSelector: o.Spec.NodeSelector, Tolerations: o.Spec.Tolerations}
		if a := o.Spec.Affinity; a != nil && a.NodeAffinity != nil {
			spec.Affinity = &corev1.Affinity{NodeAffinity: a.NodeAffinity}
		}
		for _, c := range o.Spec.Containers {
			spec.Containers = append(spec.Containers, corev1.Container{Name: c.Name, Ports: c.Ports, Resources: c.Resources})
		}
		o.Spec = spec
		for _, all := range [][]corev1.ContainerStatus{o.Status.InitContainerStatuses, o.Status.ContainerStatuses} {
			for i := range all {
				all[i].VolumeMounts, all[i].User = nil, nil
			}
		}
	case *appsv1.StatefulSet:
		o.Spec.Template.Spec = corev1.PodSpec{}
	}
	return o, nil
}

// ClientOptions makes the client read Secrets from the API server by name, so that it needs no right to list them and
// keeps none in memory that is not ours.
func ClientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}}
}
