package owned

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// ByCluster is the index of the cache in which objects of ours are found by the cluster that their labels name. Without it every look at a
// cluster would go through the objects of all others in its namespace.
const ByCluster = "quorate.dev/cluster"

// OfCluster narrows a list of users, schedules or restores to those of one cluster, where the client has
// the index. The API server, which the kubectl plugin reads from, has none and returns the whole
// namespace: callers filter what they get.
type OfCluster v1alpha1.ClusterReference

// ApplyToList does nothing: indexed adds the field.
func (OfCluster) ApplyToList(*client.ListOptions) {}

func (of OfCluster) key() string { return string(of.Kind) + "/" + of.Name }

// clusterNamed returns the value of the index for an object that names its cluster in its specification.
func clusterNamed(o client.Object) []string {
	switch o := o.(type) {
	case *v1alpha1.EtcdUser:
		return []string{OfCluster{Kind: v1alpha1.KindEtcdCluster, Name: o.Spec.ClusterName}.key()}
	case *v1alpha1.RedisUser:
		return []string{OfCluster{Kind: v1alpha1.KindRedisCluster, Name: o.Spec.ClusterName}.key()}
	case *v1alpha1.BackupSchedule:
		return []string{OfCluster(o.Spec.Cluster).key()}
	case *v1alpha1.Restore:
		return []string{OfCluster(o.Spec.Cluster).key()}
	}
	return nil
}

// AddIndexes makes the index of everything that is listed at every look.
func AddIndexes(ctx context.Context, in client.FieldIndexer) error {
	labelled := func(o client.Object) []string {
		if name := o.GetLabels()[cluster.LabelInstance]; name != "" {
			return []string{name}
		}
		return nil
	}
	var errs []error
	add := func(named client.IndexerFunc, objects ...client.Object) {
		for _, o := range objects {
			if err := in.IndexField(ctx, o, ByCluster, named); err != nil {
				errs = append(errs, fmt.Errorf("index %T: %w", o, err))
			}
		}
	}
	add(labelled, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.Service{}, &appsv1.StatefulSet{})
	add(clusterNamed, &v1alpha1.EtcdUser{}, &v1alpha1.RedisUser{}, &v1alpha1.BackupSchedule{}, &v1alpha1.Restore{})
	return errors.Join(errs...)
}

// Indexed is a client of the cache that looks into the index for what it is to list by a cluster.
type Indexed struct{ client.Client }

// List reads objects from the cache.
func (c Indexed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	switch list.(type) {
	case *corev1.PodList, *corev1.PersistentVolumeClaimList, *corev1.ServiceList, *appsv1.StatefulSetList:
		var o client.ListOptions
		o.ApplyOptions(opts)
		if o.LabelSelector == nil || o.FieldSelector != nil {
			break
		}
		if name, one := o.LabelSelector.RequiresExactMatch(cluster.LabelInstance); one {
			opts = append(opts, client.MatchingFields{ByCluster: name})
		}
	case *v1alpha1.EtcdUserList, *v1alpha1.RedisUserList, *v1alpha1.BackupScheduleList, *v1alpha1.RestoreList:
		if of, one := clusterIn(opts); one {
			opts = append(opts, client.MatchingFields{ByCluster: of.key()})
		}
	}
	return c.Client.List(ctx, list, opts...)
}

// clusterIn finds the cluster that a list is narrowed to.
func clusterIn(opts []client.ListOption) (OfCluster, bool) {
	for _, o := range opts {
		if of, ok := o.(OfCluster); ok {
			return of, true
		}
	}
	return OfCluster{}, false
}
