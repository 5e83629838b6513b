package envtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/kube"
	"github.com/quorate/quorate/test/chart"
	"github.com/quorate/quorate/test/lockdown"
)

// charts are ways to install the chart that together use every template, and every value that is text of Kubernetes.
var charts = map[string]chart.Values{
	"for all namespaces": {},
	"for some":           {"watchNamespaces": []any{"default", "kube-system"}, "metrics": chart.Values{"access": "Open"}},
	"with everything": {
		"replicas":     2,
		"registry":     "registry.example.com/copies",
		"commonLabels": chart.Values{"team": "stores"},
		"networkPolicy": chart.Values{
			"metricsFrom": []any{chart.Values{"namespaceSelector": chart.Values{"matchLabels": chart.Values{"kubernetes.io/metadata.name": "monitoring"}}}},
			"egress":      chart.Values{"enabled": true, "apiServerCIDRs": []any{"10.0.0.1/32", "fd00::1/128"}, "apiServerPorts": []any{6443}},
		},
		"imagePullSecrets":          []any{chart.Values{"name": "pull"}},
		"nodeSelector":              chart.Values{"kubernetes.io/os": "linux"},
		"tolerations":               []any{chart.Values{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}},
		"topologySpreadConstraints": []any{chart.Values{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}},
		"priorityClassName":         "system-cluster-critical",
		"podAnnotations":            chart.Values{"a": "b"},
		"podLabels":                 chart.Values{"zone": "a"},
		"env":                       []any{chart.Values{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}},
		"serviceAccount":            chart.Values{"annotations": chart.Values{"a": "b"}},
		"protection":                chart.Values{"enabled": true},
	},
}

func TestTheAPIServerTakesWhatTheChartRenders(t *testing.T) {
	s := apiServer(t)
	for name, values := range charts {
		t.Run(name, func(t *testing.T) {
			all, err := chart.Render(testContext(t), t.TempDir(), values)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range all {
				s.wouldTake(t, o)
			}
			if len(all) < 15 {
				t.Errorf("%d objects were rendered", len(all))
			}
		})
	}
}

