package schema

import (
	_ "embed"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"
)

// Outcome is what an API server says to the values of a leaf, by their names.
type Outcome struct {
	// Change are valid values that a resource may be changed to, Create those that it may only be created with.
	Change []string `json:"change,omitempty"`
	Create []string `json:"create,omitempty"`
	// Accepted are hostile values that are not refused: they are for the operator to bear. AcceptedAtCreate are those that are refused later.
	Accepted         []string `json:"accepted,omitempty"`
	AcceptedAtCreate []string `json:"acceptedAtCreate,omitempty"`
	// Same are values that come to the same as none.
	Same []string `json:"same,omitempty"`
	// Refused counts the hostile values that are refused.
	Refused int `json:"refused"`
}

// Outcomes are those of all leaves, by kind and path.
type Outcomes map[string]Outcome

// outcomes are written by test/envtest, which checks that they are right.
//
//go:embed testdata/outcomes.yaml
var outcomes []byte

// ReadOutcomes returns what an API server says to all values.
func ReadOutcomes() (Outcomes, error) {
	var out Outcomes
	if err := yaml.UnmarshalStrict(outcomes, &out); err != nil {
		return nil, fmt.Errorf("read outcomes: %w", err)
	}
	return out, nil
}

// Of returns the values of a leaf that an API server lets users set: what a resource may be changed to, valid and hostile, and what it may
// only be created with.
func (o Outcomes) Of(l Leaf) (valid, hostile, create []Value, err error) {
	known, ok := o[l.String()]
	if !ok {
		return nil, nil, nil, fmt.Errorf("what an API server says to %s is not known", l)
	}
	values, err := l.Valid()
	if err != nil {
		return nil, nil, nil, err
	}
	return named(values, known.Change), named(l.Hostile(), known.Accepted), named(values, known.Create), nil
}

func named(values []Value, names []string) []Value {
	return slices.DeleteFunc(slices.Clone(values), func(v Value) bool { return !slices.Contains(names, v.Name) })
}
