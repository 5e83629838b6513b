package etcdcluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	etcdplanner "github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
)

// upgrading is a stage with a cluster of 3.5 that is to be one of 3.6.
func upgrading(t *testing.T, policy v1alpha1.DeletionPolicy) *controllersim.Etcd {
	t.Helper()
	o := controllersim.Persistent()
	o.Spec.Storage.DeletionPolicy = &policy
	o.Spec.Version = "3.5.35"
	s := newStage(t, o)
	s.UntilReady()
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.6.16" })
	return s
}

const createBackup = "create *v1alpha1.Backup"

func TestABackupComesBeforeTheFirstPod(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	from := len(s.Log)
	s.UntilReady()
	log := strings.Join(s.Log[from:], "\n")
	made, pod := strings.Index(log, createBackup), strings.Index(log, "delete *v1.Pod")
	if made < 0 || pod < 0 || made > pod {
		t.Errorf("the Backup is made at %d, the first pod is deleted at %d of\n%s", made, pod, log)
	}
	have := s.Cluster().Status.Snapshot
	want := v1alpha1.EtcdSnapshotStatus{
		Backup: "orders-before-3-6-16", URL: "pvc://orders-snapshot/upgrades", Directory: "orders-1", Version: "3.5.35", Revision: 7, Size: 20,
		Time: metav1.NewTime(fakeapi.Now),
	}
	if have == nil || !have.Time.Equal(&want.Time) {
		t.Fatalf("%+v", have)
	}
	have.Time = want.Time // In another zone.
	if diff := cmp.Diff(want, *have); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b := s.BackupsMade()["orders-before-3-6-16"]
	if claim := s.Claim(); claim == nil || metav1.GetControllerOf(claim) != nil || metav1.GetControllerOf(b) != nil {
		t.Errorf("what is retained has no owner: %+v, %+v", claim, b)
	}
	if !b.Verifies() || !b.Deletes() {
		t.Errorf("%+v", b.Spec)
	}
}

func TestABackupGoesToTheDestinationOfTheUser(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionDelete)
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) {
		spec.Upgrade = &v1alpha1.EtcdUpgradeSpec{Destination: &v1alpha1.BackupDestination{URL: "s3://backups/orders"}}
	})
	s.UntilReady()
	b := s.BackupsMade()["orders-before-3-6-16"]
	if b == nil || b.Spec.Destination.URL != "s3://backups/orders" || b.Deletes() || metav1.GetControllerOf(b) != nil || !b.Verifies() {
		t.Errorf("%+v", b)
	}
	if s.Claim() != nil || s.Cluster().Status.Snapshot.URL != "s3://backups/orders" {
		t.Errorf("there is claim %v, and %+v", s.Claim(), s.Cluster().Status.Snapshot)
	}
}

func TestAClusterWithoutStorageHasABackupWhereItIsToldTo(t *testing.T) {
	o := fakeapi.EtcdCluster()
	o.Spec.Version = "3.5.35"
	o.Spec.Upgrade = &v1alpha1.EtcdUpgradeSpec{Destination: &v1alpha1.BackupDestination{URL: "s3://backups/orders"}}
	s := newStage(t, o)
	s.UntilReady()
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.6.16" })
	for range 4 {
		s.Pass()
	}
	if have := s.Cluster().Status.Snapshot; have == nil || have.URL != "s3://backups/orders" || len(s.BackupsMade()) != 1 {
		t.Errorf("%+v", have)
	}
}

func TestABackupIsMadeUntilThereIsOne(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	s.Snapshots = []string{"failed", "vanishes"}
	from := len(s.Log)
	s.UntilReady()
	if n := strings.Count(strings.Join(s.Log[from:], "\n"), createBackup); n != 3 {
		t.Errorf("%d Backups were made instead of three", n)
	}
	if made := s.BackupsMade(); len(made) != 1 {
		t.Errorf("%d Backups are left", len(made))
	}
}

func TestABackupOfAnotherChangeMakesWayAndAForeignOneDoesNot(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	foreign := fakeapi.Backup(func(b *v1alpha1.Backup) { b.Name = "orders-before-3-6-16" })
	s.Must(s.API.Create(t.Context(), foreign))
	s.Snapshots = []string{"waits"}
	for range 3 {
		s.Pass()
	}
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c.Reason != etcdplanner.ReasonSnapshotFailed || !strings.Contains(c.Message, "Backup orders-before-3-6-16-2, and that fails: there is no Secret") {
		t.Errorf("%+v", c)
	}
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.7.3" })
	s.UntilReady()
	made := s.BackupsMade()
	if made["orders-before-3-6-16-2"] != nil || made["orders-before-3-7-3"] == nil || made["orders-before-3-6-16"] == nil || len(made) != 2 {
		t.Errorf("there are %v", made)
	}
}

func TestTheNewestTwoBackupsAreKept(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	for _, v := range []string{"3.6.16", "3.6.17", "3.7.3"} {
		s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = v })
		s.UntilReady()
	}
	made := s.BackupsMade()
	if made["orders-before-3-6-17"] == nil || made["orders-before-3-7-3"] == nil || len(made) != 2 {
		t.Errorf("there are %v", made)
	}
}

