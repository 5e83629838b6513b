package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/quorate/quorate/api/v1alpha1"
)

func podTemplate(image, agentImage string) *corev1ac.PodTemplateSpecApplyConfiguration {
	return corev1ac.PodTemplateSpec().WithSpec(corev1ac.PodSpec().
		WithInitContainers(corev1ac.Container().WithName("gate").WithImage(agentImage)).
		WithContainers(corev1ac.Container().WithName("db").WithImage(image)))
}

func TestTemplateHashLeavesOutWhatTheOperatorBrings(t *testing.T) {
	hash := func(tpl *corev1ac.PodTemplateSpecApplyConfiguration) string {
		t.Helper()
		h, err := TemplateHash(tpl, "gate")
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	base := hash(podTemplate("db:1", "agent:1"))
	if got := hash(podTemplate("db:1", "agent:2")); got != base {
		t.Errorf("another image of the operator changed the hash from %s to %s", base, got)
	}
	roomy := podTemplate("db:1", "agent:1")
	roomy.Spec.InitContainers[0].WithResources(corev1ac.ResourceRequirements().WithLimits(amounts("cpu", "1")))
	if got := hash(roomy); got != base {
		t.Errorf("resources of the gate changed the hash from %s to %s", base, got)
	}
	hooked := podTemplate("db:1", "agent:1")
	hooked.Spec.Containers[0].WithLifecycle(corev1ac.Lifecycle().WithPreStop(corev1ac.LifecycleHandler().WithExec(corev1ac.ExecAction().WithCommand("sh"))))
	if got := hash(hooked); got != base {
		t.Errorf("a hook changed the hash from %s to %s", base, got)
	}
	if got := hash(podTemplate("db:2", "agent:1")); got == base {
		t.Error("another image of the data store left the hash as it was")
	}
}

func TestApplyTemplateFillsInDefaultsAndKeepsWhatTheUserSet(t *testing.T) {
	user := int64(1000)
	tests := map[string]struct {
		in   *v1alpha1.PodTemplate
		want func(*testing.T, *corev1ac.PodTemplateSpecApplyConfiguration)
	}{
		"nothing set": {nil, func(t *testing.T, tpl *corev1ac.PodTemplateSpecApplyConfiguration) {
			t.Helper()
			sc := tpl.Spec.SecurityContext
			if !*sc.RunAsNonRoot || *sc.RunAsUser != nonRoot || *sc.FSGroup != nonRoot || *sc.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Errorf("security context %+v", sc)
			}
			if tpl.Spec.Affinity == nil || *tpl.Spec.AutomountServiceAccountToken || *tpl.Spec.EnableServiceLinks {
				t.Errorf("spec %+v", tpl.Spec)
			}
		}},
		"a user, a variable, a label and an affinity of the user": {&v1alpha1.PodTemplate{
			Labels:          map[string]v1alpha1.TemplateValue{"team": "a"},
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: &user},
			Env:             []v1alpha1.EnvVar{{Name: "GOGC", Value: "50"}},
			Affinity:        &v1alpha1.Affinity{PodAntiAffinity: &v1alpha1.PodAffinity{}},
		}, func(t *testing.T, tpl *corev1ac.PodTemplateSpecApplyConfiguration) {
			t.Helper()
			if *tpl.Spec.SecurityContext.RunAsUser != user || !*tpl.Spec.SecurityContext.RunAsNonRoot {
				t.Errorf("security context %+v", tpl.Spec.SecurityContext)
			}
			if tpl.Labels["team"] != "a" || *tpl.Spec.Containers[0].Env[0].Name != "GOGC" {
				t.Errorf("labels %v, env %v", tpl.Labels, tpl.Spec.Containers[0].Env)
			}
			if len(tpl.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 || len(tpl.Spec.InitContainers[0].Env) != 0 {
				t.Error("a default replaced what the user set, or the start gate got the user's variables")
			}
		}},
		"wishes about nodes and zones leave the copies apart": {&v1alpha1.PodTemplate{
			Affinity: &v1alpha1.Affinity{NodeAffinity: &v1alpha1.NodeAffinity{}},
			TopologySpreadConstraints: []v1alpha1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway},
			},
		}, func(t *testing.T, tpl *corev1ac.PodTemplateSpecApplyConfiguration) {
			t.Helper()
			if a := tpl.Spec.Affinity; a.NodeAffinity == nil || a.PodAntiAffinity == nil || len(tpl.Spec.TopologySpreadConstraints) != 2 {
				t.Errorf("affinity %+v, %d spread constraints", a, len(tpl.Spec.TopologySpreadConstraints))
			}
		}},
		"a wish about hosts replaces ours": {&v1alpha1.PodTemplate{
			TopologySpreadConstraints: []v1alpha1.TopologySpreadConstraint{
				{MaxSkew: 2, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway},
			},
		}, func(t *testing.T, tpl *corev1ac.PodTemplateSpecApplyConfiguration) {
			t.Helper()
			if c := tpl.Spec.TopologySpreadConstraints; len(c) != 1 || *c[0].MaxSkew != 2 {
				t.Errorf("spread constraints %+v", c)
			}
		}},
		"a spread constraint without selector counts the cluster's pods": {&v1alpha1.PodTemplate{
			TopologySpreadConstraints: []v1alpha1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}},
		}, func(t *testing.T, tpl *corev1ac.PodTemplateSpecApplyConfiguration) {
			t.Helper()
			got := tpl.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels
			if diff := cmp.Diff(map[string]string{"app": "x"}, got); diff != "" {
				t.Errorf("selector (-want +got):\n%s", diff)
			}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tpl := podTemplate("db:1", "agent:1")
			selector := map[string]string{"app": "x"}
			if err := ApplyTemplate(tpl, tc.in, "db", Defaults{
				Selector: selector, AntiAffinity: SoftAntiAffinity(selector),
				Spread: []*corev1ac.TopologySpreadConstraintApplyConfiguration{
					corev1ac.TopologySpreadConstraint().WithTopologyKey(corev1.LabelHostname),
				},
			}); err != nil {
				t.Fatal(err)
			}
			tc.want(t, tpl)
		})
	}
}
