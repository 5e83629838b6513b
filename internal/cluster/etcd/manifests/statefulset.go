package manifests

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/config"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/kube"
)

// Containers of a member's pod.
const (
	// ContainerGate is the start gate, an init container from the operator's image.
	ContainerGate = "gate"
	// ContainerEtcd is etcd.
	ContainerEtcd = "etcd"
)

// annotationSigning tells which key the members sign tokens with: all have to use the same.
const annotationSigning = "quorate.dev/signing-key"

// AnnotationTrust is the fingerprint of the authorities that a member trusts: etcd reads them when it starts. It reads
// its certificates at each handshake, so that they may be renewed without a restart.
const AnnotationTrust = "quorate.dev/trusted-authorities"

// AnnotationReach of the StatefulSet repeats how the members are reached, see Reach. A change restarts nobody.
const AnnotationReach = "quorate.dev/reach"

const (
	volumeConfig  = "config"
	volumeRun     = "run"
	volumeServer  = "server-tls"
	volumePeer    = "peer-tls"
	volumeSigning = "signing"

	// gracePeriod of a pod in seconds: time to hand over leadership and to close the database.
	gracePeriod = 60
	// runDirSize is far more than a configuration file needs.
	runDirSize = "1Mi"
)

// publicImage is where images of etcd are published.
const publicImage = "quay.io/coreos/etcd"

// Image is the container image of etcd, see cluster.PublicImage for the registry.
func Image(spec v1alpha1.EtcdClusterSpec, v model.Version, registry string) string {
	if spec.Image != nil {
		return *spec.Image
	}
	return cluster.PublicImage(registry, publicImage+":v"+v.String())
}

// RegistryOf is the registry that Image was given for an image, empty for the public one and for images of one's own.
func RegistryOf(image string) string { return cluster.RegistryOf(image, publicImage) }

// CheckImage is what a check of a backup starts a member from: the image of its cluster, nil where that is gone, if that version reads the
// data, and else the public one of the version that wrote it, as well while the cluster goes to another version, of which there may be no
// image. It is empty where nobody knows what wrote the data.
func CheckImage(o *v1alpha1.EtcdCluster, wrote, registry string) string {
	v, err := model.ParseVersion(wrote)
	if err != nil {
		return ""
	}
	if o != nil && (o.Spec.Image != nil || o.Status.CurrentVersion == o.Spec.Version) {
		now, err := model.ParseVersion(o.Spec.Version)
		if err == nil && model.RunsDataOf(now, v) {
			return Image(o.Spec, now, registry)
		}
	}
	return Image(v1alpha1.EtcdClusterSpec{}, v, registry)
}

// StatefulSet runs the members. All start at once, because they need each other to become ready; none is replaced
// by the StatefulSet controller, which knows nothing of quorums (OnDelete).
func (b Builder) StatefulSet() (*appsv1ac.StatefulSetApplyConfiguration, error) {
	name := b.Cluster.Name
	tpl, err := b.podTemplate()
	if err != nil {
		return nil, err
	}
	spec := appsv1ac.StatefulSetSpec().
		WithServiceName(cluster.PeersService(name)).
		WithReplicas(int32(b.Record.Replicas())). //nolint:gosec // At most seven.
		WithPodManagementPolicy(appsv1.ParallelPodManagement).
		WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType(appsv1.OnDeleteStatefulSetStrategyType)).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(name))).
		WithTemplate(tpl)
	if s := b.Storage; s != nil {
		spec.WithVolumeClaimTemplates(b.claimTemplate(s)).WithPersistentVolumeClaimRetentionPolicy(retention(s))
	}
	return appsv1ac.StatefulSet(name, b.Cluster.Namespace).
		WithLabels(Labels(name)).WithAnnotations(map[string]string{AnnotationReach: b.Reach().Encode()}).
		WithOwnerReferences(b.Owner).WithSpec(spec), nil
}

// TemplateHash identifies everything that a member must be restarted for: the pod template but for the operator's
// own image, and the common part of the configuration.
func (b Builder) TemplateHash() (string, error) {
	tpl, err := b.bareTemplate()
	if err != nil {
		return "", err
	}
	return b.hash(tpl)
}

