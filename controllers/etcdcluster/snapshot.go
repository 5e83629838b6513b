package etcdcluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	etcdplanner "github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// The volume that the Backup before an upgrade is stored on.
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=create;patch

// UpgradeOf maps a Backup that was made before an upgrade to its cluster.
func UpgradeOf(_ context.Context, o client.Object) []ctrl.Request {
	l := o.GetLabels()
	if l[cluster.LabelComponent] != v1alpha1.ComponentEtcdSnapshot || l[cluster.LabelPartOf] == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: l[cluster.LabelPartOf]}}}
}

// observeBackups looks for the Backups before upgrades while another version is wanted.
func (k *Reconciler) observeBackups(ctx context.Context, o *v1alpha1.EtcdCluster, s *model.State) error {
	if s.Record.Version == s.Want.Version {
		return nil
	}
	var list v1alpha1.BackupList
	if err := k.List(ctx, &list, client.InNamespace(o.Namespace)); err != nil {
		return fmt.Errorf("list backups: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Backup) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	to := manifests.SnapshotDestination(o)
	for i := range list.Items {
		b := &list.Items[i]
		s.BackupNames = append(s.BackupNames, b.Name)
		if snapshotOf(o, b) {
			state := backupState(b)
			state.Own, state.Elsewhere = b.Spec.Destination.URL == manifests.SnapshotURL(o.Name), !equality.Semantic.DeepEqual(b.Spec.Destination, to)
			state.Former = b.Annotations[v1alpha1.AnnotationHistoryOf] != manifests.HistoryOf(o, *s.Record)
			s.Backups = append(s.Backups, state)
		}
	}
	return nil
}

// backupState is what a Backup says of itself.
func backupState(b *v1alpha1.Backup) model.Backup {
	st := b.Status
	out := model.Backup{
		Name: b.Name, UID: string(b.UID), Leaving: b.DeletionTimestamp != nil, Activity: st.Activity,
		Complete: meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionComplete),
		URL:      b.Spec.Destination.URL, Directory: st.Directory, Revision: st.Revision, Size: st.Size,
	}
	out.From, _ = model.ParseVersion(b.Annotations[v1alpha1.AnnotationVersion])      // Zero for one that was made by hand:
	out.For, _ = model.ParseVersion(b.Annotations[v1alpha1.AnnotationTargetVersion]) // it is for another change.
	if out.Complete && st.Verification != nil && meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionVerified) {
		out.Verified = st.Verification.Time.Time
		return out
	}
	doing := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReconciling)
	out.Checking = out.Complete && doing != nil && doing.Status == metav1.ConditionTrue && doing.Reason == planner.ReasonVerifying
	stalled := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Status != metav1.ConditionTrue {
		return out
	}
	out.Stalled, out.Since = stalled.Message, stalled.LastTransitionTime.Time
	switch {
	case stalled.Reason == planner.ReasonVerifyFailed:
		out.Failed = stalled.Message
	case !out.Complete && st.CompletionTime != nil:
		out.Failed = conditionMessage(st.Conditions, v1alpha1.ConditionComplete)
	}
	return out
}

func conditionMessage(conditions []metav1.Condition, name string) string {
	c := meta.FindStatusCondition(conditions, name)
	if c == nil {
		return ""
	}
	return c.Message
}

// takeSnapshot creates a Backup, and the claim that it is kept on where it has no other destination.
func (k *Reconciler) takeSnapshot(ctx context.Context, o *v1alpha1.EtcdCluster, step steps.TakeSnapshot) error {
	if _, _, err := k.unmoved(ctx, o); err != nil {
		return err
	}
	b, err := k.Blueprint(ctx, o)
	if err != nil {
		return err
	}
	backup := b.Backup(step)
	if backup.Spec.Destination.URL == manifests.SnapshotURL(o.Name) {
		if b.Storage == nil {
			return nil // It was decided on another cluster.
		}
		if err := k.makeSnapshotClaim(ctx, o, b); err != nil {
			return noSnapshot(err)
		}
		if backup.OwnerReferences, err = k.snapshotOwner(o, b); err != nil {
			return err
		}
	}
	err = k.Create(ctx, backup, client.FieldOwner(cluster.ManagedBy))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return noSnapshot(fmt.Errorf("create Backup %s: %w", step.Name, err))
	}
	return nil
}

