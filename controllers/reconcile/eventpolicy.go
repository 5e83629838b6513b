package reconcile

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
)

// eventPolicy is which transitions of a condition have an event, and of which type.
type eventPolicy struct {
	condition string
	// on reports whether a transition has an event. was is nil for a condition that was absent. Only a
	// change of the status or the reason is a transition.
	on func(was, is *metav1.Condition) bool
	// as is the type of the event.
	as      func(is *metav1.Condition) string
	repeats repeats
	// coveredByStep suppresses the event while a step is taken: the event of the step says the same.
	coveredByStep bool
}

// repeats is what becomes of an event whose reason had one since the resource was last Ready. Zero
// emits it.
type repeats int

const (
	// oncePerReason suppresses it, and counts its own events and those of steps.
	oncePerReason repeats = iota + 1
	// falseUnlessEmitted suppresses it while the condition is False, and counts only the events of
	// others: with a stale cache a step's reason would be repeated as the reason why it is not Ready.
	falseUnlessEmitted
)

// eventPolicies is the event policy of every condition, in the order in which events are emitted. A
// condition without an entry has no events. What has none shows in Ready when it matters, and
// PerformanceHealthy has those of emitAnomalies.
var eventPolicies = []eventPolicy{
	{condition: v1alpha1.ConditionReady, on: readyChanges, as: warningUnlessTrue, repeats: falseUnlessEmitted},
	{condition: v1alpha1.ConditionReconciling, on: isTrue, as: normal, repeats: oncePerReason, coveredByStep: true},
	{condition: v1alpha1.ConditionStalled, on: isTrue, as: warning},
	{condition: v1alpha1.ConditionSpaceHealthy, on: isFalse, as: warning},
	{condition: v1alpha1.ConditionMemoryHealthy, on: isFalse, as: warning},
	{condition: v1alpha1.ConditionTimeoutHealthy, on: isFalse, as: warning},
	{condition: v1alpha1.ConditionTLSReady, on: renewalChanges, as: warningIfExpiring},
	{condition: v1alpha1.ConditionBalanced, on: isFalse, as: normal},
	{condition: v1alpha1.ConditionMonitoringReady, on: monitoringFails, as: warning},
	{condition: v1alpha1.ConditionLimited, on: isTrue, as: warning},
	{condition: v1alpha1.ConditionAvailable, on: never},
	{condition: v1alpha1.ConditionQuorumHealthy, on: never},
	{condition: v1alpha1.ConditionSlotsCovered, on: never},
	{condition: v1alpha1.ConditionPerformanceHealthy, on: never},
	{condition: v1alpha1.ConditionComplete, on: never},
	{condition: v1alpha1.ConditionVerified, on: never},
	{condition: v1alpha1.ConditionConfirmed, on: never},
	{condition: v1alpha1.ConditionBackupHealthy, on: never},
}

// emits reports whether a change from was to is has an event; was is nil for a condition that was absent.
func (p eventPolicy) emits(was, is *metav1.Condition) bool {
	return (was == nil || was.Status != is.Status || was.Reason != is.Reason) && p.on(was, is)
}

func never(_, _ *metav1.Condition) bool { return false }

func isTrue(_, is *metav1.Condition) bool { return is.Status == metav1.ConditionTrue }

func isFalse(_, is *metav1.Condition) bool { return is.Status == metav1.ConditionFalse }

// readyChanges reports whether a resource is Ready or no longer is. Another reason for not being
// Ready is in the event of Reconciling or Stalled.
func readyChanges(was, is *metav1.Condition) bool {
	return is.Status == metav1.ConditionTrue || (was != nil && was.Status == metav1.ConditionTrue)
}

// monitoringFails reports whether something prevents metrics from being read.
func monitoringFails(_, is *metav1.Condition) bool {
	return is.Status == metav1.ConditionFalse && is.Reason != v1alpha1.ReasonMonitoringPending
}

// renewalChanges reports whether certificates are expiring, awaited from cert-manager or being
// replaced, or no longer are.
func renewalChanges(was, is *metav1.Condition) bool {
	return renewing(is) || (is.Status == metav1.ConditionTrue && was != nil && renewing(was))
}

// renewing reports whether certificates are missing, expiring or being replaced.
func renewing(c *metav1.Condition) bool {
	switch c.Reason {
	case v1alpha1.ReasonExpiring, v1alpha1.ReasonIntroducingCA, v1alpha1.ReasonReplacingCertificates, v1alpha1.ReasonCertManager:
		return true
	}
	return false
}

func normal(*metav1.Condition) string { return corev1.EventTypeNormal }

func warning(*metav1.Condition) string { return corev1.EventTypeWarning }

func warningUnlessTrue(is *metav1.Condition) string {
	if is.Status == metav1.ConditionTrue {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

func warningIfExpiring(is *metav1.Condition) string {
	if is.Reason == v1alpha1.ReasonExpiring {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
