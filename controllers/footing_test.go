package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// careful is a kind that counts how often it ensures what follows from four ConfigMaps: one that is there and one that is not, one among
// others, and one that is read past the cache.
type careful struct {
	script
	*Children
	ensures int
	// quietly are errors that come of nothing.
	quietly error
}

func (c *careful) Ensure(ctx context.Context, _ *v1alpha1.EtcdCluster) error {
	return unlessItStands(ctx, func(ctx context.Context) error {
		c.ensures++
		for _, name := range []string{"there", "missing"} {
			c.quietly = errors.Join(c.quietly, client.IgnoreNotFound(c.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &corev1.ConfigMap{})))
		}
		return errors.Join(c.List(ctx, &corev1.ConfigMapList{}, client.InNamespace("default"), client.MatchingLabels{"of": "many"}),
			c.Direct.Get(ctx, client.ObjectKey{Namespace: "default", Name: "direct"}, &corev1.ConfigMap{}))
	})
}

// carefulStage is a settled cluster that such a kind looks after.
type carefulStage struct {
	t     *testing.T
	w     *world
	kind  *careful
	loop  *Loop[*v1alpha1.EtcdCluster, int]
	later time.Duration
	// breaks are what reads of the missing one end with.
	breaks error
}

func aConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"of": "none"}}}
}

func oneOfMany(name string) *corev1.ConfigMap {
	m := aConfigMap(name)
	m.Labels["of"] = "many"
	return m
}

func newCarefulStage(t *testing.T) *carefulStage {
	t.Helper()
	s := &carefulStage{t: t, w: newWorld(t, etcdCluster(), aConfigMap("there"), oneOfMany("first"), aConfigMap("direct"))}
	inner, ok := s.w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", s.w.Client)
	}
	s.w.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if key.Name == "missing" && s.breaks != nil {
				return s.breaks
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	children := newChildren(s.w)
	began := children.Now()
	children.Now = func() time.Time { return began.Add(s.later) }
	s.kind = &careful{script: script{ready: true, plan: cluster.Plan{Message: "fine"}}, Children: children}
	s.loop = &Loop[*v1alpha1.EtcdCluster, int]{Kind: s.kind, Client: s.w, Direct: s.w, Events: events.NewFakeRecorder(100)}
	for range 3 {
		s.pass()
	}
	s.kind.ensures = 0
	return s
}

func (s *carefulStage) pass() {
	s.t.Helper()
	if _, err := s.loop.Reconcile(s.t.Context(), fetch(s.t, s.w)); err != nil {
		s.t.Fatal(err)
	}
}

// change changes an object.
func (s *carefulStage) change(o client.Object) {
	s.t.Helper()
	if err := s.w.Get(s.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		s.t.Fatal(err)
	}
	o.SetAnnotations(map[string]string{"changed": s.later.String()})
	if err := s.w.Update(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *carefulStage) create(o client.Object) {
	s.t.Helper()
	if err := s.w.Create(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *carefulStage) remove(o client.Object) {
	s.t.Helper()
	if err := s.w.Delete(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

func TestChildrenAreEnsuredWhenSomethingHasChanged(t *testing.T) {
	nothing := func(*carefulStage) {}
	tests := map[string]struct {
		happens func(s *carefulStage)
		want    int
	}{
		"nothing":                    {nothing, 0},
		"of a foreign object":        {func(s *carefulStage) { s.create(aConfigMap("other")) }, 0},
		"one that is there":          {func(s *carefulStage) { s.change(aConfigMap("there")) }, 1},
		"it goes":                    {func(s *carefulStage) { s.remove(aConfigMap("there")) }, 1},
		"it is made anew":            {func(s *carefulStage) { s.remove(aConfigMap("there")); s.create(aConfigMap("there")) }, 1},
		"one that was missing comes": {func(s *carefulStage) { s.create(aConfigMap("missing")) }, 1},
		"one of many":                {func(s *carefulStage) { s.change(oneOfMany("first")) }, 1},
		"another one of them":        {func(s *carefulStage) { s.create(oneOfMany("second")) }, 1},
		"none is left":               {func(s *carefulStage) { s.remove(oneOfMany("first")) }, 1},
		"past the cache":             {func(s *carefulStage) { s.change(aConfigMap("direct")) }, 1},
		"the resource itself":        {func(s *carefulStage) { s.change(etcdCluster()) }, 1},
		"most of a minute passes":    {func(s *carefulStage) { s.later = recallFor - time.Second }, 0},
		"a minute passes":            {func(s *carefulStage) { s.later = recallFor }, 1},
		"it was ensured once more":   {func(s *carefulStage) { s.later = recallFor; s.pass(); s.later += recallFor - time.Second }, 1},
		"something cannot be read":   {func(s *carefulStage) { s.breaks = errors.New("no answer") }, 1},
		"something could not be read": {func(s *carefulStage) {
			s.breaks = errors.New("no answer")
			s.pass()
			s.breaks = nil
		}, 2},
		"it waits for something": {func(s *carefulStage) {
			s.kind.plan, _ = cluster.Wait("A", time.Second, "waiting")
			s.pass()
			s.pass()
			s.kind.plan = cluster.Plan{Message: "fine"}
		}, 2}, // Not at the first look, which has found out that it waits.
		"it was not looked at well": {func(s *carefulStage) {
			s.kind.observeErr = cluster.Hold{Reason: "A", Message: "a moment"}
			s.pass()
			s.kind.observeErr = nil
			s.pass()
		}, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newCarefulStage(t)
			test.happens(s)
			if s.pass(); s.kind.ensures != test.want {
				t.Errorf("ensured %d times, want %d", s.kind.ensures, test.want)
			}
		})
	}
}

func TestAResourceThatIsNotAtRestIsEnsuredAtEveryLook(t *testing.T) {
	s := newCarefulStage(t)
	o := fetch(t, s.w)
	meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "A", ObservedGeneration: o.Generation})
	if s.loop.footings.Unchanged(t.Context(), o) {
		t.Error("one that is not Ready is left as it is")
	}
	if o = fetch(t, s.w); !s.loop.footings.Unchanged(t.Context(), o) {
		t.Error("it was not at rest")
	}
}

func TestWhatAPauseMayHaveChangedIsEnsured(t *testing.T) {
	s := newCarefulStage(t)
	for _, paused := range []bool{true, false} {
		o := fetch(t, s.w)
		o.Spec.Paused = &paused
		if err := s.w.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		s.pass()
	}
	if s.kind.ensures != 1 || s.kind.kept != 1 {
		t.Errorf("ensured %d times, kept %d times", s.kind.ensures, s.kind.kept)
	}
}

// What is ensured by more than Kubernetes knows, or was not ensured to the end, is ensured at the next look.
func TestAHalfFootingDoesNotStand(t *testing.T) {
	ensures := map[string]func(ctx context.Context, c *Children) error{
		"by what servers say": func(ctx context.Context, c *Children) error {
			ensureAgain(ctx)
			return c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "there"}, &corev1.ConfigMap{})
		},
		"it panics": func(ctx context.Context, c *Children) error {
			err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "there"}, &corev1.ConfigMap{})
			panic(err)
		},
		"it fails": func(ctx context.Context, c *Children) error {
			return errors.Join(c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "there"}, &corev1.ConfigMap{}), errors.New("not now"))
		},
	}
	for name, ensure := range ensures {
		t.Run(name, func(t *testing.T) {
			c := newChildren(newWorld(t, aConfigMap("there")))
			e := &ensured{}
			func() {
				defer func() { _ = recover() }()
				_ = unlessItStands(context.WithValue(t.Context(), ensuring{}, e), func(ctx context.Context) error { return ensure(ctx, c) })
			}()
			if e.now.stands(recalling(t.Context(), restingCluster()), "") {
				t.Error("it stands")
			}
		})
	}
}

