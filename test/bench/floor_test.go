package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/test/harness"
)

// probes are those of our own pods, so that both sides are asked in the same way.
type probes struct{ startup, readiness, liveness *corev1.Probe }

// probesOf copies the probes of a container out of a StatefulSet that the operator made.
func probesOf(ctx context.Context, ns, set, container string) (p probes, err error) {
	live := &appsv1.StatefulSet{}
	if err := kind.Get(ctx, client.ObjectKey{Namespace: ns, Name: set}, live); err != nil {
		return p, err
	}
	for _, c := range live.Spec.Template.Spec.Containers {
		if c.Name == container {
			return probes{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe}, nil
		}
	}
	return p, fmt.Errorf("StatefulSet %s has no container %s", set, container)
}

// bareSet is a StatefulSet without an operator: the same image, probes, placement and volume, and nothing else.
func bareSet(ns, name string, replicas int32, container corev1.Container, p probes) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	container.StartupProbe, container.ReadinessProbe, container.LivenessProbe = p.startup, p.readiness, p.liveness
	container.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	container.Env = []corev1.EnvVar{
		{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
	}
	container.SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	return &appsv1.StatefulSet{
		ObjectMeta: meta(ns, name),
		Spec: appsv1.StatefulSetSpec{
			ServiceName: name, Replicas: ptr.To(replicas), PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:             &metav1.LabelSelector{MatchLabels: labels},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{container},
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532), RunAsGroup: ptr.To[int64](65532), FSGroup: ptr.To[int64](65532),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
						PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
							Weight: 100,
							PodAffinityTerm: corev1.PodAffinityTerm{
								TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
							},
						}},
					}},
					AutomountServiceAccountToken: ptr.To(false),
				},
			},
		},
	}
}

// headless is the Service that gives the pods of a bare StatefulSet their names.
func headless(ns, name string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: meta(ns, name),
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
			Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: port}},
		},
	}
}

// apply makes bare objects and waits until all pods of the StatefulSets among them are ready.
func apply(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := kind.Create(ctx, o); err != nil {
			return err
		}
	}
	for _, o := range objects {
		set, ok := o.(*appsv1.StatefulSet)
		if !ok {
			continue
		}
		err := harness.Until(ctx, kind, set, harness.Deadline{What: "StatefulSet " + set.Name, Within: readyTimeout}, func(s *appsv1.StatefulSet) (bool, string) {
			return s.Status.ReadyReplicas == *s.Spec.Replicas, fmt.Sprintf("%d of %d are ready", s.Status.ReadyReplicas, *s.Spec.Replicas)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// soon asks again every 50 ms, for what cannot be watched.
func soon(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errors.New(what+": it took too long"))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
