package controllers

import (
	"cmp"
	"context"
	"flag"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/etcdcluster"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/controllers/rediscluster"
	"github.com/quorate/quorate/test/controllersim/kinds"
	"github.com/quorate/quorate/test/fakeapi"
)

// The figures in the comment of snapshot in controllers/owned come from:
//
//	go test -run TestSkippingEnsure -costs -v ./controllers
var costs = flag.Bool("costs", false, "measure CPU time as well, which takes minutes, and log all costs")

// settledCache is an informer cache that holds what there is in an API, and counts what is asked of the API server.
type settledCache struct {
	client.Client
	objects map[reflect.Type][]client.Object
	byKey   map[reflect.Type]map[client.ObjectKey]client.Object
	// cached and direct count reads, writes all writes.
	cached, direct, writes atomic.Int64
}

func newSettledCache(t *testing.T, api client.Client) *settledCache {
	t.Helper()
	c := &settledCache{Client: api, objects: map[reflect.Type][]client.Object{}, byKey: map[reflect.Type]map[client.ObjectKey]client.Object{}}
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &appsv1.StatefulSetList{},
		&policyv1.PodDisruptionBudgetList{}, &batchv1.JobList{}, &v1alpha1.EtcdClusterList{}, &v1alpha1.RedisClusterList{}, &v1alpha1.EtcdUserList{},
		&v1alpha1.RedisUserList{}, &v1alpha1.BackupList{}, &v1alpha1.BackupScheduleList{}, &v1alpha1.RestoreList{}, &v1alpha1.AutoscalerList{},
	} {
		if err := api.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			o := item.(client.Object)
			kind := reflect.TypeOf(o)
			if c.byKey[kind] == nil {
				c.byKey[kind] = map[client.ObjectKey]client.Object{}
			}
			c.objects[kind] = append(c.objects[kind], o)
			c.byKey[kind][client.ObjectKeyFromObject(o)] = o
		}
	}
	return c
}

func (c *settledCache) Get(_ context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, secret := o.(*corev1.Secret); secret {
		c.direct.Add(1)
	} else {
		c.cached.Add(1)
	}
	var how client.GetOptions
	how.ApplyOptions(opts)
	found := c.byKey[reflect.TypeOf(o)][key]
	if found == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: reflect.TypeOf(o).String()}, key.Name)
	}
	if how.UnsafeDisableDeepCopy == nil || !*how.UnsafeDisableDeepCopy {
		found = found.DeepCopyObject().(client.Object)
	}
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(found).Elem())
	return nil
}

func (c *settledCache) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.cached.Add(1)
	var how client.ListOptions
	how.ApplyOptions(opts)
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	var out []k8sruntime.Object
	for _, o := range c.objects[reflect.PointerTo(reflect.TypeOf(items).Elem().Elem())] {
		if (how.Namespace != "" && o.GetNamespace() != how.Namespace) || (how.LabelSelector != nil && !how.LabelSelector.Matches(k8slabels.Set(o.GetLabels()))) {
			continue
		}
		if how.UnsafeDisableDeepCopy == nil || !*how.UnsafeDisableDeepCopy {
			o = o.DeepCopyObject().(client.Object)
		}
		out = append(out, o)
	}
	return meta.SetList(list, out)
}

func (c *settledCache) Apply(ctx context.Context, o k8sruntime.ApplyConfiguration, opts ...client.ApplyOption) error {
	c.writes.Add(1)
	return c.Client.Apply(ctx, o, opts...)
}

func (c *settledCache) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	c.writes.Add(1)
	return c.Client.Patch(ctx, o, p, opts...)
}

// apiReader reads past a settledCache.
type apiReader struct{ c *settledCache }

func (r apiReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, secret := o.(*corev1.Secret); !secret {
		r.c.direct.Add(1)
		defer r.c.cached.Add(-1)
	}
	return r.c.Get(ctx, key, o, opts...)
}

func (r apiReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	r.c.direct.Add(1)
	defer r.c.cached.Add(-1)
	return r.c.List(ctx, list, opts...)
}

// cost is what one call takes: microseconds of CPU time, allocations and their bytes, reads from the
// cache and from the API server, and writes.
type cost struct{ cpu, allocs, bytes, cached, direct, writes float64 }