// wouldTake has the API server look at an object as if it were applied. Fields that it does not know are refused.
func (s *server) wouldTake(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	err := s.client.Apply(testContext(t), client.ApplyConfigurationFromUnstructured(o), client.DryRunAll, client.FieldOwner("helm"), client.ForceOwnership)
	if err != nil {
		t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

// TestARoleLeavesOutOnlyWhatBelongsToNoNamespace holds the list in the chart against what the API server says.
func TestARoleLeavesOutOnlyWhatBelongsToNoNamespace(t *testing.T) {
	s := apiServer(t)
	all, err := chart.Render(testContext(t), t.TempDir(), chart.Values{"watchNamespaces": []any{"default"}})
	if err != nil {
		t.Fatal(err)
	}
	wide, err := chart.Render(testContext(t), t.TempDir(), chart.Values{})
	if err != nil {
		t.Fatal(err)
	}
	narrow := granted(t, all, "Role", "quorate-manager")
	for right := range granted(t, wide, "ClusterRole", "quorate-manager") {
		if right.Group == "cert-manager.io" || right.Group == kube.PodMonitorKind.Group {
			continue // It is not part of Kubernetes.
		}
		kind, err := s.client.RESTMapper().KindFor(right.WithVersion(""))
		if err != nil {
			t.Fatal(err)
		}
		mapping, err := s.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		if in := mapping.Scope.Name() == meta.RESTScopeNameNamespace; in != narrow[right] {
			t.Errorf("%s belongs to a namespace: %v, and is in the Role: %v", right, in, narrow[right])
		}
	}
}

// granted are the resources that a role names, without subresources.
func granted(t *testing.T, all []*unstructured.Unstructured, kind, name string) map[schema.GroupResource]bool {
	t.Helper()
	out := map[schema.GroupResource]bool{}
	for _, o := range all {
		if o.GetKind() != kind || o.GetName() != name {
			continue
		}
		rules, _, err := unstructured.NestedSlice(o.Object, "rules")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			rule := r.(map[string]any)
			for _, resource := range rule["resources"].([]any) {
				plain, _, _ := strings.Cut(resource.(string), "/")
				out[schema.GroupResource{Group: rule["apiGroups"].([]any)[0].(string), Resource: plain}] = true
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	return out
}

func TestTheAPIServerTakesEveryOverlay(t *testing.T) {
	s := apiServer(t)
	s.ensureNamespace(t, namespace("quorate-system")) // What is in it needs it.
	for overlay, least := range map[string]int{"default": 15, "namespaced": 15, "ha": 15, "protection": 2, "authorization": 2} {
		t.Run(overlay, func(t *testing.T) {
			all := s.kustomize(t, "../../config/"+overlay)
			for _, o := range all {
				s.wouldTake(t, o)
			}
			if len(all) < least {
				t.Errorf("there are %d objects", len(all))
			}
		})
	}
}

func (s *server) kustomize(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	all, err := chart.Objects([]byte(s.kubectl(t, "kustomize", dir)))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEveryManifestIsLockedDown looks at what dist/install.yaml and its like are made of, and at what is there to be applied as it is.
func TestEveryManifestIsLockedDown(t *testing.T) {
	s := apiServer(t)
	manifests := map[string][]*unstructured.Unstructured{}
	for _, overlay := range []string{"default", "namespaced", "ha"} {
		// make build-installer names the version.
		text := strings.ReplaceAll(s.kubectl(t, "kustomize", "../../config/"+overlay), "quay.io/quorate/quorate:latest", "quay.io/quorate/quorate:v1")
		all, err := chart.Objects([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		manifests[overlay] = all
	}
	for name, all := range manifests {
		pods := 0
		for _, o := range all {
			p, ok, err := lockdown.Written(o)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				continue
			}
			pods++
			p.Sized, p.Identity = true, true
			for _, fault := range lockdown.Faults(p) {
				t.Errorf("%s, %s %s: %s", name, o.GetKind(), o.GetName(), fault)
			}
		}
		if pods != 1 {
			t.Errorf("%s: %d pods", name, pods)
		}
	}
}

// TestTheNamespacedOverlayGrantsNothingBeyond also looks at an overlay of it that chooses a namespace, as its comment says.
func TestTheNamespacedOverlayGrantsNothingBeyond(t *testing.T) {
	s := apiServer(t)
	own := t.TempDir()
	base, err := filepath.Abs("../../config/namespaced")
	if err != nil {
		t.Fatal(err)
	}
	if base, err = filepath.Rel(own, base); err != nil { // kustomize takes no absolute path.
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(own, "kustomization.yaml"), []byte("resources: ["+base+"]\nnamespace: team-a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, ns := range map[string]string{"../../config/namespaced": "quorate-system", own: "team-a"} {
		bound := 0
		for _, o := range s.kustomize(t, dir) {
			switch kind := o.GetKind(); kind {
			case "CustomResourceDefinition":
			case "Namespace":
				if o.GetName() != ns {
					t.Errorf("Namespace %s, want %s", o.GetName(), ns)
				}
			case "Role", "RoleBinding", "ServiceAccount", "Deployment":
				if o.GetNamespace() != ns {
					t.Errorf("%s %s is in namespace %q, want %s", kind, o.GetName(), o.GetNamespace(), ns)
				}
				bound += bindsWithin(t, o, ns)
			default:
				t.Errorf("%s %s", kind, o.GetName())
			}
		}
		if bound != 2 {
			t.Errorf("%s: %d bindings, want that of the operator and that of its lease", ns, bound)
		}
	}
}

// bindsWithin is 1 for a binding. It has to be of a Role, to a service account of the namespace.
func bindsWithin(t *testing.T, o *unstructured.Unstructured, ns string) int {
	t.Helper()
	if o.GetKind() != "RoleBinding" {
		return 0
	}
	role, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind")
	subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
	if role != "Role" || len(subjects) != 1 || subjects[0].(object)["namespace"] != ns {
		t.Errorf("%s is of a %s, to %v", o.GetName(), role, subjects)
	}
	return 1
}
