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
	// AntiAffinity of the pods unless the user sets one. A node affinity of the user leaves it in place.
	AntiAffinity *corev1ac.PodAntiAffinityApplyConfiguration
	// Spread are topology spread constraints that hold besides those of the user, except for the topology keys that the
	// user names.
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
	affinity := corev1ac.Affinity()
	if user.Affinity != nil {
		var err error
		if affinity, err = Convert[corev1ac.AffinityApplyConfiguration](user.Affinity); err != nil {
			return err
		}
	}
	if affinity.PodAntiAffinity == nil {
		affinity.PodAntiAffinity = def.AntiAffinity
	}
	spec.WithAffinity(affinity)
	for _, t := range user.Tolerations {
		toleration, err := Convert[corev1ac.TolerationApplyConfiguration](t)
		if err != nil {
			return err
		}
		spec.WithTolerations(toleration)
	}
	return applySpread(spec, user.TopologySpreadConstraints, def)
}

func applySpread(spec *corev1ac.PodSpecApplyConfiguration, user []v1alpha1.TopologySpreadConstraint, def Defaults) error {
	named := map[string]bool{}
	for _, c := range user {
		named[string(c.TopologyKey)] = true
		constraint, err := Convert[corev1ac.TopologySpreadConstraintApplyConfiguration](c)
		if err != nil {
			return err
		}
		if c.LabelSelector == nil {
			constraint.WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(def.Selector))
		}
		spec.WithTopologySpreadConstraints(constraint)
	}
	for _, c := range def.Spread {
		if !named[*c.TopologyKey] {
			spec.WithTopologySpreadConstraints(c)
		}
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
func SoftAntiAffinity(labels map[string]string) *corev1ac.PodAntiAffinityApplyConfiguration {
	return corev1ac.PodAntiAffinity().
		WithPreferredDuringSchedulingIgnoredDuringExecution(corev1ac.WeightedPodAffinityTerm().WithWeight(100).
			WithPodAffinityTerm(corev1ac.PodAffinityTerm().WithTopologyKey(corev1.LabelHostname).
				WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(labels))))
}

func plain[V ~string](m map[string]V) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = string(v)
	}
	return out
}

// PlaceOnly is what of the user's template for the servers is for other pods of the cluster as well: where they may run, and with what
// rights. Where servers run in relation to each other is not, and neither are the labels that they may be told apart by.
func PlaceOnly(user *v1alpha1.PodTemplate) *v1alpha1.PodTemplate {
	if user == nil {
		return nil
	}
	out := user.DeepCopy()
	out.Labels, out.Env, out.TopologySpreadConstraints = nil, nil, nil
	if out.Affinity != nil {
		out.Affinity.PodAffinity, out.Affinity.PodAntiAffinity = nil, nil
	}
	return out
}
