package controllersim

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/restore"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
)

// Until makes passes until a Job is there, and returns it.
func (s *Redis) Until(job string) *batchv1.Job {
	s.T.Helper()
	j := &batchv1.Job{}
	for range 300 {
		s.Pass()
		if s.API.Get(s.T.Context(), types.NamespacedName{Namespace: "default", Name: job}, j) == nil {
			return j
		}
	}
	s.T.Fatalf("Job %s was never made: %s", job, s.Cluster().Status.Activity)
	return nil
}

// Ends is the end of a Job.
func (s *Redis) Ends(j *batchv1.Job, r job.Report) {
	s.T.Helper()
	j.UID = types.UID("of-" + j.Name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: j.Namespace, Name: j.Name + "-pod", Labels: j.Spec.Template.Labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID, Controller: ptr.To(true)}},
	}}
	for _, write := range []func() error{
		func() error { return s.API.Update(s.T.Context(), j) },
		func() error {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			return s.API.Status().Update(s.T.Context(), j)
		},
		func() error { return s.API.Create(s.T.Context(), pod) },
		func() error {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: job.Container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: r.Encode()}},
			}}
			return s.API.Status().Update(s.T.Context(), pod)
		},
	} {
		if err := write(); err != nil {
			s.T.Fatal(err)
		}
	}
}

// Exists reads an object, and reports whether it is there.
func (s *Redis) Exists(o client.Object, name string) bool {
	s.T.Helper()
	err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: "default", Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		s.T.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

// Confirm creates a Restore of the Backup first that was confirmed.
func (s *Redis) Confirm(name string, slots v1alpha1.RestoreSlots) *v1alpha1.Restore {
	s.T.Helper()
	return s.Confirmed(name, slots, nil)
}

// Confirmed creates a Restore and confirms its plan.
func (s *Redis) Confirmed(name string, slots v1alpha1.RestoreSlots, change func(*v1alpha1.Restore)) *v1alpha1.Restore {
	s.T.Helper()
	r := &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{v1alpha1.AnnotationConfirm: "abc"},
		},
		Spec: v1alpha1.RestoreSpec{
			Cluster: v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"}, From: v1alpha1.RestoreSource{Backup: ptr.To("first")}, Slots: &slots,
			SaveCurrent: ptr.To(false),
		},
		Status: v1alpha1.RestoreStatus{
			Plan: "abc", Found: &v1alpha1.RestoreFound{Directory: "carts-1", Engine: "redis 8.0.2"},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionConfirmed, Status: metav1.ConditionTrue, Reason: planner.ReasonConfirmed}},
		},
	}
	if change != nil {
		change(r)
	}
	r.Status.Scope = s.Target(r).Scope
	if err := s.API.Create(s.T.Context(), r); err != nil {
		s.T.Fatal(err)
	}
	return r
}

// Target is what the cluster says of a Restore.
func (s *Redis) Target(r *v1alpha1.Restore) *planner.Target {
	s.T.Helper()
	kind, ok := s.Loop.Kind.(restore.Target)
	if !ok {
		s.T.Fatalf("the loop is of a %T", s.Loop.Kind)
	}
	target, _, err := kind.Target(s.T.Context(), r, &planner.Found{Stored: job.Stored{Directory: "carts-1"}})
	if err != nil {
		s.T.Fatal(err)
	}
	return target
}

// Saves lets a Backup of what there is be complete since a time.
func (s *Redis) Saves(name string, since time.Time) {
	s.T.Helper()
	b := &v1alpha1.Backup{}
	for range 20 {
		s.Pass()
		if s.Exists(b, name) {
			break
		}
	}
	b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: "BackupComplete", LastTransitionTime: metav1.NewTime(since)}}
	if err := s.API.Status().Update(s.T.Context(), b); err != nil {
		s.T.Fatalf("Backup %s: %v (%s)", name, err, s.Cluster().Status.Activity)
	}
}
