package reconcile

import (
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

// emit emits an event for a step that was taken, and one for each condition whose transition has one
// by eventPolicies. A repeated event becomes a series, which the recorder closes with another write
// minutes later, when an idle cluster should cause none.
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
	for _, policy := range eventPolicies {
		was := meta.FindStatusCondition(before.GetConditions(), policy.condition)
		is := meta.FindStatusCondition(after.GetConditions(), policy.condition)
		covered := p.Step != nil && !unmade && is != nil && (policy.coveredByStep || is.Reason == p.Reason)
		if is == nil || covered || !policy.emits(was, is) || l.events.suppresses(after.GetUID(), policy.repeats, is) {
			continue
		}
		l.Events.Eventf(after, nil, policy.as(is), is.Reason, policy.condition, "%s", note(is.Message))
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

// eventDeduper remembers the reasons of a resource's events since it was last Ready.
type eventDeduper struct {
	mu      sync.Mutex
	reasons ttlmap.Map[types.UID, map[string]bool]
}

// first records a reason and reports whether it is new since the resource was last Ready.
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

// suppresses reports whether the event of a condition is a repeat that its policy suppresses.
func (t *eventDeduper) suppresses(uid types.UID, r repeats, c *metav1.Condition) bool {
	switch {
	case r == oncePerReason:
		return !t.first(uid, c.Reason)
	case r == falseUnlessEmitted && c.Status == metav1.ConditionFalse:
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
