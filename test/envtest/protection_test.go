package envtest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/test/chart"
)

// allowed is the annotation that lets an object be deleted.
const allowed = "quorate.dev/allow-deletion"

// What Kubernetes and the operator call themselves.
const (
	operator   = "system:serviceaccount:quorate-system:quorate-manager"
	collector  = "system:serviceaccount:kube-system:generic-garbage-collector"
	namespaces = "system:serviceaccount:kube-system:namespace-controller"
)

// guarded are objects by what they are, with the words of the refusal; "": nobody is kept from deleting it.
var guarded = map[string]struct{ yaml, words string }{
	"an etcd cluster with storage": {
		`{apiVersion: quorate.dev/v1alpha1, kind: EtcdCluster, metadata: {name: kept}, spec: {size: 3, version: 3.6.16, storage: {size: 1Gi}}}`,
		"nobody would serve its data any more; to delete it all the same: kubectl annotate etcdclusters.quorate.dev kept -n protected quorate.dev/allow-deletion=true",
	},
	"a Redis cluster with storage": {
		`{apiVersion: quorate.dev/v1alpha1, kind: RedisCluster, metadata: {name: kept}, spec: {version: 8.0.2, shards: 3, storage: {size: 1Gi}}}`,
		"kubectl annotate redisclusters.quorate.dev kept -n protected " + allowed + "=true",
	},
	"an etcd cluster without storage": {
		`{apiVersion: quorate.dev/v1alpha1, kind: EtcdCluster, metadata: {name: brief}, spec: {size: 3, version: 3.6.16}}`, "",
	},
	"a Redis cluster without storage": {
		`{apiVersion: quorate.dev/v1alpha1, kind: RedisCluster, metadata: {name: brief}, spec: {version: 8.0.2, shards: 3}}`, "",
	},
	"a claim of a cluster": {
		`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data-kept-0, labels: {app.kubernetes.io/managed-by: quorate}},
		  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
		"it holds the data of a member of a cluster; to delete it all the same: kubectl annotate persistentvolumeclaims data-kept-0 -n protected " + allowed + "=true",
	},
	"a claim of somebody else": {
		`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: other, labels: {app.kubernetes.io/managed-by: Helm}},
		  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`, "",
	},
	"a set whose claims go with it": {
		set("taking", "quorate", "Delete"), "the claims of its pods, and the data on them, would go with it; to delete it all the same: kubectl annotate statefulsets.apps taking -n protected",
	},
	"a set whose claims stay":   {set("leaving", "quorate", "Retain"), ""},
	"a set of somebody else":    {set("other", "Helm", "Delete"), ""},
	"a ConfigMap of a cluster":  {`{apiVersion: v1, kind: ConfigMap, metadata: {name: other, labels: {app.kubernetes.io/managed-by: quorate}}}`, ""},
	"a namespace that is not":   {`{apiVersion: v1, kind: Namespace, metadata: {name: open}}`, ""},
	"a namespace so labelled":   {`{apiVersion: v1, kind: Namespace, metadata: {name: shut, labels: {quorate.dev/protected: "true"}}}`, "kubectl annotate namespaces shut " + allowed + "=true"},
	"the definition of a kind":  {`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: etcdclusters.quorate.dev}}`, "every resource of this kind would go with it; to delete it all the same: kubectl annotate customresourcedefinitions.apiextensions.k8s.io etcdclusters.quorate.dev " + allowed + "=true"},
	"the definition of another": {foreignCRD, ""},
}

const foreignCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: others.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Other, plural: others, singular: other, listKind: OtherList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

func set(name, by, claims string) string {
	return `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: ` + name + `, labels: {app.kubernetes.io/managed-by: ` + by + `}}
spec:
  serviceName: ` + name + `
  selector: {matchLabels: {a: b}}
  persistentVolumeClaimRetentionPolicy: {whenDeleted: ` + claims + `, whenScaled: Retain}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: example.com/i}]}}
