package controllers

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/clock"
	"github.com/quorate/quorate/internal/cluster"
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

// Options of the controllers.
type Options struct {
	// Domain of the Kubernetes cluster's DNS.
	Domain string
	// AgentImage is the operator's own image.
	AgentImage string
	// Registry is where the images of the data stores come from in place of the public registries; empty: those.
	Registry string
	// Concurrency is the number of resources of a kind that are worked on at the same time.
	Concurrency int
	// WatchNodes says that the operator may watch nodes.
	WatchNodes bool
	// Dial connects to the pods.
	Dial DialFunc
	// Clock is what time it is; nil: that of this machine.
	Clock *clock.Clock
	// Version of the manager, for its metrics.
	Version string
	// Registerer that metrics go to; nil: nothing is counted, and nothing remembered for a scrape that never comes.
	Registerer prometheus.Registerer

	metrics *metrics.Metrics
}

// ControllerOptions are what each controller is registered with.
type ControllerOptions struct {
	// Concurrency is the number of resources of a kind that are reconciled at the same time.
	Concurrency int
	// Metrics that the loops count in; nil: they count nothing.
	Metrics *metrics.Metrics
}

func (o Options) controllers() ControllerOptions {
	return ControllerOptions{Concurrency: o.Concurrency, Metrics: o.metrics}
}

// SetupAll registers the controllers of all kinds with the manager.
func SetupAll(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.New(0, func(time.Duration) {})
	}
	var err error
	if o.metrics, err = measure(mgr, o); err != nil {
		return err
	}
	if err := index(context.Background(), mgr.GetFieldIndexer()); err != nil { // Nothing is waited for: the cache has not been started.
		return err
	}
	children := &Children{
		Client: Cached(indexed{Client: mgr.GetClient()}, time.Now), Direct: PastCache(mgr.GetAPIReader(), time.Now),
		Domain: o.Domain, AgentImage: o.AgentImage, Registry: o.Registry, Now: o.Clock.Now, Dial: o.Dial,
		CanResize: CanResize(mgr.GetConfig(), mgr.GetHTTPClient()), Metrics: o.metrics,
	}
	if o.WatchNodes {
		children.Nodes = FromCache(mgr.GetClient(), time.Now)
	}
	etcd := NewEtcdKind(children)
	err = setup(mgr, o, v1alpha1.ComponentEtcd, v1alpha1.KindEtcdCluster, &v1alpha1.EtcdCluster{}, etcd, func(b *builder.Builder) {
		b.Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(upgradeOf))
	})
	if err != nil {
		return err
	}
	if err := setupEtcdUsers(mgr, o.controllers(), NewEtcdUserKind(children, etcd)); err != nil {
		return err
	}
	redis := NewRedisKind(children)
	err = setup(mgr, o, v1alpha1.ComponentRedis, v1alpha1.KindRedisCluster, &v1alpha1.RedisCluster{}, redis, func(b *builder.Builder) {
		b.Owns(&appsv1.Deployment{}).Owns(&v1alpha1.RedisUser{})
	})
	if err != nil {
		return err
	}
	if err := setupRedisUsers(mgr, o.controllers(), NewRedisUserKind(children, redis)); err != nil {
		return err
	}
	if err := setupAutoscalers(mgr, o.controllers(), NewAutoscalerKind(children, etcd, redis)); err != nil {
		return err
	}
	backups := NewBackupKind(children, map[v1alpha1.ClusterKind]BackupSource{v1alpha1.KindEtcdCluster: etcd, v1alpha1.KindRedisCluster: redis})
	if err := setupBackups(mgr, o.controllers(), backups); err != nil {
		return err
	}
	if err := setupSchedules(mgr, o.controllers(), NewScheduleKind(children, backups)); err != nil {
		return err
	}
	return setupRestores(mgr, o.controllers(), NewRestoreKind(children, map[v1alpha1.ClusterKind]RestoreTarget{v1alpha1.KindEtcdCluster: etcd, v1alpha1.KindRedisCluster: redis}))
}

// setup registers the controller of one kind of cluster. component tells its pods from those of the other kinds, and more is what only
// this kind looks at.
func setup[O Object, S any](
	mgr ctrl.Manager, o Options, component string, name v1alpha1.ClusterKind, object O, kind Kind[O, S], more ...func(*builder.Builder),
) error {
	return register(mgr, o.controllers(), component, object, kind, func(b *builder.Builder) {
		b.Owns(&appsv1.StatefulSet{}, builder.WithPredicates(predicate.Or(moreThanStatus(), otherRevision()))).
			Owns(&corev1.ConfigMap{}).
			Owns(&corev1.Service{}).
			Owns(&policyv1.PodDisruptionBudget{}, builder.WithPredicates(moreThanStatus())).
			Owns(&batchv1.Job{}).
			Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(clusterOf(component))).
			Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(clusterOf(component))).
			Watches(&v1alpha1.Restore{}, handler.EnqueueRequestsFromMapFunc(clusterOfRestore(name)))
		watchSchedules(b, name)
		if o.WatchNodes {
			watchNodes(b, mgr.GetClient(), component)
		}
		for _, watch := range more {
			watch(b)
		}
	})
}

