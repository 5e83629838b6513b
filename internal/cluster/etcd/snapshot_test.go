package etcd_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/kube"
)

// snapshotFor was verified ten minutes ago, on the way to a version.
func snapshotFor(v etcd.Version) etcd.Snapshot {
	return etcd.Snapshot{
		Backup: "orders-before-3-7-3", UID: "backup-1", URL: "pvc://orders-snapshot/upgrades", Directory: "orders-1",
		Revision: 7, Size: 20 << 20, From: v36, For: v, Time: simNow.Add(-10 * time.Minute),
	}
}

// saving is a cluster with a Backup to be made before another version, and that Backup in a state.
func saving(b *etcd.Backup, change func(*etcd.State)) etcd.State {
	return running(v36, v37, func(s *etcd.State) {
		s.Want.Snapshot, s.Want.SnapshotPlace = true, true
		if b != nil {
			b.Name, b.UID, b.From, b.For = "orders-before-3-7-3", "backup-2", v36, v37
			b.Own, b.URL, b.Directory, b.Revision, b.Size = true, "pvc://orders-snapshot/upgrades", "orders-2", 9, 20<<20
			s.Backups, s.BackupNames = []etcd.Backup{*b}, []string{b.Name}
		}
		if change != nil {
			change(s)
		}
	})
}

// failed is a Backup that nothing will come of.
func failed(since time.Duration) *etcd.Backup {
	return &etcd.Backup{Failed: "no room.", Stalled: "no backup was taken", Since: ago(since)}
}

func ago(d time.Duration) time.Time { return simNow.Add(-d) }

// A name that the API server refuses would hold the upgrade for good.
func TestTheNameOfABackupFits(t *testing.T) {
	s := saving(nil, func(s *etcd.State) {
		s.Want.Name = strings.Repeat("o", 40)
		s.Want.Version = etcd.Version{Major: 3, Minor: 7, Patch: 99}
	})
	for range 12 {
		step, ok := etcd.Next(s).Step.(etcd.TakeSnapshot)
		if !ok || len(step.Name) > 56 || slices.Contains(s.BackupNames, step.Name) {
			t.Fatalf("%+v", step)
		}
		s.BackupNames = append(s.BackupNames, step.Name)
	}
}

func TestASnapshotIsSpentAtTheEndOfItsWay(t *testing.T) {
	r := etcd.Record{Version: v35, Snapshot: snapshotFor(v37)}
	if got := r.With(v36).Snapshot.For; got != v37 {
		t.Errorf("on the way it serves %s", got)
	}
	if got := r.With(v36).With(v37).Snapshot; got.For != (etcd.Version{}) || got.Backup == "" {
		t.Errorf("at the end it is %+v", got)
	}
}

func TestTheStatusNamesTheSnapshot(t *testing.T) {
	var st v1alpha1.EtcdClusterStatus
	etcd.Status(&st, settled(nil))
	if st.Snapshot != nil {
		t.Errorf("before the first: %+v", st.Snapshot)
	}
	etcd.Status(&st, settled(func(s *etcd.State) { s.Record.Snapshot = snapshotFor(etcd.Version{}) }))
	if s := st.Snapshot; s == nil || s.Backup != "orders-before-3-7-3" || s.URL != "pvc://orders-snapshot/upgrades" || s.Directory != "orders-1" || s.Version != "3.6.16" || s.Revision != 7 || s.Size != 20<<20 {
		t.Errorf("%+v", s)
	}
}

func TestARecordThatNamesNoBackupIsNone(t *testing.T) {
	data := etcd.Record{Bootstrap: etcd.BootstrapNew, Version: v36, Members: etcd.Peers("orders", "default", "cluster.local", 1, false)}.Data()
	data["snapshot"] = `{"file":"3.5.35-7.db","revision":7,"size":20,"from":"3.5.35","for":"3.6.16","job":"j"}`
	r, err := etcd.ParseRecord(data)
	if err != nil || r.Snapshot != (etcd.Snapshot{}) {
		t.Errorf("%+v, %v", r.Snapshot, err)
	}
}

func TestTheBackupBeforeAnUpgrade(t *testing.T) {
	take := etcd.TakeSnapshot{Name: "orders-before-3-7-3", From: v36, For: v37}
	s3 := &v1alpha1.BackupDestination{URL: "s3://backups/orders", Credentials: &v1alpha1.SecretReference{Name: "s3"}}
	for name, tc := range map[string]struct {
		upgrade *v1alpha1.EtcdUpgradeSpec
		to      v1alpha1.BackupDestination
		data    v1alpha1.DeletionPolicy
	}{
		"on the claim of the cluster":    {nil, v1alpha1.BackupDestination{URL: "pvc://orders-snapshot/upgrades"}, v1alpha1.DeletionDelete},
		"at a destination of the user's": {&v1alpha1.EtcdUpgradeSpec{Destination: s3}, *s3, v1alpha1.DeletionRetain},
	} {
		b := blueprint(t, func(b *etcd.Blueprint) { b.Cluster.Spec.Upgrade = tc.upgrade }).Backup(take)
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
		b := blueprint(t, func(b *etcd.Blueprint) { b.Storage.DeletionPolicy, b.Storage.ClassName = &policy, ptr.To("fast") })
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
