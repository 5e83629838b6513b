package manifests

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// SnapshotLabels are on the Backups before upgrades of a cluster, and on the claim that they are kept on. They name another instance
// than the cluster: rules of the user for its members are not for these.
func SnapshotLabels(name string) map[string]string {
	l := cluster.Labels(cluster.Snapshot(name), v1alpha1.ComponentEtcdSnapshot, "etcd-snapshot")
	l[cluster.LabelPartOf] = name
	return l
}

// SnapshotSelector selects them.
func SnapshotSelector(name string) map[string]string {
	return cluster.Selector(cluster.Snapshot(name), v1alpha1.ComponentEtcdSnapshot)
}

// SnapshotURL is where a Backup before an upgrade goes that has no other destination.
func SnapshotURL(name string) string { return "pvc://" + cluster.Snapshot(name) + "/upgrades" }

// SnapshotDestination is where Backups before upgrades go.
func SnapshotDestination(o *v1alpha1.EtcdCluster) v1alpha1.BackupDestination {
	if to := o.Spec.Upgrade.BackupDestination(); to != nil {
		return *to
	}
	return v1alpha1.BackupDestination{URL: SnapshotURL(o.Name)}
}

// SnapshotClaim is what Backups before upgrades are kept on: as large as a member's, because a database fits on that beside its
// log, and a Backup is compressed. Its owner is set where it is to go with the cluster.
func (b Builder) SnapshotClaim() *corev1ac.PersistentVolumeClaimApplyConfiguration {
	c := b.claimTemplate(b.Storage).WithName(cluster.Snapshot(b.Cluster.Name)).WithNamespace(b.Cluster.Namespace).
		WithLabels(SnapshotLabels(b.Cluster.Name))
	if !b.KeepsSnapshots() {
		c.WithOwnerReferences(b.Owner)
	}
	return c
}

// KeepsSnapshots reports whether the claim outlives the cluster, with the Backups on it, as the data of its members does.
func (b Builder) KeepsSnapshots() bool {
	return b.Storage.DeletionPolicy == nil || *b.Storage.DeletionPolicy == v1alpha1.DeletionRetain
}

// HistoryOf tells the history of a cluster apart from those of others of its name, and from what it had before it was restored.
func HistoryOf(o *v1alpha1.EtcdCluster, r model.Record) string {
	return string(o.UID) + " " + r.Timeline()
}

// Backup is the one before an upgrade. On the claim of the cluster its data goes with it; at a destination of the user it stays.
func (b Builder) Backup(take steps.TakeSnapshot) *v1alpha1.Backup {
	name, to := b.Cluster.Name, SnapshotDestination(b.Cluster)
	data := v1alpha1.DeletionRetain
	if to.URL == SnapshotURL(name) {
		data = v1alpha1.DeletionDelete
	}
	return &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Cluster.Namespace, Name: take.Name, Labels: SnapshotLabels(name),
			Annotations: map[string]string{
				v1alpha1.AnnotationHistoryOf: HistoryOf(b.Cluster, b.Record),
				v1alpha1.AnnotationVersion:   take.From.String(), v1alpha1.AnnotationTargetVersion: take.For.String(),
			},
		},
		Spec: v1alpha1.BackupSpec{
			Cluster:     v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: name},
			Destination: to, DeletionPolicy: &data, Verify: ptr.To(true),
		},
	}
}
