package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
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
	"github.com/quorate/quorate/internal/cluster/etcd"
)

// stageNow is the time that every operator on a stage has.
var stageNow = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// runJob is the Job controller and the kubelet of a snapshot: it ends at once, in the way that the stage says.
func (s *stage) runJob() {
	s.t.Helper()
	ctx := s.t.Context()
	job := &batchv1.Job{}
	if err := s.api.Get(ctx, types.NamespacedName{Namespace: s.name.Namespace, Name: "orders-snapshot"}, job); err != nil || len(job.Status.Conditions) > 0 {
		return
	}
	how := ""
	if len(s.snapshots) > 0 {
		how, s.snapshots = s.snapshots[0], s.snapshots[1:]
	}
	job.UID = types.UID("job-" + fmt.Sprint(len(s.snapshots)))
	job.CreationTimestamp = metav1.NewTime(stageNow)
	if err := s.api.Update(ctx, job); err != nil {
		s.t.Fatal(err)
	}
	if how != "gone" {
		s.endSnapshotPod(job, how)
	}
	end := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(stageNow)}
	switch how {
	case "":
	case "gone":
		end.LastTransitionTime = metav1.NewTime(stageNow.Add(-time.Minute))
	default:
		end.Type, end.Message = batchv1.JobFailed, "Job has reached the specified backoff limit"
		end.LastTransitionTime = metav1.NewTime(stageNow.Add(-time.Hour)) // It is tried again at once.
		if how == "now" {
			end.LastTransitionTime = metav1.NewTime(stageNow)
		}
	}
	job.Status.Conditions = []batchv1.JobCondition{end}
	if err := s.api.Status().Update(ctx, job); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) endSnapshotPod(job *batchv1.Job, how string) {
	s.t.Helper()
	code, message := int32(0), `{"file":"3.5.35-7.db","revision":7,"size":20,"sha256":"ab","member":"orders-0"}`
	if how != "" {
		code, message = 1, "the volume for snapshots is too small"
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: job.Namespace, Name: "orders-snapshot-" + string(job.UID), Labels: job.Spec.Template.Labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: ptr.To(true)}},
	}}
	if err := s.api.Create(s.t.Context(), pod); err != nil {
		s.t.Fatal(err)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name:  etcd.ContainerSnapshot,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}},
	}}
	if err := s.api.Status().Update(s.t.Context(), pod); err != nil {
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

func TestASnapshotComesBeforeTheFirstPod(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	from := len(s.log)
	s.untilReady()
	log := strings.Join(s.log[from:], "\n")
	job, pod := strings.Index(log, "JobApply"), strings.Index(log, "delete *v1.Pod")
	if job < 0 || pod < 0 || job > pod {
		t.Errorf("the Job is made at %d, the first pod is deleted at %d of\n%s", job, pod, log)
	}
	have := s.cluster().Status.Snapshot
	if have == nil || have.File != "3.5.35-7.db" || have.Version != "3.5.35" || have.Revision != 7 || have.Claim != "orders-snapshot" {
		t.Errorf("%+v", have)
	}
	if claim := s.claim(); claim == nil || metav1.GetControllerOf(claim) != nil {
		t.Errorf("a claim that is retained has no owner: %+v", claim)
	}
}

func TestASnapshotIsTakenUntilThereIsOne(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	s.snapshots = []string{"failed", "gone"}
	from := len(s.log)
	s.untilReady()
	if n := strings.Count(strings.Join(s.log[from:], "\n"), "JobApply"); n != 3 {
		t.Errorf("%d Jobs were made instead of three", n)
	}
}

func TestAnUpgradeIsHeldWhileItsSnapshotFails(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	s.snapshots = []string{"now"}
	for range 5 {
		s.pass()
	}
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c.Status != metav1.ConditionTrue || c.Reason != etcd.ReasonSnapshotFailed || !strings.Contains(c.Message, "the volume for snapshots is too small") {
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

func TestTheClaimOfTheSnapshotsFollowsTheDeletionPolicy(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionDelete)
	s.untilReady()
	if !metav1.IsControlledBy(s.claim(), s.cluster()) {
		t.Error("with Delete it does not go with the cluster")
	}
	for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionRetain, v1alpha1.DeletionDelete} {
		s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Storage.DeletionPolicy = &policy })
		s.pass()
		if got := metav1.IsControlledBy(s.claim(), s.cluster()); got != (policy == v1alpha1.DeletionDelete) {
			t.Errorf("with %s it goes with the cluster: %t", policy, got)
		}
	}
	if err := s.api.Delete(t.Context(), s.claim()); err != nil {
		t.Fatal(err)
	}
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

func TestACancelledUpgradeLooksForNoJob(t *testing.T) {
	s := upgrading(t, v1alpha1.DeletionRetain)
	s.pass()
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Version = "3.5.35" })
	looked := 0
	s.cache = interceptor.NewClient(s.cache, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*batchv1.Job); ok {
				looked++
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	s.untilReady()
	if looked > 0 {
		t.Errorf("it looked for a Job %d times", looked)
	}
}

func TestWhatAPodOfASnapshotSays(t *testing.T) {
	k := NewEtcdKind(newChildren(newWorld(t)))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "orders-snapshot", UID: "j", Annotations: map[string]string{
		v1alpha1.AnnotationVersion: "3.6.16", v1alpha1.AnnotationTargetVersion: "3.7.3",
	}}}
	pod := func(n int, state corev1.ContainerState) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint("p-", n), CreationTimestamp: metav1.NewTime(stageNow.Add(time.Duration(n) * time.Second)),
				OwnerReferences: []metav1.OwnerReference{{UID: "j", Controller: ptr.To(true)}},
			},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: etcd.ContainerSnapshot, State: state}}},
		}
	}
	failed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no room"}}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, tc := range map[string]struct {
		pods    []corev1.Pod
		problem string
	}{
		"nothing yet":                       {nil, ""},
		"runs":                              {[]corev1.Pod{pod(1, runs)}, ""},
		"failed, and rests":                 {[]corev1.Pod{pod(1, failed)}, "no room"},
		"runs again":                        {[]corev1.Pod{pod(2, runs), pod(1, failed)}, ""},
		"cannot be had":                     {[]corev1.Pod{pod(1, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}})}, "ErrImagePull"},
		"says what it is not to be said of": {[]corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Status: pod(1, failed).Status}}, ""},
	} {
		got := k.snapshotJob(job, slices.Clone(tc.pods))
		if got.Problem != tc.problem || got.Failed != "" || !got.Ended.IsZero() || got.From.String() != "3.6.16" || got.For.String() != "3.7.3" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
