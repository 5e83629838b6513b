package rediscluster

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// scaleShards changes the number of pods of StatefulSets.
func (k *Reconciler) scaleShards(ctx context.Context, o *v1alpha1.RedisCluster, step steps.ScaleShards) error {
	var errs []error
	for _, size := range step.Sets {
		errs = append(errs, k.scaleShard(ctx, o, size))
	}
	return errors.Join(errs...)
}

// scaleShard changes that of one. A set that has changed since it was read is decided on anew.
func (k *Reconciler) scaleShard(ctx context.Context, o *v1alpha1.RedisCluster, size steps.SetSize) error {
	set := &appsv1.StatefulSet{ObjectMeta: owned.ObjectMeta(o, cluster.ShardSet(o.Name, size.Shard))}
	if err := k.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
		return client.IgnoreNotFound(err)
	}
	if string(set.UID) != size.UID || set.ResourceVersion != size.ResourceVersion {
		return nil
	}
	before := set.DeepCopy()
	set.Spec.Replicas = ptr.To(int32(size.To)) //nolint:gosec // admission bounds it
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := k.Patch(ctx, set, patch, client.FieldOwner(cluster.ManagedBy))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("scale StatefulSet %s: %w", set.Name, err)
	}
	k.Expectations.Wrote(set)
	return nil
}

// deleteClaim deletes a claim, if it is still what was decided on.
func (k *Reconciler) deleteClaim(ctx context.Context, o *v1alpha1.RedisCluster, step steps.DeleteClaim) error {
	return owned.IgnoreDeleted(k.tryDeleteClaim(ctx, o, step), "claim "+step.Name)
}

// tryDeleteClaim deletes just this claim, not another that took its name meanwhile, and fails when it has changed.
func (k *Reconciler) tryDeleteClaim(ctx context.Context, o *v1alpha1.RedisCluster, step steps.DeleteClaim) error {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: owned.ObjectMeta(o, step.Name)}
	uid := types.UID(step.UID)
	return k.Delete(ctx, claim, client.Preconditions{UID: &uid, ResourceVersion: &step.ResourceVersion})
}
