package controllers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/plan"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

// stageNow is the time that every operator on a stage has.
var stageNow = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// runBackups is the operator of Backups, with its Jobs: a Backup ends at once, in the way that the stage says.
func (s *stage) runBackups() {
	s.t.Helper()
	ctx := s.t.Context()
	var list v1alpha1.BackupList
	s.must(s.api.List(ctx, &list, client.InNamespace(s.name.Namespace)))
	for i := range list.Items {
		b := &list.Items[i]
		if b.Labels["app.kubernetes.io/part-of"] != s.name.Name || len(b.Status.Conditions) > 0 {
			continue
		}
		how := ""
		if len(s.snapshots) > 0 {
			how, s.snapshots = s.snapshots[0], s.snapshots[1:]
		}
		s.backups++
		b.UID, b.CreationTimestamp = types.UID(fmt.Sprint("backup-", s.backups)), metav1.NewTime(stageNow.Add(time.Duration(s.backups)*time.Second))
		s.must(s.api.Update(ctx, b))
		if how == "vanishes" {
			s.must(s.api.Delete(ctx, b))
			continue
		}
		endBackup(b, how)
		s.must(s.api.Status().Update(ctx, b))
	}
}

func endBackup(b *v1alpha1.Backup, how string) {
	set := func(name string, status bool, reason, message string, since time.Time) {
		c := metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(since)}
		if status {
			c.Status = metav1.ConditionTrue
		}
		b.Status.Conditions = append(b.Status.Conditions, c)
	}
	at := metav1.NewTime(stageNow)
	since := stageNow.Add(-time.Hour) // It is tried again at once.
	switch how {
	case "":
		b.Status.Directory, b.Status.Revision, b.Status.Size, b.Status.CompletionTime = "orders-1", 7, 20, &at
		b.Status.Verification = &v1alpha1.BackupVerification{Time: at}
		set(v1alpha1.ConditionComplete, true, plan.ReasonComplete, "20 B of data", stageNow)
		set(v1alpha1.ConditionVerified, true, plan.ReasonVerified, "1 keys", stageNow)
		set(v1alpha1.ConditionStalled, false, "Settled", "", stageNow)
		return
	case "waits":
		set(v1alpha1.ConditionComplete, false, plan.ReasonFailed, "there is no Secret", since)
		set(v1alpha1.ConditionStalled, true, "InvalidSpec", "there is no Secret", since)
		return
	case "now":
		since = stageNow
	}
	b.Status.CompletionTime = &at
	set(v1alpha1.ConditionComplete, false, "DestinationFull", "the volume is too small", since)
	set(v1alpha1.ConditionStalled, true, "DestinationFull", "no backup was taken", since)
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// upgrading is a stage with a cluster of 3.5 that is to be one of 3.6.
func upgrading(t *testing.T, policy v1alpha1.DeletionPolicy) *stage {
	t.Helper()
	o := persistent()
	o.Spec.Storage.DeletionPolicy = &policy
	o.Spec.Version = "3.5.35"
	s := newStage(t, o)
	s.untilReady()
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.6.16" })
	return s
}

func (s *stage) pass() {
	s.t.Helper()
	if _, err := s.newOperator().Reconcile(s.t.Context(), s.cluster()); err != nil {
		s.t.Fatal(err)
	}
	s.kubelet()
}

func (s *stage) claim() *corev1.PersistentVolumeClaim {
	s.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	err := s.api.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: "orders-snapshot"}, claim)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return claim
}

