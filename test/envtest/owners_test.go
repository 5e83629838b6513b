package envtest

import (
	"os"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// manager is whom docs/install.md gives a further right.
const manager = "system:serviceaccount:quorate-system:quorate-manager"

// TestOwnersAreSetWithTheRightsOfTheOperator has the API server ask what it does on OpenShift (OwnerReferencesPermissionEnforcement).
func TestOwnersAreSetWithTheRightsOfTheOperator(t *testing.T) {
	s := apiServer(t)
	for _, file := range []string{"role.yaml", "role_binding.yaml"} {
		s.ensure(t, toUnstructured(t, parse(t, string(read(t, "../../config/rbac/"+file)))))
	}
	config := rest.CopyConfig(s.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: manager}
	mine, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range append(slices.Clone(allKinds), redisUserKind) {
		child := childOf("ConfigMap", k.name+"-child", object{"apiVersion": "quorate.dev/v1alpha1", "kind": k.name, "name": "orders", "uid": "u-1", "controller": true, "blockOwnerDeletion": true})
		if k.name == "Autoscaler" { // It owns nothing.
			err := mine.Create(testContext(t), child, client.DryRunAll)
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot set blockOwnerDeletion") {
				t.Errorf("the API server asks for no rights: %v", err)
			}
			continue
		}
		eventually(t, k.name+" to own something", func() bool { return mine.Create(testContext(t), child, client.DryRunAll) == nil })
	}

	secret := childOf("Secret", "orders-auth")
	s.ensure(t, secret)
	further := func() error {
		claim := `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"PersistentVolumeClaim","name":"data-orders-0","uid":"u-2"}]}}`
		return mine.Patch(testContext(t), secret.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(claim)), client.DryRunAll)
	}
	if err := further(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot set an ownerRef on a resource you can't delete") {
		t.Errorf("a Secret gets a further owner: %v", err)
	}
	for _, o := range furtherRights(t) {
		o.SetNamespace("default")
		s.ensure(t, o)
	}
	eventually(t, "the Secret to get a further owner", func() bool { return further() == nil })
}

// furtherRights are the Role of docs/install.md and its binding.
func furtherRights(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	for _, block := range yamlBlock.FindAllSubmatch(read(t, "../../docs/install.md"), -1) {
		if !strings.Contains(string(block[1]), "quorate-owners") {
			continue
		}
		var out []*unstructured.Unstructured
		for document := range strings.SplitSeq(string(block[1]), "\n---\n") {
			out = append(out, toUnstructured(t, parse(t, document)))
		}
		return out
	}
	t.Fatal("docs/install.md has no Role quorate-owners")
	return nil
}

func childOf(kind, name string, owners ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: object{
		"apiVersion": "v1", "kind": kind, "metadata": object{"namespace": "default", "name": strings.ToLower(name), "ownerReferences": owners},
	}}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