// noSnapshot refuses what only a human can allow, such as more than a quota of the namespace.
func noSnapshot(err error) error {
	if apierrors.IsForbidden(err) {
		return cluster.Refusal{Reason: etcdplanner.ReasonSnapshotFailed, Message: etcdplanner.SnapshotRefused(err)}
	}
	return err
}

// makeSnapshotClaim makes the claim where there is none. One that was retained has its snapshots, and stays as it is.
func (k *Reconciler) makeSnapshotClaim(ctx context.Context, o *v1alpha1.EtcdCluster, b manifests.Builder) error {
	claim := &corev1.PersistentVolumeClaim{}
	name := cluster.Snapshot(o.Name)
	err := k.Direct.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: name}, claim)
	if apierrors.IsNotFound(err) {
		err = k.Client.Client.Apply(ctx, b.SnapshotClaim(), client.FieldOwner(cluster.ManagedBy), client.ForceOwnership)
		if err != nil {
			return owned.ApplyError("PersistentVolumeClaim "+o.Namespace+"/"+name, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read claim %s: %w", name, err)
	}
	if !snapshotOf(o, claim) || claim.DeletionTimestamp != nil {
		return owned.CheckOwned(o, claim, "PersistentVolumeClaim "+o.Namespace+"/"+name)
	}
	return nil
}

// snapshotOf reports whether a claim or a Backup on it was made before an upgrade of a cluster of this name.
func snapshotOf(o *v1alpha1.EtcdCluster, it client.Object) bool {
	l := it.GetLabels()
	ours := l[cluster.LabelPartOf] == o.Name && l[cluster.LabelManagedBy] == cluster.ManagedBy &&
		l[cluster.LabelComponent] == v1alpha1.ComponentEtcdSnapshot
	return ours && (metav1.GetControllerOf(it) == nil || metav1.IsControlledBy(it, o))
}

// keepSnapshots makes the claim of the snapshots, and the Backups on it, go with the cluster or stay, as spec.storage.deletionPolicy
// says by now.
func (k *Reconciler) keepSnapshots(ctx context.Context, o *v1alpha1.EtcdCluster, b manifests.Builder) error {
	if b.Record.Snapshot.Backup == "" || b.Storage == nil {
		return nil
	}
	var list v1alpha1.BackupList
	if err := k.List(ctx, &list, client.InNamespace(o.Namespace), client.MatchingLabels(manifests.SnapshotSelector(o.Name))); err != nil {
		return fmt.Errorf("list backups: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].Spec.Destination.URL != manifests.SnapshotURL(o.Name) {
			continue
		}
		if err := k.keepSnapshot(ctx, o, b, &list.Items[i]); err != nil {
			return err
		}
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: cluster.Snapshot(o.Name)}, claim)
	if apierrors.IsNotFound(err) {
		return nil // Somebody needed the room.
	}
	if err != nil {
		return fmt.Errorf("read claim %s: %w", cluster.Snapshot(o.Name), err)
	}
	return k.keepSnapshot(ctx, o, b, claim)
}

func (k *Reconciler) keepSnapshot(ctx context.Context, o *v1alpha1.EtcdCluster, b manifests.Builder, it client.Object) error {
	if !snapshotOf(o, it) || it.GetDeletionTimestamp() != nil || metav1.IsControlledBy(it, o) != b.KeepsSnapshots() {
		return nil
	}
	next, ok := it.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("a %T is no object", it)
	}
	owner, err := k.snapshotOwner(o, b)
	if err != nil {
		return err
	}
	next.SetOwnerReferences(owner)
	patch := client.MergeFromWithOptions(it, client.MergeFromWithOptimisticLock{})
	if err := k.Patch(ctx, next, patch, client.FieldOwner(cluster.ManagedBy)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change the owner of %T %s: %w", it, it.GetName(), err)
	}
	return nil
}

// snapshotOwner is the cluster where the snapshots on its claim go with it, and nobody where they stay.
func (k *Reconciler) snapshotOwner(o *v1alpha1.EtcdCluster, b manifests.Builder) ([]metav1.OwnerReference, error) {
	if b.KeepsSnapshots() {
		return nil, nil
	}
	owned := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace}}
	if err := controllerutil.SetControllerReference(o, owned, k.Scheme()); err != nil {
		return nil, fmt.Errorf("own what goes with the cluster: %w", err)
	}
	return owned.OwnerReferences, nil
}
