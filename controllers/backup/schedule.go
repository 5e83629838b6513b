package backup

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/conditions"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
)

// What is worked on.
// +kubebuilder:rbac:groups=quorate.dev,resources=backupschedules,verbs=list;watch
// What became of its runs.
// +kubebuilder:rbac:groups=quorate.dev,resources=backupschedules/status,verbs=patch
// What records changes goes with it, and blocks its deletion until it has.
// +kubebuilder:rbac:groups=quorate.dev,resources=backupschedules/finalizers,verbs=update
// A run is a Backup, and retention removes those that are not kept.
// +kubebuilder:rbac:groups=quorate.dev,resources=backups,verbs=create;delete

// ScheduleReconciler looks after schedules of backups.
type ScheduleReconciler struct {
	*owned.Client
	backups *Reconciler
}

var _ reconcile.Kind[*v1alpha1.BackupSchedule, planner.ScheduleState] = (*ScheduleReconciler)(nil)

// NewSchedule returns what the loop needs to look after schedules.
func NewSchedule(c *owned.Client, backups *Reconciler) *ScheduleReconciler {
	return &ScheduleReconciler{c, backups}
}

// SetupSchedules registers the controller of schedules. It looks again when anything changes about their backups.
func SetupSchedules(mgr ctrl.Manager, o reconcile.Options, kind *ScheduleReconciler) error {
	return reconcile.Register(mgr, o.For(v1alpha1.ComponentBackupSchedule, func(b *builder.Builder) {
		b.Owns(&appsv1.StatefulSet{}).Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
			name := o.GetLabels()[v1alpha1.LabelSchedule]
			if name == "" {
				return nil
			}
			return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
		}))
	}), &v1alpha1.BackupSchedule{}, kind)
}

// Ensure applies what records changes, if they are to be. Backups are steps.
func (k *ScheduleReconciler) Ensure(ctx context.Context, o *v1alpha1.BackupSchedule) error {
	if o.Spec.Incremental == nil {
		return nil
	}
	source, access, err := k.backups.sourceOf(ctx, o.Namespace, o.Spec.Cluster)
	if err != nil || access == nil || source.Missing != "" || source.Leaving {
		return err // There is nothing to record, or it goes on as it is.
	}
	work := job.Work{
		Name: recorderName(o), Namespace: o.Namespace, Labels: job.ScheduleLabels(o.Name, o.Spec.Cluster.Name), Image: k.AgentImage,
		Args: append([]string{
			"backup", "stream-" + k.backups.sources[o.Spec.Cluster.Kind].Engine(), "--interval=" + o.Spec.Incremental.After().String(),
		}, access.Stream...),
		Destination: o.Spec.Destination, Access: access, Resources: o.Spec.Resources,
	}
	if err := k.CheckAccount(ctx, o, "spec.destination", o.Spec.Destination); err != nil {
		return err
	}
	if work.Owner, err = k.OwnerReference(o); err != nil {
		return err
	}
	set, err := work.StatefulSet()
	if err != nil {
		return err
	}
	return k.Apply(ctx, o, &appsv1.StatefulSet{ObjectMeta: owned.ObjectMeta(o, work.Name)}, set)
}

// recorderName is the StatefulSet that records changes.
func recorderName(o *v1alpha1.BackupSchedule) string { return o.Name + "-recorder" }

// recorder reads how far the recording of changes is, nil when there is none.
func (k *ScheduleReconciler) recorder(ctx context.Context, o *v1alpha1.BackupSchedule) (*planner.Recorder, error) {
	set := &appsv1.StatefulSet{}
	err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: recorderName(o)}, set)
	if apierrors.IsNotFound(err) || (err == nil && (!metav1.IsControlledBy(set, o) || set.DeletionTimestamp != nil)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read StatefulSet %s: %w", recorderName(o), err)
	}
	r := &planner.Recorder{Name: set.Name, UID: string(set.UID), Since: set.CreationTimestamp.Time}
	pod := &corev1.Pod{}
	err = owned.NotFoundUnlessControlled(k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: cluster.Pod(set.Name, 0)}, pod), pod, set)
	if apierrors.IsNotFound(err) {
		if owned.Overdue(set, k.Now()) {
			r.Trouble = cluster.Unmade("statefulset", o.Namespace, set.Name)
		}
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read pod of StatefulSet %s: %w", set.Name, err)
	}
	status := owned.ContainerStatus(pod.Status.ContainerStatuses, job.Container)
	r.Trouble = owned.CannotRunReason(pod, job.Container)
	if last := status.LastTerminationState.Terminated; last != nil && status.State.Running == nil {
		if report, ok := job.ParseReport(last.Message); ok && report.Problem != nil {
			r.Trouble = report.Problem.Message
		}
	}
	if status.State.Running != nil {
		r.Since = status.State.Running.StartedAt.Time
		if flow := k.Flow(ctx, pod); flow != nil {
			r.Stream = flow.Stream
		}
	}
	return r, nil
}

