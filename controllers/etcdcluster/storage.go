package etcdcluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/internal/cluster/etcd/planner"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
)

// A StorageClass is read only before volumes are moved to it. An installation that may not read it finds out by trying.
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get
// Volumes grow in place.
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=patch
// Its template of claims cannot change: the set is made anew, and its pods stay.
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=delete

// notExpandable is how the API server says that a StorageClass does not allow its volumes to be expanded
// (plugin/pkg/admission/storage/persistentvolume/resize in Kubernetes).
const notExpandable = "only dynamically provisioned pvc can be resized"

// storageState is what the planner needs of a storage specification.
func storageState(s *v1alpha1.StorageSpec) model.Storage {
	if s == nil {
		return model.Storage{}
	}
	return model.Storage{Size: s.Size.Value(), Class: ptr.Deref(s.ClassName, "")}
}

// claimState is what a claim says of itself.
func claimState(c *corev1.PersistentVolumeClaim) model.Claim {
	return model.Claim{
		Name: c.Name, UID: string(c.UID), ResourceVersion: c.ResourceVersion,
		Pending: c.Status.Phase == corev1.ClaimPending && c.Spec.VolumeName == "", Class: ptr.Deref(c.Spec.StorageClassName, ""),
		Request: c.Spec.Resources.Requests.Storage().Value(), Capacity: c.Status.Capacity.Storage().Value(),
		Resizing: planner.ResizeWords(c.Status.Conditions),
	}
}

// smallest is the size of the smallest volume of the members, 0 when none has one.
func smallest(claims []model.Claim, members int) (size int64) {
	for _, c := range claims {
		if c.Ordinal < members && c.Capacity > 0 && (size == 0 || c.Capacity < size) {
			size = c.Capacity
		}
	}
	return size
}

// judgeStorage finds out whether the volumes can become what is asked for, where they are not.
func (k *Reconciler) judgeStorage(ctx context.Context, o *v1alpha1.EtcdCluster, s *model.State) (err error) {
	if planner.MovesTo(*s) != "" {
		if s.Want.NoClass, err = k.noClass(ctx, planner.MovesTo(*s)); err != nil {
			return err
		}
	}
	for i := range s.Claims {
		if c := &s.Claims[i]; s.Want.Outgrows(*c) && c.Ordinal < s.Want.Size {
			if err := k.tryExpansion(ctx, o, c, s.Want.Storage.Size); err != nil {
				return err
			}
		}
	}
	return nil
}

// noClass reports whether a StorageClass is known not to exist.
func (k *Reconciler) noClass(ctx context.Context, name string) (bool, error) {
	err := k.Direct.Get(ctx, client.ObjectKey{Name: name}, &storagev1.StorageClass{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil && !apierrors.IsForbidden(err):
		return false, fmt.Errorf("read StorageClass %s: %w", name, err)
	}
	return false, nil
}

// tryExpansion asks the API server whether it would let a claim grow. Nothing is written: it is a dry run.
func (k *Reconciler) tryExpansion(ctx context.Context, o *v1alpha1.EtcdCluster, c *model.Claim, size int64) error {
	err := k.patchClaim(ctx, o, steps.ExpandClaim{Name: c.Name, ResourceVersion: c.ResourceVersion, Size: size}, client.DryRunAll)
	var status apierrors.APIStatus
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err): // Another look tells.
		return nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), notExpandable):
		c.Rigid = true
		return nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		if errors.As(err, &status) {
			c.Refused = status.Status().Message
			return nil
		}
	}
	return fmt.Errorf("ask whether claim %s can be expanded: %w", c.Name, err)
}

// expandClaim makes a claim ask for more.
func (k *Reconciler) expandClaim(ctx context.Context, o *v1alpha1.EtcdCluster, step steps.ExpandClaim) error {
	if _, _, err := k.unmoved(ctx, o); err != nil {
		return err
	}
	err := k.patchClaim(ctx, o, step)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // It is not what was decided on any more.
	}
	if err != nil {
		return fmt.Errorf("expand claim %s: %w", step.Name, err)
	}
	return nil
}

// patchClaim changes the size that a claim asks for, if it still has the given resource version.
func (k *Reconciler) patchClaim(ctx context.Context, o *v1alpha1.EtcdCluster, step steps.ExpandClaim, opts ...client.PatchOption) error {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: owned.ObjectMeta(o, step.Name)}
	claim.ResourceVersion = step.ResourceVersion
	next := claim.DeepCopy()
	next.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(step.Size, resource.BinarySI)}
	patch := client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{})
	return k.Patch(ctx, next, patch, append(opts, client.FieldOwner(cluster.ManagedBy))...)
}

// remakeSet deletes the StatefulSet without its pods and claims. Ensure makes it anew.
func (k *Reconciler) remakeSet(ctx context.Context, o *v1alpha1.EtcdCluster, step steps.RemakeSet) error {
	if _, _, err := k.unmoved(ctx, o); err != nil {
		return err
	}
	if err := k.ownPods(ctx, o); err != nil {
		return err
	}
	set := &appsv1.StatefulSet{ObjectMeta: owned.ObjectMeta(o, o.Name)}
	uid := types.UID(step.UID)
	err := k.Delete(ctx, set, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	if err == nil || apierrors.IsNotFound(err) {
		set.UID = uid
		k.Expectations.Deleted(set)
	}
	return owned.IgnoreDeleted(err, "StatefulSet "+o.Name)
}

// ownPods has the pods go with the cluster, should that be deleted while no StatefulSet has them.
func (k *Reconciler) ownPods(ctx context.Context, o *v1alpha1.EtcdCluster) error {
	pods, err := k.Pods(ctx, o, nil)
	if err != nil {
		return err
	}
	for i := range pods {
		next := pods[i].DeepCopy()
		if err := controllerutil.SetOwnerReference(o, next, k.Scheme()); err != nil {
			return fmt.Errorf("own pod %s: %w", next.Name, err)
		}
		if reflect.DeepEqual(next.OwnerReferences, pods[i].OwnerReferences) {
			continue
		}
		// The reference is added to those that there are by then.
		err := k.Patch(ctx, next, client.StrategicMergeFrom(&pods[i]), client.FieldOwner(cluster.ManagedBy))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("own pod %s: %w", next.Name, err)
		}
	}
	return nil
}
