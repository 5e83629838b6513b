package rediscluster

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/backup"
	"github.com/quorate/quorate/controllers/restore"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	redisplanner "github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// beginsWithFirst is a cluster that begins with a Backup.
func beginsWithFirst() *v1alpha1.RedisCluster {
	o := fakeapi.RedisCluster()
	o.Spec.Bootstrap = &v1alpha1.BootstrapSpec{Restore: &v1alpha1.RestoreSource{Backup: ptr.To("first")}}
	return o
}

// No server is started before it is known what it begins with, and no client is let in before that is loaded: also when the specification
// says nothing of it any more.
func TestARedisClusterBeginsWithABackup(t *testing.T) {
	t.Parallel()
	s := newRedisStage(t, beginsWithFirst(), stored())
	find := s.Until(cluster.RestoreJob("carts"))
	for range 5 {
		s.Pass()
	}
	if s.Exists(&appsv1.StatefulSet{}, "carts-0") {
		t.Error("a server is started, and nobody knows with what")
	}
	args := strings.Join(find.Spec.Template.Spec.Containers[0].Args, " ")
	if !strings.Contains(args, "--kind=RedisCluster --engine=redis --version=8.0.2") {
		t.Errorf("the backup is looked up by %s", args)
	}
	s.Ends(find, job.Report{Backup: &job.Stored{Directory: "carts-1", Kind: "RedisCluster", Engine: "redis", Version: "8.0.2", Keys: 5, Shards: 5}})
	load := s.Until(cluster.LoadJob("carts"))
	if args := strings.Join(load.Spec.Template.Spec.Containers[0].Args, " "); !strings.Contains(args, "--directory=carts-1") || !strings.Contains(args, "--server=2/carts-2-1.carts-peers.default.svc.cluster.local:6379") {
		t.Errorf("it is loaded by %s", args)
	}
	o := s.Cluster()
	o.Spec.Bootstrap = nil
	if err := s.API.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		s.Pass()
	}
	status := s.Cluster().Status
	if s.Exists(&corev1.Secret{}, cluster.ConnectionSecret("carts")) || meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionAvailable) {
		t.Errorf("clients are let in before the data is there: %s", status.Activity)
	}
	s.Ends(load, job.Report{Restored: &job.Restored{Keys: 5}})
	s.Settle()
	if !s.Exists(&corev1.Secret{}, cluster.ConnectionSecret("carts")) {
		t.Error("clients are not let in")
	}
}

func TestARedisClusterThatRunsIsNotRestored(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster(), stored())
	s.Settle()
	o := s.Cluster()
	o.Spec.Bootstrap = beginsWithFirst().Spec.Bootstrap
	if err := s.API.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s.Pass()
	}
	if s.Exists(&batchv1.Job{}, cluster.RestoreJob("carts")) || !meta.IsStatusConditionTrue(s.Cluster().Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("it is %s", s.Cluster().Status.Activity)
	}
}

func argsOf(job *batchv1.Job) string {
	return strings.Join(job.Spec.Template.Spec.Containers[0].Args, " ")
}

// What was begun is carried out, whatever becomes of who asked for it, and once.
func TestARedisClusterThatRunsIsReplacedByABackup(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster(), stored())
	s.Settle()
	r := s.Confirm("back", v1alpha1.RestoreAll)
	if target := s.Target(r); target.Begun || target.Missing != "" || !strings.Contains(target.Replaces, "All keys and functions are deleted") {
		t.Errorf("before: %+v", target)
	}
	load := s.Until(cluster.LoadJob("carts"))
	if args := argsOf(load); !strings.Contains(args, "--directory=carts-1") || !strings.Contains(args, "--replace") || strings.Contains(args, "--into") {
		t.Errorf("it is loaded by %s", args)
	}
	if err := s.API.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s.Pass()
	}
	target := s.Target(r)
	kind := s.Loop.Kind.(*Reconciler) //nolint:forcetypeassert // target has checked it.
	source, _, err := kind.Source(t.Context(), "default", "carts")
	if err != nil || source.Missing == "" || !target.Begun || target.Restored != nil {
		t.Errorf("while it goes on: %v, %+v, %+v", err, source, target)
	}
	available := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionAvailable)
	if available.Reason != planner.ReasonRestoring || !s.Exists(&corev1.Secret{}, cluster.ConnectionSecret("carts")) {
		t.Errorf("while it goes on: %+v", available)
	}
	s.Ends(load, job.Report{Restored: &job.Restored{Keys: 5}})
	s.Settle()
	if target := s.Target(r); target.Restored == nil || target.Restored.Keys != 5 {
		t.Errorf("afterwards: %+v", target)
	}
}

