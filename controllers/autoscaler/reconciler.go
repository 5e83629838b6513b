package autoscaler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/etcdcluster"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/controllers/rediscluster"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/autoscale"
	"github.com/quorate/quorate/internal/cluster/redis/balance"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/ttlmap"
)

// What is worked on.
// +kubebuilder:rbac:groups=quorate.dev,resources=autoscalers,verbs=list;watch
// What became of it.
// +kubebuilder:rbac:groups=quorate.dev,resources=autoscalers/status,verbs=patch
// Shards follow what a cluster holds and does, where somebody asks for that.
// +kubebuilder:rbac:groups=quorate.dev,resources=redisclusters/scale,verbs=patch
// Memory and volumes likewise.
// +kubebuilder:rbac:groups=quorate.dev,resources=redisclusters;etcdclusters,verbs=patch

// autoscalerOwner is the field manager of the fields that an Autoscaler changes: it tells them from
// those that the user wrote.
const autoscalerOwner = client.FieldOwner("quorate-autoscaler")

// Reconciler changes the specification of clusters as they need it. To them it is a user like any other.
type Reconciler struct {
	*owned.Client
	etcd  *etcdcluster.Reconciler
	redis *rediscluster.Reconciler

	pasts ttlmap.Map[types.UID, scalerPast]
}

// scalerPast is what the operator remembers of one Autoscaler. With a restart it is lost, which delays, and at worst leaves one change untold.
type scalerPast struct {
	history autoscale.History
	rates   history.Rates
	// changed is what was changed last: a status that tells it may not have been written.
	changed *v1alpha1.AutoscalerChange
}

var _ reconcile.Kind[*v1alpha1.Autoscaler, autoscale.State] = (*Reconciler)(nil)

// New returns what the loop needs to look after Autoscalers. Members and servers are reached the way their clusters reach them.
func New(c *owned.Client, e *etcdcluster.Reconciler, r *rediscluster.Reconciler) *Reconciler {
	return &Reconciler{Client: c, etcd: e, redis: r, pasts: ttlmap.Map[types.UID, scalerPast]{New: func() *scalerPast { return &scalerPast{rates: history.Rates{}} }}}
}

// Setup registers the controller of Autoscalers. It looks again when the specification of a cluster changes, and measures in
// between.
func Setup(mgr ctrl.Manager, o reconcile.Options, kind *Reconciler) error {
	return reconcile.Register(mgr, o.For(v1alpha1.ComponentAutoscaler, func(b *builder.Builder) {
		changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
		b.Watches(&v1alpha1.EtcdCluster{}, handler.EnqueueRequestsFromMapFunc(kind.scalersOf(v1alpha1.KindEtcdCluster)), changed)
		b.Watches(&v1alpha1.RedisCluster{}, handler.EnqueueRequestsFromMapFunc(kind.scalersOf(v1alpha1.KindRedisCluster)), changed)
	}), &v1alpha1.Autoscaler{}, kind)
}

// scalersOf maps a cluster of a kind to its Autoscalers.
func (k *Reconciler) scalersOf(kind v1alpha1.ClusterKind) handler.MapFunc {
	return func(ctx context.Context, c client.Object) []ctrl.Request {
		list, err := k.scalers(ctx, c.GetNamespace(), v1alpha1.ClusterReference{Kind: kind, Name: c.GetName()})
		if err != nil {
			return nil // The cache has no errors but the end of the manager; and every Autoscaler is looked at from time to time.
		}
		var out []ctrl.Request
		for i := range list {
			out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list[i])})
		}
		return out
	}
}

