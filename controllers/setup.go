package controllers

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/autoscaler"
	"github.com/quorate/quorate/controllers/backup"
	"github.com/quorate/quorate/controllers/dbuser"
	"github.com/quorate/quorate/controllers/etcdcluster"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/controllers/rediscluster"
	"github.com/quorate/quorate/controllers/restore"
	"github.com/quorate/quorate/internal/clock"
	"github.com/quorate/quorate/internal/metrics"
)

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
	Dial owned.DialFunc
	// Clock is what time it is; nil: that of this machine.
	Clock *clock.Clock
	// Version of the manager, for its metrics.
	Version string
	// Registerer that metrics go to; nil: nothing is counted, and nothing remembered for a scrape that never comes.
	Registerer prometheus.Registerer

	metrics *metrics.Metrics
}

func (o Options) controllers() reconcile.Options {
	return reconcile.Options{Concurrency: o.Concurrency, Metrics: o.metrics}
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
	if err := owned.AddIndexes(context.Background(), mgr.GetFieldIndexer()); err != nil { // Nothing is waited for: the cache has not been started.
		return err
	}
	children := &owned.Client{
		Client: owned.Cached(owned.Indexed{Client: mgr.GetClient()}, time.Now), Direct: owned.PastCache(mgr.GetAPIReader(), time.Now),
		Domain: o.Domain, AgentImage: o.AgentImage, Registry: o.Registry, Now: o.Clock.Now, Dial: o.Dial,
		CanResize: rediscluster.CanResize(mgr.GetConfig(), mgr.GetHTTPClient()), Metrics: o.metrics,
	}
	if o.WatchNodes {
		children.Nodes = owned.FromCache(mgr.GetClient(), time.Now)
	}
	etcd := etcdcluster.New(children)
	err = setup(mgr, o, clusterWatch{component: v1alpha1.ComponentEtcd, kind: v1alpha1.KindEtcdCluster, more: func(b *builder.Builder) {
		b.Watches(&v1alpha1.Backup{}, handler.EnqueueRequestsFromMapFunc(etcdcluster.UpgradeOf))
	}}, &v1alpha1.EtcdCluster{}, etcd)
	if err != nil {
		return err
	}
	if err := dbuser.SetupEtcd(mgr, o.controllers(), dbuser.NewEtcd(children, etcd)); err != nil {
		return err
	}
	redis := rediscluster.New(children)
	err = setup(mgr, o, clusterWatch{component: v1alpha1.ComponentRedis, kind: v1alpha1.KindRedisCluster, more: func(b *builder.Builder) {
		b.Owns(&appsv1.Deployment{}).Owns(&v1alpha1.RedisUser{})
	}}, &v1alpha1.RedisCluster{}, redis)
	if err != nil {
		return err
	}
	if err := dbuser.SetupRedis(mgr, o.controllers(), dbuser.NewRedis(children, redis)); err != nil {
		return err
	}
	if err := autoscaler.Setup(mgr, o.controllers(), autoscaler.New(children, etcd, redis)); err != nil {
		return err
	}
	backups := backup.New(children, map[v1alpha1.ClusterKind]backup.SourceKind{v1alpha1.KindEtcdCluster: etcd, v1alpha1.KindRedisCluster: redis})
	if err := backup.Setup(mgr, o.controllers(), backups); err != nil {
		return err
	}
	if err := backup.SetupSchedules(mgr, o.controllers(), backup.NewSchedule(children, backups)); err != nil {
		return err
	}
	return restore.Setup(mgr, o.controllers(), restore.New(children, map[v1alpha1.ClusterKind]restore.Target{v1alpha1.KindEtcdCluster: etcd, v1alpha1.KindRedisCluster: redis}))
}

// clusterWatch says what the controller of one kind of cluster watches.
type clusterWatch struct {
	// component is the label that tells pods of this kind from those of the other kinds.
	component string
	kind      v1alpha1.ClusterKind
	// more adds the resources that only this kind watches.
	more func(*builder.Builder)
}

// setup registers the controller of one kind of cluster.
func setup[O owned.Owner, S any](mgr ctrl.Manager, o Options, w clusterWatch, object O, kind reconcile.Kind[O, S]) error {
	return reconcile.Register(mgr, o.controllers().For(w.component, func(b *builder.Builder) {
		b.Owns(&appsv1.StatefulSet{}, builder.WithPredicates(predicate.Or(owned.SpecChanged(), owned.RevisionChanged()))).
			Owns(&corev1.ConfigMap{}).
			Owns(&corev1.Service{}).
			Owns(&policyv1.PodDisruptionBudget{}, builder.WithPredicates(owned.SpecChanged())).
			Owns(&batchv1.Job{}).
			Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(owned.RequestForCluster(w.component))).
			Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(owned.RequestForCluster(w.component))).
			Watches(&v1alpha1.Restore{}, handler.EnqueueRequestsFromMapFunc(restore.RequestForCluster(w.kind)))
		owned.WatchSchedules(b, w.kind)
		if o.WatchNodes {
			owned.WatchNodes(b, mgr.GetClient(), w.component)
		}
		w.more(b)
	}), object, kind)
}
