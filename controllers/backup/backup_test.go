package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// aCluster is a cluster that can be backed up, unless missing says why not.
type aCluster struct {
	gone    bool
	missing string
	asleep  bool
	// replaced is what is known past the cache.
	replaced string
	history  string
	reads    []Reader
}

func (c *aCluster) ServerImage(_ context.Context, _, name string, of job.Stored) (string, error) {
	if name == "" {
		return "etcd-of-nobody:" + of.Version, nil
	}
	if of.Version == "" {
		return "", nil
	}
	return "etcd:" + of.Version, nil
}

func (c *aCluster) Replaced(context.Context, *v1alpha1.Backup) (string, error) {
	return c.replaced, nil
}

func (c *aCluster) Engine() string { return "etcd" }

func (c *aCluster) Readers(context.Context, string) ([]Reader, error) { return c.reads, nil }

func (c *aCluster) Source(_ context.Context, _, name string) (*planner.Source, *job.Access, error) {
	if c.gone {
		return nil, nil, nil
	}
	return &planner.Source{Noun: "EtcdCluster " + name, Missing: c.missing, Asleep: c.asleep, History: c.history},
		&job.Access{Args: []string{"--version=3.6.16", "--timeline=c1"}, Stream: []string{"--timeline=c1"}, AuthSecret: "orders-auth", AuthKeys: []string{"password"}}, nil
}

// backupStage is a Kubernetes whose Jobs end as the test says, and the loops of backups and schedules.
type backupStage struct {
	t *testing.T
	// api is what the operator sees, raw what the test does itself.
	api, raw client.WithWatch
	source   *aCluster
	now      time.Time
	backups  *reconcile.Loop[*v1alpha1.Backup, planner.State]
	plans    *reconcile.Loop[*v1alpha1.BackupSchedule, planner.ScheduleState]
	// ends is how Jobs end, by what follows the name of their backup; none: they run.
	ends map[string]job.Report
	// jobs is how many were made of each name.
	jobs map[string]int
	// proxied says that a container which was injected keeps pods running when their agent has ended; over are Jobs that have such a pod.
	proxied         bool
	over            map[types.UID]bool
	made, ended     int
	writes, crashAt int
	log             []string
	// forbid is what creating a Job comes to.
	forbid error
}

func newBackupStage(t *testing.T, objects ...client.Object) *backupStage {
	t.Helper()
	s := &backupStage{t: t, source: &aCluster{}, now: fakeapi.Now, ends: map[string]job.Report{}, jobs: map[string]int{}, over: map[types.UID]bool{}}
	inner, ok := fakeapi.New(t, objects...).Client.(client.WithWatch)
	if !ok {
		t.Fatal("it cannot be watched")
	}
	s.raw = inner
	s.api = interceptor.NewClient(inner, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, ac runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if s.forbid != nil {
				return s.forbid
			}
			return s.wrote("apply "+fakeapi.NameOf(ac), c.Apply(ctx, ac, opts...))
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			s.made++
			o.SetUID(types.UID(fmt.Sprintf("%08d-uid", s.made)))
			o.SetCreationTimestamp(metav1.NewTime(s.now))
			return s.wrote("create "+o.GetName(), c.Create(ctx, o, opts...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return s.wrote("delete "+o.GetName(), c.Delete(ctx, o, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return s.wrote("finalizers", c.Patch(ctx, o, p, opts...))
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return s.wrote("status", c.SubResource(sub).Patch(ctx, o, p, opts...))
		},
	})
	s.newOperator()
	return s
}

func (s *backupStage) wrote(what string, err error) error {
	if err != nil {
		return err
	}
	s.writes++
	s.log = append(s.log, what)
	if s.writes == s.crashAt {
		return fakeapi.ErrCrash
	}
	return nil
}

func (s *backupStage) newOperator() {
	children := ownedtest.New(&fakeapi.API{Client: s.api})
	children.Direct, children.Now = s.api, func() time.Time { return s.now }
	k := New(children, map[v1alpha1.ClusterKind]SourceKind{v1alpha1.KindEtcdCluster: s.source})
	s.backups = &reconcile.Loop[*v1alpha1.Backup, planner.State]{Kind: k, Client: s.api, Direct: s.api, Events: events.NewFakeRecorder(1000)}
	s.plans = &reconcile.Loop[*v1alpha1.BackupSchedule, planner.ScheduleState]{Kind: NewSchedule(children, k), Client: s.api, Direct: s.api, Events: events.NewFakeRecorder(1000)}
}

func (s *backupStage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// pass makes one pass over everything, and lets the Job controller work.
func (s *backupStage) pass() {
	s.t.Helper()
	var plans v1alpha1.BackupScheduleList
	s.must(s.api.List(s.t.Context(), &plans))
	for i := range plans.Items {
		s.survive(func() error { _, err := s.plans.Reconcile(s.t.Context(), &plans.Items[i]); return err })
	}
	var list v1alpha1.BackupList
	s.must(s.api.List(s.t.Context(), &list))
	for i := range list.Items {
		s.survive(func() error { _, err := s.backups.Reconcile(s.t.Context(), &list.Items[i]); return err })
	}
	s.runJobs()
	s.setClocks()
}

// setClocks brings times that come from the clock of this machine to that of the stage.
func (s *backupStage) setClocks() {
	s.t.Helper()
	var list v1alpha1.BackupList
	s.must(s.raw.List(s.t.Context(), &list))
	for i := range list.Items {
		b, behind := &list.Items[i], false
		for j := range b.Status.Conditions {
			if c := &b.Status.Conditions[j]; c.LastTransitionTime.After(s.now) {
				c.LastTransitionTime, behind = metav1.NewTime(s.now), true
			}
		}
		if behind {
			s.must(s.raw.Status().Update(s.t.Context(), b))
		}
	}
}

// survive starts the operator anew after a crash.
func (s *backupStage) survive(reconcile func() error) {
	s.t.Helper()
	err := reconcile()
	if err != nil && strings.Contains(err.Error(), fakeapi.ErrCrash.Error()) {
		s.newOperator()
		return
	}
	s.must(err)
}

// rest makes passes until one writes nothing.
func (s *backupStage) rest() {
	s.t.Helper()
	for range 40 {
		writes, ended := s.writes, s.ended
		s.pass()
		if s.writes == writes && s.ended == ended {
			return
		}
	}
	s.t.Fatalf("it does not come to rest: %v", s.log)
}

// runJobs is the Job controller and the kubelet.
func (s *backupStage) runJobs() {
	s.t.Helper()
	ctx := s.t.Context()
	var jobs batchv1.JobList
	s.must(s.api.List(ctx, &jobs))
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if job.CreationTimestamp.IsZero() {
			s.made++
			s.jobs[job.Name]++
			job.UID, job.CreationTimestamp = types.UID(fmt.Sprint("job-", s.made)), metav1.NewTime(s.now)
			s.must(s.raw.Update(ctx, job))
		}
		for end, report := range s.ends {
			if strings.HasSuffix(job.Name, end) && !ptr.Deref(job.Spec.Suspend, false) && len(job.Status.Conditions) == 0 && !s.over[job.UID] {
				s.end(job, report)
			}
		}
	}
}

func (s *backupStage) end(j *batchv1.Job, r job.Report) {
	s.t.Helper()
	s.ended++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: j.Namespace, Name: j.Name + "-" + string(j.UID), Labels: j.Spec.Template.Labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID, Controller: ptr.To(true)}},
	}}
	s.must(s.raw.Create(s.t.Context(), pod))
	end := &corev1.ContainerStateTerminated{Message: r.Encode(), FinishedAt: metav1.NewTime(s.now)}
	switch {
	case r.Problem != nil && r.Problem.Final:
		end.ExitCode = job.ExitFinal
	case r.Problem != nil:
		end.ExitCode = 1
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: job.Container, State: corev1.ContainerState{Terminated: end}}}
	if s.proxied {
		pod.Status.Phase, s.over[j.UID] = corev1.PodRunning, true
	}
	s.must(s.raw.Status().Update(s.t.Context(), pod))
	if s.proxied {
		return
	}
	how := batchv1.JobComplete
	if r.Problem != nil {
		how = batchv1.JobFailed
	}
	j.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now)}}
	s.must(s.raw.Status().Update(s.t.Context(), j))
}

