package manifests

import (
	"cmp"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Primary is the Service that leads to the primary. It names one pod, so that there are never two, and the label besides: a pod
// that is made anew under that name is not the primary before it is told so. Shortly before the primary hands over to a candidate, it leads
// there already, so that no client that then looks for the new primary finds the old one. A candidate that is to be promoted is
// named as well, and clients reach it once it has the label.
func (b Builder) Primary(a model.Appointment, c model.FailoverCandidate) *corev1ac.ServiceApplyConfiguration {
	s := b.roleService(cluster.PrimaryService(b.Cluster.Name), model.RolePrimary)
	if a.Pod == "" && c.Pod == "" {
		return s
	}
	s.Spec.Selector[appsv1.StatefulSetPodNameLabel] = cmp.Or(c.Pod, a.Pod)
	if c.Pod != "" {
		s.WithAnnotations(map[string]string{v1alpha1.AnnotationAppointed: a.Pod})
	}
	if c.Planned() {
		delete(s.Spec.Selector, v1alpha1.LabelRole)
		s.WithAnnotations(map[string]string{v1alpha1.AnnotationRerouted: c.Since.UTC().Format(time.RFC3339Nano)})
	} else if c.Pod != "" {
		s.WithAnnotations(map[string]string{v1alpha1.AnnotationCandidateHistory: c.History})
	}
	s.WithAnnotations(map[string]string{v1alpha1.AnnotationHistory: a.History})
	if a.Guard > 0 {
		s.WithAnnotations(map[string]string{v1alpha1.AnnotationGuarded: a.Guard.String()})
	}
	return s
}

// Replicas is the Service that leads to all replicas that are in sync.
func (b Builder) Replicas() *corev1ac.ServiceApplyConfiguration {
	return b.roleService(cluster.ReplicasService(b.Cluster.Name), model.RoleReplica)
}

func (b Builder) roleService(name, role string) *corev1ac.ServiceApplyConfiguration {
	s := b.service(name, corev1ac.ServiceSpec().WithPorts(servicePort("redis", model.ClientPort)))
	s.Spec.Selector = maps.Clone(s.Spec.Selector)
	s.Spec.Selector[v1alpha1.LabelRole] = role
	return b.expose(s)
}

// AppointmentOf reads back what Primary wrote.
func AppointmentOf(live *corev1.Service) model.Appointment {
	pod, elsewhere := live.Annotations[v1alpha1.AnnotationAppointed]
	if !elsewhere {
		pod = live.Spec.Selector[appsv1.StatefulSetPodNameLabel]
	}
	return model.Appointment{Pod: pod, History: live.Annotations[v1alpha1.AnnotationHistory], Guard: guardIn(live)}
}

// CandidateOf reads back what Primary wrote. A time that cannot be read, or that an earlier version did not write, is long ago.
func CandidateOf(live *corev1.Service) model.FailoverCandidate {
	if _, elsewhere := live.Annotations[v1alpha1.AnnotationAppointed]; !elsewhere {
		return model.FailoverCandidate{}
	}
	c := model.FailoverCandidate{
		Pod: live.Spec.Selector[appsv1.StatefulSetPodNameLabel], History: live.Annotations[v1alpha1.AnnotationCandidateHistory],
	}
	if since, err := time.Parse(time.RFC3339Nano, live.Annotations[v1alpha1.AnnotationRerouted]); err == nil {
		c.Since = since
	}
	return c
}

// longestGuard is the longest guard that any version has recorded: the upper bound of
// spec.config.nodeTimeout.
const longestGuard = time.Minute

// guardIn reads model.Appointment.Guard. Versions that did not record for how long wrote "true".
func guardIn(live *corev1.Service) time.Duration {
	text, guarded := live.Annotations[v1alpha1.AnnotationGuarded]
	if !guarded {
		return 0
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d
	}
	return longestGuard
}
