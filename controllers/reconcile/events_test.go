package reconcile

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/test/fakeapi"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// conditionTypes are the values of all Condition constants of the API, in their order.
func conditionTypes(t *testing.T) (types []string) {
	t.Helper()
	files, err := filepath.Glob("../../api/v1alpha1/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "Condition") || len(spec.Values) == 0 {
				return true
			}
			word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			types = append(types, word)
			return true
		})
	}
	if len(types) < 18 {
		t.Fatalf("only %d conditions were found", len(types))
	}
	return types
}

// reasonsOf are the reasons by which the events of a condition differ. "A" and "B" stand for all others.
func reasonsOf(typ string) []string {
	switch typ {
	case v1alpha1.ConditionTLSReady:
		return []string{
			v1alpha1.ReasonIssued, v1alpha1.ReasonExpiring, v1alpha1.ReasonIntroducingCA, v1alpha1.ReasonReplacingCertificates, v1alpha1.ReasonCertManager,
		}
	case v1alpha1.ConditionMonitoringReady:
		return []string{"A", "B", v1alpha1.ReasonMonitoringPending}
	}
	return []string{"A", "B"}
}

// statesOf are all statuses of a condition with each of its reasons.
func statesOf(typ string) (out []metav1.Condition) {
	for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
		for _, reason := range reasonsOf(typ) {
			out = append(out, metav1.Condition{Type: typ, Status: status, Reason: reason, Message: "fine"})
		}
	}
	return out
}

// emitted is the type of the event of a transition, empty: none. known: an event with that reason was
// emitted since the resource was last Ready. step: a step with another reason was taken.
func emitted(t *testing.T, was *metav1.Condition, is metav1.Condition, known, step bool) string {
	t.Helper()
	recorder := events.NewFakeRecorder(4)
	l := &Loop[*v1alpha1.EtcdCluster, int]{Events: recorder}
	before, after := fakeapi.EtcdCluster(), fakeapi.EtcdCluster()
	if was != nil {
		before.Status.Conditions = []metav1.Condition{*was}
	}
	after.Status.Conditions = []metav1.Condition{is}
	if known {
		l.events.first(after.UID, is.Reason)
	}
	var plan cluster.Plan
	if step {
		plan, _ = cluster.Do(knock{}, "knocking")
	}
	l.emit(before, after, plan, false)
	close(recorder.Events)
	var got string
	for event := range recorder.Events {
		if typ, rest, _ := strings.Cut(event, " "); rest == is.Reason+" fine" {
			got += typ
		} else if !step || event != "Normal Knock knocking" {
			t.Errorf("%v -> %v: event %q", was, is, event)
		}
	}
	return got
}

// transition says in a few letters which event a transition has: "-" none, "Normal" or "Warning";
// "once": unless one with that reason was emitted since the resource was last Ready; "stepless":
// unless a step is taken.
func transition(t *testing.T, was *metav1.Condition, is metav1.Condition) string {
	t.Helper()
	event := emitted(t, was, is, false, false)
	known, step := emitted(t, was, is, true, false), emitted(t, was, is, false, true)
	if event == "" {
		if known != "" || step != "" {
			t.Errorf("%v -> %v: events %q and %q where there is none otherwise", was, is, known, step)
		}
		return "-"
	}
	if event != corev1.EventTypeNormal && event != corev1.EventTypeWarning {
		t.Errorf("%v -> %v: %s", was, is, event)
	}
	if known == "" {
		event += ",once"
	}
	if step == "" {
		event += ",stepless"
	}
	return event
}

// The file lists every transition of every condition: a row for what it was, a column for what it is.
func TestEachTransitionOfAConditionHasTheEventOfItsPolicy(t *testing.T) {
	var out strings.Builder
	for _, typ := range conditionTypes(t) {
		states := statesOf(typ)
		rows, some := []string{}, false
		row := func(was *metav1.Condition, name string) {
			line := "  " + name
			for _, is := range states {
				event := transition(t, was, is)
				some = some || event != "-"
				line += " " + event
			}
			rows = append(rows, line)
		}
		row(nil, "absent")
		for _, was := range states {
			row(&was, string(was.Status)+"/"+was.Reason)
		}
		if !some {
			fmt.Fprintf(&out, "%s: no events\n", typ)
			continue
		}
		fmt.Fprintf(&out, "%s:\n  was\\is", typ)
		for _, is := range states {
			fmt.Fprintf(&out, " %s/%s", is.Status, is.Reason)
		}
		out.WriteString("\n" + strings.Join(rows, "\n") + "\n")
	}
	const path = "testdata/events.txt"
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("events of transitions (-want +got), -update writes them:\n%s", diff)
	}
}

func TestEachConditionOfTheAPIHasOneEventPolicy(t *testing.T) {
	entries := map[string]int{}
	for _, policy := range eventPolicies {
		entries[policy.condition]++
		if policy.on == nil {
			t.Errorf("%s: no transitions are named: use never for none", policy.condition)
		}
	}
	for _, typ := range conditionTypes(t) {
		if entries[typ] != 1 {
			t.Errorf("%s has %d entries in eventPolicies, want 1", typ, entries[typ])
		}
		delete(entries, typ)
	}
	for typ := range entries {
		t.Errorf("%s is no condition of the API", typ)
	}
}
