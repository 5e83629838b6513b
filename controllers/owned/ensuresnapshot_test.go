package owned

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/test/fakeapi"
)

func aConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"of": "none"}}}
}

// What is ensured by more than Kubernetes knows, or was not ensured to the end, is ensured at the next look.
func TestAHalfFootingDoesNotStand(t *testing.T) {
	ensures := map[string]func(ctx context.Context, c *Client) error{
		"by what servers say": func(ctx context.Context, c *Client) error {
			EnsureAgain(ctx)
			return c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "there"}, &corev1.ConfigMap{})
		},
		"it panics": func(ctx context.Context, c *Client) error {
			err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "there"}, &corev1.ConfigMap{})
			panic(err)
		},
		"it fails": func(ctx context.Context, c *Client) error {
			return errors.Join(c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "there"}, &corev1.ConfigMap{}), errors.New("not now"))
		},
	}
	for name, ensure := range ensures {
		t.Run(name, func(t *testing.T) {
			c := newChildren(fakeapi.New(t, aConfigMap("there")))
			e := &ensureState{}
			func() {
				defer func() { _ = recover() }()
				_ = SkipIfUnchanged(context.WithValue(t.Context(), ensureKey{}, e), func(ctx context.Context) error { return ensure(ctx, c) })
			}()
			if e.now.unchanged(WithCache(t.Context(), restingCluster()), "") {
				t.Error("it stands")
			}
		})
	}
}

// What failed is tried again, also where that is no failure of the whole.
func TestChildrenThatCouldNotBeWrittenAreNotTakenForEnsured(t *testing.T) {
	w := fakeapi.New(t, fakeapi.EtcdCluster())
	f := &snapshot{}
	ctx := context.WithValue(t.Context(), snapshotKey{}, f)
	w.Fail = errors.New("no room")
	if err := newChildren(w).Apply(ctx, fakeapi.EtcdCluster(), aConfigMap("new"), corev1ac.ConfigMap("new", "default")); err == nil || !f.incomplete {
		t.Errorf("%v, %t", err, f.incomplete)
	}
}

// A resource that is gone is not remembered.
func TestFootingsOfResourcesThatAreGoneAreForgotten(t *testing.T) {
	var all Snapshots
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	all.keep("gone", &snapshot{now: clock, at: now})
	all.keep("goes", &snapshot{now: clock, at: now})
	now = now.Add(SecretsExpireAfter)
	all.keep("goes", nil)
	all.keep("stays", &snapshot{now: clock, at: now})
	if len(all.byUID) != 1 || all.of("stays") == nil {
		t.Errorf("remembered: %v", all.byUID)
	}
}
