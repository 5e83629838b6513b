package chart

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quorate/quorate/test/need"
	"github.com/quorate/quorate/test/repository"
)

// namespaced are the kinds of the chart that belong to a namespace.
var namespaced = []string{
	"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "PrometheusRule", "Role", "RoleBinding", "Service", "ServiceAccount", "ServiceMonitor",
}

// everything switches everything on.
var everything = Values{
	"replicas":      2,
	"registry":      "registry.example.com/copies",
	"clusterDomain": "cluster.example",
	"commonLabels":  Values{"team": "stores"},
	"podLabels":     Values{"zone": "a"},
	"metrics": Values{
		"serviceMonitor": Values{"enabled": true, "labels": Values{"release": "prometheus"}}, "prometheusRule": Values{"enabled": true},
		"dashboards": Values{"enabled": true, "annotations": Values{"grafana_folder": "Quorate"}},
	},
	"networkPolicy": Values{
		"metricsFrom": []any{Values{"namespaceSelector": Values{"matchLabels": Values{"kubernetes.io/metadata.name": "monitoring"}}}},
		"egress":      Values{"enabled": true, "apiServerCIDRs": []any{"10.0.0.1/32", "fd00::1/128"}, "apiServerPorts": []any{6443}},
	},
	"imagePullSecrets":          []any{Values{"name": "pull"}},
	"nodeSelector":              Values{"kubernetes.io/os": "linux"},
	"tolerations":               []any{Values{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}},
	"topologySpreadConstraints": []any{Values{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}},
	"priorityClassName":         "system-cluster-critical",
	"podAnnotations":            Values{"a": "b"},
	"env":                       []any{Values{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}},
	"extraArgs":                 []any{"--max-clock-skew=5m"},
	"serviceAccount":            Values{"annotations": Values{"a": "b"}},
	"protection":                Values{"enabled": true},
}

// testContext bounds a call of Helm.
func testContext(t *testing.T) context.Context {
	t.Helper()
	need.Tool(t, "helm")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func render(t *testing.T, values Values) []*unstructured.Unstructured {
	t.Helper()
	all, err := Render(testContext(t), t.TempDir(), values)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// only returns the one object of a kind.
func only[T any](t *testing.T, all []*unstructured.Unstructured) *T {
	t.Helper()
	into := new(T)
	kind := strings.TrimPrefix(fmt.Sprintf("%T", *into), "v1.")
	found := ofKind(all, kind)
	if len(found) != 1 {
		t.Fatalf("there are %d objects of kind %s, want 1", len(found), kind)
	}
	decode(t, found[0].Object, into)
	return into
}

func decode(t *testing.T, from map[string]any, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from, into, true); err != nil {
		t.Fatal(err)
	}
}

func ofKind(all []*unstructured.Unstructured, kind string) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool { return o.GetKind() != kind })
}