func (b Builder) hash(tpl *corev1ac.PodTemplateSpecApplyConfiguration) (string, error) {
	pod, err := kube.TemplateHash(tpl, ContainerGate)
	if err != nil {
		return "", err
	}
	config, err := config.CommonHash(config.WithQuota(b.Common, b.Layout().VolumeSize))
	return pod + "-" + config, err
}

func (b Builder) podTemplate() (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	tpl, err := b.bareTemplate()
	if err != nil {
		return nil, err
	}
	hash, err := b.hash(tpl)
	if err != nil {
		return nil, err
	}
	// These are no reason to restart a pod: see servingPods, and what members begin with.
	tpl.WithLabels(map[string]string{v1alpha1.LabelServing: strconv.FormatBool(!b.Record.RestoresInPlace())})
	if from := b.Record.InitialBackup(); from != nil {
		b.mountBackup(tpl.Spec, from.Destination)
	}
	return tpl.WithAnnotations(map[string]string{v1alpha1.AnnotationTemplateHash: hash}), nil
}

// FlagWithoutAuthentication has the start gate switch authentication off in data that it restores: nobody has the password of the former
// cluster, and spec.auth.mode is Disabled.
const FlagWithoutAuthentication = "without-authentication"

// mountBackup gives the start gate what it needs to read the backup that the member begins with. It is not in the hash: members are not
// restarted for it.
func (b Builder) mountBackup(spec *corev1ac.PodSpecApplyConfiguration, from v1alpha1.BackupDestination) {
	job.Mount(spec, &spec.InitContainers[0], from)
	spec.InitContainers[0].WithPorts(corev1ac.ContainerPort().WithName("progress").WithContainerPort(job.FlowPort))
	if b.SigningSum != "" { // In the backup root has the password of the former cluster.
		job.MountPassword(spec, &spec.InitContainers[0], cluster.AuthSecret(b.Cluster.Name))
	}
	if b.Cluster.Spec.Auth.AuthMode() == v1alpha1.AuthDisabled {
		spec.InitContainers[0].WithArgs("--" + FlagWithoutAuthentication)
	}
	if !b.restartsWithoutAccount() {
		job.MountAccount(spec, &spec.InitContainers[0], from)
	}
}

// gateMemory is the memory limit of a start gate where spec.resources has none: a damaged backup or log, or
// the answer of a peer, must not take the memory of the node.
var gateMemory = resource.MustParse("1Gi")