// costOf is the median of rounds by CPU time.
func costOf(t *testing.T, c *settledCache, call func() error) cost {
	t.Helper()
	rounds, calls := 1, 10
	if *costs {
		rounds, calls = 11, 200
	}
	cpu := func() float64 {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			t.Fatal(err)
		}
		return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e3
	}
	var all []cost
	for range rounds {
		var before, after runtime.MemStats
		cached, direct, writes := c.cached.Load(), c.direct.Load(), c.writes.Load()
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := cpu()
		for range calls {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		}
		took := cpu() - began
		runtime.ReadMemStats(&after)
		n := float64(calls)
		all = append(all, cost{
			took / n, float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n,
			float64(c.cached.Load()-cached) / n, float64(c.direct.Load()-direct) / n, float64(c.writes.Load()-writes) / n,
		})
	}
	slices.SortFunc(all, func(a, b cost) int { return cmp.Compare(a.cpu, b.cpu) })
	return all[rounds/2]
}

// compareEnsure measures what ensuring a settled resource costs, and what skipping it does.
func compareEnsure[O owned.Owner](t *testing.T, c *settledCache, o O, ensure, observe func(ctx context.Context, o O) error) {
	t.Helper()
	ctx := t.Context()
	through := func(s *owned.Snapshots) func() error {
		return func() error {
			ctx, end := s.Begin(owned.WithCache(ctx, o), o)
			err := ensure(ctx, o)
			end(err == nil)
			return err
		}
	}
	var kept owned.Snapshots
	for range 3 {
		if err := through(&kept)(); err != nil {
			t.Fatal(err)
		}
	}
	if !kept.Unchanged(ctx, o) {
		t.Fatal("nothing is skipped")
	}
	ensured, skipped := costOf(t, c, func() error { return ensure(owned.WithCache(ctx, o), o) }), costOf(t, c, through(&kept))
	if *costs {
		t.Logf("ensure   %+v", ensured)
		t.Logf("record   %+v", costOf(t, c, func() error { return through(&owned.Snapshots{})() }))
		t.Logf("skip     %+v", skipped)
		t.Logf("observe  %+v", costOf(t, c, func() error { return observe(owned.WithCache(ctx, o), o) }))
	}
	if ensured.direct+ensured.writes+skipped.direct+skipped.writes > 0 {
		t.Errorf("a settled resource costs the API server requests: ensured %+v, skipped %+v", ensured, skipped)
	}
	if skipped.allocs > ensured.allocs/5 {
		t.Errorf("to skip Ensure saves too little to be worth its code: ensured %+v, skipped %+v", ensured, skipped)
	}
}

func TestSkippingEnsureIsWorthItsCode(t *testing.T) {
	t.Run("etcd", func(t *testing.T) {
		s := kinds.NewEtcd(t, fakeapi.EtcdCluster())
		s.Restart()
		for range 100 {
			s.Round()
		}
		kind, ok := s.Op.Kind.(*etcdcluster.Reconciler)
		if !ok {
			t.Fatalf("%T", s.Op.Kind)
		}
		c := newSettledCache(t, s.API)
		kind.Client.Client, kind.Direct = owned.Cached(c, kind.Now), owned.PastCache(apiReader{c}, kind.Now)
		compareEnsure(t, c, s.Cluster(), kind.Ensure, func(ctx context.Context, o *v1alpha1.EtcdCluster) error {
			_, err := kind.Observe(ctx, o)
			return err
		})
	})
	t.Run("redis", func(t *testing.T) {
		s := kinds.NewRedis(t, fakeapi.RedisCluster())
		s.Settle()
		s.Pass()
		kind, ok := s.Loop.Kind.(*rediscluster.Reconciler)
		if !ok {
			t.Fatalf("%T", s.Loop.Kind)
		}
		c := newSettledCache(t, s.API)
		kind.Client.Client, kind.Direct = owned.Cached(c, kind.Now), owned.PastCache(apiReader{c}, kind.Now)
		compareEnsure(t, c, s.Cluster(), kind.Ensure, func(ctx context.Context, o *v1alpha1.RedisCluster) error {
			_, err := kind.Observe(ctx, o)
			return err
		})
	})
}
