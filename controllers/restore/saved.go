package restore

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
)

// What a cluster holds is saved before it is replaced.
// +kubebuilder:rbac:groups=quorate.dev,resources=backups,verbs=create

// SavedFor reports whether a Backup is of what a cluster had before a Restore.
func SavedFor(b *v1alpha1.Backup, r *v1alpha1.Restore) bool {
	uid, _, _ := strings.Cut(b.Annotations[v1alpha1.AnnotationRestoreUID], " ")
	return b.Labels[v1alpha1.LabelRestore] == r.Name && uid == string(r.UID)
}

// Saved reads the last Backup of what a cluster had before a Restore, nil when there is none, and what another one would be called. scope tells
// the cluster apart. One of these names that was made for something else is Foreign, which is for the Restore to say: the cluster is looked after
// all the same.
func Saved(ctx context.Context, c *owned.Client, r *v1alpha1.Restore, scope string) (last *planner.Saved, next string, err error) {
	if !r.SavesCurrent() {
		return nil, "", nil
	}
	for n := 1; ; n++ {
		b := &v1alpha1.Backup{}
		name := planner.SavedName(r.Name, n)
		err := c.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, b)
		switch {
		case apierrors.IsNotFound(err):
			return last, name, nil
		case err != nil:
			return nil, "", fmt.Errorf("read Backup %s: %w", name, err)
		case b.Labels[v1alpha1.LabelRestore] != r.Name || b.Annotations[v1alpha1.AnnotationRestoreUID] != string(r.UID)+" "+scope:
			return &planner.Saved{Name: name, Foreign: true}, "", nil
		}
		last = savedBy(b)
	}
}

// savedBy is what a Backup says of itself.
func savedBy(b *v1alpha1.Backup) *planner.Saved {
	out := &planner.Saved{Name: b.Name, Activity: b.Status.Activity}
	c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionComplete)
	switch {
	case c == nil:
	case c.Status == metav1.ConditionTrue:
		out.Complete, out.Since = true, c.LastTransitionTime.Time
	case b.Status.CompletionTime != nil:
		out.Failed = c.Message
	default:
		out.Stalled = meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionStalled)
	}
	return out
}

// SaveCurrent makes the Backup of what a cluster has, where the one is that is restored. It outlives the Restore.
func SaveCurrent(ctx context.Context, c *owned.Client, r *ApprovedRestore, scope, name string) error {
	b := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: name,
			Labels: map[string]string{
				v1alpha1.LabelRestore: r.Name, cluster.LabelPartOf: r.Spec.Cluster.Name, cluster.LabelManagedBy: cluster.ManagedBy,
			},
			Annotations: map[string]string{v1alpha1.AnnotationRestoreUID: string(r.UID) + " " + scope},
		},
		Spec: v1alpha1.BackupSpec{Cluster: r.Spec.Cluster, Destination: r.Destination, DeletionPolicy: ptr.To(v1alpha1.DeletionRetain)},
	}
	err := c.Create(ctx, b, client.FieldOwner(cluster.ManagedBy))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Backup %s: %w", name, err)
	}
	return nil
}