func inTree(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	all, err := Objects(text)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func rulesOf(t *testing.T, o *unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	var role rbacv1.ClusterRole
	decode(t, map[string]any{"rules": o.Object["rules"]}, &role)
	if len(role.Rules) == 0 {
		t.Fatalf("%s %s has no rules", o.GetKind(), o.GetName())
	}
	return role.Rules
}

func TestHelmFindsNothingWrongWithTheChart(t *testing.T) {
	if out, err := Helm(testContext(t), "lint", "charts/quorate", "--strict"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestValuesThatCannotBeAreRefusedByName(t *testing.T) {
	for name, tc := range map[string]struct {
		values Values
		words  string
	}{
		"a name that is not known":        {Values{"replica": 2}, "'replica' not allowed"},
		"one further down":                {Values{"image": Values{"name": "x"}}, "at '/image': additional properties 'name' not allowed"},
		"replicas as text":                {Values{"replicas": "two"}, "at '/replicas': got string, want integer"},
		"replicas below zero":             {Values{"replicas": -1}, "at '/replicas'"},
		"namespaces as text":              {Values{"watchNamespaces": "a,b"}, "at '/watchNamespaces': got string, want array"},
		"a namespace that cannot be":      {Values{"watchNamespaces": []any{"Team A"}}, "at '/watchNamespaces/0'"},
		"a namespace twice":               {Values{"watchNamespaces": []any{"a", "a"}}, "at '/watchNamespaces'"},
		"a registry with a scheme":        {Values{"registry": "https://registry.example.com"}, "at '/registry'"},
		"an image without a host":         {Values{"image": Values{"repository": "quorate"}}, "at '/image/repository'"},
		"a digest that is none":           {Values{"image": Values{"digest": "sha256:0"}}, "at '/image/digest'"},
		"a pull policy that is not known": {Values{"image": Values{"pullPolicy": "Sometimes"}}, "at '/image/pullPolicy'"},
		"access that is not known":        {Values{"metrics": Values{"access": "Everybody"}}, "at '/metrics/access'"},
		"a monitor of no metrics":         {Values{"metrics": Values{"access": "Off", "serviceMonitor": Values{"enabled": true}}}, "set metrics.access to Authorized or Open"},
		"alerts about no metrics":         {Values{"metrics": Values{"access": "Off", "prometheusRule": Values{"enabled": true}}}, "metrics.prometheusRule.enabled: without metrics"},
		"an interval without a unit":      {Values{"metrics": Values{"serviceMonitor": Values{"interval": "30"}}}, "at '/metrics/serviceMonitor/interval'"},
		"dashboards as text":              {Values{"metrics": Values{"dashboards": Values{"enabled": "yes"}}}, "at '/metrics/dashboards/enabled'"},
		"a port that cannot be":           {Values{"networkPolicy": Values{"egress": Values{"apiServerPorts": []any{70000}}}}, "at '/networkPolicy/egress/apiServerPorts/0'"},
		"API servers nowhere":             {Values{"networkPolicy": Values{"egress": Values{"apiServerCIDRs": []any{}}}}, "at '/networkPolicy/egress/apiServerCIDRs'"},
		"an API server that is no range":  {Values{"networkPolicy": Values{"egress": Values{"apiServerCIDRs": []any{"10.0.0.1"}}}}, "at '/networkPolicy/egress/apiServerCIDRs/0'"},
		"a pull secret by its name alone": {Values{"imagePullSecrets": []any{"pull"}}, "at '/imagePullSecrets/0'"},
		"a label that is a number":        {Values{"commonLabels": Values{"tier": 1}}, "at '/commonLabels/tier'"},
		"a level that is not known":       {Values{"logLevel": "chatty"}, "at '/logLevel'"},
		"CRDs as text":                    {Values{"crds": Values{"install": "yes"}}, "at '/crds/install'"},
		"protection as text":              {Values{"protection": Values{"enabled": "yes"}}, "at '/protection/enabled'"},
		"protection by itself":            {Values{"protection": true}, "at '/protection': got boolean, want object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Render(testContext(t), t.TempDir(), tc.values); err == nil || !strings.Contains(err.Error(), tc.words) {
				t.Errorf("want a refusal with %q, got %v", tc.words, err)
			}
		})
	}
}

func TestAChartThatLostItsLinksIsRefused(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "quorate")
	if err := os.CopyFS(filepath.Join(broken, "templates"), os.DirFS(filepath.Join(root, "charts/quorate/templates"))); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"Chart.yaml", "values.yaml", "values.schema.json"} {
		text, err := os.ReadFile(filepath.Join(root, "charts/quorate", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(broken, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(missing string, flags ...string) {
		t.Helper()
		if _, err := Helm(testContext(t), append([]string{"template", Release, broken}, flags...)...); err == nil ||
			!strings.Contains(err.Error(), "this chart has no "+missing) || !strings.Contains(err.Error(), "Take the chart of a release") {
			t.Errorf("%s: %v", missing, err)
		}
	}
	refused("CRDs", "--set", "rbac.create=false")
	refused("files/rbac/role.yaml", "--set", "crds.install=false,rbac.userRoles=false")
	refused("files/rbac/user_roles.yaml", "--set", "crds.install=false")
	alerts := []string{"--set", "crds.install=false,rbac.create=false,metrics.prometheusRule.enabled=true"}
	refused("files/prometheusrule.yaml", alerts...)
	refused("files/dashboards/quorate-fleet.json", "--set", "crds.install=false,rbac.create=false,metrics.dashboards.enabled=true")
	refused("files/protection.yaml", "--set", "crds.install=false,rbac.create=false,protection.enabled=true")
	// As git writes a link where there can be none.
	if err := os.Mkdir(filepath.Join(broken, "files"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "files/prometheusrule.yaml"), []byte("../../../config/monitoring/prometheusrule.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("files/prometheusrule.yaml", alerts...)
}

func TestForAllNamespacesTheOperatorHasTheRightsOfConfig(t *testing.T) {
	all := render(t, nil)
	for file, name := range map[string]string{
		"role.yaml": "quorate-manager", "metrics_auth.yaml": "quorate-metrics-auth", "metrics_reader.yaml": "quorate-metrics-reader",
	} {
		i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ClusterRole" && o.GetName() == name })
		if i < 0 {
			t.Fatalf("no ClusterRole %s", name)
		}
		if diff := cmp.Diff(rulesOf(t, inTree(t, "config/rbac/"+file)[0]), rulesOf(t, all[i])); diff != "" {
			t.Errorf("%s (-config +chart):\n%s", name, diff)
		}
	}
	for _, role := range inTree(t, "config/rbac/user_roles.yaml") {
		i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "ClusterRole" && o.GetName() == role.GetName()
		})
		if i < 0 {
			t.Fatalf("no ClusterRole %s", role.GetName())
		}
		for key, value := range role.GetLabels() {
			if all[i].GetLabels()[key] != value {
				t.Errorf("%s has no label %s: users do not get what is in it", role.GetName(), key)
			}
		}
	}
	bindings(t, all)
}

// bindings fails unless every role that the operator works with is bound to it, and every binding is of a role that is there.
func bindings(t *testing.T, all []*unstructured.Unstructured) {
	t.Helper()
	deployment := only[appsv1.Deployment](t, all)
	bound := map[string]bool{}
	for _, o := range slices.Concat(ofKind(all, "RoleBinding"), ofKind(all, "ClusterRoleBinding")) {
		var b rbacv1.ClusterRoleBinding
		decode(t, map[string]any{"roleRef": o.Object["roleRef"], "subjects": o.Object["subjects"]}, &b)
		want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: deployment.Spec.Template.Spec.ServiceAccountName, Namespace: Namespace}}
		if diff := cmp.Diff(want, b.Subjects); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", o.GetKind(), o.GetName(), diff)
		}
		bound[b.RoleRef.Kind+" "+o.GetNamespace()+"/"+b.RoleRef.Name] = true
	}
	for _, o := range slices.Concat(ofKind(all, "Role"), ofKind(all, "ClusterRole")) {
		role := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		people := slices.ContainsFunc([]string{"-edit", "-view", "-metrics-reader"}, func(s string) bool { return strings.HasSuffix(role, s) })
		if bound[role] == people {
			t.Errorf("%s is bound: %v", role, bound[role])
		}
		delete(bound, role)
	}
	if len(bound) > 0 {
		t.Errorf("bound, but not there: %v", slices.Collect(maps.Keys(bound)))
	}
}

