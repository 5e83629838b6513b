package envtest

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	ac "github.com/quorate/quorate/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// The Go types and the generated apply configurations, as a user's own program would use them.
func TestGoTypesAndApplyConfigurationsRoundTrip(t *testing.T) {
	ctx := testContext(t)
	c := typedClient(t)
	want := ac.RedisCluster("typed", "default").WithSpec(ac.RedisClusterSpec().
		WithVersion("8.0.2").WithShards(3).
		WithStorage(ac.StorageSpec().WithSize(resource.MustParse("1Gi"))))
	for range 2 { // Applied twice, it changes nothing.
		if err := c.Apply(ctx, want, client.FieldOwner("test"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
	got := &v1alpha1.RedisCluster{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "typed"}, got); err != nil {
		t.Fatal(err)
	}
	if got.Generation != 1 {
		t.Errorf("generation %d after the same was applied twice", got.Generation)
	}
	if got.Spec.Replicas() != 1 || got.Spec.ServerEngine() != v1alpha1.EngineRedis ||
		got.Spec.TLS.TLSMode() != v1alpha1.TLSManaged || got.Spec.Auth.AuthMode() != v1alpha1.AuthPassword ||
		*got.Spec.Storage.DeletionPolicy != v1alpha1.DeletionRetain {
		t.Errorf("the defaults are not there: %+v", got.Spec)
	}
	// An update by a Go program writes every quantity and duration in its own way; nothing of it may count as a change.
	got.Spec.Paused = new(bool)
	if err := c.Update(ctx, got); err != nil {
		t.Error(err)
	}
	if err := c.Delete(ctx, got); err != nil {
		t.Error(err)
	}
}

// A client that does not ask for strict validation gets unknown fields dropped: they never reach a pod.
func TestUnknownFieldsAreDroppedWhereTheyAreNotRefused(t *testing.T) {
	s := apiServer(t)
	lax := client.WithFieldValidation(s.client, metav1.FieldValidationIgnore)
	for _, k := range kinds {
		u := toUnstructured(t, bad{spec: `{template: {hostNetwork: true, securityContext: {privileged: true}}, tls: {namespace: kube-system}}`}.object(t, k))
		if err := lax.Create(testContext(t), u, client.DryRunAll, client.FieldValidation(metav1.FieldValidationIgnore)); err != nil {
			t.Fatal(err)
		}
		for _, path := range [][]string{
			{"spec", "template", "hostNetwork"}, {"spec", "template", "securityContext", "privileged"}, {"spec", "tls", "namespace"},
		} {
			if _, found, _ := unstructured.NestedFieldNoCopy(u.Object, path...); found {
				t.Errorf("%s: %v is still there", k.name, path)
			}
		}
	}
}