// limitMemory gives a container a memory limit, unless it has one, and tells its runtime. The request stays small: the limit is a guess on the
// safe side.
func limitMemory(c *corev1ac.ContainerApplyConfiguration) {
	if c.Resources == nil {
		c.WithResources(corev1ac.ResourceRequirements())
	}
	if limits := c.Resources.Limits; limits == nil || (*limits)[corev1.ResourceMemory] == (resource.Quantity{}) {
		limit := gateMemory
		if requests := c.Resources.Requests; requests == nil || (*requests)[corev1.ResourceMemory] == (resource.Quantity{}) {
			c.Resources.WithRequests(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")})
		} else if request := (*requests)[corev1.ResourceMemory]; request.Cmp(limit) > 0 {
			limit = request
		}
		c.Resources.WithLimits(corev1.ResourceList{corev1.ResourceMemory: limit})
	}
	c.WithEnv(kube.MemoryLimit())
}

// restartsWithoutAccount reports whether members are restarted after a restore, so that no pod of theirs keeps its service account. An
// only member without a volume would lose its data with that.
func (b Builder) restartsWithoutAccount() bool {
	return b.Storage != nil || len(b.Record.Members) > 1
}

func (b Builder) bareTemplate() (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	etcd, err := b.etcdContainer()
	if err != nil {
		return nil, err
	}
	gate := b.gateContainer()
	if gate.Resources, err = kube.GateResources(b.Cluster.Spec.Resources, nil); err != nil {
		return nil, err
	}
	limitMemory(gate)
	name := b.Cluster.Name
	spec := corev1ac.PodSpec().
		WithTerminationGracePeriodSeconds(gracePeriod).
		WithInitContainers(gate).
		WithContainers(etcd).
		WithVolumes(
			corev1ac.Volume().WithName(volumeConfig).
				WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(cluster.ConfigName(name))),
			memoryVolume(volumeRun),
		)
	if b.ServerSecret != "" {
		spec.WithVolumes(secretVolume(volumeServer, b.ServerSecret), secretVolume(volumePeer, b.PeerSecret))
	}
	if b.SigningSum != "" {
		spec.WithVolumes(corev1ac.Volume().WithName(volumeSigning).WithSecret(corev1ac.SecretVolumeSource().
			WithSecretName(cluster.AuthSecret(name)).WithItems(corev1ac.KeyToPath().WithKey(config.SigningKey).WithPath(config.SigningKey))))
	}
	if b.Storage == nil {
		spec.WithVolumes(corev1ac.Volume().WithName(cluster.VolumeData).WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
	}
	tpl := corev1ac.PodTemplateSpec().WithLabels(Labels(name)).WithSpec(spec).
		WithAnnotations(map[string]string{v1alpha1.AnnotationVersion: b.Version.String()})
	if b.SigningSum != "" {
		tpl.WithAnnotations(map[string]string{annotationSigning: b.SigningSum})
	}
	if b.TrustSum != "" {
		tpl.WithAnnotations(map[string]string{AnnotationTrust: b.TrustSum})
	}
	err = kube.ApplyTemplate(tpl, b.Cluster.Spec.Template, ContainerEtcd, kube.Defaults{
		Selector: Selector(name), AntiAffinity: kube.SoftAntiAffinity(Selector(name)), Spread: b.spread(),
	})
	if from := b.Record.InitialBackup(); from != nil && b.restartsWithoutAccount() {
		job.MountAccount(spec, &spec.InitContainers[0], from.Destination) // In the hash: members with it are outdated once they are founded.
	}
	return tpl, err
}

// spread prefers different zones for the members, unless the user says how to spread them.
func (b Builder) spread() []*corev1ac.TopologySpreadConstraintApplyConfiguration {
	if t := b.Cluster.Spec.Template; t != nil && len(t.TopologySpreadConstraints) > 0 {
		return nil
	}
	return []*corev1ac.TopologySpreadConstraintApplyConfiguration{
		corev1ac.TopologySpreadConstraint().WithMaxSkew(1).WithTopologyKey(corev1.LabelTopologyZone).
			WithWhenUnsatisfiable(corev1.ScheduleAnyway).
			WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(b.Cluster.Name))),
	}
}

// gateContainer writes the member's configuration and decides whether it may start, see
// gate.Decide.
func (b Builder) gateContainer() *corev1ac.ContainerApplyConfiguration {
	c := corev1ac.Container().WithName(ContainerGate).WithImage(b.AgentImage).
		WithCommand("/agent").WithArgs("gate", "etcd", "--version="+b.Version.String()).
		WithEnv(fieldEnv("POD_NAME", "metadata.name"), fieldEnv("POD_IP", "status.podIP")).
		WithSecurityContext(kube.ContainerSecurity()).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName(volumeConfig).WithMountPath(config.ConfigDir).WithReadOnly(true),
			corev1ac.VolumeMount().WithName(volumeRun).WithMountPath(config.RunDir),
			corev1ac.VolumeMount().WithName(cluster.VolumeData).WithMountPath(config.DataMount),
		)
	if b.PeerSecret != "" {
		c.WithVolumeMounts(corev1ac.VolumeMount().WithName(volumePeer).WithMountPath(config.PeerTLSDir).WithReadOnly(true))
	}
	return c
}