// expireJobs is what happens an hour after their end.
func (s *backupStage) expireJobs() {
	s.t.Helper()
	s.must(s.raw.DeleteAllOf(s.t.Context(), &batchv1.Job{}, client.InNamespace("default")))
	s.must(s.raw.DeleteAllOf(s.t.Context(), &corev1.Pod{}, client.InNamespace("default")))
}

// backup reads one, nil when it is gone.
func (s *backupStage) backup(name string) *v1alpha1.Backup {
	s.t.Helper()
	b := &v1alpha1.Backup{}
	err := s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, b)
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must(err)
	return b
}

// wantCondition looks at the backup of Backup.
func (s *backupStage) wantCondition(typ, want string) {
	s.t.Helper()
	c := meta.FindStatusCondition(s.backup("first").Status.Conditions, typ)
	if c == nil {
		s.t.Fatalf("there is no condition %s", typ)
	}
	if got := string(c.Status) + " " + c.Reason + " " + c.Message; !strings.HasPrefix(got, want) {
		s.t.Errorf("%s is %s, not %s", typ, got, want)
	}
}

func verified(b *v1alpha1.Backup) { b.Spec.Verify = ptr.To(true) }

func TestABackupIsTakenCheckedAndDeletedWithItsData(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(verified))
	s.rest()
	s.wantCondition(v1alpha1.ConditionComplete, "False TakingBackup")
	s.ends[TakeSuffix] = fakeapi.WasTaken
	s.rest()
	s.wantCondition(v1alpha1.ConditionComplete, "True BackupComplete")
	s.wantCondition(v1alpha1.ConditionVerified, "False VerifyingBackup")
	s.ends[checkSuffix] = fakeapi.WasChecked
	s.rest()
	s.wantCondition(v1alpha1.ConditionVerified, "True BackupVerified 9 keys were restored within 3s, and a throw-away etcd 3.6.16")
	b := s.backup("first")
	st := b.Status
	if st.Directory != Directory(b) || st.Revision != 7 || st.Size != 4<<20 || st.Stored != "1.0 MiB" || st.Engine != "etcd 3.6.16" || st.Verification.Keys != 9 || st.Verification.Seconds != 3 ||
		st.Verification.Server != "etcd 3.6.16" || st.ServerMemory != 12<<20 {
		t.Errorf("%+v", st)
	}
	writes := s.writes
	for range 5 {
		s.pass()
	}
	if s.writes != writes {
		t.Errorf("a backup with nothing left to do is written: %v", s.log[writes:])
	}
	s.must(s.raw.Delete(t.Context(), b))
	s.rest()
	if s.jobs["first-remove"] != 1 || s.backup("first") == nil {
		t.Errorf("the backup goes before its data: %v", s.jobs)
	}
	s.ends[removeSuffix] = fakeapi.WasRemoved
	s.rest()
	if s.backup("first") != nil || s.jobs["first-take"] != 1 || s.jobs["first-check"] != 1 || s.jobs["first-remove"] != 1 {
		t.Errorf("%v", s.jobs)
	}
}

