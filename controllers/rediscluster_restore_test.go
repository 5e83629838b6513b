package controllers

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/plan"
	"github.com/quorate/quorate/internal/cluster"
)

// beginsWithFirst is a cluster that begins with a Backup.
func beginsWithFirst() *v1alpha1.RedisCluster {
	o := redisCluster()
	o.Spec.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &v1alpha1.RestoreSource{Backup: ptr.To("first")}}
	return o
}

// until makes passes until a Job is there, and returns it.
func (s *redisStage) until(job string) *batchv1.Job {
	s.t.Helper()
	j := &batchv1.Job{}
	for range 300 {
		s.pass()
		if s.api.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: job}, j) == nil {
			return j
		}
	}
	s.t.Fatalf("Job %s was never made: %s", job, s.cluster().Status.Activity)
	return nil
}

// ends is the end of a Job.
func (s *redisStage) ends(job *batchv1.Job, r plan.Report) {
	s.t.Helper()
	job.UID = types.UID("of-" + job.Name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: job.Namespace, Name: job.Name + "-pod", Labels: job.Spec.Template.Labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: ptr.To(true)}},
	}}
	for _, write := range []func() error{
		func() error { return s.api.Update(s.t.Context(), job) },
		func() error {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			return s.api.Status().Update(s.t.Context(), job)
		},
		func() error { return s.api.Create(s.t.Context(), pod) },
		func() error {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: plan.Container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: r.Encode()}},
			}}
			return s.api.Status().Update(s.t.Context(), pod)
		},
	} {
		if err := write(); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *redisStage) exists(o client.Object, name string) bool {
	s.t.Helper()
	err := s.api.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

// No server is started before it is known what it begins with, and no client is let in before that is loaded: also when the specification
// says nothing of it any more.
func TestARedisClusterBeginsWithABackup(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, beginsWithFirst(), stored(nil))
	find := s.until(cluster.RestoreJob("carts"))
	for range 5 {
		s.pass()
	}
	if s.exists(&appsv1.StatefulSet{}, "carts-0") {
		t.Error("a server is started, and nobody knows with what")
	}
	args := strings.Join(find.Spec.Template.Spec.Containers[0].Args, " ")
	if !strings.Contains(args, "--kind=RedisCluster --engine=redis --version=8.0.2") {
		t.Errorf("the backup is looked up by %s", args)
	}
	s.ends(find, plan.Report{Backup: &plan.Stored{Directory: "carts-1", Kind: "RedisCluster", Engine: "redis", Version: "8.0.2", Keys: 5, Shards: 5}})
	load := s.until(cluster.LoadJob("carts"))
	if args := strings.Join(load.Spec.Template.Spec.Containers[0].Args, " "); !strings.Contains(args, "--directory=carts-1") || !strings.Contains(args, "--server=2/carts-2-1.carts-peers.default.svc.cluster.local:6379") {
		t.Errorf("it is loaded by %s", args)
	}
	o := s.cluster()
	o.Spec.Bootstrap = nil
	if err := s.api.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		s.pass()
	}
	status := s.cluster().Status
	if s.exists(&corev1.Secret{}, cluster.ConnectionSecret("carts")) || meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionAvailable) {
		t.Errorf("clients are let in before the data is there: %s", status.Activity)
	}
	s.ends(load, plan.Report{Restored: &plan.Restored{Keys: 5}})
	s.settle()
	if !s.exists(&corev1.Secret{}, cluster.ConnectionSecret("carts")) {
		t.Error("clients are not let in")
	}
}

func TestARedisClusterThatRunsIsNotRestored(t *testing.T) {
	s := newRedisStage(t, redisCluster(), stored(nil))
	s.settle()
	o := s.cluster()
	o.Spec.Bootstrap = beginsWithFirst().Spec.Bootstrap
	if err := s.api.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s.pass()
	}
	if s.exists(&batchv1.Job{}, cluster.RestoreJob("carts")) || !meta.IsStatusConditionTrue(s.cluster().Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("it is %s", s.cluster().Status.Activity)
	}
}

// A Secret that is not there keeps a pod waiting without a word.
func TestADestinationThatCannotBeReachedIsRefusedByName(t *testing.T) {
	for name, d := range map[string]v1alpha1.BackupDestination{
		"spec.destination.credentials.name": {URL: "s3://bucket", Credentials: &v1alpha1.SecretReference{Name: "lost"}},
		"spec.destination.encryption.name":  {URL: "s3://bucket", Encryption: &v1alpha1.SecretReference{Name: "lost"}},
		"spec.destination.url":              {URL: "pvc://lost/here"},
	} {
		k := newChildren(newWorld(t))
		err := k.checkDestination(t.Context(), aBackup(nil), "spec.destination", d)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), `"lost"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
