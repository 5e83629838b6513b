package restore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
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
// +kubebuilder:rbac:groups=quorate.dev,resources=restores,verbs=list;watch
// What became of it.
// +kubebuilder:rbac:groups=quorate.dev,resources=restores/status,verbs=patch
// Its Jobs go with it, and block its deletion until they have.
// +kubebuilder:rbac:groups=quorate.dev,resources=restores/finalizers,verbs=update

// jobFind looks up the backup of a Restore, by what follows its name.
const jobFind = "-find"

// Target is a kind of cluster that backups are put into. It carries out what was confirmed itself: see Approved.
type Target interface {
	// Target says of a cluster whether a backup can be put into it, how far that is, and how the backup is looked up; nil when there is
	// none of that name. found is nil while the backup is not known.
	Target(ctx context.Context, o *v1alpha1.Restore, found *planner.Found) (*planner.Target, Lookup, error)
}

// Reconciler looks after restores.
type Reconciler struct {
	*owned.Client
	targets map[v1alpha1.ClusterKind]Target
}

var _ reconcile.Kind[*v1alpha1.Restore, planner.RestoreState] = (*Reconciler)(nil)

// New returns what the loop needs to look after restores.
func New(c *owned.Client, targets map[v1alpha1.ClusterKind]Target) *Reconciler {
	return &Reconciler{Client: c, targets: targets}
}

// Setup registers the controller of restores. It looks again when anything changes about their Jobs, about the backups of what
// there was before, or about a cluster.
func Setup(mgr ctrl.Manager, o reconcile.Options, kind *Reconciler) error {
	return reconcile.Register(mgr, o.For(v1alpha1.ComponentRestore, func(b *builder.Builder) {
		b.Owns(&batchv1.Job{}).
			Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(restoreOfBackup)).
			Watches(&v1alpha1.EtcdCluster{}, handler.EnqueueRequestsFromMapFunc(restoresOf(mgr.GetClient(), v1alpha1.KindEtcdCluster))).
			Watches(&v1alpha1.RedisCluster{}, handler.EnqueueRequestsFromMapFunc(restoresOf(mgr.GetClient(), v1alpha1.KindRedisCluster)))
	}), &v1alpha1.Restore{}, kind)
}

// restoreOfBackup maps a Backup of what a cluster had before to the Restore that it was made for.
func restoreOfBackup(_ context.Context, o client.Object) []ctrl.Request {
	name := o.GetLabels()[v1alpha1.LabelRestore]
	if name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

// restoresOf maps a cluster to the restores that are to change it, or do.
func restoresOf(r client.Reader, kind v1alpha1.ClusterKind) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []ctrl.Request {
		list, err := Unfinished(ctx, r, o.GetNamespace(), kind, o.GetName())
		if err != nil {
			return nil // It is looked at again soon anyway.
		}
		var out []ctrl.Request
		for i := range list {
			out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list[i])})
		}
		return out
	}
}

// RequestForCluster maps a Restore to its cluster, for the controller of that kind.
func RequestForCluster(kind v1alpha1.ClusterKind) handler.MapFunc {
	return func(_ context.Context, o client.Object) []ctrl.Request {
		r, ok := o.(*v1alpha1.Restore)
		if !ok || r.Spec.Cluster.Kind != kind {
			return nil
		}
		return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.Cluster.Name}}}
	}
}

// Unfinished lists the restores of a cluster that are not complete, the oldest first.
func Unfinished(ctx context.Context, r client.Reader, namespace string, kind v1alpha1.ClusterKind, name string) ([]v1alpha1.Restore, error) {
	all, err := all(ctx, r, namespace, kind, name)
	return slices.DeleteFunc(all, func(r v1alpha1.Restore) bool { return complete(&r) }), err
}

