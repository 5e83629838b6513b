package owned

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

func TestACountOfReadyPodsIsNoReasonToLook(t *testing.T) {
	looks := predicate.Or(SpecChanged(), RevisionChanged())
	before := &appsv1.StatefulSet{}
	before.Name, before.Generation, before.ResourceVersion, before.Status.ReadyReplicas = "orders", 1, "1", 2
	for what, test := range map[string]struct {
		change func(*appsv1.StatefulSet)
		want   bool
	}{
		"pods that are ready": {func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 3 }, false},
		"specification":       {func(s *appsv1.StatefulSet) { s.Generation = 2 }, true},
		"label":               {func(s *appsv1.StatefulSet) { s.Labels = map[string]string{"a": "b"} }, true},
		"seen generation":     {func(s *appsv1.StatefulSet) { s.Status.ObservedGeneration = 1 }, true},
		"revision":            {func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "orders-1" }, true},
		"object that does not count what is specified": {func(s *appsv1.StatefulSet) { s.Generation = 0 }, true},
	} {
		after := before.DeepCopy()
		after.ResourceVersion = "2"
		test.change(after)
		if got := looks.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
			t.Errorf("%s: looked at %t, want %t", what, got, test.want)
		}
	}
	if !looks.Create(event.CreateEvent{Object: before}) || !looks.Delete(event.DeleteEvent{Object: before}) {
		t.Error("one that is made or gone is not looked at")
	}
}