// backupsMade are the Backups before upgrades, by their names.
func (s *stage) backupsMade() map[string]*v1alpha1.Backup {
	s.t.Helper()
	var list v1alpha1.BackupList
	s.must(s.api.List(s.t.Context(), &list, client.InNamespace("default")))
	out := map[string]*v1alpha1.Backup{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

const createBackup = "create *v1alpha1.Backup"

func TestABackupComesBeforeTheFirstPod(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	from := len(s.log)
	s.untilReady()
	log := strings.Join(s.log[from:], "\n")
	made, pod := strings.Index(log, createBackup), strings.Index(log, "delete *v1.Pod")
	if made < 0 || pod < 0 || made > pod {
		t.Errorf("the Backup is made at %d, the first pod is deleted at %d of\n%s", made, pod, log)
	}
	have := s.cluster().Status.Snapshot
	want := v1alpha1.EtcdSnapshotStatus{
		Backup: "orders-before-3-6-16", URL: "pvc://orders-snapshot/upgrades", Directory: "orders-1", Version: "3.5.35", Revision: 7, Size: 20,
		Time: metav1.NewTime(stageNow),
	}
	if have == nil || !have.Time.Equal(&want.Time) {
		t.Fatalf("%+v", have)
	}
	have.Time = want.Time // In another zone.
	if diff := cmp.Diff(want, *have); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b := s.backupsMade()["orders-before-3-6-16"]
	if claim := s.claim(); claim == nil || metav1.GetControllerOf(claim) != nil || metav1.GetControllerOf(b) != nil {
		t.Errorf("what is retained has no owner: %+v, %+v", claim, b)
	}
	if !b.Verifies() || !b.Deletes() {
		t.Errorf("%+v", b.Spec)
	}
}

func TestABackupGoesToTheDestinationOfTheUser(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionDelete)
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) {
		spec.Upgrade = &v1alpha1.EtcdUpgradeSpec{Destination: &v1alpha1.BackupDestination{URL: "s3://backups/orders"}}
	})
	s.untilReady()
	b := s.backupsMade()["orders-before-3-6-16"]
	if b == nil || b.Spec.Destination.URL != "s3://backups/orders" || b.Deletes() || metav1.GetControllerOf(b) != nil || !b.Verifies() {
		t.Errorf("%+v", b)
	}
	if s.claim() != nil || s.cluster().Status.Snapshot.URL != "s3://backups/orders" {
		t.Errorf("there is claim %v, and %+v", s.claim(), s.cluster().Status.Snapshot)
	}
}

func TestAClusterWithoutStorageHasABackupWhereItIsToldTo(t *testing.T) {
	o := etcdCluster()
	o.Spec.Version = "3.5.35"
	o.Spec.Upgrade = &v1alpha1.EtcdUpgradeSpec{Destination: &v1alpha1.BackupDestination{URL: "s3://backups/orders"}}
	s := newStage(t, o)
	s.untilReady()
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.6.16" })
	for range 4 {
		s.pass()
	}
	if have := s.cluster().Status.Snapshot; have == nil || have.URL != "s3://backups/orders" || len(s.backupsMade()) != 1 {
		t.Errorf("%+v", have)
	}
}

func TestABackupIsMadeUntilThereIsOne(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	s.snapshots = []string{"failed", "vanishes"}
	from := len(s.log)
	s.untilReady()
	if n := strings.Count(strings.Join(s.log[from:], "\n"), createBackup); n != 3 {
		t.Errorf("%d Backups were made instead of three", n)
	}
	if made := s.backupsMade(); len(made) != 1 {
		t.Errorf("%d Backups are left", len(made))
	}
}

func TestABackupOfAnotherChangeMakesWayAndAForeignOneDoesNot(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	foreign := aBackup(func(b *v1alpha1.Backup) { b.Name = "orders-before-3-6-16" })
	s.must(s.api.Create(t.Context(), foreign))
	s.snapshots = []string{"waits"}
	for range 3 {
		s.pass()
	}
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c.Reason != etcd.ReasonSnapshotFailed || !strings.Contains(c.Message, "Backup orders-before-3-6-16-2, and that fails: there is no Secret") {
		t.Errorf("%+v", c)
	}
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.7.3" })
	s.untilReady()
	made := s.backupsMade()
	if made["orders-before-3-6-16-2"] != nil || made["orders-before-3-7-3"] == nil || made["orders-before-3-6-16"] == nil || len(made) != 2 {
		t.Errorf("there are %v", made)
	}
}

func TestTheNewestTwoBackupsAreKept(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	for _, v := range []string{"3.6.16", "3.6.17", "3.7.3"} {
		s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = v })
		s.untilReady()
	}
	made := s.backupsMade()
	if made["orders-before-3-6-17"] == nil || made["orders-before-3-7-3"] == nil || len(made) != 2 {
		t.Errorf("there are %v", made)
	}
}

