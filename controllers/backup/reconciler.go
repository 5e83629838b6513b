package backup

import (
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/conditions"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
)

// What is worked on; patched for the finalizer that has its data removed first.
// +kubebuilder:rbac:groups=quorate.dev,resources=backups,verbs=list;watch;patch
// What became of it.
// +kubebuilder:rbac:groups=quorate.dev,resources=backups/status,verbs=patch
// Its Jobs go with it, and block its deletion until they have.
// +kubebuilder:rbac:groups=quorate.dev,resources=backups/finalizers,verbs=update

// The Jobs of a backup, by what follows its name.
const (
	TakeSuffix   = "-take"
	checkSuffix  = "-check"
	removeSuffix = "-remove"
)

// removeLimit is how long a Job may take that deletes a backup.
const removeLimit = time.Hour

// heldPatience is how soon a Backup is looked at again that waits because the data of its cluster is replaced.
const heldPatience = 5 * time.Second

// SourceKind is a kind of cluster that backups are taken of.
type SourceKind interface {
	// Source says of a cluster whether it can be backed up, and how a Job gets at it; nil when there is none of that name.
	Source(ctx context.Context, namespace, name string) (*planner.Source, *job.Access, error)
	// ServerImage is the image of the data store in which a check of a backup of that cluster, which may be gone or have no name, starts
	// servers; empty where none is known.
	ServerImage(ctx context.Context, namespace, name string, of job.Stored) (string, error)
	// Replaced says why a Backup of the cluster must not be begun now: its data is being replaced, which is looked at past the cache, or about to be.
	// It is empty when nothing is in the way.
	Replaced(ctx context.Context, o *v1alpha1.Backup) (string, error)
	// Engine is the word of the agent for what it backs up.
	Engine() string
	// Readers are the clusters of a namespace that have begun with a backup and are not done, whatever became of who asked for that.
	Readers(ctx context.Context, namespace string) ([]Reader, error)
}

// Reconciler looks after backups.
type Reconciler struct {
	*owned.Client
	sources map[v1alpha1.ClusterKind]SourceKind
}

var _ reconcile.Kind[*v1alpha1.Backup, planner.State] = (*Reconciler)(nil)

// New returns what the loop needs to look after backups.
func New(c *owned.Client, sources map[v1alpha1.ClusterKind]SourceKind) *Reconciler {
	return &Reconciler{Client: c, sources: sources}
}

// Setup registers the controller of backups. It looks again when anything changes about their Jobs.
func Setup(mgr ctrl.Manager, o reconcile.Options, kind *Reconciler) error {
	return reconcile.Register(mgr, o.For(v1alpha1.ComponentBackup, func(b *builder.Builder) { b.Owns(&batchv1.Job{}) }), &v1alpha1.Backup{}, kind)
}

// Directory is where a backup is kept below the URL of its destination: the cluster, the time and the resource tell it apart.
func Directory(o *v1alpha1.Backup) string {
	uid, _, _ := strings.Cut(string(o.UID), "-")
	return fmt.Sprintf("%s-%s-%s", o.Spec.Cluster.Name, o.CreationTimestamp.UTC().Format("20060102T150405Z"), uid)
}

// Ensure has nothing to apply: Jobs are steps.
func (k *Reconciler) Ensure(context.Context, *v1alpha1.Backup) error { return nil }

// RenewWhilePaused has nothing to renew.
func (k *Reconciler) RenewWhilePaused(context.Context, *v1alpha1.Backup) error { return nil }

// Observe reads a backup's Jobs and its cluster. That it is complete is for good: its status says so once its Job is gone. Were that
// lost, the Job would find the backup in the store.
func (k *Reconciler) Observe(ctx context.Context, o *v1alpha1.Backup) (planner.State, error) {
	s := planner.State{
		Now: k.Now(), Name: o.Name, Deleting: o.DeletionTimestamp != nil, Protected: controllerutil.ContainsFinalizer(o, v1alpha1.Finalizer),
		Deletes: o.Deletes(), Verifies: o.Verifies(),
	}
	s.Stored, s.Failed = takeOutcome(o, nil) // Reported even where the rest cannot be read: what is not reported is forgotten.
	s.Checked, s.Unverified = checkOutcome(o, nil)
	for name, to := range map[string]**planner.Job{TakeSuffix: &s.Take, checkSuffix: &s.Check, removeSuffix: &s.Remove} {
		var err error
		if *to, err = k.Job(ctx, o, o.Name+name, job.Selector(o.Name)); err != nil {
			return s, err
		}
		(*to).Advise(job.MemoryCure)
	}
	s.Stored, s.Failed = takeOutcome(o, s.Take)
	s.Checked, s.Unverified = checkOutcome(o, s.Check)
	if s.Deleting {
		return s, k.observeEnd(ctx, o, &s)
	}
	if s.Stored != nil || s.Failed != nil {
		return s, nil
	}
	var err error
	s.Source, _, err = k.source(ctx, o)
	return s, err
}

