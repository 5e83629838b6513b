package manifests

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Outside is the Service that leads to one pod from outside, also while that is not ready: a cluster client finds out by itself
// which server serves it.
func (b Builder) Outside(pod string) *corev1ac.ServiceApplyConfiguration {
	return b.expose(b.podService(cluster.ExternalService(pod)).WithSpec(corev1ac.ServiceSpec().
		WithPublishNotReadyAddresses(true).WithSelector(b.podSelector(pod)).
		WithPorts(servicePort("redis", model.ClientPort))))
}

// Inside is the Service that leads to the same server at the number of a port of the nodes, and to
// its bus, see model.Announcement.
func (b Builder) Inside(pod string, nodePort int32) *corev1ac.ServiceApplyConfiguration {
	return b.podService(cluster.AnnouncedService(pod)).WithSpec(corev1ac.ServiceSpec().
		WithPublishNotReadyAddresses(true).WithSelector(b.podSelector(pod)).
		WithPorts(servicePort("redis", nodePort), servicePort("bus", model.BusPort)))
}

func (b Builder) podService(name string) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(name, b.Cluster.Namespace).WithLabels(Labels(b.Cluster)).WithOwnerReferences(b.Owner)
}

func (b Builder) podSelector(pod string) map[string]string {
	out := maps.Clone(Selector(b.Cluster))
	out[appsv1.StatefulSetPodNameLabel] = pod
	return out
}

// expose opens a Service to clients outside, if the specification asks for that.
func (b Builder) expose(s *corev1ac.ServiceApplyConfiguration) *corev1ac.ServiceApplyConfiguration {
	access := b.Cluster.Spec.ExternalAccess
	if access == nil {
		return s
	}
	annotations := map[string]string{}
	for key, value := range access.Annotations {
		annotations[key] = string(value)
	}
	s.WithAnnotations(annotations)
	s.Spec.WithType(corev1.ServiceType(access.Type))
	return s
}

// ExposeAsBefore takes out of a Service what expose changes in the one that there is.
func ExposeAsBefore(s *corev1ac.ServiceApplyConfiguration, access *v1alpha1.RedisExternalAccess, live *corev1.Service) {
	for key := range access.Annotations {
		delete(s.Annotations, key)
		if was, ok := live.Annotations[key]; ok {
			s.Annotations[key] = was
		}
	}
	s.Spec.Type = nil
	if live.Spec.Type != "" {
		s.Spec.WithType(live.Spec.Type)
	}
}

// ExposedPod is the pod that a Service leads to which was made for external access, and whether it is the one inside; false: it was
// not made for that.
func ExposedPod(s *corev1.Service) (pod string, inside, ok bool) {
	pod = s.Spec.Selector[appsv1.StatefulSetPodNameLabel]
	inside = s.Name == cluster.AnnouncedService(pod)
	return pod, inside, pod != "" && (inside || s.Name == cluster.ExternalService(pod))
}

// InsideOf is the address that a Service inside leads from.
func InsideOf(s *corev1.Service) model.Address {
	for _, p := range s.Spec.Ports {
		if p.Name == "redis" {
			return model.Address{IP: s.Spec.ClusterIP, Port: int(p.Port)}
		}
	}
	return model.Address{}
}

// NodePort is the port of the nodes that leads to a Service; 0: none yet.
func NodePort(s *corev1.Service) int32 {
	if len(s.Spec.Ports) == 0 {
		return 0
	}
	return s.Spec.Ports[0].NodePort
}

// BalancerHost is where the load balancer of a Service is reached; empty: it has none yet. Servers announce DNS names and IPv4
// addresses only.
func BalancerHost(s *corev1.Service) string {
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.Hostname != "" {
			return in.Hostname
		}
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" && !strings.Contains(in.IP, ":") {
			return in.IP
		}
	}
	return ""
}

// Endpoints are where clients outside are sent, by the names of pods or Services.
func Endpoints(doors []model.Door) []v1alpha1.RedisExternalEndpoint {
	var out []v1alpha1.RedisExternalEndpoint
	for _, d := range doors {
		if address := d.Endpoint(); address != "" {
			out = append(out, v1alpha1.RedisExternalEndpoint{Name: d.Pod, Address: address})
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.RedisExternalEndpoint) int { return strings.Compare(a.Name, b.Name) })
	return out
}
