package envtest

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// asOrdinary returns a client of a user who has no rights but those that are bound to it.
func (s *server) asOrdinary(t *testing.T, user string) client.Client {
	t.Helper()
	config := rest.CopyConfig(s.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// grant binds rules, as YAML, to a user in a namespace until the end of the test.
func (s *server) grant(t *testing.T, namespace, user, rules string) {
	t.Helper()
	role := parse(t, fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: %s, namespace: %s}, rules: %s}`, user, namespace, rules))
	binding := parse(t, fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %[1]s, namespace: %[2]s},
	  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s}]}`, user, namespace))
	s.ensure(t, toUnstructured(t, role))
	s.ensure(t, toUnstructured(t, binding))
}

func TestAnAutoscalerTakesTheRightToUpdateItsCluster(t *testing.T) {
	s, ctx := apiServer(t), testContext(t)
	const ns = "scaled"
	s.ensureNamespace(t, namespace(ns))
	const scalers = `{apiGroups: [quorate.dev], resources: [autoscalers], verbs: [create, get, update]}`
	s.grant(t, ns, "only-scalers", `[`+scalers+`]`)
	s.grant(t, ns, "both", `[`+scalers+`, {apiGroups: [quorate.dev], resources: [redisclusters], resourceNames: [carts], verbs: [update]}]`)
	scaler := func(name, cluster string) *unstructured.Unstructured {
		o := toUnstructured(t, parse(t, fmt.Sprintf(`{apiVersion: quorate.dev/v1alpha1, kind: Autoscaler, metadata: {name: %s, namespace: %s},
		  spec: {cluster: {kind: RedisCluster, name: %s}, shards: {min: 3, max: 12, memoryPercent: 70}}}`, name, ns, cluster)))
		return o
	}
	refused := func(err error) bool {
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ask for the verb update")
	}
	for _, o := range s.kustomize(t, "../../config/authorization") {
		s.ensure(t, o)
	}
	eventually(t, "the policy to be enforced", func() bool {
		return refused(s.asOrdinary(t, "only-scalers").Create(ctx, scaler("carts", "carts"), client.DryRunAll))
	})
	if err := s.asOrdinary(t, "both").Create(ctx, scaler("carts", "carts"), client.DryRunAll); err != nil {
		t.Errorf("a user who may update the cluster: %v", err)
	}
	if err := s.asOrdinary(t, "both").Create(ctx, scaler("other", "other"), client.DryRunAll); !refused(err) {
		t.Errorf("an Autoscaler of another cluster: want it refused, got %v", err)
	}
	s.ensure(t, scaler("carts", "carts"))
	live := scaler("carts", "carts")
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
		t.Fatal(err)
	}
	labelled := live.DeepCopy()
	labelled.SetLabels(map[string]string{"team": "a"})
	if err := s.asOrdinary(t, "only-scalers").Update(ctx, labelled, client.DryRunAll); err != nil {
		t.Errorf("a label: %v", err)
	}
	if err := unstructured.SetNestedField(live.Object, int64(20), "spec", "shards", "max"); err != nil {
		t.Fatal(err)
	}
	if err := s.asOrdinary(t, "only-scalers").Update(ctx, live, client.DryRunAll); !refused(err) {
		t.Errorf("another specification: want it refused, got %v", err)
	}
}