func TestAnUpgradeIsHeldWhileItsSnapshotFails(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	s.Snapshots = []string{"now"}
	for range 5 {
		s.Pass()
	}
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c.Status != metav1.ConditionTrue || c.Reason != etcdplanner.ReasonSnapshotFailed || !strings.Contains(c.Message, "the volume is too small") {
		t.Errorf("%+v", c)
	}
	if got := s.Cluster().Status.CurrentVersion; got != "3.5.35" {
		t.Errorf("it runs %s", got)
	}
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) {
		spec.Upgrade = &v1alpha1.EtcdUpgradeSpec{Snapshot: ptr.To(v1alpha1.SnapshotSkip)}
	})
	s.UntilReady()
	if o := s.Cluster(); o.Status.CurrentVersion != "3.6.16" || o.Status.Snapshot != nil {
		t.Errorf("it runs %s, with snapshot %+v", o.Status.CurrentVersion, o.Status.Snapshot)
	}
}

func TestAClaimThatIsNotAllowedHoldsTheUpgrade(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	forbidden := true
	s.Cache = interceptor.NewClient(s.Cache, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, ac runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if _, ok := ac.(*corev1ac.PersistentVolumeClaimApplyConfiguration); ok && forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, "orders-snapshot", fmt.Errorf("exceeded quota"))
			}
			return c.Apply(ctx, ac, opts...)
		},
	})
	for range 3 {
		s.Pass()
	}
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c.Reason != etcdplanner.ReasonSnapshotFailed || !strings.Contains(c.Message, "exceeded quota") || !strings.Contains(c.Message, "spec.upgrade.snapshot") {
		t.Errorf("%+v", c)
	}
	forbidden = false
	s.UntilReady()
	if s.Cluster().Status.Snapshot == nil {
		t.Error("there is no snapshot")
	}
}

func TestWhatIsOnTheClaimFollowsTheDeletionPolicy(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionDelete)
	s.UntilReady()
	elsewhere := s.BackupsMade()["orders-before-3-6-16"].DeepCopy()
	elsewhere.Name, elsewhere.ResourceVersion, elsewhere.OwnerReferences = "elsewhere", "", nil
	elsewhere.Spec.Destination.URL = "s3://backups/orders"
	s.Must(s.API.Create(t.Context(), elsewhere))
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionDelete, v1alpha1.DeletionRetain, v1alpha1.DeletionDelete} {
		s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Storage.DeletionPolicy = &policy })
		s.Pass()
		for name, it := range map[string]client.Object{"the claim": s.Claim(), "the Backup": s.BackupsMade()["orders-before-3-6-16"]} {
			if got := metav1.IsControlledBy(it, s.Cluster()); got != (policy == v1alpha1.DeletionDelete) {
				t.Errorf("with %s %s goes with the cluster: %t", policy, name, got)
			}
		}
		if metav1.GetControllerOf(s.BackupsMade()["elsewhere"]) != nil {
			t.Error("a Backup at a destination of the user goes with the cluster")
		}
	}
	s.Must(s.API.Delete(t.Context(), s.Claim()))
	s.Pass()
	if s.Claim() != nil {
		t.Error("a claim that was deleted is made again, without its snapshots")
	}
}

func TestAClaimOfSomebodyElseIsLeftAlone(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	foreign := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-snapshot"}}
	if err := s.API.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.Pass()
	}
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c.Reason != v1alpha1.ReasonForeignObject {
		t.Errorf("%+v", c)
	}
}

func TestABackupIsMappedToItsCluster(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	s.UntilReady()
	for _, b := range s.BackupsMade() {
		if got := UpgradeOf(t.Context(), b); len(got) != 1 || got[0].Name != "orders" || got[0].Namespace != "default" {
			t.Errorf("%+v", got)
		}
	}
	if got := UpgradeOf(t.Context(), fakeapi.Backup(nil)); len(got) != 0 {
		t.Errorf("one that a user made is mapped to %+v", got)
	}
}

