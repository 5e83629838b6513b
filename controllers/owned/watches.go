package owned

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/quorate/quorate/internal/cluster"
)

// SpecChanged lets a resource rest when nothing but the status of what it owns has changed: the status of pods tells the same, and sooner.
func SpecChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return fingerprint(e.ObjectOld) != fingerprint(e.ObjectNew) }}
}

// RevisionChanged has a resource looked at when its StatefulSet controller has seen the newest template.
func RevisionChanged() predicate.Predicate {
	type seen struct {
		generation int64
		revision   string
	}
	of := func(o client.Object) seen {
		set, ok := o.(*appsv1.StatefulSet)
		if !ok {
			return seen{}
		}
		return seen{set.Status.ObservedGeneration, set.Status.UpdateRevision}
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return of(e.ObjectOld) != of(e.ObjectNew) }}
}

// RequestForCluster maps a pod or a claim to the cluster that its labels name.
func RequestForCluster(component string) handler.MapFunc {
	return func(_ context.Context, o client.Object) []ctrl.Request {
		l := o.GetLabels()
		if l[cluster.LabelComponent] != component || l[cluster.LabelInstance] == "" {
			return nil
		}
		return []ctrl.Request{{NamespacedName: types.NamespacedName{
			Namespace: o.GetNamespace(), Name: l[cluster.LabelInstance],
		}}}
	}
}