// RenewWhilePaused has nothing to renew.
func (k *ScheduleReconciler) RenewWhilePaused(context.Context, *v1alpha1.BackupSchedule) error {
	return nil
}

// Observe reads the backups that were made for a schedule.
func (k *ScheduleReconciler) Observe(ctx context.Context, o *v1alpha1.BackupSchedule) (planner.ScheduleState, error) {
	t := planner.ScheduleState{
		Now: k.Now(), Name: o.Name, Noun: string(o.Spec.Cluster.Kind) + " " + o.Spec.Cluster.Name, Created: o.CreationTimestamp.Time,
		Deleting: o.DeletionTimestamp != nil, Suspended: o.IsSuspended(), Forbid: o.Forbids(),
		Take:      planner.Schedule{Cron: o.Spec.Schedule, Zone: o.Zone(), Jitter: o.Jitter(), Deadline: o.Deadline(), UID: string(o.UID)},
		Retention: retentionOf(o.Spec.Retention),
	}
	if v := o.Spec.Verify; v != nil {
		t.Check = &planner.Schedule{Cron: v.Schedule, Zone: o.Zone(), Deadline: o.Deadline(), UID: string(o.UID)}
	}
	var err error
	if t.Zone, err = time.LoadLocation(o.Zone()); err != nil {
		return t, owned.InvalidSpec("spec.timeZone: %q is no time zone: write one of the IANA database, for example Europe/Berlin", o.Zone())
	}
	var list v1alpha1.BackupList
	if err := k.List(ctx, &list, client.InNamespace(o.Namespace), client.MatchingLabels{v1alpha1.LabelSchedule: o.Name}); err != nil {
		return t, fmt.Errorf("list backups: %w", err)
	}
	readers, err := k.backups.readers(ctx, o.Namespace)
	if err != nil {
		return t, err
	}
	for i := range list.Items {
		if b := &list.Items[i]; b.Spec.Cluster != o.Spec.Cluster || b.Spec.External != nil {
			continue // It was made for an earlier schedule of this name, of another cluster.
		}
		r, err := k.run(ctx, &list.Items[i])
		if err != nil {
			return t, err
		}
		r.InUse = len(readers[r.Name]) > 0
		t.Runs = append(t.Runs, r)
	}
	source, _, err := k.backups.sourceOf(ctx, o.Namespace, o.Spec.Cluster)
	if err != nil {
		return t, err
	}
	t.Asleep = source != nil && source.Asleep
	t.Records = o.Spec.Incremental != nil
	t.Recorder, err = k.recorder(ctx, o)
	return t, err
}

func retentionOf(r *v1alpha1.BackupRetention) planner.Retention {
	if r == nil {
		return planner.Retention{}
	}
	n := func(p *int32) int { return int(ptr.Deref(p, 0)) }
	return planner.Retention{
		Last: n(r.KeepLast), Hourly: n(r.KeepHourly), Daily: n(r.KeepDaily), Weekly: n(r.KeepWeekly), Monthly: n(r.KeepMonthly),
	}
}

// run is what a Backup says of itself.
func (k *ScheduleReconciler) run(ctx context.Context, b *v1alpha1.Backup) (planner.Run, error) {
	s, err := k.backups.Observe(ctx, b)
	if err != nil {
		return planner.Run{}, err
	}
	r := planner.Run{
		Name: b.Name, UID: string(b.UID), Due: b.CreationTimestamp.Time, Leaving: b.DeletionTimestamp != nil,
		Complete: s.Stored != nil, Checking: s.Check != nil && !s.Check.Ended, Stuck: s.Check.Unpullable(s.Now) != "",
	}
	if due, err := time.Parse(time.RFC3339, b.Annotations[v1alpha1.AnnotationDue]); err == nil {
		r.Due = due
	}
	r.Unplanned = b.Annotations[v1alpha1.AnnotationUnplanned]
	if s.Stored != nil {
		r.Began, r.Finished = s.Stored.Started, s.Stored.Finished
	}
	if s.Failed != nil {
		r.Failed = s.Failed.Message
	}
	if s.Checked != nil {
		r.Verified, r.Checked, r.Took = true, s.Checked.Time, s.Checked.Took
	}
	if s.Unverified == nil {
		return r, nil
	}
	r.Verified, r.Unverified = false, s.Unverified.Message
	if s.Check.Problem() != nil {
		r.Checked = s.Check.Since
	} else if c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionVerified); c != nil && c.LastTransitionTime.After(r.Checked) {
		r.Checked = c.LastTransitionTime.Time // Its Job is gone by now.
	}
	return r, nil
}