// observeEnd reads what decides about the data of a backup that is being deleted.
func (k *Reconciler) observeEnd(ctx context.Context, o *v1alpha1.Backup, s *planner.State) error {
	readers, err := k.readers(ctx, o.Namespace)
	if err != nil {
		return err
	}
	s.Readers = readers[o.Name]
	name, _ := job.Claim(o.Spec.Destination.URL)
	if name == "" {
		return nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err = k.Direct.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, claim)
	s.Vanishing = apierrors.IsNotFound(err) || claim.DeletionTimestamp != nil
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read claim %s: %w", name, err)
	}
	return nil
}

// of is what a Backup is taken of: a cluster of ours, or an external one.
func (k *Reconciler) of(o *v1alpha1.Backup) (SourceKind, error) {
	from, ok := k.sources[o.Spec.Cluster.Kind]
	switch {
	case !ok:
		return nil, owned.InvalidSpec("spec.cluster.kind: backups of a %s cannot be taken", o.Spec.Cluster.Kind)
	case o.Spec.External != nil:
		return external{from, o.Spec}, nil
	}
	return from, nil
}

func (k *Reconciler) source(ctx context.Context, o *v1alpha1.Backup) (*planner.Source, *job.Access, error) {
	from, err := k.of(o)
	if err != nil {
		return nil, nil, err
	}
	return from.Source(ctx, o.Namespace, o.Spec.Cluster.Name)
}

func (k *Reconciler) sourceOf(ctx context.Context, namespace string, of v1alpha1.ClusterReference) (*planner.Source, *job.Access, error) {
	from, ok := k.sources[of.Kind]
	if !ok {
		return nil, nil, owned.InvalidSpec("spec.cluster.kind: backups of a %s cannot be taken", of.Kind)
	}
	return from.Source(ctx, namespace, of.Name)
}

// Next decides what to do.
func (k *Reconciler) Next(s planner.State) cluster.Plan { return planner.Next(s) }

// Act carries out one step of the planner.
func (k *Reconciler) Act(ctx context.Context, o *v1alpha1.Backup, step cluster.Step) error {
	switch s := step.(type) {
	case planner.Protect:
		return k.PatchFinalizer(ctx, o, controllerutil.AddFinalizer)
	case planner.Release:
		return k.PatchFinalizer(ctx, o, controllerutil.RemoveFinalizer)
	case planner.DropJob:
		return k.DeleteJob(ctx, o, s.Name, s.UID)
	case planner.Take:
		return k.take(ctx, o)
	case planner.Resume:
		return k.resume(ctx, o, s)
	case planner.Check:
		return k.startCheck(ctx, o, s.Stored)
	case planner.Remove:
		err := k.start(ctx, o, job.Work{Name: o.Name + removeSuffix, Args: []string{"backup", "remove"}, Limit: removeLimit})
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return k.PatchFinalizer(ctx, o, controllerutil.RemoveFinalizer) // Nothing can be started there any more; the data stays.
		}
		return err
	}
	return fmt.Errorf("there is no way to carry out a %T", step)
}

// take starts the Job that takes the backup.
func (k *Reconciler) take(ctx context.Context, o *v1alpha1.Backup) error {
	source, access, err := k.source(ctx, o)
	if err != nil {
		return err
	}
	if access == nil {
		return cluster.Hold{Reason: planner.ReasonWaiting, Message: "the cluster has changed meanwhile, and is looked at again"}
	}
	if e := o.Spec.External; e != nil && e.Credentials != nil {
		if _, err := k.UserSecret(ctx, o, "spec.external.credentials.name", e.Credentials.Name); err != nil {
			return err
		}
	}
	args := append([]string{
		"backup", k.sources[o.Spec.Cluster.Kind].Engine(), "--namespace=" + o.Namespace, "--cluster=" + o.Spec.Cluster.Name, "--id=" + string(o.UID),
	}, access.Args...)
	return k.start(ctx, o, job.Work{Name: o.Name + TakeSuffix, Args: args, For: source.History, Access: access, Limit: owned.TakeLimit, Suspended: true})
}