// The name of the directory must be the same in every pass, and of no other backup.
func TestTheJobsOfABackupAreToldWhereItIs(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(nil))
	s.rest()
	job := &batchv1.Job{}
	s.must(s.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "first-take"}, job))
	args := job.Spec.Template.Spec.Containers[0].Args
	for _, want := range []string{
		"--directory=orders-20260501T000000Z-1b9d6bcd", "--id=1b9d6bcd-0000", "--cluster=orders", "--namespace=default", "--timeline=c1", "--url=s3://bucket/orders",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is missing in %v", want, args)
		}
	}
}

func TestWhatCameOfABackupIsKnownWhenItsJobsAreGone(t *testing.T) {
	for name, tc := range map[string]struct {
		take, check        job.Report
		complete, verified string
	}{
		"complete": {fakeapi.WasTaken, fakeapi.WasChecked, "True BackupComplete", "True BackupVerified"},
		"failed":   {fakeapi.HasFailed, fakeapi.WasChecked, "False NotAllowed", "False NotVerified"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBackupStage(t, fakeapi.Backup(verified))
			s.ends[TakeSuffix], s.ends[checkSuffix] = tc.take, tc.check
			s.rest()
			s.expireJobs()
			s.source.gone = true // Nor does the cluster have to be there.
			s.now = s.now.Add(2 * time.Hour)
			s.rest()
			s.wantCondition(v1alpha1.ConditionComplete, tc.complete)
			s.wantCondition(v1alpha1.ConditionVerified, tc.verified)
			if s.jobs["first-take"] != 1 {
				t.Errorf("it is taken again: %v", s.jobs)
			}
		})
	}
}

// Kubernetes keeps an expired Job until its pods are gone.
func TestABackupThatFailedStaysSoWhileItsJobGoes(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(nil))
	s.ends[TakeSuffix] = fakeapi.HasFailed
	s.rest()
	job := &batchv1.Job{}
	s.must(s.raw.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "first" + TakeSuffix}, job))
	job.Finalizers = []string{metav1.FinalizerDeleteDependents}
	s.must(s.raw.Update(t.Context(), job))
	s.must(s.raw.Delete(t.Context(), job))
	s.rest()
	s.must(s.raw.Get(t.Context(), client.ObjectKeyFromObject(job), job))
	job.Finalizers = nil
	s.must(s.raw.Update(t.Context(), job))
	s.rest()
	s.wantCondition(v1alpha1.ConditionComplete, "False NotAllowed the store says no")
	s.wantCondition(v1alpha1.ConditionStalled, "True NotAllowed")
	if s.jobs["first-take"] != 1 {
		t.Errorf("it is taken again: %v", s.jobs)
	}
}

func TestABackupThatDidNotPassItsCheckIsNotForgotten(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(verified))
	s.ends[TakeSuffix], s.ends[checkSuffix] = fakeapi.WasTaken, fakeapi.HasFailed
	s.rest()
	s.backupEdit(func(b *v1alpha1.Backup) { b.Spec.Verify = nil }) // With it, it would be checked again.
	s.expireJobs()
	s.now = s.now.Add(2 * time.Hour)
	s.rest()
	s.wantCondition(v1alpha1.ConditionVerified, "False NotAllowed the store says no")
	s.wantCondition(v1alpha1.ConditionStalled, "True VerificationFailed")
	s.wantCondition(v1alpha1.ConditionComplete, "True")
}

func (s *backupStage) backupEdit(change func(*v1alpha1.Backup)) {
	s.t.Helper()
	b := s.backup("first")
	change(b)
	s.must(s.raw.Update(s.t.Context(), b))
}

// A look that fails says nothing about the backup.
func TestACompleteBackupStaysCompleteWhenItsJobsCannotBeRead(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(nil))
	s.ends[TakeSuffix] = fakeapi.WasTaken
	s.rest()
	s.expireJobs()
	whole := s.api
	s.api = interceptor.NewClient(whole, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*batchv1.Job); ok {
				return context.DeadlineExceeded
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	s.newOperator()
	if _, err := s.backups.Reconcile(t.Context(), s.backup("first")); err == nil {
		t.Error("the error is lost")
	}
	s.wantCondition(v1alpha1.ConditionComplete, "True")
	s.api = whole
	s.source.gone = true
	s.newOperator()
	s.rest()
	s.wantCondition(v1alpha1.ConditionComplete, "True")
}

func TestABackupWaitsForItsCluster(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(nil))
	s.source.missing = "it is hibernated"
	s.rest()
	s.wantCondition(v1alpha1.ConditionComplete, "False WaitingForCluster")
	s.source.gone = true
	s.rest()
	s.wantCondition(v1alpha1.ConditionStalled, "True ClusterMissing")
	if len(s.jobs) > 0 {
		t.Errorf("%v", s.jobs)
	}
}

func TestABackupGoesWithItsNamespace(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(nil))
	s.ends[TakeSuffix] = fakeapi.WasTaken
	s.rest()
	s.must(s.raw.Delete(t.Context(), s.backup("first")))
	s.forbid = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Message: "namespace is being terminated",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}}
	s.rest()
	if s.backup("first") != nil {
		t.Errorf("it holds its namespace up: %s", s.backup("first").Status.Activity)
	}
}

