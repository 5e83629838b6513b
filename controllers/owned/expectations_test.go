package owned

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/test/fakeapi"
)

// version is an object of a UID with a resourceVersion.
func version(uid types.UID, resourceVersion string) *corev1.ConfigMap {
	o := aConfigMap("there")
	o.UID, o.ResourceVersion = uid, resourceVersion
	return o
}

func TestAnObjectIsPendingWhileItIsOlderThanTheLastWrite(t *testing.T) {
	for name, tc := range map[string]struct {
		written, cached *corev1.ConfigMap
		pending         bool
	}{
		"the version that was written over":  {version("u", "10"), version("u", "9"), true},
		"one from another writer in between": {version("u", "1000"), version("u", "999"), true},
		"the version of the write":           {version("u", "10"), version("u", "10"), false},
		"a later version":                    {version("u", "10"), version("u", "11"), false},
		"another object of that name":        {version("u", "10"), version("v", "9"), false},
		"a version that cannot be compared":  {version("u", "b"), version("u", "a"), false},
		"no write of it":                     {version("u", ""), version("u", "9"), false},
	} {
		t.Run(name, func(t *testing.T) {
			var e Expectations
			e.Wrote(tc.written)
			if got := e.Pending(tc.cached); got != tc.pending {
				t.Errorf("pending: %t", got)
			}
			if !tc.pending && len(e.byKey) != 0 {
				t.Errorf("%v is still expected", e.byKey)
			}
		})
	}
}

func TestAStaleObjectIsTakenAsItIsInTheEnd(t *testing.T) {
	var e Expectations
	e.Wrote(version("u", "10"))
	for range MaxPending {
		if !e.Pending(version("u", "9")) {
			t.Fatal("it is not waited for")
		}
	}
	if e.Pending(version("u", "9")) {
		t.Error("it is waited for without an end")
	}
}

func TestADeletedObjectIsExpectedToGo(t *testing.T) {
	var e Expectations
	e.Deleted(version("u", ""))
	e.Wrote(version("v", "12")) // The one that was created in its place.
	if !e.IsDeleted(version("u", "11")) || e.IsDeleted(version("v", "12")) {
		t.Error("the deleted one and the new one are taken for each other")
	}
}

func TestWritesAreForgottenOfObjectsThatAreNotRead(t *testing.T) {
	var e Expectations
	e.Wrote(version("u", "10"))
	for key, x := range e.byKey {
		x.at = x.at.Add(-2 * expectFor)
		e.byKey[key] = x
	}
	e.swept = time.Time{}
	o := aConfigMap("other")
	o.ResourceVersion = "11"
	e.Wrote(o)
	if len(e.byKey) != 1 {
		t.Errorf("%d are remembered", len(e.byKey))
	}
}

// staleClient is a client whose cache shows what there was when it was frozen.
func staleClient(t *testing.T, w *fakeapi.API) (c *Client, freeze func(), lose *error) {
	t.Helper()
	inner, ok := w.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T cannot be watched", w.Client)
	}
	var frozen *corev1.ConfigMap
	lose = new(error)
	c = newChildren(w)
	c.Direct = inner
	c.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			switch {
			case frozen == nil:
				return c.Get(ctx, key, o, opts...)
			case frozen.ResourceVersion == "":
				return apierrors.NewNotFound(corev1.Resource("configmaps"), key.Name)
			}
			frozen.DeepCopyInto(o.(*corev1.ConfigMap))
			return nil
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return errors.Join(c.Apply(ctx, o, opts...), *lose)
		},
	})
	return c, func() {
		now := &corev1.ConfigMap{}
		if err := inner.Get(t.Context(), client.ObjectKeyFromObject(aConfigMap("there")), now); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		frozen = now
	}, lose
}

func TestAWriteIsReadBackThoughTheCacheIsStale(t *testing.T) {
	lost := errors.New("the answer is lost")
	for name, tc := range map[string]struct {
		exists bool
		lose   error
	}{
		"of an object that is changed":       {true, nil},
		"of an object that is created":       {false, nil},
		"of a change whose answer is lost":   {true, lost},
		"of a creation whose answer is lost": {false, lost},
	} {
		t.Run(name, func(t *testing.T) {
			c, freeze, lose := staleClient(t, fakeapi.New(t, fakeapi.EtcdCluster()))
			owner := fakeapi.EtcdCluster()
			apply := func(value string) error {
				ref, err := c.OwnerReference(owner)
				if err != nil {
					t.Fatal(err)
				}
				want := corev1ac.ConfigMap("there", "default").WithOwnerReferences(ref).WithData(map[string]string{"key": value})
				return c.Apply(t.Context(), owner, aConfigMap("there"), want)
			}
			if tc.exists {
				if err := apply("old"); err != nil {
					t.Fatal(err)
				}
			}
			freeze()
			*lose = tc.lose
			if err := apply("new"); !errors.Is(err, tc.lose) {
				t.Fatal(err)
			}
			for range MaxPending + 2 {
				var got corev1.ConfigMap
				if err := c.GetCurrent(t.Context(), client.ObjectKeyFromObject(aConfigMap("there")), &got); err != nil || got.Data["key"] != "new" {
					t.Fatalf("read %v, %v", got.Data, err)
				}
			}
			freeze()
			var got corev1.ConfigMap
			if err := c.GetCurrent(t.Context(), client.ObjectKeyFromObject(aConfigMap("there")), &got); err != nil || len(c.Expectations.byKey) != 0 {
				t.Errorf("%v; the cache shows the write, and expected is %v", err, c.Expectations.byKey)
			}
		})
	}
}

func TestAWriteThatWasNotCarriedOutIsNotExpected(t *testing.T) {
	c, freeze, _ := staleClient(t, fakeapi.New(t, aConfigMap("there")))
	freeze()
	var o corev1.ConfigMap
	key := client.ObjectKeyFromObject(aConfigMap("there"))
	if err := c.Get(t.Context(), key, &o); err != nil {
		t.Fatal(err)
	}
	c.Expectations.lost(&o, key)
	if err := c.Refresh(t.Context(), &o); err != nil || len(c.Expectations.byKey) != 0 {
		t.Errorf("%v, %v", err, c.Expectations.byKey)
	}
}
