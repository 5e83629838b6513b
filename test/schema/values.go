package schema

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Value is what a leaf may be set to. Its name is short and the same in every run.
type Value struct {
	Name string
	// Of is what the leaf becomes.
	Of any
	// Whole is what the list or map becomes whose item or value the leaf is; nil: that is not what is tried.
	Whole any
}

// In returns a resource in which the leaf has the value.
func (v Value) In(l Leaf, o Object) (Object, error) {
	if v.Whole == nil {
		return l.Set(o, v.Of)
	}
	around := l
	around.Path = l.Path[:len(l.Path)-2]
	return around.Set(o, v.Whole)
}

// Valid returns the values of a leaf that its schema and the table call valid. The API server has the last word.
func (l Leaf) Valid() ([]Value, error) {
	values, closed := l.valid()
	if len(values) == 0 && !closed {
		return nil, fmt.Errorf("%s has no valid value: its schema does not say one, so the table of package schema has to", l)
	}
	out := make([]Value, 0, len(values))
	for _, v := range values {
		out = append(out, Value{Name: fmt.Sprint(v), Of: v})
	}
	return out, nil
}

func (l Leaf) valid() (values []any, closed bool) {
	_, e := l.words()
	switch {
	case e.closed:
		return nil, true
	case e.values != nil:
		return e.values, false
	case len(l.Props.Enum) > 0:
		for _, raw := range l.Props.Enum {
			values = append(values, strings.Trim(string(raw.Raw), `"`))
		}
	case l.Props.Type == "boolean":
		values = []any{true, false}
	case l.Props.Minimum != nil && l.Props.Maximum != nil:
		values = []any{int64(*l.Props.Minimum), int64(*l.Props.Maximum)}
	}
	return values, false
}

// Hostile returns values of a leaf that a user should better not set: some are refused by the API server, and what is not must do no harm.
func (l Leaf) Hostile() []Value {
	out := []Value{{Name: "null"}}
	switch {
	case l.Props.XIntOrString:
		out = append(out, quantities...)
	case l.Props.Type == "boolean":
		out = append(out, Value{Name: "yes", Of: "yes"}, Value{Name: "one", Of: 1})
	case l.Props.Type == "integer":
		out = append(out, l.integers()...)
	case len(l.Props.Enum) > 0:
		out = append(out, l.choices()...)
	default:
		out = append(out, l.texts()...)
	}
	_, e := l.words()
	for _, v := range e.hostile {
		out = append(out, Value{Name: fmt.Sprint(v), Of: v})
	}
	return append(out, l.wholes()...)
}

var quantities = []Value{
	{Name: "negative", Of: "-1Gi"},
	{Name: "wrong unit", Of: "1GiB"},
	{Name: "zero", Of: 0},
	{Name: "exponent", Of: "1e999999999"},
	{Name: "huge", Of: "9000000Ti"},
	{Name: "a fraction", Of: "1.5"},
	{Name: "line break", Of: "1Gi\n"},
	{Name: "an object", Of: Object{}},
}

// integers are beyond the bounds, beyond what fits, and no integers.
func (l Leaf) integers() []Value {
	least, most := int64(0), int64(math.MaxInt32)
	if l.Props.Minimum != nil {
		least = int64(*l.Props.Minimum)
	}
	if l.Props.Maximum != nil {
		most = int64(*l.Props.Maximum)
	}
	return []Value{
		{Name: "below", Of: least - 1},
		{Name: "above", Of: most + 1},
		{Name: "negative", Of: math.MinInt32},
		{Name: "beyond 53 bits", Of: int64(math.MaxInt64)},
		{Name: "a text", Of: "3"},
		{Name: "a fraction", Of: 2.5},
	}
}

// choices are next to what a leaf may be.
func (l Leaf) choices() []Value {
	first := strings.Trim(string(l.Props.Enum[0].Raw), `"`)
	swapped := strings.ToLower(first)
	if swapped == first {
		swapped = strings.ToUpper(first)
	}
	return []Value{
		{Name: "empty", Of: ""}, {Name: "another case", Of: swapped}, {Name: "line break", Of: first + "\n"}, {Name: "unknown", Of: "Whatever"},
	}
}

// endless is beyond what any text of ours may hold.
const endless = 70000

func (l Leaf) texts() []Value {
	long := endless
	if l.Props.MaxLength != nil {
		long = int(*l.Props.MaxLength) + 1
	}
	out := []Value{
		{Name: "empty", Of: ""},
		{Name: "line break", Of: "a\nrequirepass $(reboot)"},
		{Name: "unicode", Of: "ｏｒｄｅｒｓ\u202e"},
		{Name: "way up", Of: "../../etc/passwd"},
		{Name: "elsewhere", Of: "kube-system/other"},
		{Name: "an option", Of: "--force-new-cluster"},
		{Name: "endless", Of: strings.Repeat("a", long)},
		{Name: "a number", Of: 7},
	}
	if l.Props.Format == "date-time" {
		out = append(out, Value{Name: "some day", Of: "tomorrow"}, Value{Name: "no such day", Of: "2026-13-41T00:00:00Z"}, Value{Name: "long ago", Of: "0001-01-01T00:00:00Z"})
	}
	if slices.ContainsFunc(l.Props.XValidations, func(r apiextensionsv1.ValidationRule) bool { return strings.Contains(r.Rule, "duration(self)") }) {
		out = append(out, Value{Name: "negative", Of: "-1s"}, Value{Name: "without unit", Of: "60"}, Value{Name: "wrong unit", Of: "1d"},
			Value{Name: "overflow", Of: "999999h999999h999999h"}, Value{Name: "nothing", Of: "0s"}, Value{Name: "years", Of: "99999h"})
	}
	return out
}

// wholes are lists and maps that are too long, or have keys that are none.
func (l Leaf) wholes() []Value {
	var out []Value
	if strings.HasSuffix(l.Path, "[]") {
		most := 1000
		if l.list.MaxItems != nil {
			most = int(*l.list.MaxItems) + 1
		}
		items := make([]any, most)
		valid, _ := l.valid()
		for i := range items {
			items[i] = "a"
			if len(valid) > 0 {
				items[i] = valid[0]
			}
		}
		out = append(out, Value{Name: "too many items", Whole: items}, Value{Name: "no items", Whole: []any{}}, Value{Name: "a null among them", Whole: []any{nil}})
	}
	if !strings.HasSuffix(l.Path, "{}") {
		return out
	}
	valid, _ := l.valid()
	if len(valid) == 0 {
		valid = []any{"a"}
	}
	for name, key := range map[string]string{
		"key is empty": "", "key with a line break": "a\nb", "key leads up": "../a", "key of the operator": "quorate.dev/x",
		"key of Kubernetes": "app.kubernetes.io/instance", "endless key": strings.Repeat("k", 400),
	} {
		out = append(out, Value{Name: name, Whole: Object{key: valid[0]}})
	}
	many := Object{}
	for i := range 1000 {
		many[fmt.Sprintf("k%d", i)] = valid[0]
	}
	slices.SortFunc(out, func(a, b Value) int { return strings.Compare(a.Name, b.Name) })
	return append(out, Value{Name: "too many entries", Whole: many})
}

// glob matches paths: a star stands for anything.
func glob(pattern, path string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$").MatchString(path)
}
