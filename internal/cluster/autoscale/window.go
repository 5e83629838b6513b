package autoscale

import "time"

// longestGap is for how long nothing may be known before what was wanted earlier counts no more.
const longestGap = 90 * time.Second

// window tells the least or the most of what was wanted in the last time. It holds only what can still become that: while a value is in
// it, none that came before and is no better is.
type window struct {
	since, last time.Time
	samples     []sample
}

type sample struct {
	at    time.Time
	value int64
}

// add notes what is wanted now. better tells whether the first of two values is the one that counts.
func (w *window) add(now time.Time, value int64, span time.Duration, better func(a, b int64) bool) {
	if w.since.IsZero() || now.Sub(w.last) > longestGap {
		*w = window{since: now}
	}
	w.last = now
	for len(w.samples) > 0 && !better(w.samples[len(w.samples)-1].value, value) {
		w.samples = w.samples[:len(w.samples)-1]
	}
	w.samples = append(w.samples, sample{now, value})
	for now.Sub(w.samples[0].at) > span {
		w.samples = w.samples[1:]
	}
}

// counts is the value that counts, and whether it was looked for long enough.
func (w *window) counts(now time.Time, span time.Duration) (value int64, ok bool) {
	if len(w.samples) == 0 || now.Sub(w.since) < span {
		return 0, false
	}
	return w.samples[0].value, true
}

// past is what was wanted of one quantity. Out of it follows what is to become of it.
type past struct {
	// of is the value that the quantity had meanwhile.
	of        int64
	low, high window
}

// next takes what the quantity is and what is wanted of it. It returns what it is to be: more, if more was wanted at every look of the time
// `up`, and then the least of it; less, if less was at every look of the time `down`, and then the most of it.
func (p *past) next(now time.Time, is, wanted int64, up, down time.Duration) int64 {
	if p.of != is {
		*p = past{of: is}
	}
	p.low.add(now, wanted, up, func(a, b int64) bool { return a < b })
	p.high.add(now, wanted, down, func(a, b int64) bool { return a > b })
	if least, ok := p.low.counts(now, up); ok && least > is {
		return least
	}
	if most, ok := p.high.counts(now, down); ok && most < is {
		return most
	}
	return is
}

// History is what was wanted of one cluster lately. With the operator it begins anew, which only delays. The zero value remembers nothing.
type History struct {
	generation     int64
	shards, memory past
}

// Watch fills in what is to become of shards and memory. Where nothing is known, or the cluster is on its way to something else, what was
// wanted before counts no more.
func (h *History) Watch(s *State) {
	if s.Generation != h.generation || !s.measurable() {
		*h = History{generation: s.Generation}
	}
	if !s.measurable() {
		return
	}
	if n := s.Shards; n != nil {
		n.Due = n.Current
		if wanted, ok := n.wanted(); ok {
			n.Due = int(h.shards.next(s.Now, int64(n.Current), int64(wanted), n.OutAfter, n.InAfter))
		}
	}
	if m := s.Memory; m != nil {
		m.Due = m.Limit
		if wanted, ok := m.wanted(); ok {
			m.Due = h.memory.next(s.Now, m.Limit, wanted, m.GrowAfter, m.ShrinkAfter)
		}
	}
}
