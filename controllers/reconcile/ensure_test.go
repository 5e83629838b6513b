package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/fakeapi"
	"github.com/quorate/quorate/test/ownedtest"
)

// careful is a kind that counts how often it ensures what follows from four ConfigMaps: one that is there and one that is not, one among
// others, and one that is read past the cache.
type careful struct {
	script
	*owned.Client
	ensures int
	// quietly are errors that come of nothing.
	quietly error
}

func (c *careful) Ensure(ctx context.Context, _ *v1alpha1.EtcdCluster) error {
	return owned.SkipIfUnchanged(ctx, func(ctx context.Context) error {
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
	w     *fakeapi.API
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
	s := &carefulStage{t: t, w: fakeapi.New(t, fakeapi.EtcdCluster(), aConfigMap("there"), oneOfMany("first"), aConfigMap("direct"))}
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
	children := ownedtest.New(s.w)
	began := children.Now()
	children.Now = func() time.Time { return began.Add(s.later) }
	s.kind = &careful{script: script{ready: true, plan: cluster.Plan{Message: "fine"}}, Client: children}
	s.loop = &Loop[*v1alpha1.EtcdCluster, int]{Kind: s.kind, Client: s.w, Direct: s.w, Events: events.NewFakeRecorder(100)}
	for range 3 {
		s.pass()
	}
	s.kind.ensures = 0
	return s
}

func (s *carefulStage) pass() {
	s.t.Helper()
	if _, err := s.loop.Reconcile(s.t.Context(), fakeapi.Fetch(s.t, s.w)); err != nil {
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

func TestAResourceThatIsNotAtRestIsEnsuredAtEveryLook(t *testing.T) {
	s := newCarefulStage(t)
	o := fakeapi.Fetch(t, s.w)
	meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "A", ObservedGeneration: o.Generation})
	if s.loop.Snapshots.Unchanged(t.Context(), o) {
		t.Error("one that is not Ready is left as it is")
	}
	if o = fakeapi.Fetch(t, s.w); !s.loop.Snapshots.Unchanged(t.Context(), o) {
		t.Error("it was not at rest")
	}
}

func TestWhatAPauseMayHaveChangedIsEnsured(t *testing.T) {
	s := newCarefulStage(t)
	for _, paused := range []bool{true, false} {
		o := fakeapi.Fetch(t, s.w)
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
