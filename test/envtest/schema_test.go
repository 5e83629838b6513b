package envtest

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

type schemaProps = apiextensionsv1.JSONSchemaProps

// embedded are the fields whose types come from Kubernetes, or have the shape of those: their insides are documented
// there, and no sample shows them all.
var embedded = map[string]bool{
	"spec.resources":                          true,
	"spec.template.affinity":                  true,
	"spec.template.tolerations":               true,
	"spec.template.topologySpreadConstraints": true,
	"spec.template.env":                       true,
	"spec.template.imagePullSecrets":          true,
	"spec.template.securityContext":           true,
	"status.conditions":                       true,
}

// maxCRDBytes keeps `kubectl apply` on the client side possible: its annotation may hold 256 KiB.
const maxCRDBytes = 256 << 10

func loadCRD(t *testing.T, resource string) schemaProps {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(crdDir, "quorate.dev_"+resource+".yaml"))
	if err != nil {
		t.Fatalf("%v: run make manifests", err)
	}
	if len(raw) > maxCRDBytes {
		t.Errorf("the CRD of %s has %d bytes, more than %d", resource, len(raw), maxCRDBytes)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		t.Fatal(err)
	}
	return *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// walk visits every property below s, and goes into it if visit says so. Items of lists have the path of the list.
func walk(path string, s schemaProps, visit func(string, schemaProps) bool) {
	if s.Items != nil && s.Items.Schema != nil {
		walk(path, *s.Items.Schema, visit)
	}
	for name, p := range s.Properties {
		below := strings.TrimPrefix(path+"."+name, ".")
		if visit(below, p) {
			walk(below, p, visit)
		}
	}
}

// kinds are those of clusters, which have much in common; allKinds are all that there are.
var (
	kinds    = []kind{etcdKind, redisKind}
	allKinds = append(kinds, userKind, backupKind, scheduleKind, restoreKind, scalerKind)
)

func TestEveryFieldIsDocumented(t *testing.T) {
	for _, k := range allKinds {
		fields, root := 0, loadCRD(t, k.resource)
		walk("", root, func(path string, p schemaProps) bool {
			if path == "apiVersion" || path == "kind" || path == "metadata" {
				return false
			}
			fields++
			documented(t, k, path, p, slices.Contains(parent(root, path).Required, last(path)))
			return !embedded[path]
		})
		t.Logf("%s: %d fields documented", k.name, fields)
	}
}

// documented checks one description: it begins with the name of the field, as `kubectl explain` readers expect, and
// says what an optional field of the specification defaults to.
func documented(t *testing.T, k kind, path string, p schemaProps, required bool) {
	t.Helper()
	text := strings.ReplaceAll(p.Description, "\n", " ")
	if !strings.HasPrefix(text, last(path)) {
		t.Errorf("%s: the description of %s must begin with its name: %q", k.name, path, text)
	}
	if strings.HasPrefix(path, "spec.") && !required && !strings.Contains(strings.ToLower(text), "default") {
		t.Errorf("%s: the description of %s does not say its default: %q", k.name, path, text)
	}
	if strings.HasPrefix(path, "spec.") && p.XIntOrString && !strings.Contains(text, "byte") {
		t.Errorf("%s: the description of %s does not say its unit: %q", k.name, path, text)
	}
	if strings.Contains(text, "\u2014") {
		t.Errorf("%s: the description of %s has a long dash", k.name, path)
	}
}

func last(path string) string { return path[strings.LastIndex(path, ".")+1:] }

func parent(s schemaProps, path string) schemaProps {
	parts := strings.Split(path, ".")
	for _, p := range parts[:len(parts)-1] {
		s = s.Properties[p]
		if s.Items != nil {
			s = *s.Items.Schema
		}
	}
	return s
}

func TestEveryListHasAListType(t *testing.T) {
	for _, k := range allKinds {
		lists := 0
		walk("", loadCRD(t, k.resource), func(path string, p schemaProps) bool {
			if p.Type == "array" {
				lists++
				if p.XListType == nil {
					t.Errorf("%s: %s has no listType", k.name, path)
				}
			}
			return true
		})
		t.Logf("%s: %d lists", k.name, lists)
	}
}

// eachRule visits every CEL rule of a CRD: those of the whole resource, of its properties, and of the items of lists
// and the values of maps.
func eachRule(root schemaProps, visit func(path string, r apiextensionsv1.ValidationRule)) {
	var below func(path string, s schemaProps)
	below = func(path string, s schemaProps) {
		for _, r := range s.XValidations {
			visit(path, r)
		}
		if s.Items != nil && s.Items.Schema != nil {
			below(path+"[]", *s.Items.Schema)
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			below(path+"[*]", *s.AdditionalProperties.Schema)
		}
		for name, p := range s.Properties {
			below(strings.TrimPrefix(path+"."+name, "."), p)
		}
	}
	below("", root)
}

// A message without the field's name helps nobody who reads only the end of a long error.
func TestEveryRuleNamesItsFieldAndAddsACure(t *testing.T) {
	field := regexp.MustCompile(`\b(spec|storage|tls|auth|config|template|metadata|destination|bootstrap)\.[a-z]`)
	for _, k := range allKinds {
		rules := 0
		eachRule(loadCRD(t, k.resource), func(path string, r apiextensionsv1.ValidationRule) {
			rules++
			first, _, _ := strings.Cut(r.Message, " ") // What several resources share is named by itself: the API server says where it is.
			if !field.MatchString(r.Message) && first != last(path) && first != last(r.FieldPath) {
				t.Errorf("%s: the message of a rule at %q does not name the field: %q", k.name, path, r.Message)
			}
		})
		t.Logf("%s: %d CEL rules", k.name, rules)
	}
}

// A rule that no case of the tables can trip over would never be missed.
func TestEveryRuleHasACase(t *testing.T) {
	for _, k := range allKinds {
		words := refusedWords(k)
		eachRule(loadCRD(t, k.resource), func(path string, r apiextensionsv1.ValidationRule) {
			if strings.Contains(r.Message, "config.extra: instead of ") || slices.Contains(redisRules(), r) {
				return // TestNoOperatorOwnedKeyOf... and TestAdmissionAndRendererAgree... try each of them.
			}
			if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(r.Message, w) }) {
				t.Errorf("%s: no case for the rule at %q: %q", k.name, path, r.Message)
			}
		})
	}
}

// refusedWords are what the tables of a kind want refusals to say.
func refusedWords(k kind) []string {
	invalid := map[string]map[string]bad{
		etcdKind.name: merged(invalidEtcd, invalidRestores, invalidBoth), redisKind.name: merged(invalidRedis, invalidRestores, invalidRedisRestores, invalidBoth), userKind.name: invalidUsers,
		backupKind.name: merged(invalidBackups, invalidBackedUp), scheduleKind.name: merged(invalidSchedules, invalidBackedUp),
		restoreKind.name: invalidInPlace, scalerKind.name: invalidScalers,
	}
	changes := map[string]map[string]change{
		etcdKind.name: merged(etcdChanges, bothChanges), redisKind.name: merged(redisChanges, bothChanges), userKind.name: userChanges,
		backupKind.name: backupChanges, scheduleKind.name: scheduleChanges, restoreKind.name: restoreChanges, scalerKind.name: scalerChanges,
	}
	words := []string{}
	for _, c := range invalid[k.name] {
		words = append(words, c.words)
	}
	for _, c := range changes[k.name] {
		if c.words != "" {
			words = append(words, c.words)
		}
	}
	return words
}
