// Command reference writes docs/reference.md: every field of every kind, out of the CRDs in
// config/crd/bases. It is run by make manifests, in the root of the repository. It must not
// describe a field in other words than its CRD.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const (
	source = "config/crd/bases"
	target = "docs/reference.md"
)

// kubernetes are fields whose types are Kubernetes' own: they are named and not taken apart.
var kubernetes = map[string]string{
	"affinity": "Affinity", "claims": "ResourceClaim", "conditions": "Condition", "env": "EnvVar", "imagePullSecrets": "LocalObjectReference",
	"resources": "ResourceRequirements", "securityContext": "PodSecurityContext", "tolerations": "Toleration",
	"topologySpreadConstraints": "TopologySpreadConstraint",
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run() error {
	paths, err := filepath.Glob(filepath.Join(source, "*.yaml"))
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("there are no CRDs in %s: run make manifests (%w)", source, err)
	}
	var kinds []apiextensionsv1.CustomResourceDefinition
	for _, path := range paths {
		raw, err := os.ReadFile(path) //nolint:gosec // It is a file of this repository.
		if err != nil {
			return fmt.Errorf("read a CRD: %w", err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		kinds = append(kinds, crd)
	}
	if err := os.WriteFile(target, []byte(page(kinds)), 0o644); err != nil { //nolint:gosec // Everybody may read what is in the repository.
		return fmt.Errorf("write the reference: %w", err)
	}
	return nil
}

// page is the whole reference.
func page(kinds []apiextensionsv1.CustomResourceDefinition) string {
	var b strings.Builder
	b.WriteString(`# Reference of the API

Generated from config/crd/bases. ` + "`kubectl explain etcdcluster.spec`" + ` says the same of one field. Where a type is one of Kubernetes, its own
[reference](https://kubernetes.io/docs/reference/kubernetes-api/) has its fields. Quantities are written as in Kubernetes (` + "`10Gi`, `500m`" + `),
durations as in Go (` + "`90s`, `1h30m`" + `), times as in RFC 3339 (` + "`2026-05-01T12:00:00Z`" + `). *Refused* is what the API server answers to a value that
breaks a rule.

| kind | short name | scope | in the list |
|---|---|---|---|
`)
	for _, k := range kinds {
		var columns []string
		for _, c := range k.Spec.Versions[0].AdditionalPrinterColumns {
			name := c.Name
			if c.Priority > 0 {
				name += " (wide)"
			}
			columns = append(columns, name)
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s |\n", k.Spec.Names.Kind, strings.ToLower(k.Spec.Names.Kind),
			"`"+strings.Join(k.Spec.Names.ShortNames, "`, `")+"`", k.Spec.Scope, strings.Join(columns, ", "))
	}
	for _, k := range kinds {
		kind(&b, k)
	}
	return b.String()
}

// kind writes one resource.
func kind(b *strings.Builder, crd apiextensionsv1.CustomResourceDefinition) {
	version := crd.Spec.Versions[0]
	schema := version.Schema.OpenAPIV3Schema
	fmt.Fprintf(b, "\n## %s\n\n`apiVersion: %s/%s`. %s\n", crd.Spec.Names.Kind, crd.Spec.Group, version.Name, sentence(schema.Description))
	if s := version.Subresources; s != nil && s.Scale != nil {
		fmt.Fprintf(b, "`kubectl scale` sets `%s`.\n", strings.TrimPrefix(s.Scale.SpecReplicasPath, "."))
	}
	for _, rule := range schema.XValidations {
		fmt.Fprintf(b, "\n*Refused:* %s\n", sentence(rule.Message))
	}
	for _, part := range []string{"spec", "status"} {
		p, there := schema.Properties[part]
		if !there {
			continue
		}
		fmt.Fprintf(b, "\n### %s of %s\n\n| field | type | default | meaning |\n|---|---|---|---|\n", part, crd.Spec.Names.Kind)
		fields(b, part, p)
	}
}

// fields writes a row for each field of an object, and for what is in it.
func fields(b *strings.Builder, path string, object apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		p := object.Properties[name]
		full := path + "." + name
		kube, foreign := kubernetes[name]
		typ := kube
		if !foreign {
			typ = typeOf(p)
		}
		if p.Type == "array" && foreign {
			typ = "list of " + kube
		}
		if slices.Contains(object.Required, name) && !strings.HasPrefix(path, "status") {
			typ += ", required"
		}
		value, text := byDefault(p)
		p.Description = text
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", full, typ, value, meaning(p, rulesOf(object, name)))
		switch {
		case foreign:
		case p.Type == "array" && p.Items != nil && p.Items.Schema != nil:
			fields(b, full+"[]", *p.Items.Schema)
		case p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil:
			fields(b, full+"[*]", *p.AdditionalProperties.Schema)
		default:
			fields(b, full, p)
		}
	}
}

// typeOf says the type of a field in one or two words.
func typeOf(p apiextensionsv1.JSONSchemaProps) string {
	switch {
	case p.XIntOrString:
		return "quantity"
	case p.Type == "array" && p.Items != nil && p.Items.Schema != nil:
		return "list of " + typeOf(*p.Items.Schema)
	case p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(*p.AdditionalProperties.Schema)
	case p.Format == "date-time":
		return "time"
	}
	return p.Type
}

// short is a default that a description names in a few words. Longer ones stay in the description.
var short = regexp.MustCompile(`\s*Default: ([^.;,]{1,40})\.(\s|$)`)

// byDefault is what a field is when it is left out, and its description without that.
func byDefault(p apiextensionsv1.JSONSchemaProps) (value, description string) {
	description = strings.Join(strings.Fields(p.Description), " ")
	if m := short.FindStringSubmatchIndex(description); m != nil {
		value = cell(description[m[2]:m[3]])
		description = description[:m[0]] + " " + description[m[1]:]
	}
	if p.Default != nil && string(p.Default.Raw) != "{}" {
		value = cell(strings.Trim(string(p.Default.Raw), `"`))
	}
	return value, description
}

// rulesOf are the messages of an object's rules that are about one of its fields. Those about no field in particular are with the object.
func rulesOf(object apiextensionsv1.JSONSchemaProps, name string) (out []string) {
	for _, rule := range object.XValidations {
		if field, _, _ := strings.Cut(strings.TrimPrefix(rule.FieldPath, "."), "."); rule.FieldPath != "" && field == name {
			out = append(out, rule.Message)
		}
	}
	return out
}

// meaning is the description of a field, its limits, and what is refused.
func meaning(p apiextensionsv1.JSONSchemaProps, refused []string) string {
	parts := []string{sentence(p.Description)}
	if limits := limitsOf(p); limits != "" {
		parts = append(parts, limits)
	}
	for _, rule := range p.XValidations {
		if rule.FieldPath == "" {
			refused = append(refused, rule.Message)
		}
	}
	if p.Items != nil && p.Items.Schema != nil {
		for _, rule := range p.Items.Schema.XValidations {
			refused = append(refused, rule.Message)
		}
	}
	seen := map[string]bool{}
	for _, message := range refused {
		if !seen[message] {
			parts = append(parts, "*Refused:* "+sentence(message))
		}
		seen[message] = true
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// limitsOf says which values a field takes.
func limitsOf(p apiextensionsv1.JSONSchemaProps) string {
	var out []string
	if len(p.Enum) > 0 {
		var values []string
		for _, v := range p.Enum {
			values = append(values, "`"+strings.Trim(string(v.Raw), `"`)+"`")
		}
		out = append(out, "one of "+strings.Join(values, ", "))
	}
	number := func(word string, value *float64) {
		if value != nil {
			out = append(out, word+" "+strconv.FormatFloat(*value, 'f', -1, 64))
		}
	}
	count := func(word, unit string, value *int64) {
		if value != nil {
			out = append(out, fmt.Sprintf("%s %d %s", word, *value, unit))
		}
	}
	number("at least", p.Minimum)
	number("at most", p.Maximum)
	if p.MinLength != nil && *p.MinLength > 1 {
		count("at least", "characters", p.MinLength)
	}
	count("at most", "characters", p.MaxLength)
	count("at least", "items", p.MinItems)
	count("at most", "items", p.MaxItems)
	count("at most", "entries", p.MaxProperties)
	if len(out) == 0 {
		return ""
	}
	text := strings.Join(out, "; ")
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// sentence is a description with a full stop at its end.
func sentence(text string) string {
	text = cell(text)
	if text != "" && !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// cell makes text fit into a cell of a table: one line, with nothing that Markdown takes for its own.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(text)
}