// all lists the restores of a cluster, the oldest first.
func all(ctx context.Context, r client.Reader, namespace string, kind v1alpha1.ClusterKind, name string) ([]v1alpha1.Restore, error) {
	var list v1alpha1.RestoreList
	of := v1alpha1.ClusterReference{Kind: kind, Name: name}
	if err := r.List(ctx, &list, client.InNamespace(namespace), owned.OfCluster(of)); err != nil {
		return nil, fmt.Errorf("list restores: %w", err)
	}
	out := slices.DeleteFunc(list.Items, func(r v1alpha1.Restore) bool { return r.Spec.Cluster != of || r.DeletionTimestamp != nil })
	slices.SortFunc(out, func(a, b v1alpha1.Restore) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

func complete(r *v1alpha1.Restore) bool {
	return meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionComplete)
}

// overtakenBy is the youngest Restore of the same cluster that has been carried out although it is younger than one that has not, empty when there is
// none: what it has restored is not replaced by what was asked for before it. all are in order.
func overtakenBy(all []v1alpha1.Restore, uid types.UID) string {
	for i := len(all) - 1; i >= 0 && all[i].UID != uid; i-- {
		if complete(&all[i]) {
			return all[i].Name
		}
	}
	return ""
}

// ApprovedRestore is a Restore that a cluster is to carry out.
type ApprovedRestore struct {
	*v1alpha1.Restore
	// Destination of the backup that was found.
	Destination v1alpha1.BackupDestination
}

// Approved is the oldest Restore of a cluster that was confirmed, nil for none. That it is confirmed is what its own controller has
// said of the plan that its annotation names. One that says that it cannot be carried out stands back behind younger ones: it may have told people
// to make another one.
func Approved(ctx context.Context, c *owned.Client, o owned.Owner, kind v1alpha1.ClusterKind) (*ApprovedRestore, error) {
	if o.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	list, err := all(ctx, c, o.GetNamespace(), kind, o.GetName())
	if err != nil {
		return nil, err
	}
	var stalled *ApprovedRestore
	for i := range list {
		r := &list[i]
		if complete(r) || !approved(r, o) || overtakenBy(list, r.UID) != "" {
			continue
		}
		source, _, missing, err := Resolve(ctx, c, o.GetNamespace(), r.Spec.From)
		if err != nil {
			return nil, err
		}
		if missing != "" {
			continue // Its controller says so.
		}
		c := &ApprovedRestore{r, *source.Destination}
		if !meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionStalled) {
			return c, nil
		}
		stalled = cmp.Or(stalled, c)
	}
	return stalled, nil
}

// approved reports whether somebody has confirmed that a Restore is carried out on this very cluster.
func approved(r *v1alpha1.Restore, o owned.Owner) bool {
	uid, _, _ := strings.Cut(r.Status.Scope, " ")
	return r.Status.Found != nil && r.Status.Plan != "" && r.Annotations[v1alpha1.AnnotationConfirm] == r.Status.Plan && uid == string(o.GetUID()) &&
		meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionConfirmed)
}

// CheckApproved looks once more, past the cache, before there is no way back. is tells the Restore.
func CheckApproved(ctx context.Context, c *owned.Client, o owned.Owner, kind v1alpha1.ClusterKind, is func(r *v1alpha1.Restore) bool) error {
	open, err := Unfinished(ctx, c.Direct, o.GetNamespace(), kind, o.GetName())
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(open, func(r v1alpha1.Restore) bool { return is(&r) && approved(&r, o) }) {
		return cluster.Hold{Reason: planner.ReasonRestoring, Message: "what was confirmed has changed meanwhile, and is looked at again"}
	}
	return nil
}

// Ensure has nothing to apply: Jobs are steps.
func (k *Reconciler) Ensure(context.Context, *v1alpha1.Restore) error { return nil }

// RenewWhilePaused has nothing to renew.
func (k *Reconciler) RenewWhilePaused(context.Context, *v1alpha1.Restore) error { return nil }

// Observe reads what was found, the cluster, and the backup of what that had before.
func (k *Reconciler) Observe(ctx context.Context, o *v1alpha1.Restore) (planner.RestoreState, error) {
	s := planner.RestoreState{
		Now: k.Now(), Name: o.Name, Namespace: o.Namespace, UID: string(o.UID), Confirmed: o.Annotations[v1alpha1.AnnotationConfirm], Saves: o.SavesCurrent(),
		Found: foundBefore(o.Status), Complete: completeBefore(o.Status),
	}
	if s.Complete != nil {
		return s, nil
	}
	_, how, err := k.target(ctx, o, nil)
	if err != nil {
		return s, err
	}
	if s.Found == nil {
		if s.Request, err = Request(ctx, k.Client, o, how); err != nil {
			return s, err
		}
		s.Found = foundBy(s.Request)
	}
	if s.Target, _, err = k.target(ctx, o, s.Found); s.Target == nil || err != nil {
		return s, err
	}
	if t := s.Target; s.Found != nil && t.Refused == "" && !t.Begun && t.Restored == nil {
		if t.Refused, err = k.withdrawn(ctx, o); err != nil {
			return s, err
		}
	}
	s.Saved, _, err = Saved(ctx, k.Client, o, s.Target.Scope)
	return s, err
}

// withdrawn says why a backup that was found is not restored any more, empty when it may be: it is not there, or a younger Restore was carried out.
func (k *Reconciler) withdrawn(ctx context.Context, o *v1alpha1.Restore) (string, error) {
	_, _, missing, err := Resolve(ctx, k.Client, o.Namespace, o.Spec.From)
	if missing != "" || err != nil {
		return missing, err
	}
	all, err := all(ctx, k, o.Namespace, o.Spec.Cluster.Kind, o.Spec.Cluster.Name)
	if by := overtakenBy(all, o.UID); by != "" {
		return "Restore " + by + " is younger and has been carried out, and what it has restored would be replaced: create another Restore if that is meant", err
	}
	return "", err
}

