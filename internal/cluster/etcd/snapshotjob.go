package etcd

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/kube"
)

// ContainerSnapshot takes a snapshot, from the operator's image.
const ContainerSnapshot = "snapshot"

// Where the Job of a snapshot finds what.
const (
	// SnapshotDir is where snapshots are kept.
	SnapshotDir = "/snapshots"
	// SnapshotTLSDir has the certificate of a client that may take one, if there is TLS.
	SnapshotTLSDir = "/tls"
	// SnapshotPasswordFile has the password of root, where its certificate does not make the client root.
	SnapshotPasswordFile = "/auth/password"
)

const (
	volumeSnapshots = "snapshots"
	volumeTLS       = "tls"
	volumePassword  = "password"

	// snapshotTries of a Job beside the first, each after twice as long a rest as the one before, from ten seconds on.
	snapshotTries = 3
	// snapshotLimit in seconds is what a Job may take in all.
	snapshotLimit = 3600
	// snapshotKept in seconds is how long a Job stays that nobody deletes: longer than anything in it is of use.
	snapshotKept = 7200
	// checkShare of a database's size is what its check remembers of it: some 64 bytes for each page of 4 KiB.
	checkShare = 64
)

// SnapshotLabels are on all that takes and keeps the snapshots of a cluster. They name another instance than the cluster: rules of
// the user for its members, such as to keep apart from each other, are not for these.
func SnapshotLabels(name string) map[string]string {
	l := cluster.Labels(cluster.Snapshot(name), v1alpha1.ComponentEtcdSnapshot, "etcd-snapshot")
	l[cluster.LabelPartOf] = name
	return l
}

// SnapshotSelector selects the pods that take snapshots of a cluster.
func SnapshotSelector(name string) map[string]string {
	return cluster.Selector(cluster.Snapshot(name), v1alpha1.ComponentEtcdSnapshot)
}

// SnapshotClaim is what the snapshots of a cluster are kept on: as large as a member's, because a database fits on that beside its
// log. Its owner is set where it is to go with the cluster.
func (b Blueprint) SnapshotClaim() *corev1ac.PersistentVolumeClaimApplyConfiguration {
	c := b.claimTemplate(b.Storage).WithName(cluster.Snapshot(b.Cluster.Name)).WithNamespace(b.Cluster.Namespace).
		WithLabels(SnapshotLabels(b.Cluster.Name))
	if !b.KeepsSnapshots() {
		c.WithOwnerReferences(b.Owner)
	}
	return c
}

// KeepsSnapshots reports whether snapshots outlive the cluster, as the data of its members does.
func (b Blueprint) KeepsSnapshots() bool {
	return b.Storage.DeletionPolicy == nil || *b.Storage.DeletionPolicy == v1alpha1.DeletionRetain
}

// SnapshotJob takes a snapshot. secret holds a client certificate, empty without TLS.
func (b Blueprint) SnapshotJob(take TakeSnapshot, secret string) (*batchv1ac.JobApplyConfiguration, error) {
	name := b.Cluster.Name
	spec := corev1ac.PodSpec().
		WithRestartPolicy(corev1.RestartPolicyNever).
		WithContainers(b.snapshotContainer(take, secret)).
		WithVolumes(corev1ac.Volume().WithName(volumeSnapshots).WithPersistentVolumeClaim(
			corev1ac.PersistentVolumeClaimVolumeSource().WithClaimName(cluster.Snapshot(name))))
	if secret != "" {
		spec.WithVolumes(secretVolume(volumeTLS, secret))
	}
	if b.NeedsPassword() {
		spec.WithVolumes(corev1ac.Volume().WithName(volumePassword).WithSecret(corev1ac.SecretVolumeSource().
			WithSecretName(cluster.AuthSecret(name)).WithItems(corev1ac.KeyToPath().WithKey(volumePassword).WithPath(volumePassword))))
	}
	tpl := corev1ac.PodTemplateSpec().WithLabels(SnapshotLabels(name)).WithSpec(spec)
	if err := kube.ApplyTemplate(tpl, kube.PlaceOnly(b.Cluster.Spec.Template), ContainerSnapshot, kube.Defaults{}); err != nil {
		return nil, err
	}
	return batchv1ac.Job(cluster.Snapshot(name), b.Cluster.Namespace).
		WithLabels(SnapshotLabels(name)).WithOwnerReferences(b.Owner).
		WithAnnotations(map[string]string{
			v1alpha1.AnnotationVersion: take.From.String(), v1alpha1.AnnotationTargetVersion: take.For.String(),
		}).
		WithSpec(batchv1ac.JobSpec().
			WithBackoffLimit(snapshotTries).WithActiveDeadlineSeconds(snapshotLimit).WithTTLSecondsAfterFinished(snapshotKept).
			WithPodReplacementPolicy(batchv1.Failed). // Two would write to the same directory.
			WithTemplate(tpl)), nil
}

// MemberArgs name the members to the agent.
func (b Blueprint) MemberArgs() []string {
	var args []string
	for _, p := range b.Record.Members {
		scheme, _, _ := strings.Cut(p.URL, ":")
		args = append(args, "--member="+ClientURL(scheme, cluster.PodHost(p.Name, b.Cluster.Name, b.Cluster.Namespace, b.Domain)))
	}
	return args
}

// NeedsPassword reports whether a Job has no certificate that makes it root.
func (b Blueprint) NeedsPassword() bool {
	return b.SigningSum != "" && (!b.Reach().Secure || !b.Cluster.Spec.TLS.Issued())
}

func (b Blueprint) snapshotContainer(take TakeSnapshot, secret string) *corev1ac.ContainerApplyConfiguration {
	args := append([]string{"snapshot", "etcd", "--version=" + take.From.String()}, b.MemberArgs()...)
	c := corev1ac.Container().WithName(ContainerSnapshot).WithImage(b.AgentImage).
		WithCommand("/agent").WithArgs(args...).
		WithSecurityContext(kube.ContainerSecurity()).
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
		WithResources(b.snapshotResources()).
		WithVolumeMounts(corev1ac.VolumeMount().WithName(volumeSnapshots).WithMountPath(SnapshotDir))
	if secret != "" {
		c.WithVolumeMounts(corev1ac.VolumeMount().WithName(volumeTLS).WithMountPath(SnapshotTLSDir).WithReadOnly(true))
	}
	if b.NeedsPassword() {
		dir, _, _ := strings.Cut(SnapshotPasswordFile, "/"+volumePassword)
		c.WithVolumeMounts(corev1ac.VolumeMount().WithName(volumePassword).WithMountPath(dir).WithReadOnly(true))
	}
	return c
}

// snapshotResources are little, but for the check of a large database.
func (b Blueprint) snapshotResources() *corev1ac.ResourceRequirementsApplyConfiguration {
	const little = 64 << 20
	memory := little + b.quota()/checkShare
	return corev1ac.ResourceRequirements().
		WithRequests(corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
		}).
		WithLimits(corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: *resource.NewQuantity(4*memory, resource.BinarySI),
		})
}