// register registers the controller of one kind of resource. watch adds what else it looks at.
func register[O Object, S any](
	mgr ctrl.Manager, o ControllerOptions, name string, object O, kind Kind[O, S], watch func(*builder.Builder),
) error {
	gvk, err := apiutil.GVKForObject(object, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("set up the controller of %s: %w", name, err)
	}
	loop := &Loop[O, S]{
		Kind: kind, Client: mgr.GetClient(), Direct: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("quorate"), Name: gvk.Kind, Metrics: o.Metrics,
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named(name).
		For(object, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))). // Some approve.
		WithOptions(o.controller())
	watch(b)
	if err := b.Complete(reconcile.AsReconciler(mgr.GetClient(), loop)); err != nil {
		return fmt.Errorf("set up the controller of %s: %w", name, err)
	}
	return nil
}

// controller returns the options of each controller. Its queue is controller-runtime's priority queue,
// the default: what is listed at the start waits behind what has changed.
func (o ControllerOptions) controller() controller.Options {
	warm := true
	return controller.Options{
		MaxConcurrentReconciles: o.Concurrency,
		ReconciliationTimeout:   reconcileTimeout,
		EnableWarmup:            &warm,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](minBackoff, maxBackoff),
	}
}

// moreThanStatus lets a resource rest when nothing but the status of what it owns has changed: the status of pods tells the same, and sooner.
func moreThanStatus() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return fingerprint(e.ObjectOld) != fingerprint(e.ObjectNew) }}
}

// otherRevision has a resource looked at when its StatefulSet controller has seen the newest template.
func otherRevision() predicate.Predicate {
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

// clusterOf maps a pod or a claim to the cluster that its labels name.
func clusterOf(component string) handler.MapFunc {
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

// CacheOptions limits the cache to the given namespaces (none: all) and to what carries our labels, so that the
// manager's memory does not grow with what else runs in the cluster.
func CacheOptions(namespaces []string) cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{cluster.LabelManagedBy: cluster.ManagedBy})}
	o := cache.Options{
		DefaultTransform: onlyWhatIsRead,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: ours, &corev1.PersistentVolumeClaim{}: ours, &corev1.ConfigMap{}: ours, &corev1.Service{}: ours,
			&appsv1.StatefulSet{}: ours, &appsv1.Deployment{}: ours, &policyv1.PodDisruptionBudget{}: ours, &batchv1.Job{}: ours,
			&corev1.Node{}: {Transform: onlyScheduling},
		},
	}
	if len(namespaces) > 0 {
		o.DefaultNamespaces = map[string]cache.Config{}
		for _, n := range namespaces {
			o.DefaultNamespaces[n] = cache.Config{}
		}
	}
	return o
}

// onlyWhatIsRead leaves out of objects what the operator never reads, before they are kept in memory: who manages their fields, and what it
// has written into pods and StatefulSets itself, which is most of them. Whether a StatefulSet is as it was applied is told by its version.
// TestACachedObjectDecidesLikeTheWholeOne fails for a field that a decision reads and the cache
// does not hold.
func onlyWhatIsRead(o any) (any, error) {
	if a, err := meta.Accessor(o); err == nil {
		a.SetManagedFields(nil)
	}
	switch o := o.(type) {
	case *corev1.Pod:
		spec := corev1.PodSpec{NodeName: o.Spec.NodeName, NodeSelector: o.Spec.NodeSelector, Tolerations: o.Spec.Tolerations}
		if a := o.Spec.Affinity; a != nil && a.NodeAffinity != nil {
			spec.Affinity = &corev1.Affinity{NodeAffinity: a.NodeAffinity}
		}
		for _, c := range o.Spec.Containers {
			spec.Containers = append(spec.Containers, corev1.Container{Name: c.Name, Ports: c.Ports, Resources: c.Resources})
		}
		o.Spec = spec
		for _, all := range [][]corev1.ContainerStatus{o.Status.InitContainerStatuses, o.Status.ContainerStatuses} {
			for i := range all {
				all[i].VolumeMounts, all[i].User = nil, nil
			}
		}
	case *appsv1.StatefulSet:
		o.Spec.Template.Spec = corev1.PodSpec{}
	}
	return o, nil
}

// ClientOptions makes the client read Secrets from the API server by name, so that it needs no right to list them and
// keeps none in memory that is not ours.
func ClientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}}
}