// scalers lists the Autoscalers of a cluster, the oldest first.
func (k *Reconciler) scalers(ctx context.Context, namespace string, of v1alpha1.ClusterReference) ([]v1alpha1.Autoscaler, error) {
	var list v1alpha1.AutoscalerList
	if err := k.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Autoscalers: %w", err)
	}
	out := slices.DeleteFunc(list.Items, func(a v1alpha1.Autoscaler) bool { return a.Spec.Cluster != of || a.DeletionTimestamp != nil })
	slices.SortFunc(out, func(a, b v1alpha1.Autoscaler) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// past is what is remembered of an Autoscaler.
func (k *Reconciler) past(uid types.UID) *scalerPast { return k.pasts.Get(uid, k.Now()) }

// Ensure has nothing to make.
func (k *Reconciler) Ensure(context.Context, *v1alpha1.Autoscaler) error { return nil }

// RenewWhilePaused has nothing to renew.
func (k *Reconciler) RenewWhilePaused(context.Context, *v1alpha1.Autoscaler) error { return nil }

// Observe reads the cluster and measures what it holds and does.
func (k *Reconciler) Observe(ctx context.Context, o *v1alpha1.Autoscaler) (autoscale.State, error) {
	s := autoscale.State{
		Name: o.Name, Generation: o.Generation, Target: string(o.Spec.Cluster.Kind) + " " + o.Spec.Cluster.Name,
		Mode: autoscale.Mode(o.Spec.AutoscalerMode()), Now: k.Now(),
	}
	list, err := k.scalers(ctx, o.Namespace, o.Spec.Cluster)
	if err != nil {
		return s, err
	}
	if len(list) > 0 && list[0].UID != o.UID {
		s.Rival = list[0].Name
	}
	past := k.past(o.UID)
	if o.Spec.Cluster.Kind == v1alpha1.KindEtcdCluster {
		err = k.observeEtcd(ctx, o, &s)
	} else {
		err = k.observeRedis(ctx, o, &s, past.rates)
	}
	if err != nil {
		return s, err
	}
	past.history.Watch(&s)
	return s, nil
}

// target reads the cluster, and fills in how it is. It returns false when there is nothing to measure.
func (k *Reconciler) target(ctx context.Context, o *v1alpha1.Autoscaler, s *autoscale.State, c owned.Owner) (bool, error) {
	err := k.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Spec.Cluster.Name}, c)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", s.Target, err)
	}
	why := busy(c)
	s.Cluster = &autoscale.Cluster{
		ResourceVersion: c.GetResourceVersion(), Leaving: c.GetDeletionTimestamp() != nil, Paused: c.IsPaused(),
		Busy: why, NoRoom: why == planner.ReasonNoRoom, HoldsMore: why == planner.ReasonHoldsMore,
	}
	return s.Rival == "" && !s.Cluster.Leaving, nil
}

// busy says in words why a cluster is not as specified, empty when it is.
func busy(c owned.Owner) string {
	ready := meta.FindStatusCondition(c.GetConditions(), v1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.ObservedGeneration != c.GetGeneration():
		return "its specification was not looked at yet"
	case ready.Status != metav1.ConditionTrue:
		return ready.Reason
	}
	return ""
}

// observeRedis measures a Redis or Valkey cluster.
func (k *Reconciler) observeRedis(ctx context.Context, o *v1alpha1.Autoscaler, s *autoscale.State, rates history.Rates) error {
	c := &v1alpha1.RedisCluster{}
	if ok, err := k.target(ctx, o, s, c); err != nil || !ok {
		return err
	}
	s.Shards, s.Memory = shardsOf(o.Spec.Shards, c), memoryOf(o.Spec.Memory, c)
	servers, err := k.redis.Read(ctx, c)
	if err != nil {
		return err
	}
	if s.Shards != nil {
		if current := s.Shards.Current; slices.ContainsFunc(servers.Sets, func(set model.Set) bool { return set.Shard >= current }) {
			s.Shards.Former = k.former(o, current) // They are on their way out.
		}
		for _, l := range balance.Loads(servers, rates) {
			s.Shards.Loads = append(s.Shards.Loads, autoscale.Load(l))
		}
	}
	if s.Memory != nil {
		s.Memory.Fit, s.Memory.Held = balance.MemoryFor(servers, int64(ptr.Deref(o.Spec.Memory.HeadroomPercent, 25)))
	}
	return nil
}

// former is how many shards there were before the last change took some away and left as many as there are to be; 0: it did not.
func (k *Reconciler) former(o *v1alpha1.Autoscaler, current int) int {
	last := o.Status.LastChange
	if own := k.past(o.UID).changed; own != nil && (last == nil || last.Time.Before(&own.Time)) {
		last = own
	}
	if last == nil {
		return 0
	}
	if before, left, ok := autoscale.Removed(last.Change); ok && left == current {
		return before
	}
	return 0
}

// shardsOf is what is to become of the shards of a cluster, without what is measured; nil: nothing.
func shardsOf(a *v1alpha1.AutoscalerShards, c *v1alpha1.RedisCluster) *autoscale.Shards {
	if a == nil {
		return nil
	}
	n := &autoscale.Shards{
		Current: c.Spec.ShardCount(), Min: int(a.Min), Max: int(a.Max), MemoryPercent: int64(ptr.Deref(a.MemoryPercent, 70)),
		Operations: ptr.Deref(a.OperationsPerSecond, 0), OutAfter: lasting(a.ScaleOutAfter, 2*time.Minute), InAfter: lasting(a.ScaleInAfter, time.Hour),
	}
	switch {
	case c.Spec.IsReplicated():
		n.Unfit = fmt.Sprintf("spec.mode of RedisCluster %s is Replicated, so it has one primary: remove spec.shards", c.Name)
	case n.Operations == 0 && config.Evicts(c.Spec):
		n.Unfit = fmt.Sprintf("RedisCluster %s evicts keys when it is full, so its memory does not tell how many shards it needs: set spec.shards.operationsPerSecond", c.Name)
	case n.Operations == 0 && !config.Limits(c.Spec):
		n.Unfit = fmt.Sprintf("RedisCluster %s has no limit of memory that it could come near to: set its spec.resources.limits.memory, or spec.shards.operationsPerSecond", c.Name)
	}
	return n
}