// A Job that deletes would wait for the claim for good.
func TestABackupGoesWithItsClaim(t *testing.T) {
	for name, leave := range map[string]func(s *backupStage, claim *corev1.PersistentVolumeClaim){
		"the claim is gone": func(s *backupStage, claim *corev1.PersistentVolumeClaim) { s.must(s.raw.Delete(s.t.Context(), claim)) },
		"the claim waits for pods that use it": func(s *backupStage, claim *corev1.PersistentVolumeClaim) {
			claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
			s.must(s.raw.Update(s.t.Context(), claim))
			s.must(s.raw.Delete(s.t.Context(), claim))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBackupStage(t, fakeapi.Backup(func(b *v1alpha1.Backup) {
				b.Spec.Destination = v1alpha1.BackupDestination{URL: "pvc://backups/orders"}
				b.Spec.DeletionPolicy = ptr.To(v1alpha1.DeletionDelete)
			}))
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "backups"}}
			s.must(s.raw.Create(t.Context(), claim))
			s.ends[TakeSuffix] = fakeapi.WasTaken
			s.rest()
			s.wantCondition(v1alpha1.ConditionComplete, "True")
			s.must(s.raw.Delete(t.Context(), s.backup("first")))
			s.rest()
			if s.jobs["first-remove"] != 1 || s.backup("first") == nil {
				t.Fatalf("with its claim there it goes before its data: %v", s.jobs)
			}
			leave(s, claim)
			s.rest()
			if s.backup("first") != nil {
				t.Errorf("it waits: %s", s.backup("first").Status.Activity)
			}
		})
	}
}

func TestABackupIsTakenOnceWhateverWriteTheOperatorCrashesAfter(t *testing.T) {
	crashes := 0
	for at := 1; ; at++ {
		s := newBackupStage(t, fakeapi.Backup(verified))
		s.ends[TakeSuffix], s.ends[checkSuffix], s.ends[removeSuffix] = fakeapi.WasTaken, fakeapi.WasChecked, fakeapi.WasRemoved
		s.crashAt = at
		s.rest()
		s.rest()
		s.wantCondition(v1alpha1.ConditionVerified, "True")
		s.must(s.raw.Delete(t.Context(), s.backup("first")))
		s.rest()
		s.rest()
		if s.backup("first") != nil || s.jobs["first-take"] != 1 || s.jobs["first-check"] != 1 {
			t.Errorf("after a crash at %d: %v", at, s.jobs)
		}
		if s.writes < at {
			break
		}
		crashes++
	}
	if crashes < 6 {
		t.Errorf("the operator crashed after %d different writes only", crashes)
	}
}

// Its snapshot would be of another history than its name says.
func TestABackupIsTakenAnewWhenItsClusterGoesOnFromSomethingElse(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(nil))
	s.source.history = "t1"
	s.rest()
	j := &batchv1.Job{}
	key := client.ObjectKey{Namespace: "default", Name: "first-take"}
	s.must(s.api.Get(t.Context(), key, j))
	if j.Annotations[job.AnnotationFor] != "t1" || s.jobs["first-take"] != 1 {
		t.Fatalf("%v, %v", j.Annotations, s.jobs)
	}
	s.source.history = "t2"
	s.rest()
	s.must(s.api.Get(t.Context(), key, j))
	if j.Annotations[job.AnnotationFor] != "t2" || s.jobs["first-take"] != 2 {
		t.Errorf("%v, %v", j.Annotations, s.jobs)
	}
}

func (s *backupStage) schedule() *v1alpha1.BackupSchedule {
	s.t.Helper()
	o := &v1alpha1.BackupSchedule{}
	s.must(s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "default", Name: "hourly"}, o))
	return o
}

func (s *backupStage) names() (out []string) {
	s.t.Helper()
	var list v1alpha1.BackupList
	s.must(s.api.List(s.t.Context(), &list))
	for _, b := range list.Items {
		out = append(out, strings.TrimPrefix(b.Name, "hourly-20260501"))
	}
	return out
}

// takenNow ends the Jobs of backups at the present time.
func (s *backupStage) takenNow() {
	r := *fakeapi.WasTaken.Backup
	r.Started, r.Finished = s.now, s.now.Add(time.Second)
	s.ends[TakeSuffix], s.ends[removeSuffix] = job.Report{Backup: &r}, fakeapi.WasRemoved
}

func TestAScheduleTakesBackupsAndDeletesTheExpired(t *testing.T) {
	s := newBackupStage(t, fakeapi.Schedule(func(o *v1alpha1.BackupSchedule) {
		o.Spec.Retention = &v1alpha1.BackupRetention{KeepLast: ptr.To(int32(2))}
	}))
	s.rest()
	if got := s.names(); len(got) > 0 {
		t.Errorf("a new schedule owes nothing: %v", got)
	}
	for range 4 {
		s.now = s.now.Add(time.Hour)
		s.takenNow()
		s.rest()
	}
	if got := fmt.Sprint(s.names()); got != "[030000 040000]" {
		t.Errorf("there are %s", got)
	}
	if s.jobs["hourly-20260501010000-remove"] != 1 || s.jobs["hourly-20260501020000-remove"] != 1 {
		t.Errorf("data is not deleted with its backup: %v", s.jobs)
	}
	st := s.schedule().Status
	if st.Backups != 2 || st.LastBackup != "hourly-20260501040000" || !st.NextTime.Time.Equal(fakeapi.Now.Add(5*time.Hour)) {
		t.Errorf("%+v", st)
	}
	if !meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionBackupHealthy) {
		t.Errorf("%+v", st.Conditions)
	}
	writes := s.writes
	for range 5 {
		s.pass()
	}
	if s.writes != writes {
		t.Errorf("a schedule with nothing to do is written: %v", s.log[writes:])
	}
}

// A schedule that is deleted leaves its backups, and another one of the name may be for another cluster.
func TestAScheduleLeavesAloneWhatOneOfItsNameMadeOfAnotherCluster(t *testing.T) {
	former := func(name, of string) *v1alpha1.Backup {
		return fakeapi.Backup(func(b *v1alpha1.Backup) {
			b.Name, b.UID, b.Spec.Cluster.Name = "hourly-20260501"+name, types.UID("uid-"+name), of
			b.Labels = map[string]string{v1alpha1.LabelSchedule: "hourly"}
			b.CreationTimestamp = metav1.NewTime(fakeapi.Now.Add(-time.Hour))
		})
	}
	s := newBackupStage(t, former("a", "carts"), former("b", "carts"), former("c", "orders"), fakeapi.Schedule(func(o *v1alpha1.BackupSchedule) {
		o.Spec.Retention = &v1alpha1.BackupRetention{KeepLast: ptr.To(int32(1))}
	}))
	for _, name := range []string{"a", "b", "c"} {
		b := s.backup("hourly-20260501" + name)
		b.Status.CompletionTime = &metav1.Time{Time: fakeapi.Now.Add(-time.Hour)}
		b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: planner.ReasonComplete}}
		s.must(s.raw.Status().Update(t.Context(), b))
	}
	s.now = s.now.Add(time.Hour)
	s.takenNow()
	s.rest()
	if got := fmt.Sprint(s.names()); got != "[010000 a b]" {
		t.Errorf("there are %s", got)
	}
	if st := s.schedule().Status; st.Backups != 1 {
		t.Errorf("%+v", st)
	}
}

// A cluster that waits for a backup is refused one that is being deleted.
func TestABackupThatAClusterBeginsWithDoesNotExpire(t *testing.T) {
	c := fakeapi.EtcdCluster()
	c.Name, c.Spec.Bootstrap = "copy", &v1alpha1.BootstrapSpec{Restore: &v1alpha1.RestoreSource{Backup: ptr.To("hourly-20260501010000")}}
	s := newBackupStage(t, c, fakeapi.Schedule(func(o *v1alpha1.BackupSchedule) {
		o.Spec.Retention = &v1alpha1.BackupRetention{KeepLast: ptr.To(int32(1))}
	}))
	for range 3 {
		s.now = s.now.Add(time.Hour)
		s.takenNow()
		s.rest()
	}
	if got := fmt.Sprint(s.names()); got != "[010000 030000]" {
		t.Errorf("there are %s", got)
	}
	if b := s.backup("hourly-20260501010000"); b == nil || b.DeletionTimestamp != nil {
		t.Fatalf("it is being deleted: %+v", b)
	}
	c.Status.ClusterID = "c1"
	s.must(s.raw.Status().Update(t.Context(), c))
	s.rest()
	if got := fmt.Sprint(s.names()); got != "[030000]" {
		t.Errorf("there are %s", got)
	}
}

func TestAScheduleChecksTheNewestBackup(t *testing.T) {
	s := newBackupStage(t, fakeapi.Schedule(func(o *v1alpha1.BackupSchedule) { o.Spec.Verify = &v1alpha1.BackupVerify{Schedule: "30 * * * *"} }))
	s.now = fakeapi.Now.Add(time.Hour)
	s.takenNow()
	s.rest()
	s.now = s.now.Add(31 * time.Minute)
	s.ends[checkSuffix] = fakeapi.HasFailed
	s.rest()
	healthy := func() string {
		c := meta.FindStatusCondition(s.schedule().Status.Conditions, v1alpha1.ConditionBackupHealthy)
		return string(c.Status) + " " + c.Reason
	}
	if got := healthy(); got != "False LastCheckFailed" || s.jobs["hourly-20260501010000-check"] != 1 {
		t.Errorf("%s, %v", got, s.jobs)
	}
	s.now = s.now.Add(29 * time.Minute)
	s.takenNow()
	s.rest()
	s.now = s.now.Add(31 * time.Minute)
	good := *fakeapi.WasChecked.Checked
	good.Time = s.now.Add(time.Second)
	s.ends[checkSuffix] = job.Report{Checked: &good}
	s.rest()
	if got := healthy(); got != "True BackupsInTime" || s.jobs["hourly-20260501020000-check"] != 1 {
		t.Errorf("%s, %v", got, s.jobs)
	}
	if st := s.schedule().Status; st.LastVerifiedTime == nil || st.RestoreSeconds != 3 {
		t.Errorf("%+v", st)
	}
}