// Next decides what to do.
func (k *ScheduleReconciler) Next(t planner.ScheduleState) cluster.Plan {
	return planner.NextOfSchedule(t)
}

// Act carries out one step of the planner.
func (k *ScheduleReconciler) Act(ctx context.Context, o *v1alpha1.BackupSchedule, step cluster.Step) error {
	switch s := step.(type) {
	case planner.CreateBackup:
		err := k.Create(ctx, scheduled(o, s), client.FieldOwner(cluster.ManagedBy))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create Backup %s: %w", s.Name, err)
		}
		return nil
	case planner.StopRecorder:
		uid := types.UID(s.UID)
		set := &appsv1.StatefulSet{ObjectMeta: owned.ObjectMeta(o, s.Name)}
		return owned.IgnoreDeleted(k.Delete(ctx, set, client.Preconditions{UID: &uid}), "StatefulSet "+s.Name)
	case planner.DeleteBackup:
		return k.DeleteBackup(ctx, o, s.Name, s.UID)
	case planner.CheckBackup:
		b := &v1alpha1.Backup{}
		if err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: s.Name}, b); err != nil {
			return fmt.Errorf("read Backup %s: %w", s.Name, err)
		}
		return k.backups.checkAgain(ctx, b)
	}
	return fmt.Errorf("there is no way to carry out a %T", step)
}

// scheduled is the Backup that is made for a schedule. It outlives the schedule.
func scheduled(o *v1alpha1.BackupSchedule, s planner.CreateBackup) *v1alpha1.Backup {
	notes := map[string]string{v1alpha1.AnnotationDue: s.Due.UTC().Format(time.RFC3339)}
	if s.Unplanned != "" {
		notes[v1alpha1.AnnotationUnplanned] = s.Unplanned
	}
	return &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace, Name: s.Name,
			Labels: map[string]string{
				v1alpha1.LabelSchedule: o.Name, cluster.LabelPartOf: o.Spec.Cluster.Name, cluster.LabelManagedBy: cluster.ManagedBy,
			},
			Annotations: notes,
		},
		Spec: v1alpha1.BackupSpec{
			Cluster: o.Spec.Cluster, Destination: o.Spec.Destination, Resources: o.Spec.Resources,
			DeletionPolicy: ptr.To(v1alpha1.DeletionDelete),
		},
	}
}

// Report fills in the status.
func (k *ScheduleReconciler) Report(o *v1alpha1.BackupSchedule, t planner.ScheduleState, p cluster.Plan, err error) {
	st := &o.Status
	st.ObservedGeneration = o.Generation
	st.Activity = cluster.Activity(p, err)
	st.Recording, _ = t.Recording()
	if err == nil || len(t.Runs) > 0 { // Otherwise they could not be read.
		st.Backups, st.LastBackup, st.LastBackupTime = 0, "", nil
	}
	for _, r := range t.Runs {
		if !r.Complete || r.Leaving {
			continue
		}
		st.Backups++
		if at := conditions.Time(r.Finished); st.LastBackupTime == nil || at.After(st.LastBackupTime.Time) {
			st.LastBackup, st.LastBackupTime = r.Name, at
		}
		if at := conditions.Time(r.Checked); r.Verified && (st.LastVerifiedTime == nil || at.After(st.LastVerifiedTime.Time)) {
			st.LastVerifiedTime, st.RestoreSeconds = at, int64(r.Took.Round(time.Second).Seconds())
		}
	}
	st.NextTime = nil
	if next, ok := planner.NextDue(t); ok {
		st.NextTime = conditions.Time(next)
	}
	conditions.Set(&st.Conditions, k.Now(), o.Generation, planner.ScheduleConditions(t, p, err)...)
}
