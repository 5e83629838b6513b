// Package anomaly finds out from short series of readings what is unusual about servers: that one is slow, unsteady, behind, short of room
// soon, or off in its clock. It has no clock, reads nothing and decides nothing: what it finds goes into the condition PerformanceHealthy,
// into events and into metrics, and no step depends on it.
//
//	reading ──► score ──► median of five ──► raised: at least 1, for as long as Measure.For
//	            (1 is the limit)             over:   at most Measure.Clear, for as long as Measure.ClearFor
//
// What lies between the two limits changes nothing, so that a reading which goes to and fro around either of them changes a finding at most
// once. What has not been read is unknown, which is neither.
package anomaly

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Finding is the name of something unusual: a reason of the condition, of events, and a label of metrics.
type Finding string

// Findings.
const (
	// MemoryForecast: memory is almost full, or will be within hours.
	MemoryForecast Finding = "MemoryForecast"
	// SlowDisk: writes take long to get to the disk.
	SlowDisk Finding = "SlowDisk"
	// FlappingMember: a server is lost, or leadership moves, again and again.
	FlappingMember Finding = "FlappingMember"
	// SlowMember: a server takes much longer to answer than its peers.
	SlowMember Finding = "SlowMember"
	// ReplicationLag: a copy stays behind.
	ReplicationLag Finding = "ReplicationLag"
	// ClockSkew: the clocks of servers differ.
	ClockSkew Finding = "ClockSkew"
	// HotShard: one shard has much more to do, or holds much more, than the others.
	HotShard Finding = "HotShard"
	// Fragmented: much more memory or disk is taken than is in use.
	Fragmented Finding = "Fragmented"
)

// Reading of one server, shard or cluster at one time.
type Reading struct {
	Measure *Measure
	// Subject that was read: the name of a pod or a shard, empty for the whole cluster.
	Subject string
	// Score is how bad it is. 1 is the limit.
	Score float64
	// Figure for people, in the unit of the measure, and Detail in words.
	Figure float64
	Detail string
}

// Key tells series apart.
type Key struct {
	Measure *Measure
	Subject string
}

// Found is a finding about one subject.
type Found struct {
	Key
	// Text says it with its figures, Advice what to do about it.
	Text, Advice string
}

// Report is what is known at one time.
type Report struct {
	// Open are the findings that hold, the worst first. Came are those that have begun to, and Gone those that no longer do or of which
	// nothing is known any more.
	Open, Came, Gone []Found
	// Unknown are the subjects of which too little is known, in their order.
	Unknown []string
	// Begins says that the watch has not been at it for long enough to say what is unknown for good.
	Begins bool
}

// Findings that hold, each once, the worst first.
func (r Report) Findings() []Finding {
	var out []Finding
	for _, f := range r.Open {
		if !slices.Contains(out, f.Measure.Finding) {
			out = append(out, f.Measure.Finding)
		}
	}
	return out
}

// maxNamed is how many of a list a message names.
const maxNamed = 5

// String says what was found and what to do, the same way as long as nothing else is found.
func (r Report) String() string {
	var parts []string
	for i := 0; i < len(r.Open); {
		first, texts := r.Open[i], []string{}
		for ; i < len(r.Open) && r.Open[i].Measure.Finding == first.Measure.Finding && r.Open[i].Advice == first.Advice; i++ {
			texts = append(texts, r.Open[i].Text)
		}
		parts = append(parts, string(first.Measure.Finding)+": "+Some(texts)+": "+first.Advice)
	}
	return strings.Join(parts, ". ")
}

// Some names the first ones of a list.
func Some(list []string) string {
	if len(list) > maxNamed {
		list = append(slices.Clone(list[:maxNamed]), "and others")
	}
	return strings.Join(list, ", ")
}

const (
	// spacing is the least time between two readings of a series: the operator looks more often while there is something to do.
	spacing = 10 * time.Second
	// smoothed is how many readings the median is taken of.
	smoothed = 5
	// stale is how long a series is known without a new reading.
	stale = 5 * time.Minute
	// showAgain is the least time between two changes of a figure that is shown.
	showAgain = 10 * time.Minute
)

// Watch remembers the last readings of one cluster, and what was found. The zero value has found nothing.
type Watch struct {
	series map[Key]*series
	since  time.Time
}

