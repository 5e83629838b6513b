package envtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/test/schema"
)

// outcomesFile keeps what the API server says to all values, see schema.ReadOutcomes.
const outcomesFile = "../schema/testdata/outcomes.yaml"

// misoperation tries values of fields on resources that are there.
type misoperation struct {
	t *testing.T
	s *server
	// mu guards live, the resources that were created, by what they are.
	mu   sync.Mutex
	live map[string]*unstructured.Unstructured
	// told are the fields of which a refusal was found wanting.
	told sync.Map
}

const misoperated = "misoperation"

// Every field, every value that its schema calls valid, and every hostile one: as a new resource and as a change of one that is there. What
// is refused names the field and says what it may be. What is not is kept in a list, and the tests of the operator try it there.
func TestEveryValueOfEveryFieldIsRefusedByNameOrKnown(t *testing.T) {
	m := &misoperation{t: t, s: apiServer(t), live: map[string]*unstructured.Unstructured{}}
	namespace := &corev1.Namespace{}
	namespace.Name = misoperated
	if err := m.s.client.Create(testContext(t), namespace); err != nil {
		t.Fatal(err)
	}
	leaves, err := schema.Leaves(crdDir)
	if err != nil {
		t.Fatal(err)
	}
	var (
		mu       sync.Mutex
		outcomes = schema.Outcomes{}
		tried    errgroup.Group
	)
	tried.SetLimit(4)
	for _, l := range leaves {
		tried.Go(func() error {
			out := m.try(l)
			mu.Lock()
			defer mu.Unlock()
			outcomes[l.String()] = out
			return nil
		})
	}
	if err := tried.Wait(); err != nil {
		t.Fatal(err)
	}
	m.compare(outcomes)
}

// try tries all values of a leaf.
func (m *misoperation) try(l schema.Leaf) (out schema.Outcome) {
	valid, err := l.Valid()
	if err != nil {
		m.t.Error(err)
		return out
	}
	for _, v := range valid {
		switch answer, err := m.answer(l, v); answer {
		case refused:
			m.t.Errorf("%s: the valid value %s is refused: %v", l, v.Name, err)
		case refusedLater:
			m.named(l, v, err)
			out.Create = append(out.Create, v.Name)
		case accepted:
			out.Change = append(out.Change, v.Name)
		case same:
			out.Same = append(out.Same, v.Name)
		}
	}
	for _, v := range l.Hostile() {
		switch answer, err := m.answer(l, v); answer {
		case refused:
			m.named(l, v, err)
			out.Refused++
		case refusedLater:
			m.named(l, v, err)
			out.AcceptedAtCreate = append(out.AcceptedAtCreate, v.Name)
		case accepted:
			if l.Closed() {
				m.t.Errorf("%s: %s is accepted, and no value should be", l, v.Name)
			}
			out.Accepted = append(out.Accepted, v.Name)
		case same:
			out.Same = append(out.Same, v.Name)
		}
	}
	return out
}

const (
	refused      = "refused"
	refusedLater = "refused as a change"
	accepted     = "accepted"
	same         = "the same as before"
)

// answer is what the API server says to a value, and why.
func (m *misoperation) answer(l schema.Leaf, v schema.Value) (string, error) {
	base, err := l.Base(misoperated)
	if err != nil {
		m.t.Error(err)
		return refused, err
	}
	o, err := v.In(l, base)
	if err != nil {
		m.t.Errorf("%s: %s: %v", l, v.Name, err)
		return refused, err
	}
	u := &unstructured.Unstructured{Object: o}
	if err := m.s.client.Create(m.t.Context(), u, client.DryRunAll); err != nil {
		return refused, err
	}
	live := m.resource(l, base)
	if cmp.Equal(u.Object["spec"], live.Object["spec"]) {
		return same, nil
	}
	next := live.DeepCopy()
	next.Object["spec"] = u.Object["spec"]
	if err := m.s.client.Update(m.t.Context(), next, client.DryRunAll); err != nil {
		return refusedLater, err
	}
	return accepted, nil
}

// resource creates a resource once, and returns what became of it.
func (m *misoperation) resource(l schema.Leaf, base schema.Object) *unstructured.Unstructured {
	raw, err := json.Marshal(base)
	if err != nil {
		m.t.Error(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.live[string(raw)]; u != nil {
		return u
	}
	u := toUnstructured(m.t, base)
	u.SetName(fmt.Sprintf("%s-%d", u.GetName(), len(m.live)))
	if err := m.s.client.Create(m.t.Context(), u); err != nil {
		m.t.Errorf("the base of %s is refused: %v", l, err)
	}
	m.live[string(raw)] = u
	return u
}

// saysWhatMayBe are the ways in which refusals say what a field may be.
var saysWhatMayBe = regexp.MustCompile(`must|should|may |at most|at least|supported values|Required|cannot|belong|write |use |needs?\b|needed|required|remove|unknown field|check the name|Duplicate|comes? with|is for |is written|names a `)

// named checks that a refusal names the field, or what it is a part of, and says what it may be.
func (m *misoperation) named(l schema.Leaf, v schema.Value, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		m.t.Errorf("%s: %s: no answer of the API server: %v", l, v.Name, err)
		return
	}
	path := indexes.ReplaceAllString(l.Path, "")
	for _, c := range status.Status().Details.Causes {
		if near(path, indexes.ReplaceAllString(c.Field, ""), c.Message) && saysWhatMayBe.MatchString(c.Message) && !strings.Contains(c.Message, "failed rule") {
			return
		}
	}
	if _, told := m.told.LoadOrStore(l.String(), true); told {
		return // One of a field is enough to read.
	}
	m.t.Errorf("%s: the refusal of %q does not name the field and say what it may be: %v", l, v.Name, err)
}

// indexes are those of lists and maps in the path of a field.
var indexes = regexp.MustCompile(`\[[^\]]*\]|\{\}`)

// near tells whether what is refused is the field, what is below it, or something around it whose message names it or a part of its path.
func near(path, field, message string) bool {
	switch {
	case field == path, strings.HasPrefix(field, path+"."), strings.Contains(message, path[strings.LastIndex(path, "."):]):
		return true
	case !strings.HasPrefix(path, field+"."):
		return false
	}
	parts := strings.Split(path, ".")
	return strings.Contains(field, ".") || strings.Contains(message, parts[len(parts)-1]) || strings.Contains(message, "spec."+parts[1]) ||
		strings.Contains(message, "spec cannot change")
}

// compare compares the outcomes with the list of them.
func (m *misoperation) compare(got schema.Outcomes) {
	values, open, hostile := 0, 0, 0
	for _, o := range got {
		values += len(o.Change) + len(o.Create)
		open += len(o.Accepted) + len(o.AcceptedAtCreate)
		hostile += o.Refused
	}
	m.t.Logf("%d leaves: %d valid values accepted; %d hostile values refused by name, %d for the operator to bear", len(got), values, hostile, open)
	text, err := yaml.Marshal(got)
	if err != nil {
		m.t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(outcomesFile, text, 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(outcomesFile)
	if err != nil {
		m.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		m.t.Errorf("%s differs; if that is meant, run the test with -update (-want +got):\n%s", outcomesFile, diff)
	}
}