func TestForSomeNamespacesNothingIsClusterWideButTheCRDs(t *testing.T) {
	all := render(t, Values{"watchNamespaces": []any{"kube-system", Namespace}, "replicas": 2})
	for _, o := range all {
		if kind := o.GetKind(); kind != "CustomResourceDefinition" && (!slices.Contains(namespaced, kind) || o.GetNamespace() == "") {
			t.Errorf("%s %s", kind, o.GetName())
		}
	}
	var want []rbacv1.PolicyRule
	for _, rule := range rulesOf(t, inTree(t, "config/rbac/role.yaml")[0]) {
		rule.Resources = slices.DeleteFunc(rule.Resources, func(r string) bool {
			return r == "nodes" || r == "persistentvolumes" || r == "storageclasses"
		})
		if len(rule.Resources) > 0 {
			want = append(want, rule)
		}
	}
	for _, ns := range []string{"kube-system", Namespace} {
		i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "Role" && o.GetName() == "quorate-manager" && o.GetNamespace() == ns
		})
		if i < 0 {
			t.Fatalf("no Role in %s", ns)
		}
		if diff := cmp.Diff(want, rulesOf(t, all[i])); diff != "" {
			t.Errorf("the Role in %s (-config +chart):\n%s", ns, diff)
		}
	}
	bindings(t, all)
	args := only[appsv1.Deployment](t, all).Spec.Template.Spec.Containers[0].Args
	for _, arg := range []string{"--watch-namespaces=kube-system,default", "--metrics-bind-address=0"} {
		if !slices.Contains(args, arg) {
			t.Errorf("no %s in %v", arg, args)
		}
	}
}

