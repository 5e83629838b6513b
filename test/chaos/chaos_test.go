package chaos

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/chaos/report"
	"github.com/quorate/quorate/test/chaos/schedule"
)

func TestEverythingThatIsDrawnCanBeMade(t *testing.T) {
	made := map[schedule.Scope]map[string]bool{schedule.Pod: {}, schedule.Node: {}, schedule.World: {}}
	for name := range onPods {
		made[schedule.Pod][name] = true
	}
	for name := range onNodes {
		made[schedule.Node][name] = true
	}
	for name := range onWorld {
		made[schedule.World][name] = true
	}
	for _, k := range schedule.Kinds {
		if !made[k.Scope][k.Name] {
			t.Errorf("nothing makes %s", k.Name)
		}
		delete(made[k.Scope], k.Name)
	}
	for scope, names := range made {
		for name := range names {
			t.Errorf("%s of a %s is never drawn", name, scope)
		}
	}
	operations := map[string]bool{}
	for _, k := range schedule.OperationKinds {
		operations[k.Name] = true
		if edits[k.Name] == nil {
			t.Errorf("nothing makes %s", k.Name)
		}
	}
	if len(operations) != len(edits) {
		t.Errorf("%d operations are drawn, and %d can be made", len(operations), len(edits))
	}
}

func TestThePageNamesEveryFault(t *testing.T) {
	page, err := os.ReadFile("../../docs/chaos.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range schedule.Kinds {
		if !strings.Contains(string(page), "\n| `"+k.Name+"` |") {
			t.Errorf("docs/chaos.md has no row of %s", k.Name)
		}
	}
	if rows := strings.Count(string(page), "\n| `"); rows != len(schedule.Kinds) {
		t.Errorf("docs/chaos.md has %d rows of %d faults", rows, len(schedule.Kinds))
	}
}

func TestAClusterIsWellWhenNothingIsWrong(t *testing.T) {
	pod := func(ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orders-0"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
	}
	up, down := pod(corev1.ConditionTrue), pod(corev1.ConditionFalse)
	leaving := pod(corev1.ConditionTrue)
	leaving.DeletionTimestamp = &metav1.Time{}
	yes := metav1.Condition{Status: metav1.ConditionTrue, ObservedGeneration: 2}
	writes, silent := []*writer{{grew: time.Now()}}, []*writer{{grew: time.Now()}, {grew: time.Now().Add(-2 * silence)}}
	tests := map[string]struct {
		ready metav1.Condition
		pods  []*corev1.Pod
		loads []*writer
		well  bool
	}{
		"all is well":             {yes, []*corev1.Pod{up, up, up}, writes, true},
		"it is not Ready":         {metav1.Condition{Status: metav1.ConditionFalse, ObservedGeneration: 2}, []*corev1.Pod{up, up, up}, writes, false},
		"it was Ready before":     {metav1.Condition{Status: metav1.ConditionTrue, ObservedGeneration: 1}, []*corev1.Pod{up, up, up}, writes, false},
		"a pod is not ready":      {yes, []*corev1.Pod{up, down, up}, writes, false},
		"a pod is leaving":        {yes, []*corev1.Pod{up, up, leaving}, writes, false},
		"a pod is missing":        {yes, []*corev1.Pod{up, up}, writes, false},
		"a pod is too many":       {yes, []*corev1.Pod{up, up, up, up}, writes, false},
		"a writer has no success": {yes, []*corev1.Pod{up, up, up}, silent, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: v1alpha1.EtcdClusterSpec{Size: 3}}
			if why := wrong(o, tc.ready, tc.pods, tc.loads); (why == "") != tc.well {
				t.Errorf("wrong: %q", why)
			}
		})
	}
}

func TestBeingWellTakesAWhile(t *testing.T) {
	target := &target{Cluster: schedule.Cluster{Name: "orders"}}
	target.found("")
	target.since = target.since.Add(-steady)
	began := target.since
	if got, err := target.wait(t.Context(), time.Time{}, time.Second); err != nil || !got.Equal(began) {
		t.Errorf("it was well since %s, and %s is told, %v", began, got, err)
	}
	target.found("a pod is gone")
	target.found("")
	if _, err := target.wait(t.Context(), time.Time{}, -steady); err == nil {
		t.Error("a moment is taken for a while")
	}
}

// Who gives clients time to follow begins anew when a server was away.
func TestADisturbanceIsRememberedAndAnOperationIsNotDoubled(t *testing.T) {
	o := &target{}
	if ago := time.Since(o.disturbed()); ago > time.Minute {
		t.Errorf("a cluster that is not well was disturbed %s ago", ago)
	}
	o.since = time.Now().Add(-time.Hour)
	if ago := time.Since(o.disturbed()); ago < time.Hour {
		t.Errorf("one that has been well for an hour was disturbed %s ago", ago)
	}
	r, rotate := testRunner(t), schedule.Operation{Kind: "rotate", Cluster: "orders"}
	first := &report.Change{Drawn: rotate}
	r.run.Changes = []*report.Change{first}
	if !r.goesOn(rotate) || r.goesOn(schedule.Operation{Kind: "rotate", Cluster: "carts"}) {
		t.Error("what goes on is not known")
	}
	if first.Ended = time.Now(); r.goesOn(rotate) {
		t.Error("what has ended goes on")
	}
}

func TestHealthIsNotedWhenItChanges(t *testing.T) {
	r := testRunner(t)
	t0 := &target{Cluster: schedule.Cluster{Name: "orders"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orders-0"}}
	ready := metav1.Condition{Status: metav1.ConditionTrue, Reason: "Settled"}
	gone := metav1.Condition{Status: metav1.ConditionFalse, Reason: "Starting", Message: "a pod is missing"}
	for range 2 {
		r.healthOf(t0, ready, ready, []*corev1.Pod{pod})
	}
	r.healthOf(t0, gone, ready, nil)
	if got := r.run.Ready["orders"]; len(got) != 2 || !got[0].OK || got[1].OK || got[1].Text != "a pod is missing" || !got[1].Available {
		t.Errorf("%+v", got)
	}
	if got := r.run.Pods["orders-0"]; len(got) != 2 || got[0].OK || got[1].Reason != report.Gone {
		t.Errorf("%+v", got)
	}
}

func testRunner(t *testing.T) *runner {
	t.Helper()
	return &runner{
		o: Options{Out: t.Output()}, file: json.NewEncoder(t.Output()),
		run: &report.Run{Pods: map[string][]report.Health{}, Ready: map[string][]report.Health{}},
	}
}
