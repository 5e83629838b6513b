package manifests

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Set is the StatefulSet of a shard. live is the one that exists, nil when there is none: pods too many and its claim
// template stay, because what to do about those is for the planner to decide.
func (b Builder) Set(shard int, live *appsv1.StatefulSet) (*appsv1ac.StatefulSetApplyConfiguration, error) {
	tpl, err := b.Template(shard)
	if err != nil {
		return nil, err
	}
	replicas := int32(1 + b.Cluster.Spec.Replicas()) //nolint:gosec // admission bounds it
	if live != nil && live.Spec.Replicas != nil {
		replicas = max(replicas, *live.Spec.Replicas)
	}
	spec := appsv1ac.StatefulSetSpec().
		WithServiceName(cluster.PeersService(b.Cluster.Name)).
		WithReplicas(replicas).
		WithPodManagementPolicy(appsv1.ParallelPodManagement).
		WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType(appsv1.OnDeleteStatefulSetStrategyType)).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(shardLabels(Selector(b.Cluster), shard))).
		WithTemplate(tpl)
	if err := b.claims(spec, shard, live); err != nil {
		return nil, err
	}
	return appsv1ac.StatefulSet(cluster.ShardSet(b.Cluster.Name, shard), b.Cluster.Namespace).
		WithLabels(shardLabels(Labels(b.Cluster), shard)).WithOwnerReferences(b.Owner).WithSpec(spec), nil
}

func (b Builder) claims(spec *appsv1ac.StatefulSetSpecApplyConfiguration, shard int, live *appsv1.StatefulSet) error {
	storage := b.Cluster.Spec.Storage
	if storage != nil {
		policy := appsv1.RetainPersistentVolumeClaimRetentionPolicyType
		if DiscardsClaims(storage) {
			policy = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		}
		spec.WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
			WithWhenDeleted(policy).WithWhenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType))
	}
	if live == nil {
		if storage != nil {
			spec.WithVolumeClaimTemplates(b.claim(shard))
		}
		return nil
	}
	for _, c := range live.Spec.VolumeClaimTemplates {
		kept, err := kube.Convert[corev1ac.PersistentVolumeClaimApplyConfiguration](corev1.PersistentVolumeClaim{
			TypeMeta: c.TypeMeta, ObjectMeta: c.ObjectMeta, Spec: c.Spec,
		})
		if err != nil {
			return err
		}
		kept.Status = nil
		spec.WithVolumeClaimTemplates(kept)
	}
	return nil
}

// DiscardsClaims reports whether data goes with the pods and the cluster that it belongs to.
func DiscardsClaims(s *v1alpha1.StorageSpec) bool {
	return s != nil && s.DeletionPolicy != nil && *s.DeletionPolicy == v1alpha1.DeletionDelete
}

func (b Builder) claim(shard int) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	storage := b.Cluster.Spec.Storage
	spec := corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: storage.Size}))
	if storage.ClassName != nil {
		spec.WithStorageClassName(*storage.ClassName)
	}
	pvc := corev1ac.PersistentVolumeClaim(cluster.VolumeData, "").
		WithLabels(shardLabels(Labels(b.Cluster), shard)).WithSpec(spec)
	pvc.Namespace = nil
	return pvc
}

// StorageChanged tells whether a live StatefulSet was made for another storage than the wanted one.
func StorageChanged(storage *v1alpha1.StorageSpec, live *appsv1.StatefulSet) bool {
	claims := live.Spec.VolumeClaimTemplates
	if storage == nil || len(claims) != 1 {
		return (storage == nil) != (len(claims) == 0)
	}
	size := claims[0].Spec.Resources.Requests[corev1.ResourceStorage]
	class := claims[0].Spec.StorageClassName
	return size.Cmp(storage.Size) != 0 || (storage.ClassName != nil && (class == nil || *class != *storage.ClassName))
}

// Template is the pod template of a shard, with its hash. The amounts of cpu and memory are no part of that: running containers get
// others, and AnnotationResources says which they were given.
func (b Builder) Template(shard int) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	tpl, err := b.template(shard, b.Cluster.Spec.Resources)
	if err != nil {
		return nil, err
	}
	hashed, err := b.template(shard, kube.TakesRestart(b.Cluster.Spec.Resources))
	if err != nil {
		return nil, err
	}
	digest, err := kube.TemplateHash(hashed, ContainerGate)
	if err != nil {
		return nil, err
	}
	amounts, err := kube.InPlaceText(b.Cluster.Spec.Resources)
	if err != nil {
		return nil, err
	}
	if amounts != "" {
		tpl.WithAnnotations(map[string]string{AnnotationResources: amounts})
	}
	return tpl.WithAnnotations(map[string]string{v1alpha1.AnnotationTemplateHash: digest, config.AnnotationLive: config.LiveNames(b.Cluster.Spec.Config)}), nil
}