// Who has not heard that a restore is complete does not begin it again, nor does another one take its place.
func TestARestoreIsCarriedOutOnceAndTheNextOneAfterIt(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster(), stored())
	s.Settle()
	first := s.Confirm("one", v1alpha1.RestoreAll)
	load := s.Until(cluster.LoadJob("carts"))
	s.Ends(load, job.Report{Restored: &job.Restored{Keys: 5}})
	s.Settle()
	if s.Exists(&batchv1.Job{}, load.Name) {
		t.Error("the Job of a load that was noted is still there")
	}
	second := s.Confirm("other", v1alpha1.RestoreAll)
	for range 10 {
		s.Pass()
	}
	if s.Exists(&batchv1.Job{}, cluster.LoadJob("carts")) {
		t.Error("a Job is made although nobody has said that the first one is complete")
	}
	first.Status.Conditions = append(first.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: planner.ReasonRestored})
	if err := s.API.Status().Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if load := s.Until(cluster.LoadJob("carts")); load.Annotations[job.AnnotationFor] != string(second.UID) {
		t.Errorf("it is for %v", load.Annotations)
	}
}

func TestALostShardOfRedisComesBack(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster(), stored())
	s.Settle()
	lost := &v1alpha1.Restore{Spec: v1alpha1.RestoreSpec{Slots: ptr.To(v1alpha1.RestoreLost), Cluster: v1alpha1.ClusterReference{Name: "carts"}}}
	lost.Namespace = "default"
	if target := s.Target(lost); !strings.Contains(target.Missing, "no slots of it are lost") {
		t.Errorf("while nothing is lost: %+v", target)
	}
	s.Lose("carts-1-0", "carts-1-1")
	for range 200 {
		s.Pass()
		if c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Reason == redisplanner.ReasonShardLost {
			break
		}
	}
	for range 60 { // Gossip takes its time, also that about the dead.
		s.Pass()
	}
	if target := s.Target(lost); !strings.Contains(target.Replaces, "Slots 5462-10922 are lost, and are loaded before they are served") {
		t.Errorf("when it is lost: %+v, %s", target, s.Cluster().Status.Activity)
	}
	all := lost.DeepCopy()
	all.Spec.Slots = nil
	if target := s.Target(all); !strings.Contains(target.Missing, "spec.slots: Lost") {
		t.Errorf("everything, when a shard is lost: %+v", target)
	}
	r := s.Confirm("back", v1alpha1.RestoreLost)
	load := s.Until(cluster.LoadJob("carts"))
	if args := argsOf(load); !strings.Contains(args, "--into=carts-1-0=5462-10922") || strings.Contains(args, "--replace") {
		t.Errorf("it is loaded by %s", args)
	}
	for range 10 {
		s.Pass()
	}
	heir := s.Servers["carts-1-0"]
	if owned := heir.Slots(); len(owned) > 0 {
		t.Errorf("it owns %s before it is loaded", owned)
	}
	process, err := heir.Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Ends(load, job.Report{Restored: &job.Restored{Keys: 5, Into: redisplanner.LoadedInto("carts-1-0", process, slots.Share(1, 3))}})
	s.Settle()
	if owned := heir.Slots(); owned.String() != "5462-10922" {
		t.Errorf("it owns %s", owned)
	}
	if target := s.Target(r); target.Restored == nil || target.Restored.Keys != 5 || target.Restored.Into != "" {
		t.Errorf("afterwards: %+v", target)
	}
}

func TestAClusterThatIsNotReadyForARestoreSaysWhy(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster(), stored())
	r := &v1alpha1.Restore{Spec: v1alpha1.RestoreSpec{Cluster: v1alpha1.ClusterReference{Name: "carts"}}}
	r.Namespace = "default"
	if target := s.Target(r); !strings.Contains(target.Missing, "spec.bootstrap.restore") {
		t.Errorf("before it runs: %+v", target)
	}
	s.Settle()
	o := s.Cluster()
	o.Spec.Paused = ptr.To(true)
	if err := s.API.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if target := s.Target(r); !strings.Contains(target.Missing, "spec.paused") {
		t.Errorf("while it is paused: %+v", target)
	}
	r.Spec.Cluster.Name = "nobody"
	if target := s.Target(r); target != nil {
		t.Errorf("what is not there is %+v", target)
	}
}

