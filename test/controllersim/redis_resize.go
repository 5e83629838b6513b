package controllersim

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/internal/cluster/redis/manifests"
)

// WithMemory returns a cluster whose servers have a limit of memory.
func WithMemory(limit string) *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}}
}

// CarryOut gives the containers what their pods ask for, as a kubelet does.
func (s *Redis) CarryOut() {
	s.T.Helper()
	var pods corev1.PodList
	if err := s.API.List(s.T.Context(), &pods); err != nil {
		s.T.Fatal(err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: manifests.ContainerServer, Resources: p.Spec.Containers[0].Resources.DeepCopy()}}
		if err := s.API.Status().Update(s.T.Context(), p); err != nil {
			s.T.Fatal(err)
		}
	}
}

// Give changes the resources of the cluster, and lets it settle.
func (s *Redis) Give(limit string) {
	s.T.Helper()
	o := s.Cluster()
	o.Spec.Resources = WithMemory(limit)
	if err := s.API.Update(s.T.Context(), o); err != nil {
		s.T.Fatal(err)
	}
	for range 20 {
		s.Pass()
		s.CarryOut()
	}
	s.Settle()
}

// Limits returns the memory limits of all pods.
func (s *Redis) Limits() map[string]int {
	s.T.Helper()
	var pods corev1.PodList
	if err := s.API.List(s.T.Context(), &pods); err != nil {
		s.T.Fatal(err)
	}
	out := map[string]int{}
	for _, p := range pods.Items {
		limit := p.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory]
		out[limit.String()]++
	}
	return out
}

// Refuse has the API server refuse to resize pods.
func (s *Redis) Refuse(err error) {
	s.T.Helper()
	inner, ok := s.API.Client.(client.WithWatch)
	if !ok {
		s.T.Fatalf("%T cannot be watched", s.API.Client)
	}
	s.API.Client = interceptor.NewClient(inner, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if sub == "resize" {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
}

// Nodes are one of that much memory, and a larger one that is cordoned.
func (s *Redis) Nodes(memory string) {
	s.T.Helper()
	for name, has := range map[string]string{"open": memory, "cordoned": "1Ti"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}, Spec: corev1.NodeSpec{Unschedulable: name == "cordoned"}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(has)}
		if err := s.API.Create(s.T.Context(), n); err != nil {
			s.T.Fatal(err)
		}
	}
	s.children.Nodes = s.API
}
