package metrics

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// history is what is remembered of a cluster beside its status. It begins anew with each manager: nothing is decided by it.
type history struct {
	figures cluster.Figures
	// served says that the cluster has been available; down is since when it is not, zero: it is.
	served           bool
	down             time.Time
	outage, handover record
}

// record is the last and the longest of some times.
type record struct {
	any           bool
	last, longest time.Duration
}

func (r *record) note(d time.Duration) {
	r.any, r.last, r.longest = true, d, max(r.longest, d)
}

// object tells the histories of two objects apart, also when they had one name.
type object struct {
	kind string
	uid  types.UID
}

// Pass notes what one pass over a cluster has found: what it measured, and by the conditions whether clients are served.
func (m *Metrics) Pass(kind string, uid types.UID, f cluster.Figures, conditions []metav1.Condition) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	h, now := m.history(kind, uid), m.o.Now()
	h.figures = f
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionAvailable)
	switch {
	case c == nil || c.Status == metav1.ConditionUnknown: // What cannot be seen is no outage, and no end of one.
	case c.Status == metav1.ConditionTrue:
		if !h.down.IsZero() {
			h.outage.note(now.Sub(h.down))
		}
		h.served, h.down = true, time.Time{}
	case c.Reason == v1alpha1.ReasonHibernated:
		h.served, h.down = false, time.Time{}
	case h.served && h.down.IsZero():
		h.down = now
	}
}

func (m *Metrics) history(kind string, uid types.UID) *history {
	key := object{kind, uid}
	h := m.seen[key]
	if h == nil {
		h = &history{}
		m.seen[key] = h
	}
	return h
}

// remembered tells the histories of the objects that there are, and forgets all others.
func (m *Metrics) remembered(s sink, o Objects) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := make(map[object]*history, len(m.seen))
	for i := range o.Etcd {
		c := &o.Etcd[i]
		m.keep(s, left, string(v1alpha1.KindEtcdCluster), c, appliedLag)
	}
	for i := range o.Redis {
		c := &o.Redis[i]
		m.keep(s, left, string(v1alpha1.KindRedisCluster), c, replicaLag)
	}
	m.seen = left
}

// keep reports the history of an object, and carries it over into left. The caller holds the lock.
func (m *Metrics) keep(s sink, left map[object]*history, kind string, o metav1.Object, lag *Definition) {
	key := object{kind, o.GetUID()}
	h := m.seen[key]
	if h == nil {
		return
	}
	left[key] = h
	id := []string{kind, o.GetNamespace(), o.GetName()}
	if h.figures.Margin != nil {
		s.tell(quorumMargin, float64(*h.figures.Margin), id...)
	}
	if r := h.figures.Anomalies; r != nil {
		for _, f := range r.Findings() {
			s.tell(anomalies, 1, append(id, string(f))...)
		}
	}
	for _, l := range h.figures.Lags {
		s.tell(lag, l.Behind, append(id, l.Pod)...)
	}
	if h.outage.any {
		s.tell(outageLast, h.outage.last.Seconds(), id...)
		s.tell(outageLongest, h.outage.longest.Seconds(), id...)
	}
	if h.handover.any {
		s.tell(handoverLast, h.handover.last.Seconds(), id...)
		s.tell(handoverLongest, h.handover.longest.Seconds(), id...)
	}
}
