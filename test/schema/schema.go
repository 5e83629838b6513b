// Package schema knows every field that users can set: it walks the schemas of the CustomResourceDefinitions and derives, for
// each leaf, values that are valid and values that are hostile. What a schema does not say (which neighbours a field needs, what a
// name may look like) is in the table of this package. Tests feed the values to an API server and to the operator.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Props is the schema of a field.
type Props = apiextensionsv1.JSONSchemaProps

// Object is a resource as plain data.
type Object = map[string]any

// Leaf is a field below spec that has no fields of its own.
type Leaf struct {
	Kind string
	// Path from the resource, for example spec.template.env[].name: [] stands for the items of a list, {} for the values of a map.
	Path  string
	Props Props
	// list is the schema of the innermost list around the leaf, nil: there is none.
	list *Props
}

func (l Leaf) String() string { return l.Kind + " " + l.Path }

// Leaves returns every leaf below spec of every CustomResourceDefinition in a directory, by kind and path. A shape that it cannot walk
// is an error.
func Leaves(dir string) ([]Leaf, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no definitions in %s: %w", dir, err)
	}
	var out []Leaf
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		leaves, err := below(crd.Spec.Names.Kind, crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
		if err != nil {
			return nil, fmt.Errorf("walk %s: %w", file, err)
		}
		out = append(out, leaves...)
	}
	slices.SortFunc(out, func(a, b Leaf) int { return strings.Compare(a.String(), b.String()) })
	return out, nil
}

// below walks the schema of a spec.
func below(kind string, spec Props) ([]Leaf, error) {
	var (
		out  []Leaf
		walk func(l Leaf) error
	)
	walk = func(l Leaf) error {
		p := l.Props
		below := l
		switch shapes := shapesOf(p); {
		case shapes != 1:
			return fmt.Errorf("%s has %d shapes, want one: fields, items, values, or a plain type", l.Path, shapes)
		case len(p.Properties) > 0:
			var errs []error
			for name, property := range p.Properties {
				below.Path, below.Props = l.Path+"."+name, property
				errs = append(errs, walk(below))
			}
			return errors.Join(errs...)
		case p.Items != nil:
			below.Path, below.Props, below.list = l.Path+"[]", *p.Items.Schema, &p
			return walk(below)
		case p.AdditionalProperties != nil:
			below.Path, below.Props = l.Path+"{}", *p.AdditionalProperties.Schema
			return walk(below)
		}
		out = append(out, l)
		return nil
	}
	err := walk(Leaf{Kind: kind, Path: "spec", Props: spec})
	return out, err
}

// shapesOf counts the ways in which a schema could be walked: it is to be one. A choice between schemas is none, apart from that of
// quantities, which are a number or a text.
func shapesOf(p Props) int {
	shapes := 0
	for _, is := range []bool{
		len(p.Properties) > 0, p.Items != nil && p.Items.Schema != nil, p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil,
		p.XIntOrString, slices.Contains([]string{"string", "integer", "boolean"}, p.Type),
		len(p.OneOf) > 0, len(p.AnyOf) > 0 && !p.XIntOrString,
	} {
		if is {
			shapes++
		}
	}
	return shapes
}

// Set returns a copy of a resource in which the leaf has a value. Lists and maps on the way are made where they are missing; of a list that
// is there, the first item is changed.
func (l Leaf) Set(o Object, value any) (Object, error) {
	out, err := clone(o)
	if err != nil {
		return nil, err
	}
	key, _ := l.words()
	return out, set(out, strings.Split(l.Path, "."), key, value)
}

func set(at Object, path []string, key string, value any) error {
	name, isMap := strings.CutSuffix(path[0], "{}")
	name, isList := strings.CutSuffix(name, "[]")
	last := len(path) == 1
	switch {
	case isMap:
		child(at, name)[key] = value
		return nil
	case isList:
		items, _ := at[name].([]any)
		if len(items) == 0 {
			items = []any{Object{}}
		}
		at[name] = items
		if last {
			items[0] = value
			return nil
		}
		item, ok := items[0].(Object)
		if !ok {
			return fmt.Errorf("%s is a list of %T", name, items[0])
		}
		return set(item, path[1:], key, value)
	case last:
		at[name] = value
		return nil
	}
	return set(child(at, name), path[1:], key, value)
}

func child(at Object, name string) Object {
	c, ok := at[name].(Object)
	if !ok {
		c = Object{}
		at[name] = c
	}
	return c
}

func clone(o Object) (Object, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var out Object
	return out, json.Unmarshal(raw, &out)
}

// Overlay lays o over base, maps key by key, everything else as a whole. A null takes the key away.
func Overlay(base, o Object) Object {
	out := Object{}
	for k, v := range base {
		out[k] = v
	}
	for k, v := range o {
		below, _ := out[k].(Object)
		above, isMap := v.(Object)
		switch {
		case v == nil:
			delete(out, k)
		case isMap:
			out[k] = Overlay(below, above)
		default:
			out[k] = v
		}
	}
	return out
}