// What failed is tried again, also where that is no failure of the whole.
func TestChildrenThatCouldNotBeWrittenAreNotTakenForEnsured(t *testing.T) {
	w := newWorld(t, etcdCluster())
	f := &footing{}
	ctx := context.WithValue(t.Context(), onFooting{}, f)
	w.fail = errors.New("no room")
	if err := newChildren(w).Apply(ctx, etcdCluster(), aConfigMap("new"), corev1ac.ConfigMap("new", "default")); err == nil || !f.shaky {
		t.Errorf("%v, %t", err, f.shaky)
	}
}

// A resource that is gone is not remembered.
func TestFootingsOfResourcesThatAreGoneAreForgotten(t *testing.T) {
	var all footings
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	all.keep("gone", &footing{now: clock, at: now})
	all.keep("goes", &footing{now: clock, at: now})
	now = now.Add(recallFor)
	all.keep("goes", nil)
	all.keep("stays", &footing{now: clock, at: now})
	if len(all.byUID) != 1 || all.of("stays") == nil {
		t.Errorf("remembered: %v", all.byUID)
	}
}

// A settled cluster of either kind is one whose children are not gone through at each look.
func TestSettledClustersStand(t *testing.T) {
	t.Parallel()
	t.Run("etcd", func(t *testing.T) {
		s := newStage(t, etcdCluster())
		s.restart()
		for range 100 {
			s.round()
		}
		o := s.cluster()
		if !s.op.footings.Unchanged(t.Context(), o) {
			t.Errorf("it is ensured at every look: %+v", o.Status)
		}
	})
	t.Run("redis", func(t *testing.T) {
		s := newRedisStage(t, redisCluster())
		s.settle()
		s.pass()
		o := s.cluster()
		if !s.loop.footings.Unchanged(t.Context(), o) {
			t.Errorf("it is ensured at every look: %+v", o.Status)
		}
	})
}

// How far the servers of Redis are with another authority is asked of themselves: no version of an object tells.
func TestAReplacementOfTheAuthorityIsLookedAtEachTime(t *testing.T) {
	s := newRedisStage(t, redisCluster())
	s.settle()
	kind, ok := s.loop.Kind.(*RedisKind)
	if !ok {
		t.Fatalf("%T", s.loop.Kind)
	}
	o := s.cluster()
	ca, _, err := kind.Keypair(t.Context(), o, o.Spec.TLS, cluster.ServerTLSSecret(o.Name))
	if err != nil {
		t.Fatal(err)
	}
	var all footings
	var servers Servers
	ctx, end := all.begin(t.Context(), o)
	err = unlessItStands(ctx, func(ctx context.Context) (err error) {
		servers, err = kind.trusting(ctx, o, clustertls.Fingerprint(ca))
		return err
	})
	end(true)
	if err != nil || !servers.InForce || all.Unchanged(t.Context(), o) {
		t.Errorf("%+v, %v, unchanged %t", servers, err, all.Unchanged(t.Context(), o))
	}
}