func TestTheCRDsAreThoseOfConfigAndStay(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "config/crd/bases/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d CRDs, %v", len(files), err)
	}
	want, got := map[string]any{}, map[string]any{}
	for _, file := range files {
		o := inTree(t, "config/crd/bases/"+filepath.Base(file))[0]
		want[o.GetName()] = o.Object["spec"]
	}
	for _, o := range ofKind(render(t, nil), "CustomResourceDefinition") {
		got[o.GetName()] = o.Object["spec"]
		if o.GetAnnotations()["helm.sh/resource-policy"] != "keep" || o.GetAnnotations()["controller-gen.kubebuilder.io/version"] == "" {
			t.Errorf("%s has the annotations %v", o.GetName(), o.GetAnnotations())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-config +chart):\n%s", diff)
	}
	if left := ofKind(render(t, Values{"crds": Values{"install": false}}), "CustomResourceDefinition"); len(left) > 0 {
		t.Errorf("crds.install=false leaves %d", len(left))
	}
}

func TestEverythingSelectsThePodsOfTheOperator(t *testing.T) {
	all := render(t, everything)
	pod := labels.Set(only[appsv1.Deployment](t, all).Spec.Template.Labels)
	for what, selector := range map[string]map[string]string{
		"Deployment":          only[appsv1.Deployment](t, all).Spec.Selector.MatchLabels,
		"PodDisruptionBudget": only[policyv1.PodDisruptionBudget](t, all).Spec.Selector.MatchLabels,
		"NetworkPolicy":       only[networkingv1.NetworkPolicy](t, all).Spec.PodSelector.MatchLabels,
		"Service":             only[corev1.Service](t, all).Spec.Selector,
	} {
		if len(selector) < 3 || !labels.SelectorFromSet(selector).Matches(pod) {
			t.Errorf("%s selects %v, and the pods have %v", what, selector, pod)
		}
	}
	service := labels.Set(only[corev1.Service](t, all).Labels)
	monitor := ofKind(all, "ServiceMonitor")[0]
	selector, _, err := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
	if err != nil || len(selector) < 3 || !labels.SelectorFromSet(selector).Matches(service) {
		t.Errorf("the ServiceMonitor selects %v, %v, and the Service has %v", selector, err, service)
	}
	for _, o := range all {
		if o.GetLabels()["team"] != "stores" || o.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" {
			t.Errorf("%s %s has the labels %v", o.GetKind(), o.GetName(), o.GetLabels())
		}
	}
}

