// Package ledger keeps the books of a load: which writes were acknowledged, which were not, how long clients had to wait,
// and what a final check found. It does no I/O.
package ledger

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Outcome is what became of one write.
type Outcome int

const (
	// Acked means that the data store said yes: the write must be there afterwards.
	Acked Outcome = iota
	// Failed means that the data store said no, or was never asked.
	Failed
	// Unknown means that the answer never came: the write may or may not be there.
	Unknown
)

// Receipt is what the data store said about an acknowledged write. Data stores without revisions leave it empty.
type Receipt struct {
	Revision  int64
	ClusterID uint64
}

// Ledger collects the outcomes of concurrent writers. A lane is a part of the data store that can stand still on its
// own, such as a Redis shard.
type Ledger struct {
	now func() time.Time

	mu         sync.Mutex
	acked      map[string]acked
	order      []string
	unknown    []string
	clusterIDs map[uint64]bool
	highest    int64
	s          Summary
	began      time.Time
	ended      time.Time
	all        clock
	lanes      map[string]*clock
	watch      watch
}

// acked is one acknowledged write, when it was there for the last time, and when it was missed first since then.
type acked struct {
	Receipt
	at, seen, missed time.Time
}

// clock measures the longest time without an acknowledged write, and notes every long one with the reasons that came up in it.
type clock struct {
	lane    string
	last    time.Time
	longest time.Duration
	stalls  []Stall
	reasons Reasons
}

// stallFrom is the shortest silence that is noted by itself, maxStalls how many of them for each lane.
const (
	stallFrom = 500 * time.Millisecond
	maxStalls = 2000
)

func (c *clock) tick(now time.Time) {
	silence := now.Sub(c.last)
	c.longest = max(c.longest, silence)
	if silence >= stallFrom && len(c.stalls) < maxStalls {
		c.stalls = append(c.stalls, Stall{c.lane, c.last.UnixMilli(), now.UnixMilli(), c.reasons.String()})
	}
	c.last, c.reasons = now, nil
}

// New opens a ledger. The clocks of all lanes start at once.
func New(mode string, lanes []string, now func() time.Time) *Ledger {
	began := now()
	l := &Ledger{
		now: now, began: began, s: Summary{Mode: mode}, all: clock{last: began},
		acked: map[string]acked{}, clusterIDs: map[uint64]bool{}, lanes: map[string]*clock{},
	}
	for _, name := range lanes {
		l.lanes[name] = &clock{lane: name, last: began}
	}
	return l
}

// Afresh measures the longest stalls from now on, and what comes first is counted from the last acknowledged write.
func (l *Ledger) Afresh() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.longest = 0
	for _, c := range l.lanes {
		c.longest = 0
	}
}

// Begin notes that a write starts and returns the highest revision acknowledged so far: a write that begins now must
// get a higher one.
func (l *Ledger) Begin() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s.Written++
	return l.highest
}

// Ack notes an acknowledged write that began when floor was the highest revision.
func (l *Ledger) Ack(lane, key string, r Receipt, floor int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.all.tick(now)
	l.lanes[lane].tick(now)
	l.acked[key] = acked{Receipt: r, at: now, seen: now}
	l.order = append(l.order, key)
	l.s.Acked++
	if r.ClusterID != 0 {
		l.clusterIDs[r.ClusterID] = true
	}
	if r.Revision != 0 && r.Revision <= floor {
		l.s.OutOfOrder++
	}
	l.highest = max(l.highest, r.Revision)
}

// Miss notes a write that was not acknowledged, and why.
func (l *Ledger) Miss(lane, key string, o Outcome, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.now().Sub(l.began).Milliseconds()
	l.s.Misses.add(err, at)
	l.lanes[lane].reasons.add(err, at)
	if o == Failed {
		l.s.Failed++
		return
	}
	l.s.Unknown++
	l.unknown = append(l.unknown, key)
}

// Recent returns the keys that were acknowledged within a time that ends now, in that order.
func (l *Ledger) Recent(within time.Duration) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := l.now().Add(-within)
	for i := len(l.order) - 1; i >= 0; i-- {
		if l.acked[l.order[i]].at.Before(since) {
			return slices.Clone(l.order[i+1:])
		}
	}
	return slices.Clone(l.order)
}

// From returns up to n keys in the order of their acknowledgement, after so many that came before them.
func (l *Ledger) From(i, n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	i = min(i, len(l.order))
	return slices.Clone(l.order[i:min(i+n, len(l.order))])
}

// Look notes which of the keys are there; found holds those of them that exist. They had been acknowledged before anybody looked.
func (l *Ledger) Look(keys []string, found map[string]Found, want func(key string) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		a := l.acked[key]
		if got, ok := found[key]; ok && got.Value == want(key) {
			l.returned(key, a)
			a.seen, a.missed = l.now(), time.Time{}
		} else if a.missed.IsZero() {
			a.missed = l.now()
		}
		l.acked[key] = a
	}
}

// returned notes that a write is there again that was missed before. The caller holds the lock.
func (l *Ledger) returned(key string, a acked) {
	if a.missed.IsZero() {
		return
	}
	l.s.Returned++
	if len(l.s.Returns) < maxLosses {
		l.s.Returns = append(l.s.Returns, Loss{key, a.at.UnixMilli(), a.seen.UnixMilli(), a.missed.UnixMilli()})
	}
}

// Close ends the measurement: silence up to now counts as a stall too.
func (l *Ledger) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.ended = now
	l.all.tick(now)
	for _, c := range l.lanes {
		c.tick(now)
	}
}

// Keys returns the acknowledged keys and those of unknown outcome, sorted.
func (l *Ledger) Keys() (acked, unknown []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.acked)), slices.Sorted(slices.Values(l.unknown))
}

// Progress returns the figures so far.
func (l *Ledger) Progress() Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.summary()
}

func (l *Ledger) summary() Summary {
	s := l.s
	s.Misses = slices.Clone(l.s.Misses)
	end := l.now()
	if !l.ended.IsZero() {
		end = l.ended
	}
	s.DurationMs = end.Sub(l.began).Milliseconds()
	s.LongestStallMs = l.all.longest.Milliseconds()
	s.LastRevision = l.highest
	if len(l.lanes) > 1 {
		s.LaneStallMs = map[string]int64{}
		for name, c := range l.lanes {
			s.LaneStallMs[name] = c.longest.Milliseconds()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.lanes)) {
		s.Stalls = append(s.Stalls, l.lanes[name].stalls...)
	}
	if l.watch.follows {
		w := l.watch.WatchSummary
		s.Watch = &w
	}
	for _, id := range slices.Sorted(maps.Keys(l.clusterIDs)) {
		s.ClusterIDs = append(s.ClusterIDs, strconv.FormatUint(id, 16))
	}
	return s
}
