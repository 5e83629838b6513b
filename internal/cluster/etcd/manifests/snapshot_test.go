package manifests_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/test/etcdtest"
)

func TestTheBackupBeforeAnUpgrade(t *testing.T) {
	take := steps.TakeSnapshot{Name: "orders-before-3-7-3", From: etcdtest.V36, For: etcdtest.V37}
	s3 := &v1alpha1.BackupDestination{URL: "s3://backups/orders", Credentials: &v1alpha1.SecretReference{Name: "s3"}}
	for name, tc := range map[string]struct {
		upgrade *v1alpha1.EtcdUpgradeSpec
		to      v1alpha1.BackupDestination
		data    v1alpha1.DeletionPolicy
	}{
		"on the claim of the cluster":    {nil, v1alpha1.BackupDestination{URL: "pvc://orders-snapshot/upgrades"}, v1alpha1.DeletionDelete},
		"at a destination of the user's": {&v1alpha1.EtcdUpgradeSpec{Destination: s3}, *s3, v1alpha1.DeletionRetain},
	} {
		b := builder(t, func(b *manifests.Builder) { b.Cluster.Spec.Upgrade = tc.upgrade }).Backup(take)
		want := v1alpha1.BackupSpec{
			Cluster: v1alpha1.ClusterReference{Kind: v1alpha1.KindEtcdCluster, Name: "orders"}, Destination: tc.to,
			DeletionPolicy: &tc.data, Verify: ptr.To(true),
		}
		if diff := cmp.Diff(want, b.Spec); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if b.Name != take.Name || b.Namespace != "shop" || b.Annotations[v1alpha1.AnnotationVersion] != "3.6.16" ||
			b.Annotations[v1alpha1.AnnotationTargetVersion] != "3.7.3" || b.Labels["app.kubernetes.io/part-of"] != "orders" {
			t.Errorf("%s: %+v", name, b.ObjectMeta)
		}
		if b.Labels["app.kubernetes.io/instance"] == "orders" {
			t.Errorf("%s: it passes for a part of the servers", name)
		}
	}
}

func TestTheClaimOfTheSnapshots(t *testing.T) {
	for policy, owners := range map[v1alpha1.DeletionPolicy]int{v1alpha1.DeletionRetain: 0, v1alpha1.DeletionDelete: 1} {
		b := builder(t, func(b *manifests.Builder) { b.Storage.DeletionPolicy, b.Storage.ClassName = &policy, ptr.To("fast") })
		claim, err := kube.Convert[corev1.PersistentVolumeClaim](b.SnapshotClaim())
		if err != nil {
			t.Fatal(err)
		}
		size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if claim.Name != "orders-snapshot" || claim.Namespace != "shop" || size.String() != "1Gi" || *claim.Spec.StorageClassName != "fast" {
			t.Errorf("%+v", claim)
		}
		if len(claim.OwnerReferences) != owners || b.KeepsSnapshots() == (owners == 1) {
			t.Errorf("with %s it belongs to %v", policy, claim.OwnerReferences)
		}
	}
}
