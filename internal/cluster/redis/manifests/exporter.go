package manifests

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	v1alpha1ac "github.com/quorate/quorate/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/kube"
)

const (
	containerExporter = "exporter"
	volumeConnection  = "connection"
	connectionDir     = "/connection"
	// exporterPort is where it tells metrics, and exporterPortName what that is called in the pod.
	exporterPort     = 9121
	exporterPortName = "metrics"
)

// ExporterLabels are those of everything that has to do with the exporter of a cluster.
func ExporterLabels(c *v1alpha1.RedisCluster) map[string]string {
	return cluster.Labels(c.Name, v1alpha1.ComponentRedisExporter, "redis-exporter")
}

// ExporterSelector selects its pod.
func ExporterSelector(c *v1alpha1.RedisCluster) map[string]string {
	return cluster.Selector(c.Name, v1alpha1.ComponentRedisExporter)
}

// HasExporterUser reports whether the exporter connects as a user of its own: servers that ask nobody who it is have none.
func HasExporterUser(c *v1alpha1.RedisCluster) bool {
	return c.Spec.Monitoring != nil && c.Spec.Auth.AuthMode() == v1alpha1.AuthPassword
}

// ExporterUser is who the exporter connects as. It may use INFO, and what every client may.
func (b Builder) ExporterUser() *v1alpha1ac.RedisUserApplyConfiguration {
	return v1alpha1ac.RedisUser(cluster.Exporter(b.Cluster.Name), b.Cluster.Namespace).
		WithLabels(ExporterLabels(b.Cluster)).WithOwnerReferences(b.Owner).
		WithSpec(v1alpha1ac.RedisUserSpec().WithClusterName(b.Cluster.Name).WithCommands("info"))
}

// Exporter tells the metrics of all servers. It is no part of their pods, so that it comes and goes without a restart of any. It reads the
// Secret that it mounts anew at every scrape: another password or authority needs no restart of it either.
func (b Builder) Exporter() (*appsv1ac.DeploymentApplyConfiguration, error) {
	labels := ExporterLabels(b.Cluster)
	secret := cluster.ConnectionSecret(b.Cluster.Name)
	if HasExporterUser(b.Cluster) {
		secret = cluster.RedisUserSecret(cluster.Exporter(b.Cluster.Name))
	}
	tpl := corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(corev1ac.PodSpec().
		WithContainers(b.exporterContainer()).
		WithVolumes(corev1ac.Volume().WithName(volumeConnection).WithSecret(corev1ac.SecretVolumeSource().WithSecretName(secret))))
	if err := kube.ApplyTemplate(tpl, kube.PlaceOnly(b.Cluster.Spec.Template), containerExporter, kube.Defaults{}); err != nil {
		return nil, err
	}
	return appsv1ac.Deployment(cluster.Exporter(b.Cluster.Name), b.Cluster.Namespace).
		WithLabels(labels).WithOwnerReferences(b.Owner).
		WithSpec(appsv1ac.DeploymentSpec().WithReplicas(1).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(ExporterSelector(b.Cluster))).WithTemplate(tpl)), nil
}

func (b Builder) exporterContainer() *corev1ac.ContainerApplyConfiguration {
	healthy := corev1ac.Probe().WithPeriodSeconds(10).
		WithHTTPGet(corev1ac.HTTPGetAction().WithPath("/healthz").WithPort(intstr.FromString(exporterPortName)))
	return corev1ac.Container().WithName(containerExporter).WithImage(b.AgentImage).
		WithCommand("/agent").WithArgs("exporter", "--connection="+connectionDir).
		WithPorts(corev1ac.ContainerPort().WithName(exporterPortName).WithContainerPort(exporterPort).WithProtocol(corev1.ProtocolTCP)).
		WithEnv(kube.MemoryLimit()).
		WithReadinessProbe(healthy).
		WithResources(exporterResources(b.Cluster.Spec.Monitoring)).
		WithSecurityContext(kube.ContainerSecurity()).
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithVolumeMounts(corev1ac.VolumeMount().WithName(volumeConnection).WithMountPath(connectionDir).WithReadOnly(true))
}

func exporterResources(m *v1alpha1.RedisMonitoringSpec) *corev1ac.ResourceRequirementsApplyConfiguration {
	if m == nil || m.Exporter == nil || m.Exporter.Resources == nil {
		return corev1ac.ResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")}).
			WithLimits(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")})
	}
	r := m.Exporter.Resources
	return corev1ac.ResourceRequirements().WithRequests(amounts(r.Requests)).WithLimits(amounts(r.Limits))
}

func amounts(a *v1alpha1.ExporterAmounts) corev1.ResourceList {
	out := corev1.ResourceList{}
	if a != nil && a.CPU != nil {
		out[corev1.ResourceCPU] = *a.CPU
	}
	if a != nil && a.Memory != nil {
		out[corev1.ResourceMemory] = *a.Memory
	}
	return out
}

// PodMonitor has Prometheus read the exporter, which names the pods of the servers itself.
func (b Builder) PodMonitor() kube.PodMonitor {
	m := kube.PodMonitor{
		Name: cluster.Exporter(b.Cluster.Name), Namespace: b.Cluster.Namespace, Labels: ExporterLabels(b.Cluster),
		Selector: ExporterSelector(b.Cluster), Owner: b.Owner,
		Endpoint: kube.PodMetricsEndpoint{Port: exporterPortName, HonorLabels: true},
	}
	if b.Cluster.Spec.Monitoring != nil {
		m.User = b.Cluster.Spec.Monitoring.PodMonitor
	}
	return m
}
