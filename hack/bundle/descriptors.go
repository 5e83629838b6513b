package main

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Descriptors of the console (https://github.com/openshift/console, olm-descriptors).
const (
	descriptor  = "urn:alm:descriptor:"
	descPods    = descriptor + "com.tectonic.ui:podCount"
	descAmounts = descriptor + "com.tectonic.ui:resourceRequirements"
	descSwitch  = descriptor + "com.tectonic.ui:booleanSwitch"
	descNumber  = descriptor + "com.tectonic.ui:number"
	descText    = descriptor + "com.tectonic.ui:text"
	descSelect  = descriptor + "com.tectonic.ui:select:"
	descState   = descriptor + "io.kubernetes.conditions"
)

// known are the fields that have a descriptor of their own.
var known = map[string]string{"size": descPods, "resources": descAmounts, "conditions": descState}

// owned describes the kinds, with each field of their specification and of their status.
func owned(crds []definition) []any {
	var all []any
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			schema := v.Schema.OpenAPIV3Schema
			all = append(all, object{
				"name": crd.Name, "kind": crd.Spec.Names.Kind, "version": v.Name, "displayName": words(crd.Spec.Names.Kind),
				"description":       sentence(schema.Description),
				"specDescriptors":   describe(schema.Properties["spec"]),
				"statusDescriptors": describe(schema.Properties["status"]),
			})
		}
	}
	return all
}

func describe(schema apiextensionsv1.JSONSchemaProps) []any {
	var all []any
	for _, path := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[path]
		d := object{"path": path, "displayName": words(path), "description": sentence(field.Description)}
		if ui := kindOf(path, field); len(ui) > 0 {
			d["x-descriptors"] = ui
		}
		all = append(all, d)
	}
	return all
}

// kindOf says how the console shows a field, nil: as it likes.
func kindOf(path string, field apiextensionsv1.JSONSchemaProps) []any {
	var ui []any
	switch is, ok := known[path]; {
	case ok && (path != "size" || field.Type == "integer"):
		return []any{is}
	case len(field.Enum) > 0:
		for _, value := range field.Enum {
			ui = append(ui, descSelect+strings.Trim(string(value.Raw), `"`))
		}
	case field.Type == "boolean":
		ui = []any{descSwitch}
	case field.Type == "integer":
		ui = []any{descNumber}
	case field.Type == "string":
		ui = []any{descText}
	}
	return ui
}

// words is a name in camel case as a title: replicasPerShard is Replicas Per Shard, EtcdCluster Etcd Cluster, clusterID Cluster ID.
func words(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || (i+1 < len(runes) && unicode.IsLower(runes[i+1]))) {
			b.WriteByte(' ')
		}
		if i == 0 {
			r = unicode.ToUpper(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// sentence is the first one of a text, on one line.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if i := strings.Index(text, ". "); i >= 0 {
		return text[:i+1]
	}
	return text
}