// What was written while the cluster had to get well is in the Backup of what there is, too.
func TestWhatARedisClusterHasIsSavedRightBeforeItIsReplaced(t *testing.T) {
	s := newRedisStage(t, fakeapi.RedisCluster(), stored())
	s.Settle()
	s.Confirmed("back", v1alpha1.RestoreAll, func(r *v1alpha1.Restore) { r.Spec.SaveCurrent = nil })
	now := s.Loop.Kind.(*Reconciler).Now() //nolint:forcetypeassert // It is what the stage has made.
	s.Saves("back-before", now.Add(-time.Hour))
	for range 5 {
		s.Pass()
	}
	if s.Exists(&batchv1.Job{}, cluster.LoadJob("carts")) {
		t.Error("it is replaced after an hour")
	}
	s.Saves("back-before-2", now)
	s.Until(cluster.LoadJob("carts"))
	if s.Exists(&v1alpha1.Backup{}, "back-before-3") {
		t.Error("it is saved once more")
	}
}

// A Restore of that name that is gone may have left one: the new one says so, and the cluster is looked after all the same.
func TestABackupOfSomebodyElseStopsTheRestoreAndNotTheCluster(t *testing.T) {
	foreign := fakeapi.Backup(func(b *v1alpha1.Backup) {
		b.Name, b.UID, b.Spec.Cluster = "back-before", "uid-former", v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"}
		b.Labels = map[string]string{v1alpha1.LabelRestore: "back"}
		b.Annotations = map[string]string{v1alpha1.AnnotationRestoreUID: "uid-of-the-former u-1"}
	})
	s := newRedisStage(t, fakeapi.RedisCluster(), stored(), foreign)
	s.Settle()
	s.Confirmed("back", v1alpha1.RestoreAll, func(r *v1alpha1.Restore) { r.Spec.SaveCurrent = nil })
	kind := s.Loop.Kind.(*Reconciler) //nolint:forcetypeassert // It is what the stage has made.
	if state, err := kind.Observe(t.Context(), s.Cluster()); err != nil || state.Confirmed == nil {
		t.Errorf("the cluster is not looked after: %v", err)
	}
	for range 5 {
		s.Pass()
	}
	if s.Exists(&batchv1.Job{}, cluster.LoadJob("carts")) || s.Exists(&v1alpha1.Backup{}, "back-before-2") || !meta.IsStatusConditionTrue(s.Cluster().Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("it is %s", s.Cluster().Status.Activity)
	}
	r := &v1alpha1.Restore{}
	if !s.Exists(r, "back") {
		t.Fatal("there is no Restore")
	}
	r.Status.Conditions = nil
	restores := restore.New(kind.Client, map[v1alpha1.ClusterKind]restore.Target{v1alpha1.KindRedisCluster: kind})
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
	other := fakeapi.Backup(func(b *v1alpha1.Backup) {
		b.Name, b.UID, b.Spec.Cluster = "other", "uid-other", v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"}
	})
	s := newRedisStage(t, fakeapi.RedisCluster(), stored(), other)
	s.Settle()
	kind := s.Loop.Kind.(*Reconciler) //nolint:forcetypeassert // It is what the stage has made.
	backups := backup.New(kind.Client, map[v1alpha1.ClusterKind]backup.SourceKind{v1alpha1.KindRedisCluster: kind})
	if err := backups.Act(t.Context(), other, planner.Take{}); err != nil {
		t.Fatal(err)
	}
	take := &batchv1.Job{}
	if !s.Exists(take, "other"+backup.TakeSuffix) || !ptr.Deref(take.Spec.Suspend, false) {
		t.Fatalf("it runs before it is known that it may: %v", take.Spec.Suspend)
	}
	r := s.Confirm("back", v1alpha1.RestoreAll)
	for range 10 {
		s.Pass()
	}
	if target := s.Target(r); !target.Begun || s.Exists(&batchv1.Job{}, cluster.LoadJob("carts")) || !strings.Contains(s.Cluster().Status.Activity, "Backup other is being taken") {
		t.Errorf("%+v, %s", target, s.Cluster().Status.Activity)
	}
	if err := backups.Act(t.Context(), other, planner.Resume{Name: take.Name, UID: string(take.UID)}); err == nil {
		t.Error("the Job runs while the data is replaced")
	}
	state, err := backups.Observe(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	state.Protected = true
	drop, ok := backups.Next(state).Step.(planner.DropJob) // The other side does not wait for this one.
	if !ok {
		t.Fatalf("the Backup waits for the restore, and that for the Backup: %+v", backups.Next(state))
	}
	if err := backups.Act(t.Context(), other, drop); err != nil {
		t.Fatal(err)
	}
	s.Ends(s.Until(cluster.LoadJob("carts")), job.Report{Restored: &job.Restored{Keys: 5}})
	s.Settle()
	if err := backups.Act(t.Context(), other, planner.Take{}); err != nil {
		t.Fatal(err)
	}
	if !s.Exists(take, "other"+backup.TakeSuffix) {
		t.Fatal("there is no Job")
	}
	if err := backups.Act(t.Context(), other, planner.Resume{Name: take.Name, UID: string(take.UID)}); err != nil || !s.Exists(take, take.Name) || ptr.Deref(take.Spec.Suspend, true) {
		t.Errorf("afterwards: %v, %v", err, take.Spec.Suspend)
	}
}

// A Backup that is being taken would find a part of the data: what is to be confirmed waits for it, but not for the one of what there is before.
func TestARestoreOfEverythingWaitsForABackupThatIsBeingTaken(t *testing.T) {
	newBackup := func(name string, change func(*v1alpha1.Backup)) *v1alpha1.Backup {
		return fakeapi.Backup(func(b *v1alpha1.Backup) {
			b.Name, b.UID, b.Spec.Cluster = name, types.UID("uid-"+name), v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"}
			if change != nil {
				change(b)
			}
		})
	}
	job := func(name string, ended bool) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name + backup.TakeSuffix, Labels: job.Labels(name, "carts"),
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
		objects        []client.Object
		WaitsForIssuer bool
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
			why, err := New(ownedtest.New(fakeapi.New(t, tc.objects...))).beingBackedUp(t.Context(), r)
			if err != nil || (why != "") != tc.WaitsForIssuer {
				t.Errorf("%q, %v", why, err)
			}
		})
	}
	s := newRedisStage(t, fakeapi.RedisCluster(), newBackup("other", nil), job("other", false))
	s.Settle()
	if target := s.Target(r); !strings.Contains(target.Missing, "Backup other of it is being taken: wait until it is complete, or delete it") {
		t.Errorf("%+v", target)
	}
}