func TestTheOperatorReachesEveryAPIServer(t *testing.T) {
	for name, tc := range map[string]struct {
		values Values
		want   []string
	}{
		"wherever they are": {Values{"enabled": true}, []string{"0.0.0.0/0", "::/0"}},
		"where it is said":  {Values{"enabled": true, "apiServerCIDRs": []any{"10.0.0.1/32", "10.0.0.2/32", "fd00::1/128"}}, []string{"10.0.0.1/32", "10.0.0.2/32", "fd00::1/128"}},
	} {
		policy := only[networkingv1.NetworkPolicy](t, render(t, Values{"networkPolicy": Values{"egress": tc.values}}))
		var got []string
		for _, rule := range policy.Spec.Egress {
			for _, to := range rule.To {
				if to.IPBlock != nil {
					got = append(got, to.IPBlock.CIDR)
				}
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTwoReplicasAreApartAndOneStays(t *testing.T) {
	one, two := render(t, nil), render(t, Values{"replicas": 2})
	if budgets := ofKind(one, "PodDisruptionBudget"); len(budgets) > 0 {
		t.Error("one replica has a budget, which would keep its node from being drained")
	}
	if got := only[policyv1.PodDisruptionBudget](t, two).Spec.MaxUnavailable; got == nil || got.IntValue() != 1 {
		t.Errorf("maxUnavailable %v", got)
	}
	spec := only[appsv1.Deployment](t, two).Spec
	if *spec.Replicas != 2 || spec.Template.Spec.Affinity == nil || spec.Template.Spec.Affinity.PodAntiAffinity == nil {
		t.Errorf("%d replicas with %v", *spec.Replicas, spec.Template.Spec.Affinity)
	}
}

func TestOneRegistryHoldsAllImages(t *testing.T) {
	c := only[appsv1.Deployment](t, render(t, everything)).Spec.Template.Spec.Containers[0]
	const want = "registry.example.com/copies/quorate/quorate:latest"
	if c.Image != want || !slices.Contains(c.Env, corev1.EnvVar{Name: "AGENT_IMAGE", Value: want}) {
		t.Errorf("image %s, environment %v", c.Image, c.Env)
	}
	if !slices.Contains(c.Args, "--image-registry=registry.example.com/copies") || c.Args[len(c.Args)-1] != "--max-clock-skew=5m" {
		t.Errorf("arguments %v", c.Args)
	}
	digest := "sha256:" + strings.Repeat("a", 64)
	pinned := only[appsv1.Deployment](t, render(t, Values{"image": Values{"digest": digest}}))
	if got := pinned.Spec.Template.Spec.Containers[0].Image; got != "quay.io/quorate/quorate@"+digest {
		t.Errorf("image %s", got)
	}
}

func TestTheOperatorOfTheChartIsThatOfConfig(t *testing.T) {
	var config appsv1.Deployment
	decode(t, inTree(t, "config/manager/manager.yaml")[0].Object, &config)
	want, got := config.Spec.Template.Spec, only[appsv1.Deployment](t, render(t, nil)).Spec.Template.Spec
	// Arguments are the defaults, and the image is chosen by each in its own way.
	got.Containers[0].Args = nil
	for _, c := range []*corev1.Container{&want.Containers[0], &got.Containers[0]} {
		c.Image = ""
		c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "AGENT_IMAGE" })
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-config +chart):\n%s", diff)
	}
}

func TestReleasesForSomeNamespacesDoNotMeet(t *testing.T) {
	values := Values{"watchNamespaces": []any{Namespace}, "metrics": Values{"access": "Authorized"}}
	for _, o := range ofKind(render(t, values), "ClusterRole") {
		if !strings.HasPrefix(o.GetName(), Release+"-"+Namespace+"-") {
			t.Errorf("ClusterRole %s: a release of the same name in another namespace has it too", o.GetName())
		}
	}
}

func TestTheAlertsAreThoseOfConfig(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	values := Values{"metrics": Values{"prometheusRule": Values{"enabled": true}}}
	if _, err := os.Stat(filepath.Join(root, "config/monitoring/prometheusrule.yaml")); err != nil {
		if _, err := Render(testContext(t), t.TempDir(), values); err == nil || !strings.Contains(err.Error(), "this chart has no rules") {
			t.Errorf("without rules: %v", err)
		}
		return
	}
	got := ofKind(render(t, values), "PrometheusRule")
	if len(got) != 1 {
		t.Fatalf("%d PrometheusRules", len(got))
	}
	if diff := cmp.Diff(inTree(t, "config/monitoring/prometheusrule.yaml")[0].Object["spec"], got[0].Object["spec"]); diff != "" {
		t.Errorf("(-config +chart):\n%s", diff)
	}
}

func TestTheDashboardsOfTheChartAreThoseOfConfig(t *testing.T) {
	if off := ofKind(render(t, nil), "ConfigMap"); len(off) > 0 {
		t.Errorf("nobody asks for dashboards, and there are %d ConfigMaps", len(off))
	}
	board := only[corev1.ConfigMap](t, render(t, everything))
	if board.Labels["grafana_dashboard"] != "1" || board.Annotations["grafana_folder"] != "Quorate" {
		t.Errorf("labels %v, annotations %v", board.Labels, board.Annotations)
	}
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "config/monitoring/dashboards/*.json"))
	if err != nil || len(files) == 0 || len(files) != len(board.Data) {
		t.Fatalf("%d dashboards, and %d in the chart: %v", len(files), len(board.Data), err)
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), board.Data[filepath.Base(file)]); diff != "" {
			t.Errorf("%s (-config +chart):\n%s", filepath.Base(file), diff)
		}
	}
}

