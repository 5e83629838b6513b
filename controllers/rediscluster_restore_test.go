package controllers

import (
	"strings"
	"testing"
	"time"

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
	"github.com/quorate/quorate/internal/cluster/redis"
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
		"spec.destination.credentials.name":   {URL: "s3://bucket", Credentials: &v1alpha1.SecretReference{Name: "lost"}},
		"spec.destination.encryption.name":    {URL: "s3://bucket", Encryption: &v1alpha1.SecretReference{Name: "lost"}},
		"spec.destination.url":                {URL: "pvc://lost/here"},
		"spec.destination.serviceAccountName": {URL: "s3://bucket", ServiceAccountName: ptr.To("lost")},
	} {
		k := newChildren(newWorld(t))
		err := k.checkDestination(t.Context(), aBackup(nil), "spec.destination", d)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), `"lost"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPodsRunAsAServiceAccountOnlyWhereItsOwnerAgreed(t *testing.T) {
	for name, tc := range map[string]struct {
		labels  map[string]string
		refused bool
	}{
		"no label":      {nil, true},
		"another value": {map[string]string{v1alpha1.LabelBackupAccount: "false"}, true},
		"agreed":        {map[string]string{v1alpha1.LabelBackupAccount: "true"}, false},
	} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "admin", Labels: tc.labels}}
		k := newChildren(newWorld(t, account))
		w := plan.Work{
			Name: "first-take", Labels: plan.Labels("first", "orders"), Limit: time.Minute,
			Destination: v1alpha1.BackupDestination{URL: "s3://bucket", ServiceAccountName: ptr.To("admin")},
		}
		for _, field := range []string{"spec.destination", ""} { // Empty while the Backup is deleted.
			err := k.startJob(t.Context(), aBackup(nil), w, field)
			if refused := err != nil && strings.Contains(err.Error(), "kubectl label serviceaccount --namespace default admin quorate.dev/backup-account=true"); refused != tc.refused {
				t.Errorf("%s, field %q: %v", name, field, err)
			}
		}
	}
}

// confirm creates a Restore of the Backup first that was confirmed.
func (s *redisStage) confirm(name string, slots v1alpha1.RestoreSlots) *v1alpha1.Restore {
	s.t.Helper()
	return s.confirmed(name, slots, nil)
}

func (s *redisStage) confirmed(name string, slots v1alpha1.RestoreSlots, change func(*v1alpha1.Restore)) *v1alpha1.Restore {
	s.t.Helper()
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
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionConfirmed, Status: metav1.ConditionTrue, Reason: plan.ReasonConfirmed}},
		},
	}
	if change != nil {
		change(r)
	}
	r.Status.Scope = s.target(r).Scope
	if err := s.api.Create(s.t.Context(), r); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// target is what the cluster says of a Restore.
func (s *redisStage) target(r *v1alpha1.Restore) *plan.Target {
	s.t.Helper()
	kind, ok := s.loop.Kind.(RestoreTarget)
	if !ok {
		s.t.Fatalf("the loop is of a %T", s.loop.Kind)
	}
	target, _, err := kind.Target(s.t.Context(), r, &plan.Found{Stored: plan.Stored{Directory: "carts-1"}})
	if err != nil {
		s.t.Fatal(err)
	}
	return target
}

func argsOf(job *batchv1.Job) string {
	return strings.Join(job.Spec.Template.Spec.Containers[0].Args, " ")
}

// What was begun is carried out, whatever becomes of who asked for it, and once.
func TestARedisClusterThatRunsIsReplacedByABackup(t *testing.T) {
	s := newRedisStage(t, redisCluster(), stored(nil))
	s.settle()
	r := s.confirm("back", v1alpha1.RestoreAll)
	if target := s.target(r); target.Begun || target.Missing != "" || !strings.Contains(target.Replaces, "All keys and functions are deleted") {
		t.Errorf("before: %+v", target)
	}
	load := s.until(cluster.LoadJob("carts"))
	if args := argsOf(load); !strings.Contains(args, "--directory=carts-1") || !strings.Contains(args, "--replace") || strings.Contains(args, "--into") {
		t.Errorf("it is loaded by %s", args)
	}
	if err := s.api.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s.pass()
	}
	target := s.target(r)
	kind := s.loop.Kind.(*RedisKind) //nolint:forcetypeassert // target has checked it.
	source, _, err := kind.Source(t.Context(), "default", "carts")
	if err != nil || source.Missing == "" || !target.Begun || target.Restored != nil {
		t.Errorf("while it goes on: %v, %+v, %+v", err, source, target)
	}
	available := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionAvailable)
	if available.Reason != plan.ReasonRestoring || !s.exists(&corev1.Secret{}, cluster.ConnectionSecret("carts")) {
		t.Errorf("while it goes on: %+v", available)
	}
	s.ends(load, plan.Report{Restored: &plan.Restored{Keys: 5}})
	s.settle()
	if target := s.target(r); target.Restored == nil || target.Restored.Keys != 5 {
		t.Errorf("afterwards: %+v", target)
	}
}

// Who has not heard that a restore is complete does not begin it again, nor does another one take its place.
func TestARestoreIsCarriedOutOnceAndTheNextOneAfterIt(t *testing.T) {
	s := newRedisStage(t, redisCluster(), stored(nil))
	s.settle()
	first := s.confirm("one", v1alpha1.RestoreAll)
	load := s.until(cluster.LoadJob("carts"))
	s.ends(load, plan.Report{Restored: &plan.Restored{Keys: 5}})
	s.settle()
	if s.exists(&batchv1.Job{}, load.Name) {
		t.Error("the Job of a load that was noted is still there")
	}
	second := s.confirm("other", v1alpha1.RestoreAll)
	for range 10 {
		s.pass()
	}
	if s.exists(&batchv1.Job{}, cluster.LoadJob("carts")) {
		t.Error("a Job is made although nobody has said that the first one is complete")
	}
	first.Status.Conditions = append(first.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: plan.ReasonRestored})
	if err := s.api.Status().Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if load := s.until(cluster.LoadJob("carts")); load.Annotations[plan.AnnotationFor] != string(second.UID) {
		t.Errorf("it is for %v", load.Annotations)
	}
}

func TestALostShardOfRedisComesBack(t *testing.T) {
	s := newRedisStage(t, redisCluster(), stored(nil))
	s.settle()
	lost := &v1alpha1.Restore{Spec: v1alpha1.RestoreSpec{Slots: ptr.To(v1alpha1.RestoreLost), Cluster: v1alpha1.ClusterReference{Name: "carts"}}}
	lost.Namespace = "default"
	if target := s.target(lost); !strings.Contains(target.Missing, "no slots of it are lost") {
		t.Errorf("while nothing is lost: %+v", target)
	}
	s.lose("carts-1-0", "carts-1-1")
	for range 200 {
		s.pass()
		if c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Reason == redis.ReasonShardLost {
			break
		}
	}
	for range 60 { // Gossip takes its time, also that about the dead.
		s.pass()
	}
	if target := s.target(lost); !strings.Contains(target.Replaces, "Slots 5462-10922 are lost, and are loaded before they are served") {
		t.Errorf("when it is lost: %+v, %s", target, s.cluster().Status.Activity)
	}
	all := lost.DeepCopy()
	all.Spec.Slots = nil
	if target := s.target(all); !strings.Contains(target.Missing, "spec.slots: Lost") {
		t.Errorf("everything, when a shard is lost: %+v", target)
	}
	r := s.confirm("back", v1alpha1.RestoreLost)
	load := s.until(cluster.LoadJob("carts"))
	if args := argsOf(load); !strings.Contains(args, "--into=carts-1-0=5462-10922") || strings.Contains(args, "--replace") {
		t.Errorf("it is loaded by %s", args)
	}
	for range 10 {
		s.pass()
	}
	heir := s.servers["carts-1-0"]
	if owned := heir.Slots(); len(owned) > 0 {
		t.Errorf("it owns %s before it is loaded", owned)
	}
	process, err := heir.Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.ends(load, plan.Report{Restored: &plan.Restored{Keys: 5, Into: redis.LoadedInto("carts-1-0", process, redis.Share(1, 3))}})
	s.settle()
	if owned := heir.Slots(); owned.String() != "5462-10922" {
		t.Errorf("it owns %s", owned)
	}
	if target := s.target(r); target.Restored == nil || target.Restored.Keys != 5 || target.Restored.Into != "" {
		t.Errorf("afterwards: %+v", target)
	}
}

func TestAClusterThatIsNotReadyForARestoreSaysWhy(t *testing.T) {
	s := newRedisStage(t, redisCluster(), stored(nil))
	r := &v1alpha1.Restore{Spec: v1alpha1.RestoreSpec{Cluster: v1alpha1.ClusterReference{Name: "carts"}}}
	r.Namespace = "default"
	if target := s.target(r); !strings.Contains(target.Missing, "spec.bootstrap.restore") {
		t.Errorf("before it runs: %+v", target)
	}
	s.settle()
	o := s.cluster()
	o.Spec.Paused = ptr.To(true)
	if err := s.api.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if target := s.target(r); !strings.Contains(target.Missing, "spec.paused") {
		t.Errorf("while it is paused: %+v", target)
	}
	r.Spec.Cluster.Name = "nobody"
	if target := s.target(r); target != nil {
		t.Errorf("what is not there is %+v", target)
	}
}

// saves lets a Backup of what there is be complete since a time.
func (s *redisStage) saves(name string, since time.Time) {
	s.t.Helper()
	b := &v1alpha1.Backup{}
	for range 20 {
		s.pass()
		if s.exists(b, name) {
			break
		}
	}
	b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: "BackupComplete", LastTransitionTime: metav1.NewTime(since)}}
	if err := s.api.Status().Update(s.t.Context(), b); err != nil {
		s.t.Fatalf("Backup %s: %v (%s)", name, err, s.cluster().Status.Activity)
	}
}

// What was written while the cluster had to get well is in the Backup of what there is, too.
func TestWhatARedisClusterHasIsSavedRightBeforeItIsReplaced(t *testing.T) {
	s := newRedisStage(t, redisCluster(), stored(nil))
	s.settle()
	s.confirmed("back", v1alpha1.RestoreAll, func(r *v1alpha1.Restore) { r.Spec.SaveCurrent = nil })
	now := s.loop.Kind.(*RedisKind).Now() //nolint:forcetypeassert // It is what the stage has made.
	s.saves("back-before", now.Add(-time.Hour))
	for range 5 {
		s.pass()
	}
	if s.exists(&batchv1.Job{}, cluster.LoadJob("carts")) {
		t.Error("it is replaced after an hour")
	}
	s.saves("back-before-2", now)
	s.until(cluster.LoadJob("carts"))
	if s.exists(&v1alpha1.Backup{}, "back-before-3") {
		t.Error("it is saved once more")
	}
}

// A Restore of that name that is gone may have left one: the new one says so, and the cluster is looked after all the same.
func TestABackupOfSomebodyElseStopsTheRestoreAndNotTheCluster(t *testing.T) {
	foreign := aBackup(func(b *v1alpha1.Backup) {
		b.Name, b.UID, b.Spec.Cluster = "back-before", "uid-former", v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"}
		b.Labels = map[string]string{v1alpha1.LabelRestore: "back"}
		b.Annotations = map[string]string{v1alpha1.AnnotationRestoreUID: "uid-of-the-former u-1"}
	})
	s := newRedisStage(t, redisCluster(), stored(nil), foreign)
	s.settle()
	s.confirmed("back", v1alpha1.RestoreAll, func(r *v1alpha1.Restore) { r.Spec.SaveCurrent = nil })
	kind := s.loop.Kind.(*RedisKind) //nolint:forcetypeassert // It is what the stage has made.
	if state, err := kind.Observe(t.Context(), s.cluster()); err != nil || state.Confirmed == nil {
		t.Errorf("the cluster is not looked after: %v", err)
	}
	for range 5 {
		s.pass()
	}
	if s.exists(&batchv1.Job{}, cluster.LoadJob("carts")) || s.exists(&v1alpha1.Backup{}, "back-before-2") || !meta.IsStatusConditionTrue(s.cluster().Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("it is %s", s.cluster().Status.Activity)
	}
	r := &v1alpha1.Restore{}
	if !s.exists(r, "back") {
		t.Fatal("there is no Restore")
	}
	r.Status.Conditions = nil
	restores := NewRestoreKind(kind.Children, map[v1alpha1.ClusterKind]RestoreTarget{v1alpha1.KindRedisCluster: kind})
	state, err := restores.Observe(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.Status.Plan = state.Plan()
	state.Confirmed = state.Plan()
	restores.Report(r, state, restores.Next(state), nil)
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionConfirmed)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonForeignObject || r.Status.SavedAs != "" {
		t.Errorf("%+v, saved as %q", c, r.Status.SavedAs)
	}
}

// A Backup that was begun at the same moment is waited for, and one that is begun afterwards waits: it would have a part of both.
func TestNoBackupIsTakenOfAClusterThatIsBeingReplaced(t *testing.T) {
	other := aBackup(func(b *v1alpha1.Backup) {
		b.Name, b.UID, b.Spec.Cluster = "other", "uid-other", v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"}
	})
	s := newRedisStage(t, redisCluster(), stored(nil), other)
	s.settle()
	kind := s.loop.Kind.(*RedisKind) //nolint:forcetypeassert // It is what the stage has made.
	backups := NewBackupKind(kind.Children, map[v1alpha1.ClusterKind]BackupSource{v1alpha1.KindRedisCluster: kind})
	if err := backups.Act(t.Context(), other, plan.Take{}); err != nil {
		t.Fatal(err)
	}
	take := &batchv1.Job{}
	if !s.exists(take, "other"+jobTake) || !ptr.Deref(take.Spec.Suspend, false) {
		t.Fatalf("it runs before it is known that it may: %v", take.Spec.Suspend)
	}
	r := s.confirm("back", v1alpha1.RestoreAll)
	for range 10 {
		s.pass()
	}
	if target := s.target(r); !target.Begun || s.exists(&batchv1.Job{}, cluster.LoadJob("carts")) || !strings.Contains(s.cluster().Status.Activity, "Backup other is being taken") {
		t.Errorf("%+v, %s", target, s.cluster().Status.Activity)
	}
	if err := backups.Act(t.Context(), other, plan.Resume{Name: take.Name, UID: string(take.UID)}); err == nil {
		t.Error("the Job runs while the data is replaced")
	}
	state, err := backups.Observe(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	state.Protected = true
	drop, ok := backups.Next(state).Step.(plan.DropJob) // The other side does not wait for this one.
	if !ok {
		t.Fatalf("the Backup waits for the restore, and that for the Backup: %+v", backups.Next(state))
	}
	if err := backups.Act(t.Context(), other, drop); err != nil {
		t.Fatal(err)
	}
	s.ends(s.until(cluster.LoadJob("carts")), plan.Report{Restored: &plan.Restored{Keys: 5}})
	s.settle()
	if err := backups.Act(t.Context(), other, plan.Take{}); err != nil {
		t.Fatal(err)
	}
	if !s.exists(take, "other"+jobTake) {
		t.Fatal("there is no Job")
	}
	if err := backups.Act(t.Context(), other, plan.Resume{Name: take.Name, UID: string(take.UID)}); err != nil || !s.exists(take, take.Name) || ptr.Deref(take.Spec.Suspend, true) {
		t.Errorf("afterwards: %v, %v", err, take.Spec.Suspend)
	}
}

// A Backup that is being taken would find a part of the data: what is to be confirmed waits for it, but not for the one of what there is before.
func TestARestoreOfEverythingWaitsForABackupThatIsBeingTaken(t *testing.T) {
	newBackup := func(name string, change func(*v1alpha1.Backup)) *v1alpha1.Backup {
		return aBackup(func(b *v1alpha1.Backup) {
			b.Name, b.UID, b.Spec.Cluster = name, types.UID("uid-"+name), v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"}
			if change != nil {
				change(b)
			}
		})
	}
	job := func(name string, ended bool) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name + jobTake, Labels: plan.Labels(name, "carts"),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "quorate.dev/v1alpha1", Kind: "Backup", Name: name, UID: types.UID("uid-" + name), Controller: ptr.To(true)}},
		}}
		if ended {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}
		return j
	}
	suspended := func(name string) *batchv1.Job {
		j := job(name, false)
		j.Spec.Suspend = ptr.To(true)
		return j
	}
	r := &v1alpha1.Restore{Spec: v1alpha1.RestoreSpec{Cluster: v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"}}}
	r.Namespace, r.Name, r.UID = "default", "back", "uid-back"
	own := func(b *v1alpha1.Backup) {
		b.Labels = map[string]string{v1alpha1.LabelRestore: "back"}
		b.Annotations = map[string]string{v1alpha1.AnnotationRestoreUID: "uid-back u-1"}
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		waits   bool
	}{
		"nothing":                    {nil, false},
		"it is being taken":          {[]client.Object{newBackup("other", nil), job("other", false)}, true},
		"it is of another kind":      {[]client.Object{newBackup("other", func(b *v1alpha1.Backup) { b.Spec.Cluster.Kind = v1alpha1.KindEtcdCluster }), job("other", false)}, false},
		"it has not begun":           {[]client.Object{newBackup("other", nil), suspended("other")}, false},
		"its Backup is gone":         {[]client.Object{job("other", false)}, true},
		"it is of a former Backup":   {[]client.Object{newBackup("other", func(b *v1alpha1.Backup) { b.UID = "uid-later" }), job("other", false)}, true},
		"it has been taken":          {[]client.Object{newBackup("other", nil), job("other", true)}, false},
		"it waits for its turn":      {[]client.Object{newBackup("other", nil)}, false},
		"it is of another cluster":   {[]client.Object{newBackup("other", func(b *v1alpha1.Backup) { b.Spec.Cluster.Name = "orders" }), job("other", false)}, false},
		"it is of what there is now": {[]client.Object{newBackup("back-before", own), job("back-before", false)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			why, err := NewRedisKind(newChildren(newWorld(t, tc.objects...))).beingBackedUp(t.Context(), r)
			if err != nil || (why != "") != tc.waits {
				t.Errorf("%q, %v", why, err)
			}
		})
	}
	s := newRedisStage(t, redisCluster(), newBackup("other", nil), job("other", false))
	s.settle()
	if target := s.target(r); !strings.Contains(target.Missing, "Backup other of it is being taken: wait until it is complete, or delete it") {
		t.Errorf("%+v", target)
	}
}

// A Backup that begins while what there is is saved would end after it: the restore would wait for it, and save everything once more, without end.
func TestOtherBackupsWaitFromTheConfirmationOn(t *testing.T) {
	of := v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"}
	other := aBackup(func(b *v1alpha1.Backup) { b.Name, b.UID, b.Spec.Cluster = "nightly", "uid-nightly", of })
	s := newRedisStage(t, redisCluster(), stored(nil), other)
	s.settle()
	kind := s.loop.Kind.(*RedisKind) //nolint:forcetypeassert // It is what the stage has made.
	backups := NewBackupKind(kind.Children, map[v1alpha1.ClusterKind]BackupSource{v1alpha1.KindRedisCluster: kind})
	r := s.confirmed("back", v1alpha1.RestoreAll, func(r *v1alpha1.Restore) { r.Spec.SaveCurrent = nil })
	own := &v1alpha1.Backup{}
	for range 20 {
		if s.pass(); s.exists(own, "back-before") {
			break
		}
	}
	begin := func(b *v1alpha1.Backup) error {
		if err := backups.Act(t.Context(), b, plan.Take{}); err != nil {
			t.Fatal(err)
		}
		job := &batchv1.Job{}
		if !s.exists(job, b.Name+jobTake) {
			t.Fatalf("there is no Job of %s", b.Name)
		}
		return backups.Act(t.Context(), b, plan.Resume{Name: job.Name, UID: string(job.UID)})
	}
	if err := begin(own); err != nil {
		t.Errorf("what there is is not saved: %v", err)
	}
	if err := begin(other); err == nil || !strings.Contains(err.Error(), "Restore back is confirmed, which saves what there is and replaces it") {
		t.Errorf("the other one: %v", err)
	}
	if target := s.target(r); target.Missing != "" {
		t.Errorf("the restore waits for who waits for it: %s", target.Missing)
	}
	own.Status.CompletionTime = ptr.To(metav1.NewTime(stageNow))
	own.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: plan.ReasonFailed, Message: "no room"}}
	if err := s.api.Status().Update(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	if err := begin(other); err != nil {
		t.Errorf("although nothing will be replaced: %v", err)
	}
}

func TestABackupOfWhatThereIsSaysHowFarItIs(t *testing.T) {
	since := metav1.NewTime(stageNow)
	condition := func(typ string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: typ, Status: status, Message: "there is no Secret", LastTransitionTime: since}
	}
	taking, stalled := condition(v1alpha1.ConditionComplete, metav1.ConditionFalse), condition(v1alpha1.ConditionStalled, metav1.ConditionTrue)
	for name, tc := range map[string]struct {
		status v1alpha1.BackupStatus
		want   plan.Saved
	}{
		"just made":                    {v1alpha1.BackupStatus{}, plan.Saved{}},
		"being taken":                  {v1alpha1.BackupStatus{Conditions: []metav1.Condition{taking}}, plan.Saved{}},
		"its Secret is gone":           {v1alpha1.BackupStatus{Conditions: []metav1.Condition{taking, stalled}}, plan.Saved{Stalled: true}},
		"failed":                       {v1alpha1.BackupStatus{Conditions: []metav1.Condition{taking, stalled}, CompletionTime: &since}, plan.Saved{Failed: "there is no Secret"}},
		"complete":                     {v1alpha1.BackupStatus{Conditions: []metav1.Condition{condition(v1alpha1.ConditionComplete, metav1.ConditionTrue)}}, plan.Saved{Complete: true, Since: stageNow}},
		"complete, and failed a check": {v1alpha1.BackupStatus{Conditions: []metav1.Condition{condition(v1alpha1.ConditionComplete, metav1.ConditionTrue), stalled}}, plan.Saved{Complete: true, Since: stageNow}},
	} {
		if got := savedBy(&v1alpha1.Backup{Status: tc.status}); *got != tc.want {
			t.Errorf("%s: %+v", name, *got)
		}
	}
}