// A Backup that begins while what there is is saved would end after it: the restore would wait for it, and save everything once more, without end.
func TestOtherBackupsWaitFromTheConfirmationOn(t *testing.T) {
	of := v1alpha1.ClusterReference{Kind: v1alpha1.KindRedisCluster, Name: "carts"}
	other := fakeapi.Backup(func(b *v1alpha1.Backup) { b.Name, b.UID, b.Spec.Cluster = "nightly", "uid-nightly", of })
	s := newRedisStage(t, fakeapi.RedisCluster(), stored(), other)
	s.Settle()
	kind := s.Loop.Kind.(*Reconciler) //nolint:forcetypeassert // It is what the stage has made.
	backups := backup.New(kind.Client, map[v1alpha1.ClusterKind]backup.SourceKind{v1alpha1.KindRedisCluster: kind})
	r := s.Confirmed("back", v1alpha1.RestoreAll, func(r *v1alpha1.Restore) { r.Spec.SaveCurrent = nil })
	own := &v1alpha1.Backup{}
	for range 20 {
		if s.Pass(); s.Exists(own, "back-before") {
			break
		}
	}
	begin := func(b *v1alpha1.Backup) error {
		if err := backups.Act(t.Context(), b, planner.Take{}); err != nil {
			t.Fatal(err)
		}
		job := &batchv1.Job{}
		if !s.Exists(job, b.Name+backup.TakeSuffix) {
			t.Fatalf("there is no Job of %s", b.Name)
		}
		return backups.Act(t.Context(), b, planner.Resume{Name: job.Name, UID: string(job.UID)})
	}
	if err := begin(own); err != nil {
		t.Errorf("what there is is not saved: %v", err)
	}
	if err := begin(other); err == nil || !strings.Contains(err.Error(), "Restore back is confirmed, which saves what there is and replaces it") {
		t.Errorf("the other one: %v", err)
	}
	if target := s.Target(r); target.Missing != "" {
		t.Errorf("the restore waits for who waits for it: %s", target.Missing)
	}
	own.Status.CompletionTime = ptr.To(metav1.NewTime(fakeapi.Now))
	own.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: job.ReasonFailed, Message: "no room"}}
	if err := s.API.Status().Update(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	if err := begin(other); err != nil {
		t.Errorf("although nothing will be replaced: %v", err)
	}
}

// stored is a Backup that is complete.
func stored() *v1alpha1.Backup {
	return fakeapi.Backup(func(b *v1alpha1.Backup) {
		b.Status.Directory = backup.Directory(b)
		b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: "BackupComplete"}}
	})
}