func (b Builder) template(shard int, resources *corev1.ResourceRequirements) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	config, err := config.StartConfig(&b.Cluster.Spec)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(config))
	server, err := b.server(resources)
	if err != nil {
		return nil, err
	}
	gate := b.gate()
	if gate.Resources, err = kube.GateResources(b.Cluster.Spec.Resources, gateMost); err != nil {
		return nil, err
	}
	tpl := corev1ac.PodTemplateSpec().
		WithLabels(shardLabels(Labels(b.Cluster), shard)).
		WithAnnotations(map[string]string{annotationConfig: hex.EncodeToString(sum[:8])}).
		WithSpec(corev1ac.PodSpec().
			WithTerminationGracePeriodSeconds(gracePeriod).
			WithInitContainers(gate).
			WithContainers(server).
			WithVolumes(b.volumes()...))
	if b.CertificateSum != "" {
		tpl.WithAnnotations(map[string]string{AnnotationCertificates: b.CertificateSum})
	}
	err = kube.ApplyTemplate(tpl, b.Cluster.Spec.Template, ContainerServer, kube.Defaults{
		Selector:     Selector(b.Cluster),
		AntiAffinity: kube.SoftAntiAffinity(shardLabels(Selector(b.Cluster), shard)),
		Spread:       b.spread(shard),
	})
	if err != nil {
		return nil, err
	}
	return tpl, nil
}

// spread keeps the copies of a shard apart and divides the first pods of all shards among the nodes.
//
// The copies of a shard are kept apart by a hard rule that still lets them start where there are fewer nodes than
// copies: then they are divided as evenly as can be. Nodes that are cordoned or lost do not count, so that they block
// nobody. Zones are kept apart where there are some with room: a hard rule would keep pods from nodes without the label. The
// first pods of all shards are the primaries of a fresh cluster.
func (b Builder) spread(shard int) []*corev1ac.TopologySpreadConstraintApplyConfiguration {
	firsts := maps.Clone(Selector(b.Cluster))
	firsts["apps.kubernetes.io/pod-index"] = "0"
	copies := shardLabels(Selector(b.Cluster), shard)
	over := func(key string, l map[string]string, when corev1.UnsatisfiableConstraintAction) *corev1ac.TopologySpreadConstraintApplyConfiguration {
		return corev1ac.TopologySpreadConstraint().WithMaxSkew(1).WithTopologyKey(key).
			WithWhenUnsatisfiable(when).WithNodeTaintsPolicy(corev1.NodeInclusionPolicyHonor).
			WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(l))
	}
	return []*corev1ac.TopologySpreadConstraintApplyConfiguration{
		over(corev1.LabelHostname, copies, corev1.DoNotSchedule),
		over(corev1.LabelTopologyZone, copies, corev1.ScheduleAnyway),
		over(corev1.LabelHostname, firsts, corev1.ScheduleAnyway),
	}
}

// server is the container of the data store. Its probes only open a connection: anything more would need a password,
// and a server that loads its data or waits for its primary must not be restarted for it. Whether a server is in sync
// is read by the operator, see planner.Conditions.
func (b Builder) server(amounts *corev1.ResourceRequirements) (*corev1ac.ContainerApplyConfiguration, error) {
	c := corev1ac.Container().WithName(ContainerServer).
		WithImage(Image(&b.Cluster.Spec, b.Registry)).
		WithCommand(string(b.Cluster.Spec.ServerEngine())+"-server", model.RunDir+"/"+config.ConfigKey).
		WithWorkingDir(model.DataDir).
		WithPorts(containerPort("redis", model.ClientPort), containerPort("bus", model.BusPort)).
		WithStartupProbe(probe(1, 600)).
		WithReadinessProbe(probe(5, 2)).
		WithLivenessProbe(probe(10, 6)).
		WithLifecycle(corev1ac.Lifecycle().WithPreStop(corev1ac.LifecycleHandler().WithExec(
			corev1ac.ExecAction().WithCommand("sh", "-c", b.lastWords())))).
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithSecurityContext(kube.ContainerSecurity()).
		WithVolumeMounts(mount(cluster.VolumeData, model.DataDir, false), mount("run", model.RunDir, false))
	if b.TLSSecret != "" {
		c.WithVolumeMounts(mount("tls", model.TLSDir, true))
	}
	if b.Cluster.Spec.IsReplicated() {
		c.WithVolumeMounts(mount("replication", model.ReplicationDir, true))
	}
	if amounts != nil {
		resources, err := kube.Convert[corev1ac.ResourceRequirementsApplyConfiguration](amounts)
		if err != nil {
			return nil, err
		}
		c.WithResources(resources)
	}
	return c, nil
}

func probe(period, failures int32) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithTCPSocket(corev1ac.TCPSocketAction().WithPort(intstr.FromString("redis"))).
		WithPeriodSeconds(period).WithTimeoutSeconds(3).WithFailureThreshold(failures)
}

