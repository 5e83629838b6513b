package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// pinned are the versions of hack/versions.env.
func pinned(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(content(t, "hack/versions.env")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			out[key] = value
		}
	}
	return out
}

func content(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// row are the cells of the row of docs/compatibility.md that begins with a word.
func row(t *testing.T, word string) []string {
	t.Helper()
	for line := range strings.Lines(content(t, "docs/compatibility.md")) {
		if rest, ok := strings.CutPrefix(line, "| "+word+" | "); ok {
			return strings.Split(strings.TrimSuffix(strings.TrimSpace(rest), " |"), " | ")
		}
	}
	t.Fatalf("docs/compatibility.md has no row %s", word)
	return nil
}

var dataStores = map[string]string{"etcd": "ETCD_", "Redis": "REDIS_", "Valkey": "VALKEY_"}

func TestWhatIsTestedIsWhatThePageSays(t *testing.T) {
	t.Parallel()
	versions := pinned(t)
	for name, prefix := range dataStores {
		var want []string
		for key, version := range versions {
			if strings.HasPrefix(key, prefix) && !strings.HasSuffix(key, "_SUITE") {
				want = append(want, version)
			}
		}
		slices.Sort(want)
		if got := row(t, name)[1]; got != strings.Join(want, ", ") {
			t.Errorf("%s: the page says %s, and hack/versions.env has %s", name, got, want)
		}
	}
	for word, version := range map[string]string{"tested end to end": versions["KUBERNETES_VERSION"], "Helm": versions["HELM_VERSION"], "kubectl": versions["KUBERNETES_VERSION"]} {
		if got := row(t, word)[0]; !strings.HasPrefix(got, strings.TrimPrefix(version, "v")) {
			t.Errorf("%s: the page says %s, and hack/versions.env %s", word, got, version)
		}
	}
	least := regexp.MustCompile(`kubeVersion: ">=(\d+\.\d+)\.`).FindStringSubmatch(content(t, "charts/quorate/Chart.yaml"))
	if got := row(t, "supported")[0]; least == nil || !strings.HasPrefix(got, least[1]+" ") {
		t.Errorf("the page says %s, and the chart asks for %s", got, least)
	}
}

// accepted are the patterns of spec.version in a CRD. All have to match; each is of one engine, or of all where that is empty.
func accepted(t *testing.T, file, engine string) []*regexp.Regexp {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal([]byte(content(t, "config/crd/bases/"+file)), &crd); err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	rules := slices.Concat(spec.XValidations, spec.Properties["version"].XValidations)
	pattern := regexp.MustCompile(`^self(?:\.engine != '(\w+)' \|\| self\.version)?\.matches\('(\^[^']+\$)'\)$`)
	var out []*regexp.Regexp
	for _, rule := range rules {
		if m := pattern.FindStringSubmatch(rule.Rule); m != nil && m[1] == engine {
			out = append(out, regexp.MustCompile(m[2]))
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s has no rule about versions", file)
	}
	return out
}

func TestWhatIsSupportedIsWhatTheAPITakes(t *testing.T) {
	t.Parallel()
	refused := map[string][]string{
		"etcd": {"3.4.30", "3.5.10", "3.8.0", "4.0.0"}, "Redis": {"6.2.14", "7.1.0", "9.0.0"}, "Valkey": {"7.2.5", "10.0.0"},
	}
	for name := range dataStores {
		file, engine := "quorate.dev_etcdclusters.yaml", ""
		if name != "etcd" {
			file, engine = "quorate.dev_redisclusters.yaml", strings.ToLower(name)
		}
		patterns := accepted(t, file, engine)
		takes := func(version string) bool {
			return !slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return !p.MatchString(version) })
		}
		supported := regexp.MustCompile(`\d+\.(\d+|x)(\.\d+)?`).FindAllString(row(t, name)[0], -1)
		for _, word := range supported {
			if word == "3.5" { // From 3.5.11 on, which the cell names as well.
				continue
			}
			version := strings.Replace(word, "x", "9", 1)
			if strings.Count(version, ".") == 1 {
				version += ".1"
			}
			if !takes(version) {
				t.Errorf("the page says that %s %s is supported, and the API refuses it", name, version)
			}
		}
		for _, version := range refused[name] {
			if takes(version) {
				t.Errorf("the API takes %s %s, and the page does not say so", name, version)
			}
		}
		if len(supported) < 2 {
			t.Errorf("the page names only the versions %s of %s", supported, name)
		}
	}
}

func TestExamplesAreOfVersionsUnderTest(t *testing.T) {
	t.Parallel()
	var known []string
	for key, version := range pinned(t) {
		if strings.HasPrefix(key, "ETCD_") || strings.HasPrefix(key, "REDIS_") || strings.HasPrefix(key, "VALKEY_") {
			known = append(known, version)
		}
	}
	named := regexp.MustCompile(`(?m)^\s*version: "?([0-9][^\s"]*)|image: (?:quay\.io/coreos/etcd:v|docker\.io/library/redis:|docker\.io/valkey/valkey:)(\S+)`)
	found := 0
	for _, p := range pages(t) {
		for _, s := range p.Steps {
			for _, m := range named.FindAllStringSubmatch(s.Text, -1) {
				found++
				if version := m[1] + m[2]; !slices.Contains(known, version) {
					t.Errorf("%s:%d names the version %s, which is not under test: %s", p.Path, s.Line, version, known)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d versions were found", found)
	}
}
