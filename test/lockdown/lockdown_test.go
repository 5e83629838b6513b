package lockdown

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func good() Pod {
	probe := &corev1.Probe{}
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	return Pod{Serves: true, Sized: true, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "c", Image: "registry.example.com:5000/a/b:1", LivenessProbe: probe, ReadinessProbe: probe,
			Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}}
}

func TestEachFaultIsNamed(t *testing.T) {
	if found := Faults(good()); len(found) > 0 {
		t.Fatalf("a good pod has %v", found)
	}
	for says, spoil := range map[string]func(*Pod, *corev1.Container){
		"shares something": func(p *Pod, _ *corev1.Container) { p.Spec.HostPID = true },
		"a directory of its node": func(p *Pod, _ *corev1.Container) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}}
		},
		"has no security context":   func(p *Pod, _ *corev1.Container) { p.Spec.SecurityContext = nil },
		"may run as root":           func(p *Pod, _ *corev1.Container) { p.Spec.SecurityContext.RunAsNonRoot = nil },
		"it runs as root":           func(p *Pod, _ *corev1.Container) { p.Spec.SecurityContext.RunAsUser = ptr.To[int64](0) },
		"no seccomp":                func(p *Pod, _ *corev1.Container) { p.Spec.SecurityContext.SeccompProfile = nil },
		"a token":                   func(p *Pod, _ *corev1.Container) { p.Spec.AutomountServiceAccountToken = nil },
		"the service account":       func(p *Pod, _ *corev1.Container) { p.Identity = true },
		"c has no security context": func(_ *Pod, c *corev1.Container) { c.SecurityContext = nil },
		"c may get more privileges": func(_ *Pod, c *corev1.Container) { c.SecurityContext.AllowPrivilegeEscalation = nil },
		"c may write":               func(_ *Pod, c *corev1.Container) { c.SecurityContext.ReadOnlyRootFilesystem = nil },
		"c has capabilities": func(_ *Pod, c *corev1.Container) {
			c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
		},
		"c runs as root":       func(_ *Pod, c *corev1.Container) { c.SecurityContext.RunAsUser = ptr.To[int64](0) },
		"another one tomorrow": func(_ *Pod, c *corev1.Container) { c.Image = "registry.example.com:5000/a/b" },
		"tomorrow: a/b:latest": func(_ *Pod, c *corev1.Container) { c.Image = "a/b:latest" },
		"the port 80":          func(_ *Pod, c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 80}} },
		"the port 8080": func(_ *Pod, c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
		},
		"a secret in its": func(_ *Pod, c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}}}
		},
		"looks like a secret":     func(_ *Pod, c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "MY_PASSWORD", Value: "x"}} },
		"lacks requests":          func(_ *Pod, c *corev1.Container) { c.Resources.Requests = nil },
		"lacks a limit of memory": func(_ *Pod, c *corev1.Container) { c.Resources.Limits = nil },
		"lacks a probe":           func(_ *Pod, c *corev1.Container) { c.ReadinessProbe = nil },
		"init has no security":    func(p *Pod, _ *corev1.Container) { p.Spec.InitContainers = []corev1.Container{{Name: "init"}} },
		"it has no container":     func(p *Pod, _ *corev1.Container) { p.Spec.Containers = nil },
		"c has no image":          func(_ *Pod, c *corev1.Container) { c.Image = "" },
	} {
		p := good()
		spoil(&p, &p.Spec.Containers[0])
		if found := Faults(p); !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, says) }) {
			t.Errorf("want %q, got %v", says, found)
		}
	}
}

func TestThePodIsFoundInWhatIsWritten(t *testing.T) {
	set := &appsv1.StatefulSet{TypeMeta: metav1.TypeMeta{Kind: "StatefulSet"}, Spec: appsv1.StatefulSetSpec{Template: corev1.PodTemplateSpec{Spec: good().Spec}}}
	if p, ok, err := Written(set); err != nil || !ok || !p.Serves || p.Identity || p.Spec.Containers[0].Name != "c" {
		t.Errorf("%+v, %v, %v", p, ok, err)
	}
	if _, ok, err := Written(&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap"}}); ok || err != nil {
		t.Errorf("a ConfigMap: %v, %v", ok, err)
	}
}