`
}

func TestDataIsDeletedOnPurposeOnly(t *testing.T) {
	s := apiServer(t)
	objects := map[string]*unstructured.Unstructured{}
	s.ensureNamespace(t, namespace("protected"))
	for name, g := range guarded {
		o := toUnstructured(t, parse(t, g.yaml))
		if kind := o.GetKind(); kind != "Namespace" && kind != "CustomResourceDefinition" {
			o.SetNamespace("protected")
		}
		if name != "the definition of a kind" { // That is there.
			s.ensure(t, o)
		}
		objects[name] = o
	}
	s.protect(t, objects["a namespace so labelled"])
	for name, g := range guarded {
		t.Run(name, func(t *testing.T) {
			o := objects[name]
			wantDeletion(t, s.client, o, g.words)
			for _, user := range []string{operator, collector, namespaces} {
				wantDeletion(t, s.as(t, user), o, "")
			}
			if g.words == "" {
				return
			}
			wantDeletion(t, s.as(t, "system:serviceaccount:protected:quorate-manager"), o, g.words)
			s.annotate(t, o, "yes")
			wantDeletion(t, s.client, o, g.words)
			s.annotate(t, o, "true")
			wantDeletion(t, s.client, o, "")
		})
	}
}

func TestAllOfAKindAreNotDeletedAtOnce(t *testing.T) {
	s := apiServer(t)
	s.ensureNamespace(t, namespace("protected"))
	o := toUnstructured(t, parse(t, guarded["a claim of a cluster"].yaml))
	o.SetNamespace("protected")
	o.SetName("data-collected-0")
	s.ensure(t, o)
	shut := toUnstructured(t, parse(t, guarded["a namespace so labelled"].yaml))
	s.ensure(t, shut)
	s.protect(t, shut)
	err := s.client.DeleteAllOf(testContext(t), o, client.InNamespace("protected"), client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "it holds the data of a member") {
		t.Errorf("kubectl delete pvc --all: %v", err)
	}
}

// TestProtectionOfAReleaseIsAboutItself renders the chart: its operator may, and what is in other namespaces is not its business.
func TestProtectionOfAReleaseIsAboutItself(t *testing.T) {
	s := apiServer(t)
	for _, ns := range []string{"protected", "elsewhere"} {
		s.ensureNamespace(t, namespace(ns))
	}
	all, err := chart.Render(testContext(t), t.TempDir(), chart.Values{"protection": chart.Values{"enabled": true}, "watchNamespaces": []any{"protected"}})
	if err != nil {
		t.Fatal(err)
	}
	claim := func(ns string) *unstructured.Unstructured {
		o := toUnstructured(t, parse(t, guarded["a claim of a cluster"].yaml))
		o.SetNamespace(ns)
		o.SetName("data-released-0")
		s.ensure(t, o)
		return o
	}
	here, there := claim("protected"), claim("elsewhere")
	s.install(t, all, here)
	wantDeletion(t, s.client, there, "")
	wantDeletion(t, s.as(t, operator), here, "kubectl annotate")
	wantDeletion(t, s.as(t, "system:serviceaccount:"+chart.Namespace+":quorate-manager"), here, "")
}

// wantDeletion tries to delete an object, without doing so. The refusal has to hold the words; "": there is to be none.
func wantDeletion(t *testing.T, c client.Client, o *unstructured.Unstructured, words string) {
	t.Helper()
	err := c.Delete(testContext(t), o, client.DryRunAll)
	switch {
	case words == "" && err != nil:
		t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
	case words != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words)):
		t.Errorf("%s %s: want it refused with %q, got %v", o.GetKind(), o.GetName(), words, err)
	}
}

// protect applies config/protection until the end of the test, and waits until it refuses to delete a witness.
func (s *server) protect(t *testing.T, witness client.Object) {
	t.Helper()
	s.install(t, s.kustomize(t, "../../config/protection"), witness)
}

// install makes the policies among some objects and removes them at the end of the test. Both times it waits until the API server heeds it.
func (s *server) install(t *testing.T, all []*unstructured.Unstructured, witness client.Object) {
	t.Helper()
	refused := func() bool {
		return apierrors.IsForbidden(s.client.Delete(context.WithoutCancel(t.Context()), witness, client.DryRunAll))
	}
	t.Cleanup(func() { eventually(t, "the policy to be forgotten", func() bool { return !refused() }) })
	policies := slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool {
		return !strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy")
	})
	if len(policies) != 2 {
		t.Fatalf("%d policies and bindings", len(policies))
	}
	for _, o := range policies {
		s.ensure(t, o)
	}
	eventually(t, "the policy to be heeded", refused)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	const often = 100 * time.Millisecond
	poll := func(context.Context) (bool, error) { return holds(), nil }
	if err := wait.PollUntilContextTimeout(context.WithoutCancel(t.Context()), often, time.Minute, true, poll); err != nil {
		t.Errorf("wait for %s: %v", what, err)
	}
}

// ensureNamespace makes a namespace that stays: here nobody would empty it.
func (s *server) ensureNamespace(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	if err := s.client.Create(testContext(t), o.DeepCopy()); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
}

func namespace(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name}}}
}

// ensure makes an object until the end of the test.
func (s *server) ensure(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	if o.GetKind() == "Namespace" {
		s.ensureNamespace(t, o)
		return
	}
	if err := s.client.Create(testContext(t), o.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.client.Delete(context.WithoutCancel(t.Context()), o); err != nil {
			t.Errorf("remove %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	})
}

func (s *server) annotate(t *testing.T, o *unstructured.Unstructured, value string) {
	t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"` + allowed + `":"` + value + `"}}}`)
	if err := s.client.Patch(testContext(t), o.DeepCopy(), client.RawPatch("application/merge-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		undo := []byte(`{"metadata":{"annotations":{"` + allowed + `":null}}}`)
		if err := s.client.Patch(context.WithoutCancel(t.Context()), o.DeepCopy(), client.RawPatch("application/merge-patch+json", undo)); err != nil {
			t.Errorf("take the annotation away: %v", err)
		}
	})
}

// as is a client of somebody who may do everything.
func (s *server) as(t *testing.T, user string) client.Client {
	t.Helper()
	config := rest.CopyConfig(s.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