func TestTheRecorderComesAndGoesWithTheWish(t *testing.T) {
	s := newBackupStage(t, fakeapi.Schedule(func(o *v1alpha1.BackupSchedule) { o.Spec.Incremental = &v1alpha1.BackupIncremental{} }))
	s.source.missing = "it has not been founded yet"
	set := func() *appsv1.StatefulSet {
		o := &appsv1.StatefulSet{}
		err := s.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "hourly-recorder"}, o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		s.must(err)
		return o
	}
	s.rest()
	if set() != nil {
		t.Error("there is nothing to record yet")
	}
	s.source.missing = ""
	s.rest()
	got := set()
	if got == nil || !metav1.IsControlledBy(got, s.schedule()) {
		t.Fatalf("%+v", got)
	}
	if args := got.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--interval=10s") || slices.Contains(args, "--version=3.6.16") {
		t.Errorf("an upgrade of the cluster would start it anew: %v", args)
	}
	if s.schedule().Status.Recording == "" {
		t.Error("the status does not say how far it is")
	}
	kind, ok := s.plans.Kind.(*ScheduleReconciler)
	if !ok {
		t.Fatalf("%T", s.plans.Kind)
	}
	got.Status.ObservedGeneration = 1
	s.must(s.raw.Status().Update(t.Context(), got))
	if r, err := kind.recorder(t.Context(), s.schedule()); err != nil || !strings.Contains(r.Trouble, "`kubectl -n default describe statefulset hourly-recorder` says why") {
		t.Errorf("Kubernetes does not make its pod: %+v %v", r, err)
	}
	o := s.schedule()
	o.Spec.Incremental = nil
	s.must(s.raw.Update(t.Context(), o))
	s.rest()
	if set() != nil || s.schedule().Status.Recording != "" {
		t.Errorf("it is still there, and %q", s.schedule().Status.Recording)
	}
}

func TestASuspendedScheduleSaysSo(t *testing.T) {
	s := newBackupStage(t, fakeapi.Schedule(nil))
	s.now = fakeapi.Now.Add(time.Hour)
	s.takenNow()
	s.rest()
	o := s.schedule()
	o.Spec.Suspend = ptr.To(true)
	s.must(s.raw.Update(t.Context(), o))
	s.now = s.now.Add(5 * time.Hour)
	s.rest()
	st := s.schedule().Status
	if st.NextTime != nil || len(s.names()) != 1 || cluster.Activity(cluster.Plan{Message: st.Activity}, nil) != "no backups begin while spec.suspend is true" {
		t.Errorf("%+v, %v", st, s.names())
	}
	c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionBackupHealthy)
	if c.Reason != planner.ReasonLate || !strings.Contains(c.Message, "spec.suspend") {
		t.Errorf("%+v", c)
	}
}

// Nobody is woken up because of a cluster that sleeps, and what waited for it is in time.
func TestNoBackupOfAClusterThatSleepsIsLate(t *testing.T) {
	s := newBackupStage(t, fakeapi.Schedule(func(o *v1alpha1.BackupSchedule) { o.Spec.ConcurrencyPolicy = ptr.To(v1alpha1.ConcurrencyAllow) }))
	s.now = fakeapi.Now.Add(time.Hour)
	s.takenNow()
	s.rest()
	s.source.missing, s.source.asleep = "it is hibernated", true
	healthy := func(want string, backups int) {
		t.Helper()
		s.rest()
		c := meta.FindStatusCondition(s.schedule().Status.Conditions, v1alpha1.ConditionBackupHealthy)
		if got := string(c.Status) + " " + c.Reason; got != want || len(s.names()) != backups {
			t.Errorf("%s (%s) with %v, want %s with %d backups", got, c.Message, s.names(), want, backups)
		}
	}
	for range 3 {
		s.now = s.now.Add(time.Hour)
		healthy("Unknown Hibernated", 2)
	}
	s.now = s.now.Add(10 * time.Minute)
	s.takenNow()
	s.source.missing, s.source.asleep = "", false
	healthy("True BackupsInTime", 3)
}

// What is newest must not be the name of one that is gone.
func TestTheStatusNamesABackupThatIsThere(t *testing.T) {
	s := newBackupStage(t, fakeapi.Schedule(nil))
	for range 2 {
		s.now = s.now.Add(time.Hour)
		s.takenNow()
		s.rest()
	}
	s.must(s.raw.Delete(t.Context(), s.backup("hourly-20260501020000")))
	s.rest()
	if st := s.schedule().Status; st.LastBackup != "hourly-20260501010000" || !st.LastBackupTime.Time.Equal(fakeapi.Now.Add(time.Hour+time.Second)) {
		t.Errorf("%s of %s", st.LastBackup, st.LastBackupTime)
	}
}

// checkPod is the pod of the check of the backup of Backup.
func (s *backupStage) checkPod() corev1.PodSpec {
	s.t.Helper()
	job := &batchv1.Job{}
	s.must(s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "default", Name: "first-check"}, job))
	return job.Spec.Template.Spec
}

// What an external cluster is called is the name of one that is here, which has no part in it.
func TestABackupOfSomebodyElsesClusterKnowsNothingOfOurs(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(func(b *v1alpha1.Backup) {
		verified(b)
		b.Spec.External = &v1alpha1.ExternalCluster{Endpoints: []string{"https://old-0:2379", "https://old-1:2379"}, Credentials: &v1alpha1.SecretReference{Name: "old"}}
	}))
	s.source.replaced = "ours is being restored"
	s.rest()
	if text := s.backup("first").Status.Activity; !strings.Contains(text, `spec.external.credentials.name: there is no Secret "old"`) {
		t.Errorf("without its credentials: %s", text)
	}
	s.must(s.api.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}}))
	s.ends[TakeSuffix] = fakeapi.WasTaken
	s.rest()
	job := &batchv1.Job{}
	s.must(s.api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "first-take"}, job))
	pod := job.Spec.Template.Spec
	for _, want := range []string{"etcd", "--member=https://old-0:2379", "--member=https://old-1:2379", "--cluster=orders"} {
		if !slices.Contains(pod.Containers[0].Args, want) {
			t.Errorf("%s is missing in %v", want, pod.Containers[0].Args)
		}
	}
	if slices.ContainsFunc(pod.Containers[0].Args, func(a string) bool { return strings.HasPrefix(a, "--timeline") || strings.HasPrefix(a, "--version") }) {
		t.Errorf("it is told of our cluster: %v", pod.Containers[0].Args)
	}
	secrets := map[string]string{}
	for _, v := range pod.Volumes {
		if v.Secret != nil {
			secrets[v.Name] = v.Secret.SecretName
		}
	}
	if secrets["tls"] != "old" || secrets["auth"] != "old" {
		t.Errorf("it gets the Secrets %v", secrets)
	}
	if image := s.checkPod().Containers[0].Image; image != "etcd-of-nobody:3.6.16" {
		t.Errorf("it is checked by %s", image)
	}
}