func TestAnUpgradeIsHeldWhileItsSnapshotFails(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	s.snapshots = []string{"now"}
	for range 5 {
		s.pass()
	}
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c.Status != metav1.ConditionTrue || c.Reason != etcd.ReasonSnapshotFailed || !strings.Contains(c.Message, "the volume is too small") {
		t.Errorf("%+v", c)
	}
	if got := s.cluster().Status.CurrentVersion; got != "3.5.35" {
		t.Errorf("it runs %s", got)
	}
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) {
		spec.Upgrade = &v1alpha1.EtcdUpgradeSpec{Snapshot: ptr.To(v1alpha1.SnapshotSkip)}
	})
	s.untilReady()
	if o := s.cluster(); o.Status.CurrentVersion != "3.6.16" || o.Status.Snapshot != nil {
		t.Errorf("it runs %s, with snapshot %+v", o.Status.CurrentVersion, o.Status.Snapshot)
	}
}

func TestAClaimThatIsNotAllowedHoldsTheUpgrade(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	forbidden := true
	s.cache = interceptor.NewClient(s.cache, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, ac runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if _, ok := ac.(*corev1ac.PersistentVolumeClaimApplyConfiguration); ok && forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, "orders-snapshot", fmt.Errorf("exceeded quota"))
			}
			return c.Apply(ctx, ac, opts...)
		},
	})
	for range 3 {
		s.pass()
	}
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c.Reason != etcd.ReasonSnapshotFailed || !strings.Contains(c.Message, "exceeded quota") || !strings.Contains(c.Message, "spec.upgrade.snapshot") {
		t.Errorf("%+v", c)
	}
	forbidden = false
	s.untilReady()
	if s.cluster().Status.Snapshot == nil {
		t.Error("there is no snapshot")
	}
}

func TestWhatIsOnTheClaimFollowsTheDeletionPolicy(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionDelete)
	s.untilReady()
	elsewhere := s.backupsMade()["orders-before-3-6-16"].DeepCopy()
	elsewhere.Name, elsewhere.ResourceVersion, elsewhere.OwnerReferences = "elsewhere", "", nil
	elsewhere.Spec.Destination.URL = "s3://backups/orders"
	s.must(s.api.Create(t.Context(), elsewhere))
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionDelete, v1alpha1.DeletionRetain, v1alpha1.DeletionDelete} {
		s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Storage.DeletionPolicy = &policy })
		s.pass()
		for name, it := range map[string]client.Object{"the claim": s.claim(), "the Backup": s.backupsMade()["orders-before-3-6-16"]} {
			if got := metav1.IsControlledBy(it, s.cluster()); got != (policy == v1alpha1.DeletionDelete) {
				t.Errorf("with %s %s goes with the cluster: %t", policy, name, got)
			}
		}
		if metav1.GetControllerOf(s.backupsMade()["elsewhere"]) != nil {
			t.Error("a Backup at a destination of the user goes with the cluster")
		}
	}
	s.must(s.api.Delete(t.Context(), s.claim()))
	s.pass()
	if s.claim() != nil {
		t.Error("a claim that was deleted is made again, without its snapshots")
	}
}

func TestAClaimOfSomebodyElseIsLeftAlone(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	foreign := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-snapshot"}}
	if err := s.api.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.pass()
	}
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c.Reason != v1alpha1.ReasonForeignObject {
		t.Errorf("%+v", c)
	}
}

func TestABackupIsMappedToItsCluster(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	s.untilReady()
	for _, b := range s.backupsMade() {
		if got := upgradeOf(t.Context(), b); len(got) != 1 || got[0].Name != "orders" || got[0].Namespace != "default" {
			t.Errorf("%+v", got)
		}
	}
	if got := upgradeOf(t.Context(), aBackup(nil)); len(got) != 0 {
		t.Errorf("one that a user made is mapped to %+v", got)
	}
}

