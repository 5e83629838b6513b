package chart

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/test/lockdown"
)

func TestTheOperatorOfTheChartIsLockedDown(t *testing.T) {
	for name, values := range map[string]Values{
		"with everything":    everything,
		"for all namespaces": {},
		"for some":           {"watchNamespaces": []any{"a"}},
	} {
		values["image"] = Values{"tag": "1.0.0"} // What is released names its version, see make chart.
		pod := only[appsv1.Deployment](t, render(t, values)).Spec.Template.Spec
		for _, fault := range lockdown.Faults(lockdown.Pod{Spec: pod, Serves: true, Sized: true, Identity: true}) {
			t.Errorf("%s: %s", name, fault)
		}
		if c := pod.Containers[0]; c.LivenessProbe.HTTPGet.Path == c.ReadinessProbe.HTTPGet.Path || ptr.Deref(pod.TerminationGracePeriodSeconds, 0) == 0 {
			t.Errorf("%s: one probe serves for both, or there is no time to end in", name)
		}
	}
}
