package schema

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const crdDir = "../../config/crd/bases"

// Every leaf of every definition has values, or is known to have none, and what the API server says to them is known.
func TestEveryLeafIsCovered(t *testing.T) {
	leaves, err := Leaves(crdDir)
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := ReadOutcomes()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leaves {
		valid, err := l.Valid()
		if err != nil {
			t.Error(err)
		}
		hostile := l.Hostile()
		names := map[string]bool{}
		for _, v := range append(valid, hostile...) {
			if names[v.Name] {
				t.Errorf("%s has two values that are named %q", l, v.Name)
			}
			names[v.Name] = true
		}
		o, known := outcomes[l.String()]
		delete(outcomes, l.String())
		if n := len(o.Accepted) + len(o.AcceptedAtCreate) + len(o.Same) + len(o.Change) + len(o.Create) + o.Refused; !known || n != len(valid)+len(hostile) {
			t.Errorf("%s: %d of %d outcomes are known: run the tests of test/envtest with -update", l, n, len(valid)+len(hostile))
		}
		t.Logf("%s: %d valid values, %d hostile ones", l, len(valid), len(hostile))
	}
	for name := range outcomes {
		t.Errorf("there is no field %s", name)
	}
	t.Logf("%d leaves", len(leaves))
}

func TestEveryEntryOfTheTableIsOfALeaf(t *testing.T) {
	leaves, err := Leaves(crdDir)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, l := range leaves {
		for _, e := range l.said() {
			used[e.path] = true
		}
	}
	for _, e := range table {
		if !used[e.path] {
			t.Errorf("no leaf is %s", e.path)
		}
	}
}

func TestShapesOfSchemasAreWalked(t *testing.T) {
	text := Props{Type: "string"}
	for name, tc := range map[string]struct {
		spec Props
		want []string
		err  string
	}{
		"fields, items and values": {spec: Props{Properties: map[string]Props{
			"a": text, "b": {Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &Props{Properties: map[string]Props{"c": text}}}},
			"d": {AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &text}},
		}}, want: []string{"spec.a", "spec.b[].c", "spec.d{}"}},
		"a quantity":             {spec: Props{XIntOrString: true, AnyOf: []Props{{Type: "integer"}, text}}, want: []string{"spec"}},
		"a choice":               {spec: Props{Properties: map[string]Props{"a": {OneOf: []Props{text}, Type: "string"}}}, err: "spec.a has 2 shapes"},
		"whatever anybody likes": {spec: Props{Properties: map[string]Props{"a": {Type: "object"}}}, err: "spec.a has 0 shapes"},
	} {
		t.Run(name, func(t *testing.T) {
			leaves, err := below("Kind", tc.spec)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("%v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for _, l := range leaves {
				got[l.Path] = true
			}
			want := map[string]bool{}
			for _, path := range tc.want {
				want[path] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("leaves (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAValueIsSetWhereItBelongs(t *testing.T) {
	base := Object{"spec": Object{"env": []any{Object{"name": "A"}, Object{"name": "B"}}}}
	for path, tc := range map[string]struct {
		value Value
		want  Object
	}{
		"spec.a.b":        {Value{Of: 1.5}, Object{"a": Object{"b": 1.5}}},
		"spec.env[].name": {Value{Of: "C"}, Object{"env": []any{Object{"name": "C"}, Object{"name": "B"}}}},
		"spec.days[]":     {Value{Of: "Monday"}, Object{"days": []any{"Monday"}}},
		"spec.x{}":        {Value{Of: "y"}, Object{"x": Object{"example.com/a": "y"}}},
		"spec.y{}":        {Value{Whole: Object{"": "y"}}, Object{"y": Object{"": "y"}}},
		"spec.gone":       {Value{}, Object{"gone": nil}},
	} {
		t.Run(path, func(t *testing.T) {
			got, err := tc.value.In(Leaf{Path: path}, base)
			if err != nil {
				t.Fatal(err)
			}
			want := Object{"spec": Object{"env": base["spec"].(Object)["env"]}}
			for k, v := range tc.want {
				want["spec"].(Object)[k] = v
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(base["spec"].(Object)) != 1 {
				t.Errorf("the base was changed: %v", base)
			}
		})
	}
}