// Next takes what was read now. expected is what there should be a verdict about.
func (w *Watch) Next(now time.Time, readings []Reading, expected []Key) Report {
	if w.series == nil {
		w.series, w.since = map[Key]*series{}, now
	}
	var out Report
	for _, r := range readings {
		key := Key{r.Measure, r.Subject}
		s := w.series[key]
		if s == nil {
			s = &series{}
			w.series[key] = s
		}
		if was := s.open; s.next(now, r) && was != s.open {
			if s.open {
				out.Came = append(out.Came, s.found(key))
			} else {
				out.Gone = append(out.Gone, s.found(key))
			}
		}
	}
	for key, s := range w.series {
		if now.Sub(s.last) > stale {
			delete(w.series, key)
			if s.open {
				out.Gone = append(out.Gone, s.found(key))
			}
		} else if s.open {
			out.Open = append(out.Open, s.found(key))
		}
	}
	for _, list := range [][]Found{out.Open, out.Came, out.Gone} {
		slices.SortFunc(list, compare)
	}
	out.Unknown = w.unknown(expected)
	out.Begins = len(out.Unknown) > 0 && now.Sub(w.since) < stale
	return out
}

// unknown are the subjects of which a verdict is missing, each once.
func (w *Watch) unknown(expected []Key) []string {
	var out []string
	for _, key := range expected {
		if s := w.series[key]; (s == nil || !s.judged) && !slices.Contains(out, key.Subject) {
			out = append(out, key.Subject)
		}
	}
	slices.Sort(out)
	return out
}

func compare(a, b Found) int {
	return cmp.Or(a.Measure.order()-b.Measure.order(), strings.Compare(a.Subject, b.Subject))
}

// series are the last readings of one measure of one subject, and the verdict.
type series struct {
	// readings are the last ones, the newest at the end; last is when that was read, first when the first of all was.
	readings    []Reading
	first, last time.Time
	// judged says that there is a verdict, open that it is bad.
	judged, open bool
	// since is how long the scores have been beyond the limit that would change the verdict; zero: they are not.
	since time.Time
	// shown is what people are told, since shownAt.
	shown   Reading
	shownAt time.Time
}

// next takes a reading, and reports whether it counts.
func (s *series) next(now time.Time, r Reading) bool {
	switch {
	case s.first.IsZero():
		s.first = now
	case now.Sub(s.last) < spacing:
		return false
	case now.Sub(s.last) > stale:
		s.readings, s.since = nil, time.Time{} // What was before says nothing about the time between.
	}
	s.last = now
	s.readings = append(s.readings, r)
	s.readings = slices.Clone(s.readings[max(0, len(s.readings)-smoothed):])
	s.judge(now, middle(s.readings))
	return true
}

// judge changes the verdict if readings have been beyond its limit for long enough. r is the one in the middle.
func (s *series) judge(now time.Time, r Reading) {
	score, m := r.Score, r.Measure
	beyond, lasting := score >= 1, m.For
	if s.open {
		beyond, lasting = score <= m.Clear, m.ClearFor
	}
	switch {
	case !beyond:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = now
	}
	enough := lasting == 0 || len(s.readings) >= min(smoothed, 1+int(lasting/time.Minute))
	if beyond && enough && now.Sub(s.since) >= lasting {
		s.open, s.judged, s.since = !s.open, true, time.Time{}
		if s.open {
			s.show(now, r)
		}
	}
	s.judged = s.judged || score <= m.Clear || now.Sub(s.first) > m.For+smoothed*time.Minute
	if s.open && score >= 1 {
		s.showAgain(now, r)
	}
}

func (s *series) show(now time.Time, r Reading) { s.shown, s.shownAt = r, now }

// showAgain shows another figure when it has doubled or halved, and not often.
func (s *series) showAgain(now time.Time, r Reading) {
	if now.Sub(s.shownAt) >= showAgain && (r.Figure > 2*s.shown.Figure || r.Figure < s.shown.Figure/2) {
		s.show(now, r)
	}
}

func (s *series) found(key Key) Found {
	return Found{Key: key, Text: key.Measure.say(s.shown), Advice: key.Measure.Advice}
}

// middle of at least one reading, by their scores.
func middle(list []Reading) Reading {
	sorted := slices.SortedStableFunc(slices.Values(list), func(a, b Reading) int { return cmp.Compare(a.Score, b.Score) })
	return sorted[len(sorted)/2]
}