// The living cluster has no part in a check: neither its Secrets nor its servers are known to the Job.
func TestACheckRunsTheServerOfTheBackupAndKnowsNothingOfTheCluster(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(verified))
	s.ends[TakeSuffix] = fakeapi.WasTaken
	s.rest()
	pod := s.checkPod()
	c := pod.Containers[0]
	if c.Image != "etcd:3.6.16" || !slices.Contains(c.Args, "--with-server") || c.Resources.Limits.Memory().String() != "332Mi" {
		t.Errorf("%s %v %v", c.Image, c.Args, c.Resources)
	}
	for _, v := range pod.Volumes {
		if v.Secret != nil {
			t.Errorf("it gets Secret %s", v.Secret.SecretName)
		}
	}
	if slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--timeline") || strings.HasPrefix(a, "--version") }) {
		t.Errorf("it is told of the cluster: %v", c.Args)
	}
}

// The container of a check has the token, and spec.image of a cluster is free.
func TestACheckWithAServiceAccountDoesNotRunTheImageOfTheCluster(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "backup", Labels: map[string]string{v1alpha1.LabelBackupAccount: "true"},
	}}
	s := newBackupStage(t, account, fakeapi.Backup(func(b *v1alpha1.Backup) {
		verified(b)
		b.Spec.Destination.ServiceAccountName = ptr.To("backup")
	}))
	s.ends[TakeSuffix] = fakeapi.WasTaken
	s.rest()
	if pod := s.checkPod(); pod.Containers[0].Image != "etcd-of-nobody:3.6.16" || pod.ServiceAccountName != "backup" {
		t.Errorf("%s runs as %q", pod.Containers[0].Image, pod.ServiceAccountName)
	}
}

func TestACheckWithoutAServerIsMadeWhereNoImageIsKnown(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(verified))
	unknown := *fakeapi.WasTaken.Backup
	unknown.Version = ""
	s.ends[TakeSuffix] = job.Report{Backup: &unknown}
	s.rest()
	if c := s.checkPod().Containers[0]; slices.Contains(c.Args, "--with-server") || !slices.Equal(c.Command, []string{"/agent"}) {
		t.Errorf("%v %v", c.Command, c.Args)
	}
}

// The status is written when its text changes.
func TestABackupWithoutAPodSaysWhoKnowsWhy(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(nil))
	s.rest()
	s.now = s.now.Add(time.Minute)
	s.rest()
	s.wantCondition(v1alpha1.ConditionComplete, "False TakingBackup the backup is being taken: Job first-take has no pod: Kubernetes has not made it: if that lasts, `kubectl -n default describe job first-take` says why")
	writes := s.writes
	s.now = s.now.Add(time.Hour)
	s.rest()
	if s.writes != writes {
		t.Errorf("written: %v", s.log[writes:])
	}
}

// The Jobs go at once: Kubernetes would keep them for as long as their pods run, which have volumes mounted.
func TestABackupIsTakenAndCheckedWhereAProxyKeepsPodsRunning(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(verified))
	s.proxied, s.ends[TakeSuffix], s.ends[checkSuffix] = true, fakeapi.WasTaken, fakeapi.WasChecked
	s.rest()
	s.wantCondition(v1alpha1.ConditionComplete, "False TakingBackup")
	for _, job := range []string{"first" + TakeSuffix, "first" + checkSuffix} {
		s.now = s.now.Add(31 * time.Second)
		s.rest()
		s.wantCondition(v1alpha1.ConditionComplete, "True BackupComplete")
		if err := s.raw.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: job}, &batchv1.Job{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s is there: %v", job, err)
		}
	}
	s.wantCondition(v1alpha1.ConditionVerified, "True BackupVerified")
	s.wantCondition(v1alpha1.ConditionReconciling, "False")
	if s.jobs["first-take"] != 1 || s.jobs["first-check"] != 1 {
		t.Errorf("%v", s.jobs)
	}
	s.must(s.raw.Delete(t.Context(), s.backup("first")))
	s.ends[removeSuffix] = fakeapi.WasRemoved
	s.rest()
	s.now = s.now.Add(31 * time.Second)
	s.rest()
	if s.backup("first") != nil {
		t.Errorf("it is held up: %s", s.backup("first").Status.Activity)
	}
}

func TestABackupThatFailsIsTriedAgainWhereAProxyKeepsPodsRunning(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(nil))
	s.proxied, s.ends[TakeSuffix] = true, job.Report{Problem: &job.Problem{Reason: "DestinationStalled", Message: "no answer"}}
	s.rest()
	s.now = s.now.Add(31 * time.Second)
	s.rest()
	s.wantCondition(v1alpha1.ConditionComplete, "False TakingBackup the attempt of Job first-take failed, and another one is made within a minute: no answer")
	s.ends[TakeSuffix] = fakeapi.HasFailed
	s.now = s.now.Add(30 * time.Second)
	s.rest()
	s.now = s.now.Add(31 * time.Second)
	s.rest()
	s.wantCondition(v1alpha1.ConditionComplete, "False NotAllowed the store says no")
	s.wantCondition(v1alpha1.ConditionStalled, "True NotAllowed")
	if s.jobs["first-take"] != 2 {
		t.Errorf("%v", s.jobs)
	}
}

