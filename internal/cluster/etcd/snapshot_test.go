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

func TestSnapshotBeforeAnUpgrade(t *testing.T) {
	next := etcd.Version{Major: 3, Minor: 6, Patch: 17}
	take := etcd.TakeSnapshot{Name: "orders-before-3-7-3", From: v36, For: v37}
	second, third := take, take
	second.Name, third.Name = "orders-before-3-7-3-2", "orders-before-3-7-3-3"
	first := etcd.TakeSnapshot{Name: "orders-before-3-6-17", From: v36, For: next}
	drop := etcd.DropBackup{Name: "orders-before-3-7-3", UID: "backup-2"}
	patch := func(change func(*etcd.State)) etcd.State {
		return saving(nil, func(s *etcd.State) {
			s.Want.Version = next
			if change != nil {
				change(s)
			}
		})
	}
	with := func(b *etcd.Backup, change func(*etcd.Backup)) etcd.State {
		return saving(b, func(s *etcd.State) { change(&s.Backups[0]) })
	}
	verified := func(name string, since time.Duration) etcd.Backup {
		return etcd.Backup{Name: name, UID: name, From: v35, For: v36, Own: true, Complete: true, Verified: ago(since)}
	}
	for name, tc := range map[string]planRow{
		"comes first": {
			state: saving(nil, nil), step: take, says: "about 32Ki comes before 3.6.16 -> 3.7.3",
		},
		"before the log is flushed too": {
			state: saving(nil, func(s *etcd.State) { s.Record.Flushed = false }), step: take,
		},
		"is taken once for several minor versions": {
			state: running(v35, v37, func(s *etcd.State) { s.Want.Snapshot, s.Want.SnapshotPlace = true, true }),
			step:  etcd.TakeSnapshot{Name: "orders-before-3-7-3", From: v35, For: v37},
		},
		"and serves all of the way": {
			state: saving(nil, func(s *etcd.State) { s.Record.Snapshot = snapshotFor(v37); s.Record.Snapshot.From = v35 }),
			step:  etcd.SetVersion{From: v36, To: v37},
		},
		"comes before a patch": {state: patch(nil), step: first},
		"comes before a patch that may cure a member": {
			state: patch(func(s *etcd.State) { down(s, 0) }), step: first,
		},
		"is waited for by a quorum": {
			state:  patch(func(s *etcd.State) { s.Members = nil; down(s, 0); down(s, 2) }),
			reason: etcd.ReasonNoQuorum, says: "set spec.upgrade.snapshot to Skip",
		},
		"does not hold up repairs": {
			state: saving(failed(time.Minute), func(s *etcd.State) { s.Pods[2].TemplateHash = "before" }),
			step:  deletion("orders-2"),
		},
		"nor growth": {
			state: saving(failed(time.Minute), func(s *etcd.State) { s.Want.Size = 5 }),
			step:  etcd.Resize{From: 3, To: 4},
		},
		"is not needed where it is skipped": {
			state: saving(nil, func(s *etcd.State) { s.Want.Snapshot = false }), step: etcd.SetVersion{From: v36, To: v37},
			says: "without a snapshot, as spec.upgrade.snapshot says",
		},
		"a patch neither": {
			state: patch(func(s *etcd.State) { s.Want.Snapshot = false; down(s, 0) }), step: etcd.SetVersion{From: v36, To: next},
			says: "without a snapshot, as spec.upgrade.snapshot says",
		},
		"nor where there is nowhere to put it": {
			state: saving(nil, func(s *etcd.State) { s.Want.SnapshotPlace = false }), step: etcd.SetVersion{From: v36, To: v37},
			says: "without a snapshot, because there is neither spec.upgrade.destination nor spec.storage",
		},
		"without storage it goes to a destination": {
			state: saving(nil, func(s *etcd.State) { s.Want.Persistent = false }), step: take,
		},
		"nor before an older version": {
			state: saving(nil, func(s *etcd.State) { s.Want.Version = etcd.Version{Major: 3, Minor: 6, Patch: 15} }),
			step:  etcd.SetVersion{From: v36, To: etcd.Version{Major: 3, Minor: 6, Patch: 15}},
		},
		"is of no use for another version": {
			state: saving(nil, func(s *etcd.State) { s.Record.Snapshot = snapshotFor(next) }), step: take,
		},
		"nor after an hour": {
			state: saving(nil, func(s *etcd.State) {
				s.Record.Snapshot = snapshotFor(v37)
				s.Record.Snapshot.Time = ago(61 * time.Minute)
			}),
			step: take,
		},
		"takes its time": {
			state:  saving(&etcd.Backup{Activity: "the backup is being taken: 5 MiB"}, nil),
			reason: etcd.ReasonSnapshot, says: "3.6.16 -> 3.7.3 waits for Backup orders-before-3-7-3 of about 32Ki: the backup is being taken: 5 MiB",
		},
		"that nobody has looked at says so": {
			state: saving(&etcd.Backup{}, nil), reason: etcd.ReasonSnapshot, says: "it has not begun",
		},
		"that is stored is not proven": {
			state: saving(&etcd.Backup{Complete: true, Activity: "is being checked"}, nil), reason: etcd.ReasonSnapshot, says: "is being checked",
		},
		"that cannot go on needs a human": {
			state:  saving(&etcd.Backup{Stalled: "there is no Secret", Since: ago(time.Hour)}, nil),
			reason: etcd.ReasonSnapshotFailed, stalled: true, says: "there is no Secret. Remove the cause and delete Backup orders-before-3-7-3, or set spec.upgrade.snapshot to Skip",
		},
		"is recorded": {
			state: saving(&etcd.Backup{Complete: true, Verified: ago(time.Second)}, nil),
			step: etcd.RecordSnapshot{Snapshot: etcd.Snapshot{
				Backup: "orders-before-3-7-3", UID: "backup-2", URL: "pvc://orders-snapshot/upgrades", Directory: "orders-2",
				Revision: 9, Size: 20 << 20, From: v36, For: v37, Time: ago(time.Second),
			}},
			says: "Backup orders-before-3-7-3 is verified: revision 9, 20Mi",
		},
		"that nobody recorded for an hour is made again beside it": {
			state: saving(&etcd.Backup{Complete: true, Verified: ago(2 * time.Hour)}, nil), step: second,
		},
		"that failed holds the upgrade": {
			state:  saving(failed(time.Minute), nil),
			reason: etcd.ReasonSnapshotFailed, stalled: true, says: "3.6.16 -> 3.7.3 waits for Backup orders-before-3-7-3, and that fails: no room (it is tried again every five minutes). Remove",
		},
		"that failed is tried again": {
			state: saving(failed(6*time.Minute), nil), step: drop,
		},
		"that did not pass its check is tried again": {
			state: with(failed(6*time.Minute), func(b *etcd.Backup) { b.Complete = true }), step: drop,
		},
		"that did not pass its check elsewhere is not, for its data stays": {
			state:  with(failed(6*time.Minute), func(b *etcd.Backup) { b.Complete, b.Own = true, false }),
			reason: etcd.ReasonSnapshotFailed, stalled: true, says: "delete Backup orders-before-3-7-3",
		},
		"that was never stored elsewhere is": {
			state: with(failed(6*time.Minute), func(b *etcd.Backup) { b.Own = false }), step: drop,
		},
		"that is being deleted is none": {
			state: with(&etcd.Backup{Verified: ago(time.Second)}, func(b *etcd.Backup) { b.Leaving = true }), step: second,
		},
		"of another change is not this one": {
			state: with(&etcd.Backup{}, func(b *etcd.Backup) { b.For = next }), step: drop, says: "another change",
		},
		"from another version is not this one": {
			state: with(&etcd.Backup{}, func(b *etcd.Backup) { b.From = v35 }), step: drop,
		},
		"on its way to another destination is not this one": {
			state: with(&etcd.Backup{}, func(b *etcd.Backup) { b.Elsewhere = true }), step: drop,
		},
		"at another destination does not go": {
			state: with(&etcd.Backup{Verified: ago(time.Second)}, func(b *etcd.Backup) { b.Elsewhere, b.Own = true, false }), step: second,
		},
		"that was recorded serves no second change, and stays": {
			state: saving(&etcd.Backup{Complete: true, Verified: ago(time.Minute)}, func(s *etcd.State) {
				s.Record.Snapshot = snapshotFor(etcd.Version{})
				s.Record.Snapshot.UID = "backup-2"
			}),
			step: second,
		},
		"of a former cluster of the name is none": {
			state: with(&etcd.Backup{Complete: true, Verified: ago(time.Minute)}, func(b *etcd.Backup) { b.Former = true }), step: second,
		},
		"that is being checked again stays": {
			state: with(&etcd.Backup{Complete: true, Checking: true, Failed: "the store did not answer"}, func(b *etcd.Backup) { b.For = next }), step: second,
		},
		"and goes when it does not pass": {
			state: with(&etcd.Backup{Complete: true, Failed: "a part is short"}, func(b *etcd.Backup) { b.For = next }), step: drop,
		},
		"makes room for itself, but for the newest": {
			state: saving(nil, func(s *etcd.State) {
				s.Backups = []etcd.Backup{verified("b", 2*time.Hour), verified("a", 3*time.Hour)}
			}),
			step: etcd.DropBackup{Name: "a", UID: "a"}, says: "older than the newest",
		},
		"does not count what is going": {
			state: saving(nil, func(s *etcd.State) {
				s.Backups = []etcd.Backup{verified("b", 2*time.Hour), verified("a", 3*time.Hour)}
				s.Backups[0].Leaving = true
			}),
			step: take,
		},
		"leaves alone what is kept elsewhere": {
			state: saving(nil, func(s *etcd.State) {
				s.Backups = []etcd.Backup{verified("b", 2*time.Hour), verified("a", 3*time.Hour)}
				s.Backups[0].Own, s.Backups[1].Own = false, false
			}),
			step: take,
		},
		"nor beside one that is not": {
			state: saving(nil, func(s *etcd.State) {
				s.Backups = []etcd.Backup{verified("b", 2*time.Hour), verified("a", 3*time.Hour)}
				s.Backups[1].Own = false
			}),
			step: take,
		},
		"takes no name that is taken": {
			state: saving(nil, func(s *etcd.State) { s.BackupNames = []string{take.Name, second.Name} }), step: third,
		},
	} {
		t.Run(name, tc.check)
	}
}

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
