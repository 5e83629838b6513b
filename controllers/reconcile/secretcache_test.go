package reconcile

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/fakeapi"
)

// forgetful is a kind that looks at a Secret, and then takes a step.
type forgetful struct {
	script
	look func(ctx context.Context) error
}

func (f *forgetful) Ensure(ctx context.Context, _ *v1alpha1.EtcdCluster) error { return f.look(ctx) }

func TestNoStepIsTakenOnASecretThatHasChanged(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "ours", Labels: map[string]string{cluster.LabelManagedBy: cluster.ManagedBy},
	}}
	w := fakeapi.New(t, fakeapi.EtcdCluster(), secret)
	cached := owned.Cached(w, time.Now)
	kind := &forgetful{script: script{ready: true, plan: cluster.Plan{Message: "fine"}}, look: func(ctx context.Context) error {
		return cached.Get(ctx, client.ObjectKeyFromObject(secret), &corev1.Secret{})
	}}
	loop := &Loop[*v1alpha1.EtcdCluster, int]{Kind: kind, Client: w, Direct: w, Events: events.NewFakeRecorder(20)}
	pass := func() ctrl.Result {
		next, err := loop.Reconcile(t.Context(), fakeapi.Fetch(t, w))
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	pass()
	pass()
	secret.Data = map[string][]byte{"k": []byte("2")}
	if err := w.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	step, _ := cluster.Do(knock{}, "nobody knows that we are here")
	kind.plan = step
	if next := pass(); kind.acted != 0 || next.RequeueAfter != afterHold || !strings.Contains(fakeapi.Fetch(t, w).Status.Activity, "Secret ours has changed") {
		t.Errorf("%d steps were taken, %s: %+v", kind.acted, next.RequeueAfter, fakeapi.Fetch(t, w).Status)
	}
	if pass(); kind.acted != 1 {
		t.Errorf("%d steps were taken", kind.acted)
	}
}
