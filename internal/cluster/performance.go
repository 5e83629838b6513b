package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/cluster/anomaly"
)

// conditionPerformanceHealthy is its type, see api/v1alpha1.
const conditionPerformanceHealthy = "PerformanceHealthy"

// Reasons of the condition PerformanceHealthy beside the findings.
const (
	// ReasonNothingFound says that no server is slow, unsteady, behind, short of room soon, or off in its clock.
	ReasonNothingFound = "NothingFound"
	// ReasonRecovered is the reason of the event that tells that something which was found is over.
	ReasonRecovered = "PerformanceRecovered"
	reasonUnknown   = "Unknown"
)

// PerformanceHealthy says what is unusual about servers. r is nil when none could be asked. An operator that begins says nothing: what
// the one before it said holds until it knows better.
func PerformanceHealthy(r *anomaly.Report) []metav1.Condition {
	c := metav1.Condition{Type: conditionPerformanceHealthy, Status: metav1.ConditionUnknown, Reason: reasonUnknown, Message: "no server could be asked"}
	switch {
	case r == nil:
	case len(r.Open) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(r.Open[0].Measure.Finding), r.String()
	case r.Begins:
		return nil
	case len(r.Unknown) > 0:
		c.Message = "too little is known yet of " + anomaly.Some(r.Unknown)
	default:
		c.Status, c.Reason = metav1.ConditionTrue, ReasonNothingFound
		c.Message = "no server is slow, unsteady, behind, short of room soon, or off in its clock"
	}
	return []metav1.Condition{c}
}