func containerPort(name string, port int32) *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(name).WithContainerPort(port).WithProtocol(corev1.ProtocolTCP)
}

// gateMost is what a gate gets at most. Servers get other resources while they run, and a pod reserves for good what its gate has.
var gateMost = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("128Mi")}

// gate is the init container that writes the server's configuration and decides whether it may start.
func (b Builder) gate() *corev1ac.ContainerApplyConfiguration {
	args := []string{
		"gate", "redis",
		"--engine=" + string(b.Cluster.Spec.ServerEngine()),
		"--version=" + b.Cluster.Spec.Version,
		"--domain=" + cluster.ServiceHost(cluster.PeersService(b.Cluster.Name), b.Cluster.Namespace, b.Domain),
	}
	if b.Cluster.Spec.Auth.AuthMode() == v1alpha1.AuthDisabled {
		args = append(args, "--auth=false")
	}
	if b.Cluster.Spec.IsReplicated() {
		args = append(args, "--replicated")
	}
	return corev1ac.Container().WithName(ContainerGate).
		WithImage(b.AgentImage).
		WithCommand("/agent").WithArgs(args...).
		WithEnv(fieldEnv("POD_IP", "status.podIP"), fieldEnv("POD_NAME", "metadata.name")).
		WithTerminationMessagePolicy(corev1.TerminationMessageReadFile).
		WithSecurityContext(kube.ContainerSecurity()).
		WithVolumeMounts(
			mount(cluster.VolumeData, model.DataDir, false), mount("run", model.RunDir, false),
			mount("config", GateConfigDir, true), mount("auth", GateAuthDir, true))
}

func fieldEnv(name, path string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).
		WithValueFrom(corev1ac.EnvVarSource().WithFieldRef(corev1ac.ObjectFieldSelector().WithFieldPath(path)))
}

func mount(name, path string, readOnly bool) *corev1ac.VolumeMountApplyConfiguration {
	m := corev1ac.VolumeMount().WithName(name).WithMountPath(path)
	if readOnly {
		m.WithReadOnly(true)
	}
	return m
}

// secretMode lets the group of the pod read a mounted Secret.
const secretMode = 0o440

func (b Builder) volumes() []*corev1ac.VolumeApplyConfiguration {
	vols := []*corev1ac.VolumeApplyConfiguration{
		// In memory: the configuration holds a password.
		corev1ac.Volume().WithName("run").WithEmptyDir(corev1ac.EmptyDirVolumeSource().
			WithMedium(corev1.StorageMediumMemory).WithSizeLimit(resource.MustParse("1Mi"))),
		corev1ac.Volume().WithName("config").WithConfigMap(corev1ac.ConfigMapVolumeSource().
			WithName(cluster.ConfigName(b.Cluster.Name))),
		corev1ac.Volume().WithName("auth").WithSecret(corev1ac.SecretVolumeSource().
			WithSecretName(cluster.AuthSecret(b.Cluster.Name)).WithDefaultMode(secretMode)),
	}
	if b.TLSSecret != "" {
		vols = append(vols, corev1ac.Volume().WithName("tls").WithSecret(corev1ac.SecretVolumeSource().
			WithSecretName(b.TLSSecret).WithDefaultMode(secretMode)))
	}
	if b.Cluster.Spec.IsReplicated() {
		vols = append(vols, corev1ac.Volume().WithName("replication").WithSecret(b.replicationPasswords()))
	}
	if b.Cluster.Spec.Storage == nil {
		vols = append(vols, corev1ac.Volume().WithName(cluster.VolumeData).WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
	}
	return vols
}

// replicationPasswords are those with which a pod asks its own server, see lastWords. It gets no others, and most of the time there is one.
func (b Builder) replicationPasswords() *corev1ac.SecretVolumeSourceApplyConfiguration {
	source := corev1ac.SecretVolumeSource().
		WithSecretName(cluster.AuthSecret(b.Cluster.Name)).WithDefaultMode(secretMode).WithOptional(true)
	for _, prefix := range []string{"", acl.NextPrefix, acl.FormerPrefix} {
		source.WithItems(corev1ac.KeyToPath().WithKey(prefix + acl.PasswordReplication).WithPath(prefix + acl.PasswordReplication))
	}
	return source
}

// Stale tells whether a pod was started with other authorities than those that its server is to trust, as far as the server
// itself does not show it. proven says that it does: the operator issues another certificate along with other authorities.
func (b Builder) Stale(annotations map[string]string, proven bool) bool {
	was, _, _ := strings.Cut(annotations[AnnotationCertificates], "-")
	is, _, _ := strings.Cut(b.CertificateSum, "-")
	return !proven && was != is
}

// StartedWith is a builder whose pods differ from the wanted ones by their certificates only, which are those that a pod was
// started with.
func (b Builder) StartedWith(annotations map[string]string) Builder {
	b.CertificateSum = annotations[AnnotationCertificates]
	return b
}