func (b Builder) etcdContainer() (*corev1ac.ContainerApplyConfiguration, error) {
	c := corev1ac.Container().WithName(ContainerEtcd).WithImage(Image(b.Cluster.Spec, b.Version, b.Registry)).
		WithCommand("etcd", "--config-file="+config.ConfigFile).
		WithPorts(corev1ac.ContainerPort().WithName("client").WithContainerPort(model.ClientPort)).
		WithPorts(b.peerPorts()...).
		WithPorts(corev1ac.ContainerPort().WithName("metrics").WithContainerPort(model.MetricsPort)).
		WithSecurityContext(kube.ContainerSecurity()).
		WithStartupProbe(startupProbe()).WithReadinessProbe(readinessProbe()).WithLivenessProbe(livenessProbe()).
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName(volumeRun).WithMountPath(config.RunDir).WithReadOnly(true),
			corev1ac.VolumeMount().WithName(cluster.VolumeData).WithMountPath(config.DataMount),
		)
	if b.ServerSecret != "" {
		c.WithVolumeMounts(
			corev1ac.VolumeMount().WithName(volumeServer).WithMountPath(config.ServerTLSDir).WithReadOnly(true),
			corev1ac.VolumeMount().WithName(volumePeer).WithMountPath(config.PeerTLSDir).WithReadOnly(true),
		)
	}
	if b.SigningSum != "" {
		c.WithVolumeMounts(corev1ac.VolumeMount().WithName(volumeSigning).WithMountPath(config.SigningDir).WithReadOnly(true))
	}
	if b.Cluster.Spec.Resources == nil {
		return c, nil
	}
	r, err := kube.Convert[corev1ac.ResourceRequirementsApplyConfiguration](b.Cluster.Spec.Resources)
	if err != nil {
		return nil, err
	}
	return c.WithResources(r), nil
}

// peerPorts are what members listen at for their peers. They tell which pods were made for what,
// see model.Pod.
func (b Builder) peerPorts() []*corev1ac.ContainerPortApplyConfiguration {
	var out []*corev1ac.ContainerPortApplyConfiguration
	reach := b.Reach()
	if reach.UsesTLS() {
		out = append(out, corev1ac.ContainerPort().WithName("peer").WithContainerPort(model.PeerPort))
	}
	if !reach.Secure || reach.Both {
		out = append(out, corev1ac.ContainerPort().WithName("peer-plain").WithContainerPort(model.PlainPeerPort))
	}
	return out
}

// startupProbe gives a member half an hour to read its log and database. It asks every second, because the other
// probes start only when it has passed.
func startupProbe() *corev1ac.ProbeApplyConfiguration {
	return probe("/livez").WithPeriodSeconds(1).WithTimeoutSeconds(1).WithFailureThreshold(1800)
}

// readinessProbe is etcd's own: the member is a voter, its data is not known to be corrupt, and it can read through
// the quorum. The NOSPACE alarm does not fail it, which is right: reads and deletes still work.
func readinessProbe() *corev1ac.ProbeApplyConfiguration {
	return probe("/readyz").WithPeriodSeconds(1).WithTimeoutSeconds(3).WithFailureThreshold(3)
}

// livenessProbe reads from the member itself, without the quorum: a restart does not bring a lost quorum back. A
// defragmentation blocks that read, by about 5 s for each GiB, so a member is given five minutes.
func livenessProbe() *corev1ac.ProbeApplyConfiguration {
	return probe("/livez").WithPeriodSeconds(10).WithTimeoutSeconds(5).WithFailureThreshold(30)
}

func probe(path string) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromInt32(model.MetricsPort)))
}

func (b Builder) claimTemplate(s *v1alpha1.StorageSpec) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	spec := corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: s.Size}))
	if s.ClassName != nil {
		spec.WithStorageClassName(*s.ClassName)
	}
	c := corev1ac.PersistentVolumeClaim(cluster.VolumeData, "").WithLabels(Labels(b.Cluster.Name)).WithSpec(spec)
	c.Namespace = nil // The claims are in the namespace of the pods; the API server rejects another word for it.
	return c
}

func retention(s *v1alpha1.StorageSpec) *appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicyApplyConfiguration {
	deleted := appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	if s.DeletionPolicy != nil && *s.DeletionPolicy == v1alpha1.DeletionDelete {
		deleted = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	}
	return appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
		WithWhenDeleted(deleted).WithWhenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
}

func memoryVolume(name string) *corev1ac.VolumeApplyConfiguration {
	limit := resource.MustParse(runDirSize)
	return corev1ac.Volume().WithName(name).WithEmptyDir(
		corev1ac.EmptyDirVolumeSource().WithMedium(corev1.StorageMediumMemory).WithSizeLimit(limit))
}

func secretVolume(name, secret string) *corev1ac.VolumeApplyConfiguration {
	return corev1ac.Volume().WithName(name).WithSecret(corev1ac.SecretVolumeSource().WithSecretName(secret))
}

func fieldEnv(name, path string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValueFrom(corev1ac.EnvVarSource().
		WithFieldRef(corev1ac.ObjectFieldSelector().WithFieldPath(path)))
}