// resume lets the Job run that takes the backup, if nobody replaces the data.
func (k *Reconciler) resume(ctx context.Context, o *v1alpha1.Backup, s planner.Resume) error {
	from, err := k.of(o)
	if err != nil {
		return err
	}
	why, err := from.Replaced(ctx, o)
	if err != nil {
		return err
	}
	if why != "" {
		return cluster.Hold{Reason: planner.ReasonWaiting, Message: "the cluster cannot be backed up yet: " + why, After: heldPatience}
	}
	return k.ResumeJob(ctx, o, s.Name, s.UID)
}

// startCheck starts the Job that restores the backup into a throw-away server. It has nothing of the cluster but the places where its pods
// may run.
func (k *Reconciler) startCheck(ctx context.Context, o *v1alpha1.Backup, of job.Stored) error {
	_, access, err := k.source(ctx, o)
	if err != nil {
		return err
	}
	work := job.Work{Name: o.Name + checkSuffix, Args: []string{"backup", "check"}, Scratch: true, Limit: owned.TakeLimit}
	if access != nil {
		work.Access = &job.Access{Template: access.Template}
	}
	from, err := k.of(o)
	if err != nil {
		return err
	}
	cluster := o.Spec.Cluster.Name
	if o.Spec.Destination.ServiceAccountName != nil {
		cluster = "" // Its spec.image could be any: the container has the token of the account.
	}
	image, err := from.ServerImage(ctx, o.Namespace, cluster, of)
	if err != nil {
		return err
	}
	return k.start(ctx, o, work.InServer(image, of))
}

// checkAgain starts another check, in the place of one that has ended.
func (k *Reconciler) checkAgain(ctx context.Context, o *v1alpha1.Backup) error {
	job, err := k.Job(ctx, o, o.Name+checkSuffix, job.Selector(o.Name))
	if err != nil {
		return err
	}
	stored, _ := takeOutcome(o, nil)
	if job == nil && stored != nil {
		return k.startCheck(ctx, o, *stored)
	}
	if job == nil {
		return cluster.Hold{Reason: planner.ReasonVerifying, Message: "the backup is not complete any more, and is looked at again"}
	}
	if job.Ended && !job.Leaving {
		if err := k.DeleteJob(ctx, o, job.Name, job.UID); err != nil {
			return err
		}
	}
	return cluster.Hold{Reason: planner.ReasonVerifying, Message: "the check before is being removed"}
}

// start makes a Job that belongs to a backup.
func (k *Reconciler) start(ctx context.Context, o *v1alpha1.Backup, w job.Work) error {
	w.Labels, w.Destination, w.Resources = job.Labels(o.Name, o.Spec.Cluster.Name), o.Spec.Destination, o.Spec.Resources
	w.Args = append(w.Args, "--directory="+Directory(o))
	field := "spec.destination"
	if o.DeletionTimestamp != nil {
		field = "" // In a namespace that is being deleted the Secret may be gone, and the answer to the Job tells which.
	}
	return k.StartJob(ctx, o, w, field)
}

// Report fills in the status.
func (k *Reconciler) Report(o *v1alpha1.Backup, s planner.State, p cluster.Plan, err error) {
	st := &o.Status
	st.ObservedGeneration = o.Generation
	st.Activity = cluster.Activity(p, err)
	st.Type, st.Directory = "Full", Directory(o)
	switch {
	case s.Stored != nil:
		st.Size, st.StoredSize, st.Stored = s.Stored.Size, s.Stored.StoredSize, job.Bytes(s.Stored.StoredSize)
		st.Engine, st.Revision, st.Keys = strings.TrimSpace(s.Stored.Engine+" "+s.Stored.Version), s.Stored.Revision, s.Stored.Keys
		st.StartTime, st.CompletionTime, st.ServerMemory = conditions.Time(s.Stored.Started), conditions.Time(s.Stored.Finished), s.Stored.Memory
	case s.Failed != nil && s.Take != nil:
		st.CompletionTime = conditions.Time(s.Take.Since)
	case s.Take != nil && s.Take.Flow != nil:
		st.Size, st.StoredSize, st.Stored = s.Take.Flow.Bytes, s.Take.Flow.Stored, job.Bytes(s.Take.Flow.Stored)
	}
	if c := s.Checked; c != nil {
		st.Verification = &v1alpha1.BackupVerification{
			Time: *conditions.Time(c.Time), Seconds: int64(c.Took.Round(time.Second).Seconds()), Keys: c.Keys, Revision: c.Revision,
			Server: c.Server,
		}
	}
	conditions.Set(&st.Conditions, k.Now(), o.Generation, planner.Conditions(s, p, err)...)
}