// target asks the kind of cluster that is restored.
func (k *Reconciler) target(ctx context.Context, o *v1alpha1.Restore, found *planner.Found) (*planner.Target, Lookup, error) {
	kind, ok := k.targets[o.Spec.Cluster.Kind]
	if !ok {
		return nil, Lookup{}, owned.InvalidSpec("spec.cluster.kind: a %s cannot be restored", o.Spec.Cluster.Kind)
	}
	t, how, err := kind.Target(ctx, o, found)
	how.field, how.from, how.job, how.kind = "spec.from", &o.Spec.From, o.Name+jobFind, o.Spec.Cluster.Kind
	return t, how, err
}

// foundBy is what a Job has found, nil while it has not, or has found something else than what is asked for now.
func foundBy(w *planner.RestoreRequest) *planner.Found {
	if w == nil || w.Job == nil || w.Job.For != w.Sum || !w.Job.Ended || w.Job.Failed || w.Job.Report == nil || w.Job.Report.Backup == nil {
		return nil
	}
	return &planner.Found{Stored: *w.Job.Report.Backup, Target: w.Job.Report.Target, LastChange: w.Job.Report.LastChange}
}

// foundBefore reads back what a status says was found.
func foundBefore(s v1alpha1.RestoreStatus) *planner.Found {
	f := s.Found
	if f == nil {
		return nil
	}
	engine, version, _ := strings.Cut(f.Engine, " ")
	found := &planner.Found{
		Stored: job.Stored{
			Directory: f.Directory, Engine: engine, Version: version, Size: f.Size, Revision: f.Revision, Timeline: f.Timeline,
			Keys: f.Keys, Shards: int(f.Shards), Finished: f.Time.Time,
		},
		Target: f.Target,
	}
	if f.LastChange != nil {
		found.LastChange = &f.LastChange.Time
	}
	return found
}

// completeBefore reads back what a status says of a restore that is complete.
func completeBefore(s v1alpha1.RestoreStatus) *job.Restored {
	if !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionComplete) {
		return nil
	}
	return &job.Restored{Revision: s.Revision, Keys: s.Keys}
}

// Next decides what to do.
func (k *Reconciler) Next(s planner.RestoreState) cluster.Plan { return planner.NextOfRestore(s) }

// Act carries out one step of the planner.
func (k *Reconciler) Act(ctx context.Context, o *v1alpha1.Restore, step cluster.Step) error {
	switch s := step.(type) {
	case planner.FindBackup:
		_, how, err := k.target(ctx, o, nil)
		if err != nil {
			return err
		}
		return FindBackup(ctx, k.Client, o, how)
	case planner.DropRestoreJob:
		return k.DeleteJob(ctx, o, s.Name, s.UID)
	}
	return fmt.Errorf("there is no way to carry out a %T", step)
}

// Report fills in the status.
func (k *Reconciler) Report(o *v1alpha1.Restore, s planner.RestoreState, p cluster.Plan, err error) {
	st := &o.Status
	st.ObservedGeneration = o.Generation
	st.Activity = cluster.Activity(p, err)
	if s.Complete != nil || s.UID == "" {
		return // It is as it was reported, or nothing could be read.
	}
	if f := s.Found; f != nil && st.Found == nil {
		st.Found = &v1alpha1.RestoreFound{
			Directory: f.Directory, Engine: strings.TrimSpace(f.Engine + " " + f.Version), Time: *conditions.Time(f.Finished), Size: f.Size,
			Revision: f.Revision, Target: f.Target, Timeline: f.Timeline, Keys: f.Keys, Shards: int32(f.Shards), //nolint:gosec // Of one cluster.
		}
		if f.LastChange != nil {
			st.Found.LastChange = conditions.Time(*f.LastChange)
		}
	}
	if name := s.Plan(); name != "" && s.Target.Missing == "" && !s.Target.Begun && s.Target.Restored == nil {
		st.Plan, st.Scope = name, s.Target.Scope
	}
	if s.Saved != nil && !s.Saved.Foreign {
		st.SavedAs = s.Saved.Name
	}
	if s.Target != nil && s.Target.Restored != nil {
		st.Revision, st.Keys, st.CompletionTime = s.Target.Restored.Revision, s.Target.Restored.Keys, conditions.Time(s.Now)
	}
	conditions.Set(&st.Conditions, k.Now(), o.Generation, planner.RestoreConditions(s, p, err)...)
}