// Without a limit the schedule that waits for it would make no other one.
func TestABackupThatFailsForADayHasFailedWhereAProxyKeepsPodsRunning(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(func(b *v1alpha1.Backup) { b.CreationTimestamp = metav1.NewTime(fakeapi.Now) }))
	s.proxied, s.ends[TakeSuffix] = true, job.Report{Problem: &job.Problem{Reason: "DestinationStalled", Message: "no answer"}}
	s.rest()
	s.now = s.now.Add(owned.TakeLimit)
	s.rest()
	s.wantCondition(v1alpha1.ConditionComplete, "False DestinationStalled no answer")
	s.wantCondition(v1alpha1.ConditionStalled, "True DestinationStalled")
}

// What has begun reads on when nobody asks for it any more.
func TestABackupThatAClusterHasBegunWithIsRead(t *testing.T) {
	b := stored(nil)
	k := New(ownedtest.New(fakeapi.New(t, b)), map[v1alpha1.ClusterKind]SourceKind{v1alpha1.KindEtcdCluster: &aCluster{reads: []Reader{
		{"EtcdCluster orders", &v1alpha1.RestoreSource{Destination: &b.Spec.Destination, Directory: ptr.To(Directory(b))}},
	}}})
	readers, err := k.readers(t.Context(), "default")
	if err != nil || fmt.Sprint(readers[b.Name]) != "[EtcdCluster orders]" {
		t.Errorf("%v %v", readers, err)
	}
}

// Its data must not be deleted.
func TestADeletedBackupKnowsWhoReadsIt(t *testing.T) {
	b := stored(nil)
	k := New(ownedtest.New(fakeapi.New(t, b)), map[v1alpha1.ClusterKind]SourceKind{v1alpha1.KindEtcdCluster: &aCluster{reads: []Reader{
		{"EtcdCluster orders", &v1alpha1.RestoreSource{Destination: &b.Spec.Destination, Directory: ptr.To(Directory(b))}},
	}}})
	var s planner.State
	if err := k.observeEnd(t.Context(), b, &s); err != nil || fmt.Sprint(s.Readers) != "[EtcdCluster orders]" {
		t.Errorf("%v %v", s.Readers, err)
	}
}

func TestABackupIsReadByNameAndByPlace(t *testing.T) {
	b := stored(nil)
	bucket := func(url string, directory *string) v1alpha1.RestoreSource {
		return v1alpha1.RestoreSource{Destination: &v1alpha1.BackupDestination{URL: url}, Directory: directory}
	}
	for name, tc := range map[string]struct {
		from v1alpha1.RestoreSource
		want bool
	}{
		"by name":                  {v1alpha1.RestoreSource{Backup: &b.Name}, true},
		"another name":             {v1alpha1.RestoreSource{Backup: ptr.To("second")}, false},
		"by place":                 {bucket(b.Spec.Destination.URL, nil), true},
		"by directory":             {bucket(b.Spec.Destination.URL, ptr.To(Directory(b))), true},
		"another directory":        {bucket(b.Spec.Destination.URL, ptr.To("orders-2")), false},
		"another place":            {bucket("s3://other/orders", nil), false},
		"its directory, elsewhere": {bucket("s3://other/orders", ptr.To(Directory(b))), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := fakeapi.Restore(func(r *v1alpha1.Restore) { r.Spec.From = tc.from })
			readers, err := New(ownedtest.New(fakeapi.New(t, b, r)), nil).readers(t.Context(), "default")
			if err != nil || (fmt.Sprint(readers[b.Name]) == "[Restore undo]") != tc.want {
				t.Errorf("%v %v", readers, err)
			}
		})
	}
}

// A check whose image nobody can pull is told within minutes, ends, and keeps its schedule from nothing.
func TestACheckWithoutItsImageIsGivenUp(t *testing.T) {
	s := newBackupStage(t, fakeapi.Backup(verified))
	s.ends[TakeSuffix] = fakeapi.WasTaken
	s.rest()
	j := &batchv1.Job{}
	s.must(s.raw.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "first" + checkSuffix}, j))
	uid := j.UID
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "check-pod", Labels: j.Spec.Template.Labels, CreationTimestamp: metav1.NewTime(s.now),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: uid, Controller: ptr.To(true)}},
	}}
	s.must(s.raw.Create(t.Context(), pod))
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: job.Container, Image: "etcd:3.6.16", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	s.must(s.raw.Status().Update(t.Context(), pod))
	s.rest()
	s.wantCondition(v1alpha1.ConditionVerified, "False VerifyingBackup")
	s.now = s.now.Add(3 * time.Minute)
	s.rest()
	s.wantCondition(v1alpha1.ConditionVerified, "False ImageNotPulled image etcd:3.6.16 cannot be pulled")
	s.wantCondition(v1alpha1.ConditionStalled, "True ImageNotPulled")
	s.now = s.now.Add(30 * time.Minute)
	s.pass()
	if err := s.raw.Get(t.Context(), client.ObjectKeyFromObject(j), j); err == nil && j.UID == uid {
		t.Error("it still waits")
	}
}
