package controllers

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster"
)

// byCluster is the index of the cache in which objects of ours are found by the cluster that their labels name. Without it every look at a
// cluster would go through the objects of all others in its namespace.
const byCluster = "quorate.dev/cluster"

// index makes the index of everything that is listed at every look.
func index(ctx context.Context, in client.FieldIndexer) error {
	named := func(o client.Object) []string {
		if name := o.GetLabels()[cluster.LabelInstance]; name != "" {
			return []string{name}
		}
		return nil
	}
	var errs []error
	for _, o := range []client.Object{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.Service{}, &appsv1.StatefulSet{}} {
		if err := in.IndexField(ctx, o, byCluster, named); err != nil {
			errs = append(errs, fmt.Errorf("index %T: %w", o, err))
		}
	}
	return errors.Join(errs...)
}

// indexed is a client of the cache that looks into the index for what it is to list by a cluster.
type indexed struct{ client.Client }

// List reads objects from the cache.
func (c indexed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	switch list.(type) {
	case *corev1.PodList, *corev1.PersistentVolumeClaimList, *corev1.ServiceList, *appsv1.StatefulSetList:
		var o client.ListOptions
		o.ApplyOptions(opts)
		if o.LabelSelector == nil || o.FieldSelector != nil {
			break
		}
		if name, one := o.LabelSelector.RequiresExactMatch(cluster.LabelInstance); one {
			opts = append(opts, client.MatchingFields{byCluster: name})
		}
	}
	return c.Client.List(ctx, list, opts...)
}
