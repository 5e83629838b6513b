package cluster

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types that follow from a plan alone, whatever the data store. See api/v1alpha1 for their meaning.
const (
	conditionReady       = "Ready"
	conditionReconciling = "Reconciling"
	conditionStalled     = "Stalled"
)

// ReasonPaused is the reason of a plan whose step is not taken because spec.paused is true.
const ReasonPaused = "Paused"

// ReasonHibernated is the reason of a plan that has nothing left to do because spec.hibernated is true.
const ReasonHibernated = "Hibernated"

// Pause returns what becomes of a plan while spec.paused is true: nothing is done, and what would be is told. What needs a
// human needs one all the same.
func Pause(p Plan) Plan {
	switch {
	case p.Settled():
		return Plan{Message: "the cluster is as specified; spec.paused is true"}
	case p.Stalled:
		p.Message += " (spec.paused is true)"
		return p
	case p.Reason == ReasonHibernated:
		p.Message += " (spec.paused is true)"
		return p
	}
	return Plan{Reason: ReasonPaused, Message: "spec.paused is true, so nothing is changed; pending: " + p.Message}
}

// Progress returns the conditions Reconciling and Stalled for the outcome of one pass.
func Progress(p Plan, err error) []metav1.Condition {
	var (
		refusal Refusal
		hold    Hold
	)
	switch {
	case errors.As(err, &refusal):
		return progress(metav1.ConditionFalse, refusal.Reason, refusal.Message, true)
	case errors.As(err, &hold):
		return progress(metav1.ConditionTrue, hold.Reason, hold.Message, false)
	case err != nil:
		return progress(metav1.ConditionTrue, "ReconcileError", err.Error(), false)
	case p.Settled():
		return progress(metav1.ConditionFalse, "Settled", p.Message, false)
	case p.Reason == ReasonPaused, p.Reason == ReasonHibernated:
		return progress(metav1.ConditionFalse, p.Reason, p.Message, false)
	case p.Stalled:
		return progress(metav1.ConditionFalse, p.Reason, p.Message, true)
	}
	return progress(metav1.ConditionTrue, p.Reason, p.Message, false)
}

// Ready returns the condition Ready for the outcome of one pass: True only when the planner, which looks at everything,
// has nothing to do and nothing to wait for. settled is the message then.
func Ready(p Plan, err error, settled string) metav1.Condition {
	c := Progress(p, err)[0]
	c.Type, c.Status = conditionReady, metav1.ConditionFalse
	if err == nil && p.Settled() {
		c.Status, c.Message = metav1.ConditionTrue, settled
	}
	return c
}

func progress(reconciling metav1.ConditionStatus, reason, message string, stalled bool) []metav1.Condition {
	s := metav1.Condition{
		Type: conditionStalled, Status: metav1.ConditionFalse, Reason: "NotStalled", Message: "nothing needs a human",
	}
	if stalled {
		s.Status, s.Reason, s.Message = metav1.ConditionTrue, reason, message
	}
	return []metav1.Condition{{Type: conditionReconciling, Status: reconciling, Reason: reason, Message: message}, s}
}

// Activity says in one sentence what goes on: the plan's message, or what went wrong.
func Activity(p Plan, err error) string {
	if err != nil {
		return err.Error()
	}
	return p.Message
}
