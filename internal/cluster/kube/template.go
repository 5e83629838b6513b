package kube

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
)

// Defaults are what pods get unless the user says otherwise.
type Defaults struct {
	// Selector selects the pods of the cluster. Topology spread constraints of the user without a selector count these.
	Selector map[string]string
	// Affinity of the pods when the user sets none.
	Affinity *corev1ac.AffinityApplyConfiguration
	// Spread are the topology spread constraints when the user sets none.
	Spread []*corev1ac.TopologySpreadConstraintApplyConfiguration
}

// ApplyTemplate puts the overrides of the user, and the defaults for what he left open, on a pod template. container
// is the name of the data store's container, which the environment variables go to.
func ApplyTemplate(
	tpl *corev1ac.PodTemplateSpecApplyConfiguration, user *v1alpha1.PodTemplate, container string, def Defaults,
) error {
	if user == nil {
		user = &v1alpha1.PodTemplate{}
	}
	tpl.WithLabels(plain(user.Labels)).WithAnnotations(plain(user.Annotations))
	sc, err := PodSecurity(user.SecurityContext)
	if err != nil {
		return err
	}
	tpl.Spec.WithSecurityContext(sc).WithAutomountServiceAccountToken(false).WithEnableServiceLinks(false)
	if len(user.NodeSelector) > 0 {
		tpl.Spec.WithNodeSelector(plain(user.NodeSelector))
	}
	if user.PriorityClassName != nil {
		tpl.Spec.WithPriorityClassName(*user.PriorityClassName)
	}
	if err := applyPlacement(tpl.Spec, user, def); err != nil {
		return err
	}
	for _, s := range user.ImagePullSecrets {
		tpl.Spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(s.Name))
	}
	return applyEnv(tpl.Spec, user.Env, container)
}

func applyPlacement(spec *corev1ac.PodSpecApplyConfiguration, user *v1alpha1.PodTemplate, def Defaults) error {
	spec.Affinity = def.Affinity
	if user.Affinity != nil {
		affinity, err := Convert[corev1ac.AffinityApplyConfiguration](user.Affinity)
		if err != nil {
			return err
		}
		spec.Affinity = affinity
	}
	for _, t := range user.Tolerations {
		toleration, err := Convert[corev1ac.TolerationApplyConfiguration](t)
		if err != nil {
			return err
		}
		spec.WithTolerations(toleration)
	}
	if len(user.TopologySpreadConstraints) == 0 {
		spec.WithTopologySpreadConstraints(def.Spread...)
	}
	for _, c := range user.TopologySpreadConstraints {
		constraint, err := Convert[corev1ac.TopologySpreadConstraintApplyConfiguration](c)
		if err != nil {
			return err
		}
		if c.LabelSelector == nil {
			constraint.WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(def.Selector))
		}
		spec.WithTopologySpreadConstraints(constraint)
	}
	return nil
}

func applyEnv(spec *corev1ac.PodSpecApplyConfiguration, env []v1alpha1.EnvVar, container string) error {
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if c.Name == nil || *c.Name != container {
			continue
		}
		for _, e := range env {
			ac, err := Convert[corev1ac.EnvVarApplyConfiguration](e)
			if err != nil {
				return err
			}
			c.WithEnv(ac)
		}
	}
	return nil
}

// SoftAntiAffinity prefers different nodes for the pods that the labels select.
func SoftAntiAffinity(labels map[string]string) *corev1ac.AffinityApplyConfiguration {
	return corev1ac.Affinity().WithPodAntiAffinity(corev1ac.PodAntiAffinity().
		WithPreferredDuringSchedulingIgnoredDuringExecution(corev1ac.WeightedPodAffinityTerm().WithWeight(100).
			WithPodAffinityTerm(corev1ac.PodAffinityTerm().WithTopologyKey(corev1.LabelHostname).
				WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(labels)))))
}

func plain[V ~string](m map[string]V) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = string(v)
	}
	return out
}