func TestWhatABackupSaysOfItself(t *testing.T) {
	condition := func(name string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(fakeapi.Now)}
	}
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	complete, stalled, verified := v1alpha1.ConditionComplete, v1alpha1.ConditionStalled, v1alpha1.ConditionVerified
	at := metav1.NewTime(fakeapi.Now)
	checked := &v1alpha1.BackupVerification{Time: at}
	for name, tc := range map[string]struct {
		status v1alpha1.BackupStatus
		want   model.Backup
	}{
		"nothing yet": {},
		"is being taken": {
			v1alpha1.BackupStatus{Activity: "5 MiB", Conditions: []metav1.Condition{condition(complete, no, planner.ReasonTaking, ""), condition(stalled, no, "Progressing", "")}},
			model.Backup{Activity: "5 MiB"},
		},
		"waits for a human": {
			v1alpha1.BackupStatus{Conditions: []metav1.Condition{condition(complete, no, "InvalidSpec", "no Secret"), condition(stalled, yes, "InvalidSpec", "no Secret")}},
			model.Backup{Stalled: "no Secret", Since: fakeapi.Now},
		},
		"failed": {
			v1alpha1.BackupStatus{CompletionTime: &at, Conditions: []metav1.Condition{
				condition(complete, no, "DestinationFull", "no room"), condition(stalled, yes, "DestinationFull", "no backup was taken: no room"),
			}},
			model.Backup{Stalled: "no backup was taken: no room", Failed: "no room", Since: fakeapi.Now},
		},
		"is being checked": {
			v1alpha1.BackupStatus{CompletionTime: &at, Conditions: []metav1.Condition{
				condition(complete, yes, planner.ReasonComplete, ""), condition(verified, no, planner.ReasonVerifying, ""), condition(stalled, no, "Progressing", ""),
			}},
			model.Backup{Complete: true},
		},
		"did not pass its check": {
			v1alpha1.BackupStatus{CompletionTime: &at, Conditions: []metav1.Condition{
				condition(complete, yes, planner.ReasonComplete, ""), condition(verified, no, "BackupDamaged", "torn"),
				condition(stalled, yes, planner.ReasonVerifyFailed, "it did not pass: torn"),
			}},
			model.Backup{Complete: true, Stalled: "it did not pass: torn", Failed: "it did not pass: torn", Since: fakeapi.Now},
		},
		"is verified": {
			v1alpha1.BackupStatus{CompletionTime: &at, Verification: checked, Conditions: []metav1.Condition{
				condition(complete, yes, planner.ReasonComplete, ""), condition(verified, yes, planner.ReasonVerified, ""), condition(stalled, no, "Settled", ""),
			}},
			model.Backup{Complete: true, Verified: fakeapi.Now},
		},
		"was verified once": {
			v1alpha1.BackupStatus{CompletionTime: &at, Verification: checked, Conditions: []metav1.Condition{
				condition(complete, yes, planner.ReasonComplete, ""), condition(verified, no, "BackupDamaged", "torn"),
				condition(stalled, yes, planner.ReasonVerifyFailed, "torn"),
			}},
			model.Backup{Complete: true, Stalled: "torn", Failed: "torn", Since: fakeapi.Now},
		},
	} {
		if diff := cmp.Diff(tc.want, backupState(&v1alpha1.Backup{Status: tc.status})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestACancelledUpgradeLooksForNoBackup(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	s.Pass()
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.5.35" })
	looked := 0
	s.Cache = interceptor.NewClient(s.Cache, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*v1alpha1.BackupList); ok {
				looked++
			}
			return c.List(ctx, list, opts...)
		},
	})
	s.UntilReady()
	if looked > 0 {
		t.Errorf("it looked for Backups %d times", looked)
	}
}

// A former cluster of the name, and one that was restored since, had other data.
func TestABackupOfAnotherHistoryDoesNotCount(t *testing.T) {
	for name, change := range map[string]func(b *v1alpha1.Backup){
		"of this cluster":           func(*v1alpha1.Backup) {},
		"of a former one":           func(b *v1alpha1.Backup) { b.Annotations[v1alpha1.AnnotationHistoryOf] = "u-0 c1" },
		"of nobody knows which":     func(b *v1alpha1.Backup) { delete(b.Annotations, v1alpha1.AnnotationHistoryOf) },
		"of before it was restored": func(b *v1alpha1.Backup) { b.Annotations[v1alpha1.AnnotationHistoryOf] += "-abc123" },
	} {
		t.Run(name, func(t *testing.T) {
			s := upgrading(t, v1alpha1.DeletionRetain)
			for len(s.BackupsMade()) == 0 {
				s.Pass()
			}
			b := s.BackupsMade()["orders-before-3-6-16"]
			change(b)
			s.Must(s.API.Update(t.Context(), b))
			s.UntilReady()
			if counts, made := s.Cluster().Status.Snapshot.Backup == b.Name, s.BackupsMade(); counts != (name == "of this cluster") {
				t.Errorf("it counts: %t, of %d", counts, len(made))
			}
		})
	}
}

func TestABackupThatIsBeingCheckedAgainSaysSo(t *testing.T) {
	conditions := func(reason string, more ...metav1.Condition) *v1alpha1.Backup {
		return fakeapi.Backup(func(b *v1alpha1.Backup) {
			b.Status.Conditions = append([]metav1.Condition{
				{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: reason},
				{Type: v1alpha1.ConditionVerified, Status: metav1.ConditionFalse, Reason: "DestinationStalled"},
			}, more...)
		})
	}
	complete := metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue}
	if !backupState(conditions(planner.ReasonVerifying, complete)).Checking {
		t.Error("it is being checked")
	}
	for _, b := range []*v1alpha1.Backup{conditions(planner.ReasonTaking), conditions(planner.ReasonStopping, complete)} {
		if backupState(b).Checking {
			t.Errorf("%+v is not being checked", b.Status.Conditions)
		}
	}
}
