package manifests

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
)

func monitored() Builder {
	return Builder{AgentImage: "agent:1", Owner: metav1ac.OwnerReference(), Cluster: &v1alpha1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "carts"},
		Spec:       v1alpha1.RedisClusterSpec{Monitoring: &v1alpha1.RedisMonitoringSpec{}},
	}}
}

func TestTheExporterRunsWhereServersMayAndAsRestrictedAsThey(t *testing.T) {
	b := monitored()
	b.Cluster.Spec.Template = &v1alpha1.PodTemplate{
		Labels: map[string]v1alpha1.TemplateValue{"theirs": "x"}, NodeSelector: map[string]v1alpha1.LabelValue{"pool": "data"},
		Tolerations:      []v1alpha1.Toleration{{Operator: new(corev1.TolerationOpExists)}},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}}, Env: []v1alpha1.EnvVar{{Name: "GOGC", Value: "1"}},
	}
	d, err := b.Exporter()
	if err != nil {
		t.Fatal(err)
	}
	pod, c := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
	for what, holds := range map[string]bool{
		"no token":                        !*pod.AutomountServiceAccountToken && pod.ServiceAccountName == nil,
		"non-root":                        *pod.SecurityContext.RunAsNonRoot && *pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"no way to more privileges":       !*c.SecurityContext.AllowPrivilegeEscalation && slices.Contains(c.SecurityContext.Capabilities.Drop, "ALL"),
		"a file system that is read":      *c.SecurityContext.ReadOnlyRootFilesystem,
		"the image of the operator":       *c.Image == "agent:1",
		"credentials for the registry":    *pod.ImagePullSecrets[0].Name == "pull",
		"the nodes of the servers":        pod.NodeSelector["pool"] == "data" && len(pod.Tolerations) == 1,
		"none of what is for servers":     d.Spec.Template.Labels["theirs"] == "" && len(c.Env) == 1,
		"a probe":                         c.ReadinessProbe != nil,
		"a limit of memory":               c.Resources.Limits.Memory().String() == "128Mi",
		"requests":                        c.Resources.Requests.Cpu().String() == "10m" && c.Resources.Requests.Memory().String() == "32Mi",
		"the Secret of its user":          *pod.Volumes[0].Secret.SecretName == "carts-exporter-redis-user",
		"the port that the monitor reads": *c.Ports[0].Name == b.PodMonitor().Endpoint.Port,
	} {
		if !holds {
			t.Errorf("wanted: %s", what)
		}
	}
	own := labels.Set(d.Spec.Template.Labels)
	if labels.SelectorFromSet(Selector(b.Cluster)).Matches(own) {
		t.Errorf("the exporter passes for a server: %v", own)
	}
	for _, s := range []map[string]string{d.Spec.Selector.MatchLabels, b.PodMonitor().Selector} {
		if len(s) < 3 || !labels.SelectorFromSet(s).Matches(own) {
			t.Errorf("%v does not select %v", s, own)
		}
	}
}

func TestTheExporterHasTheResourcesThatAreAskedFor(t *testing.T) {
	b := monitored()
	memory := resource.MustParse("1Gi")
	b.Cluster.Spec.Monitoring.Exporter = &v1alpha1.RedisExporterSpec{Resources: &v1alpha1.ExporterResources{Limits: &v1alpha1.ExporterAmounts{Memory: &memory}}}
	d, err := b.Exporter()
	if err != nil {
		t.Fatal(err)
	}
	if r := d.Spec.Template.Spec.Containers[0].Resources; r.Limits.Memory().String() != "1Gi" || len(*r.Requests) > 0 {
		t.Errorf("%+v", r)
	}
}

func TestTheUserOfTheExporterMayOnlyAskHowServersAre(t *testing.T) {
	u := monitored().ExporterUser()
	if s := u.Spec; !slices.Equal(s.Commands, []v1alpha1.RedisCommand{"info"}) || len(s.Keys)+len(s.Channels)+len(s.Categories) > 0 || *s.ClusterName != "carts" {
		t.Errorf("%+v", s)
	}
}