// memoryOf is what is to become of the memory of a cluster's servers, without what is measured; nil: nothing.
func memoryOf(a *v1alpha1.AutoscalerMemory, c *v1alpha1.RedisCluster) *autoscale.Memory {
	if a == nil {
		return nil
	}
	m := &autoscale.Memory{
		Limit: config.MemoryLimit(c.Spec.Resources), Min: a.Min.Value(), Max: a.Max.Value(), Apply: ptr.Deref(a.Apply, false),
		GrowAfter: lasting(a.GrowAfter, 2*time.Minute), ShrinkAfter: lasting(a.ShrinkAfter, 24*time.Hour),
	}
	if c.Spec.Resources != nil {
		m.Request = c.Spec.Resources.Requests.Memory().Value()
	}
	switch {
	case config.Evicts(c.Spec):
		m.Unfit = fmt.Sprintf("RedisCluster %s evicts keys when it is full, so its memory does not tell how much it needs: remove spec.memory", c.Name)
	case c.Spec.Config != nil && c.Spec.Config.MaxMemory != nil:
		m.Unfit = fmt.Sprintf("spec.config.maxMemory of RedisCluster %s is set, so data gets no more room with another limit: remove it there, or spec.memory here", c.Name)
	case m.Apply && m.Limit == 0:
		m.Unfit = fmt.Sprintf("RedisCluster %s has no limit of memory: set its spec.resources.limits.memory for a start, or spec.memory.apply to false", c.Name)
	}
	return m
}

// lasting is a duration with its default applied.
func lasting(d *metav1.Duration, otherwise time.Duration) time.Duration {
	return ptr.Deref(d, metav1.Duration{Duration: otherwise}).Duration
}

// observeEtcd measures an etcd cluster.
func (k *Reconciler) observeEtcd(ctx context.Context, o *v1alpha1.Autoscaler, s *autoscale.State) error {
	c := &v1alpha1.EtcdCluster{}
	if ok, err := k.target(ctx, o, s, c); err != nil || !ok {
		return err
	}
	s.Cluster.Hibernated = c.IsHibernated()
	a := o.Spec.Storage
	s.Storage = &autoscale.Storage{
		Max: a.Max.Value(), FullPercent: int64(ptr.Deref(a.FullPercent, 80)), GrowPercent: int64(ptr.Deref(a.GrowPercent, 25)),
	}
	if c.Spec.Storage == nil {
		s.Storage.Unfit = fmt.Sprintf("EtcdCluster %s has no volumes: remove spec.storage", c.Name)
		return nil
	}
	b, err := k.etcd.Blueprint(ctx, c)
	if err != nil {
		return err
	}
	s.Storage.Size, s.Storage.Has, s.Storage.Quota = c.Spec.Storage.Size.Value(), b.Smallest, b.QuotaOn
	s.Storage.Used, err = k.etcd.Largest(ctx, c)
	return err
}

// Next decides what to do.
func (k *Reconciler) Next(s autoscale.State) cluster.Plan { return autoscale.Next(s) }

// Act changes one field of the cluster's specification, if the cluster still is what was decided on.
func (k *Reconciler) Act(ctx context.Context, o *v1alpha1.Autoscaler, step cluster.Step) error {
	var err error
	switch s := step.(type) {
	case autoscale.SetShards:
		c := &v1alpha1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Spec.Cluster.Name}}
		patch := changing(s.Change, map[string]any{"replicas": s.To})
		err = k.SubResource("scale").Patch(ctx, c, patch, autoscalerOwner, client.WithSubResourceBody(&autoscalingv1.Scale{}))
	case autoscale.SetMemory:
		c := &v1alpha1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Spec.Cluster.Name}}
		resources := map[string]any{"limits": map[string]any{"memory": quantity(s.To)}}
		if s.Request > 0 {
			resources["requests"] = map[string]any{"memory": quantity(s.Request)}
		}
		err = k.Patch(ctx, c, changing(s.Change, map[string]any{"resources": resources}), autoscalerOwner)
	case autoscale.SetStorage:
		c := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Spec.Cluster.Name}}
		err = k.Patch(ctx, c, changing(s.Change, map[string]any{"storage": map[string]any{"size": quantity(s.To)}}), autoscalerOwner)
	default:
		return fmt.Errorf("there is no way to carry out a %T", step)
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return cluster.Hold{Reason: autoscale.ReasonBusy, Message: "the cluster has changed meanwhile, and is looked at again"}
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		return cluster.Refusal{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf("the API server does not take the change: %v", err)}
	}
	return err
}

// changing is a merge patch of the specification of just this object, as it was read.
func changing(c autoscale.Change, spec map[string]any) client.Patch {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": c.ResourceVersion}, "spec": spec})
	if err != nil {
		panic(err) // Of strings and numbers there is always JSON.
	}
	return client.RawPatch(types.MergePatchType, raw)
}

// quantity writes bytes as Kubernetes does.
func quantity(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }
