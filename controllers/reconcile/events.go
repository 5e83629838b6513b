package reconcile

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/conditions"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/ttlmap"
)

// emit emits an event for a step that was taken, and for every condition worth telling that changed its status or reason. What
// stays as it was is not repeated, and neither is what it waits for when it comes back to that on its way to Ready: a
// repeated event becomes a series, which the recorder closes with a write minutes later, when all should be silent.
func (l *Loop[O, S]) emit(before, after O, p cluster.Plan, unmade bool) {
	if p.Step != nil && !unmade {
		first := l.events.first(after.GetUID(), p.Reason)
		if first || !p.Step.Meta().Incremental {
			l.Events.Eventf(after, nil, corev1.EventTypeNormal, p.Reason, p.Reason, "%s", note(p.Message))
		}
	}
	if meta.IsStatusConditionTrue(after.GetConditions(), v1alpha1.ConditionReady) {
		l.events.forget(after.GetUID())
	}
	for _, typ := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled,
		v1alpha1.ConditionSpaceHealthy, v1alpha1.ConditionMemoryHealthy, v1alpha1.ConditionTimeoutHealthy,
		v1alpha1.ConditionTLSReady, v1alpha1.ConditionBalanced, v1alpha1.ConditionMonitoringReady, v1alpha1.ConditionLimited,
	} {
		was, is := meta.FindStatusCondition(before.GetConditions(), typ), meta.FindStatusCondition(after.GetConditions(), typ)
		if is == nil || (p.Step != nil && !unmade && (typ == v1alpha1.ConditionReconciling || is.Reason == p.Reason)) || !shouldEmit(was, is) {
			continue
		}
		if l.events.known(after.GetUID(), is) {
			continue
		}
		l.Events.Eventf(after, nil, eventType(is), is.Reason, typ, "%s", note(is.Message))
	}
}

// emitAnomalies tells once when something unusual about a server was found, and once when it is over.
func (l *Loop[O, S]) emitAnomalies(o O, r *anomaly.Report) {
	if r == nil {
		return
	}
	for _, f := range r.Came {
		l.Events.Eventf(o, nil, corev1.EventTypeWarning, string(f.Measure.Finding), v1alpha1.ConditionPerformanceHealthy, "%s", note(f.Text+": "+f.Advice))
	}
	for _, f := range r.Gone {
		l.Events.Eventf(o, nil, corev1.EventTypeNormal, cluster.ReasonRecovered, v1alpha1.ConditionPerformanceHealthy,
			"%s", note(string(f.Measure.Finding)+" is over; it was found that "+f.Text))
	}
}

// eventDeduper remembers what a resource was said to wait for since it was last Ready.
type eventDeduper struct {
	mu      sync.Mutex
	reasons ttlmap.Map[types.UID, map[string]bool]
}

// first reports whether the reason is told for the first time.
func (t *eventDeduper) first(uid types.UID, reason string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	reasons := t.reasons.Get(uid, time.Now())
	if *reasons == nil {
		*reasons = map[string]bool{}
	}
	known := (*reasons)[reason]
	(*reasons)[reason] = true
	return !known
}

// known reports whether a condition says what was told before: what is waited for again, or, when the cache has not got the status
// of the last pass yet, why the resource is not Ready any more.
func (t *eventDeduper) known(uid types.UID, c *metav1.Condition) bool {
	switch {
	case c.Type == v1alpha1.ConditionReconciling:
		return !t.first(uid, c.Reason)
	case c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionFalse:
		t.mu.Lock()
		defer t.mu.Unlock()
		return (*t.reasons.Get(uid, time.Now()))[c.Reason]
	}
	return false
}

func (t *eventDeduper) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*t.reasons.Get(uid, time.Now()) = nil
}

// maxNote is how long the note of an event may be, in bytes, by the rules of events.k8s.io/v1.
const maxNote = 1024

// note cuts a message to what an event may hold. The conditions have all of it.
func note(message string) string { return conditions.Cut(message, maxNote) }

// shouldEmit tells whether a condition says something new: Ready and Stalled when they flip or give another reason,
// Limited when more is needed than may be, Reconciling when it starts to wait for something else, SpaceHealthy and MemoryHealthy when space is short, TimeoutHealthy when forks are long,
// Balanced when a shard is too heavy, MonitoringReady when something keeps metrics from being read, TLSReady when certificates soon
// expire, cert-manager is waited for or their authority is being replaced, and when that is over. What is wrong with it otherwise makes the cluster not
// Ready.
func shouldEmit(was, is *metav1.Condition) bool {
	if was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return false
	}
	switch is.Type {
	case v1alpha1.ConditionSpaceHealthy, v1alpha1.ConditionMemoryHealthy, v1alpha1.ConditionTimeoutHealthy, v1alpha1.ConditionBalanced:
		return is.Status == metav1.ConditionFalse
	case v1alpha1.ConditionMonitoringReady:
		return is.Status == metav1.ConditionFalse && is.Reason != v1alpha1.ReasonMonitoringPending
	case v1alpha1.ConditionReady:
		return is.Status == metav1.ConditionTrue || (was != nil && was.Status == metav1.ConditionTrue)
	case v1alpha1.ConditionTLSReady:
		return onTheMove(is) || (is.Status == metav1.ConditionTrue && was != nil && onTheMove(was))
	default:
		return is.Status == metav1.ConditionTrue
	}
}

// onTheMove reports whether certificates are not in place yet, or not for long.
func onTheMove(c *metav1.Condition) bool {
	switch c.Reason {
	case v1alpha1.ReasonExpiring, v1alpha1.ReasonIntroducingCA, v1alpha1.ReasonReplacingCertificates, v1alpha1.ReasonCertManager:
		return true
	}
	return false
}

func eventType(c *metav1.Condition) string {
	bad := c.Status != metav1.ConditionTrue && slices.Contains([]string{
		v1alpha1.ConditionReady, v1alpha1.ConditionSpaceHealthy, v1alpha1.ConditionMemoryHealthy, v1alpha1.ConditionTimeoutHealthy,
		v1alpha1.ConditionMonitoringReady,
	}, c.Type)
	if c.Type == v1alpha1.ConditionStalled || c.Type == v1alpha1.ConditionLimited || c.Reason == v1alpha1.ReasonExpiring || bad {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