func TestWhatABackupSaysOfItself(t *testing.T) {
	condition := func(name string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(stageNow)}
	}
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	complete, stalled, verified := v1alpha1.ConditionComplete, v1alpha1.ConditionStalled, v1alpha1.ConditionVerified
	at := metav1.NewTime(stageNow)
	checked := &v1alpha1.BackupVerification{Time: at}
	for name, tc := range map[string]struct {
		status v1alpha1.BackupStatus
		want   etcd.Backup
	}{
		"nothing yet": {},
		"is being taken": {
			v1alpha1.BackupStatus{Activity: "5 MiB", Conditions: []metav1.Condition{condition(complete, no, plan.ReasonTaking, ""), condition(stalled, no, "Progressing", "")}},
			etcd.Backup{Activity: "5 MiB"},
		},
		"waits for a human": {
			v1alpha1.BackupStatus{Conditions: []metav1.Condition{condition(complete, no, "InvalidSpec", "no Secret"), condition(stalled, yes, "InvalidSpec", "no Secret")}},
			etcd.Backup{Stalled: "no Secret", Since: stageNow},
		},
		"failed": {
			v1alpha1.BackupStatus{CompletionTime: &at, Conditions: []metav1.Condition{
				condition(complete, no, "DestinationFull", "no room"), condition(stalled, yes, "DestinationFull", "no backup was taken: no room"),
			}},
			etcd.Backup{Stalled: "no backup was taken: no room", Failed: "no room", Since: stageNow},
		},
		"is being checked": {
			v1alpha1.BackupStatus{CompletionTime: &at, Conditions: []metav1.Condition{
				condition(complete, yes, plan.ReasonComplete, ""), condition(verified, no, plan.ReasonVerifying, ""), condition(stalled, no, "Progressing", ""),
			}},
			etcd.Backup{Complete: true},
		},
		"did not pass its check": {
			v1alpha1.BackupStatus{CompletionTime: &at, Conditions: []metav1.Condition{
				condition(complete, yes, plan.ReasonComplete, ""), condition(verified, no, "BackupDamaged", "torn"),
				condition(stalled, yes, plan.ReasonVerifyFailed, "it did not pass: torn"),
			}},
			etcd.Backup{Complete: true, Stalled: "it did not pass: torn", Failed: "it did not pass: torn", Since: stageNow},
		},
		"is verified": {
			v1alpha1.BackupStatus{CompletionTime: &at, Verification: checked, Conditions: []metav1.Condition{
				condition(complete, yes, plan.ReasonComplete, ""), condition(verified, yes, plan.ReasonVerified, ""), condition(stalled, no, "Settled", ""),
			}},
			etcd.Backup{Complete: true, Verified: stageNow},
		},
		"was verified once": {
			v1alpha1.BackupStatus{CompletionTime: &at, Verification: checked, Conditions: []metav1.Condition{
				condition(complete, yes, plan.ReasonComplete, ""), condition(verified, no, "BackupDamaged", "torn"),
				condition(stalled, yes, plan.ReasonVerifyFailed, "torn"),
			}},
			etcd.Backup{Complete: true, Stalled: "torn", Failed: "torn", Since: stageNow},
		},
	} {
		if diff := cmp.Diff(tc.want, backupState(&v1alpha1.Backup{Status: tc.status})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestACancelledUpgradeLooksForNoBackup(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	s.pass()
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.5.35" })
	looked := 0
	s.cache = interceptor.NewClient(s.cache, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*v1alpha1.BackupList); ok {
				looked++
			}
			return c.List(ctx, list, opts...)
		},
	})
	s.untilReady()
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
			for len(s.backupsMade()) == 0 {
				s.pass()
			}
			b := s.backupsMade()["orders-before-3-6-16"]
			change(b)
			s.must(s.api.Update(t.Context(), b))
			s.untilReady()
			if counts, made := s.cluster().Status.Snapshot.Backup == b.Name, s.backupsMade(); counts != (name == "of this cluster") {
				t.Errorf("it counts: %t, of %d", counts, len(made))
			}
		})
	}
}

func TestABackupThatIsBeingCheckedAgainSaysSo(t *testing.T) {
	conditions := func(reason string, more ...metav1.Condition) *v1alpha1.Backup {
		return aBackup(func(b *v1alpha1.Backup) {
			b.Status.Conditions = append([]metav1.Condition{
				{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: reason},
				{Type: v1alpha1.ConditionVerified, Status: metav1.ConditionFalse, Reason: "DestinationStalled"},
			}, more...)
		})
	}
	complete := metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue}
	if !backupState(conditions(plan.ReasonVerifying, complete)).Checking {
		t.Error("it is being checked")
	}
	for _, b := range []*v1alpha1.Backup{conditions(plan.ReasonTaking), conditions(plan.ReasonStopping, complete)} {
		if backupState(b).Checking {
			t.Errorf("%+v is not being checked", b.Status.Conditions)
		}
	}
}
