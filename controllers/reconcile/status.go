package reconcile

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/controllers/owned"
)

// statusTries is how often a status is written while others write to the metadata of its resource.
const statusTries = 3

// After a conflict the resource is read past the cache.
// +kubebuilder:rbac:groups=quorate.dev,resources=etcdclusters;redisclusters;etcdusers;redisusers;autoscalers;backups;backupschedules;restores,verbs=get

// writeStatus writes what has changed in a status. It returns a conflict if the specification or the
// status has changed since the resource was read: parts of two statuses would make one that was never
// reported, and that the schema may not allow.
func (l *Loop[O, S]) writeStatus(ctx context.Context, before, o O) error {
	if equality.Semantic.DeepEqual(before, o) {
		return nil
	}
	for try := 1; ; try++ {
		err := l.Client.Status().Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if err == nil && o.GetResourceVersion() != before.GetResourceVersion() {
			l.expectations.Wrote(o)
		}
		if !apierrors.IsConflict(err) || try == statusTries {
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("write status: %w", err)
			}
			return nil
		}
		newest := reflect.New(reflect.TypeOf(before).Elem()).Interface().(O) //nolint:forcetypeassert // Its type is O.
		if l.Direct.Get(ctx, client.ObjectKeyFromObject(before), newest) != nil || !differInMetadataAlone(before, newest) {
			return fmt.Errorf("write status: %w", err)
		}
		before.SetResourceVersion(newest.GetResourceVersion())
	}
}

// differInMetadataAlone reports whether two versions of a resource differ at most in the labels,
// annotations and managed fields that others write.
func differInMetadataAlone[O owned.Owner](a, b O) bool {
	same := b.DeepCopyObject().(O)                                                 //nolint:forcetypeassert // It is a copy.
	same.GetObjectKind().SetGroupVersionKind(a.GetObjectKind().GroupVersionKind()) // Objects have it that come from the cache.
	same.SetResourceVersion(a.GetResourceVersion())
	same.SetManagedFields(a.GetManagedFields())
	same.SetAnnotations(a.GetAnnotations())
	same.SetLabels(a.GetLabels())
	return equality.Semantic.DeepEqual(same, a)
}
