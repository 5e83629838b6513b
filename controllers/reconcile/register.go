package reconcile

import (
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/metrics"
)

// What the manager itself needs; what a kind needs stands next to its use.
//
// What is worked on.
// +kubebuilder:rbac:groups=quorate.dev,resources=etcdclusters;redisclusters,verbs=list;watch
// What became of it.
// +kubebuilder:rbac:groups=quorate.dev,resources=etcdclusters/status;redisclusters/status,verbs=patch
// What a cluster is made of goes with it, and blocks its deletion until it has.
// +kubebuilder:rbac:groups=quorate.dev,resources=etcdclusters/finalizers;redisclusters/finalizers,verbs=update
// Steps are told as events.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// Members and shards run in StatefulSets.
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// How they are reached, and what they are told when they start.
// +kubebuilder:rbac:groups="",resources=services;configmaps,verbs=get;list;watch;create;patch
// How many of them may be evicted at a time.
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// How they are.
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// Whether their disks are there.
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch

// reconcileTimeout bounds one pass over a resource.
const reconcileTimeout = 2 * time.Minute

// How soon a failed pass is tried again. What heals inside a data store is not told to Kubernetes, so the longest pause
// is no longer than the health poll.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = healthPoll
)

// DefaultConcurrency is how many resources of a kind are reconciled at the same time. A worker mostly
// waits for servers; one cluster whose servers hang holds a worker for seconds at each poll.
const DefaultConcurrency = 64

// Options are what each controller is registered with.
type Options struct {
	// Concurrency is the number of resources of a kind that are reconciled at the same time.
	Concurrency int
	// Metrics that the loops count in; nil: they count nothing.
	Metrics *metrics.Metrics

	name  string
	watch func(*builder.Builder)
}

// For returns the options of the controller with a name. watch adds the resources that it watches beside its own.
func (o Options) For(name string, watch func(*builder.Builder)) Options {
	o.name, o.watch = name, watch
	return o
}

// Register registers the controller of one kind of resource. Its options come from Options.For.
func Register[O owned.Owner, S any](mgr ctrl.Manager, o Options, object O, kind Kind[O, S]) error {
	gvk, err := apiutil.GVKForObject(object, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("set up the controller of %s: %w", o.name, err)
	}
	loop := &Loop[O, S]{
		Kind: kind, Client: mgr.GetClient(), Direct: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("quorate"), Name: gvk.Kind, Metrics: o.Metrics,
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named(o.name).
		For(object, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))). // Some approve.
		WithOptions(o.Controller())
	o.watch(b)
	if err := b.Complete(reconcile.AsReconciler(mgr.GetClient(), loop)); err != nil {
		return fmt.Errorf("set up the controller of %s: %w", o.name, err)
	}
	return nil
}

// Controller returns the options of each controller. Its queue is controller-runtime's priority queue,
// the default: what is listed at the start waits behind what has changed.
func (o Options) Controller() controller.Options {
	warm := true
	return controller.Options{
		MaxConcurrentReconciles: o.Concurrency,
		ReconciliationTimeout:   reconcileTimeout,
		EnableWarmup:            &warm,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](minBackoff, maxBackoff),
	}
}