func TestProtectionIsThatOfConfigForThisRelease(t *testing.T) {
	const policy, binding = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
	config := inTree(t, "config/protection/policy.yaml")
	for name, tc := range map[string]struct {
		values Values
		name   string
		where  any
	}{
		"for all namespaces": {Values{}, "quorate-protection", nil},
		"for some": {Values{"watchNamespaces": []any{"a", "b"}}, "quorate-default-protection", Values{"namespaceSelector": Values{"matchExpressions": []any{
			Values{"key": "kubernetes.io/metadata.name", "operator": "In", "values": []any{"a", "b"}},
		}}}},
	} {
		if left := ofKind(render(t, tc.values), policy); len(left) > 0 {
			t.Errorf("%s: it is on by default", name)
		}
		tc.values["protection"] = Values{"enabled": true}
		all := render(t, tc.values)
		for i, kind := range []string{policy, binding} {
			got := ofKind(all, kind)
			if len(got) != 1 || got[0].GetName() != tc.name {
				t.Fatalf("%s: %v, want one %s", name, got, tc.name)
			}
			want := config[i].DeepCopy().Object["spec"].(map[string]any)
			if kind == binding {
				want["policyName"] = tc.name
				if tc.where != nil {
					want["matchResources"] = tc.where
				}
			} else {
				first := want["matchConditions"].([]any)[0].(map[string]any)
				first["expression"] = strings.ReplaceAll(first["expression"].(string), ":quorate-system:", ":"+Namespace+":")
			}
			if diff := cmp.Diff(want, got[0].Object["spec"]); diff != "" {
				t.Errorf("%s (-config +chart):\n%s", name, diff)
			}
		}
	}
}

func TestTheCommandsOfTheDocumentsRender(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, document := range []string{"docs/install.md", "README.md"} {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(strings.ReplaceAll(line, "'", ""))
			if len(words) < 4 || words[0] != "helm" || (words[1] != "install" && words[1] != "upgrade") {
				continue
			}
			commands++
			// The release that it names is not there yet: this tree takes its place.
			if _, err := Helm(testContext(t), append([]string{"template", words[2], "charts/quorate"}, words[4:]...)...); err != nil {
				t.Errorf("%s: %s%v", document, line, err)
			}
		}
	}
	if commands < 5 {
		t.Errorf("only %d commands were found", commands)
	}
}
