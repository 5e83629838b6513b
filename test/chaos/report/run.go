// Package report keeps what happened in a chaos run, judges it, and draws it. It does no I/O but writing to what it is given.
package report

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/test/chaos/schedule"
	"github.com/quorate/quorate/test/e2e/load/ledger"
)

// Run is everything that is known of a run.
type Run struct {
	Seed     uint64              `json:"seed"`
	Duration time.Duration       `json:"duration"`
	Command  string              `json:"command"`
	Notes    []string            `json:"notes,omitempty"`
	Began    time.Time           `json:"began"`
	Ended    time.Time           `json:"ended"`
	Clusters []schedule.Cluster  `json:"clusters"`
	Rounds   []schedule.Round    `json:"rounds"`
	Faults   []*Fault            `json:"faults"`
	Changes  []*Change           `json:"changes"`
	Steps    []Step              `json:"steps"`
	Pods     map[string][]Health `json:"pods"`
	Ready    map[string][]Health `json:"ready"`
	Ends     []OperatorEnd       `json:"operatorEnds"`
	Loads    []Load              `json:"loads"`
	Hashes   []Hash              `json:"hashes"`
	// Broken is what kept the run itself from going on.
	Broken   []string  `json:"broken,omitempty"`
	Verdicts []Verdict `json:"verdicts"`
}

// Fault is one that was made.
type Fault struct {
	Round  int            `json:"round"`
	Drawn  schedule.Fault `json:"drawn"`
	Target string         `json:"target"`
	// Clusters are those whose servers it touches.
	Clusters []string `json:"clusters"`
	// Began and Ended are when it was made and when it was over; Healed is when all of Clusters were Ready again.
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended"`
	Healed time.Time `json:"healed"`
	// Skipped says why it was not made: it would have broken more than is covered.
	Skipped string `json:"skipped,omitempty"`
	// Error says what went wrong with making it, or that it did not heal.
	Error string `json:"error,omitempty"`
}

// Change is a planned operation.
type Change struct {
	Round int                `json:"round"`
	Drawn schedule.Operation `json:"drawn"`
	// What it was in this case, such as: 3 members become 5.
	What  string    `json:"what"`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended"`
	Error string    `json:"error,omitempty"`
}

// Step is something that the operator told by an event.
type Step struct {
	At      time.Time `json:"at"`
	Cluster string    `json:"cluster"`
	Reason  string    `json:"reason"`
	Text    string    `json:"text"`
}

// Health is what a pod or a cluster was from a time on.
type Health struct {
	From   time.Time `json:"from"`
	OK     bool      `json:"ok"`
	Reason string    `json:"reason,omitempty"`
	Text   string    `json:"text,omitempty"`
	// Available is whether the cluster said that it serves; of pods it says nothing.
	Available bool `json:"available,omitempty"`
}

// OperatorEnd is the end of an operator's process.
type OperatorEnd struct {
	Pod  string    `json:"pod"`
	At   time.Time `json:"at"`
	Why  string    `json:"why"`
	Code int32     `json:"code"`
	// Panic is the first line of a panic in its log.
	Panic string `json:"panic,omitempty"`
}

// Load is a writer, with what it found in the end.
type Load struct {
	Name    string `json:"name"`
	Cluster string `json:"cluster"`
	// Class is what an acknowledgement stands for: plain, WAIT 1, min-replicas-to-write 1; of etcd: majority.
	Class   string          `json:"class"`
	Summary *ledger.Summary `json:"summary,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// Hash is that of the data of an etcd member at a revision.
type Hash struct {
	Cluster  string `json:"cluster"`
	Member   string `json:"member"`
	Revision int64  `json:"revision"`
	Sum      uint32 `json:"sum"`
	Error    string `json:"error,omitempty"`
}

// Kind of the fault.
func (f *Fault) Kind() schedule.Kind { return schedule.KindOf(f.Drawn.Kind) }

// over is when it was over in every respect.
func (f *Fault) over(end time.Time) time.Time {
	if f.Healed.IsZero() {
		return end
	}
	return f.Healed
}

// Touches tells whether servers of a cluster are part of it.
func (f *Fault) Touches(cluster string) bool {
	for _, c := range f.Clusters {
		if c == cluster {
			return true
		}
	}
	return false
}

// Recovery is how long it took until all was well, from when the fault was over, and from when it began. A node that is started again is over
// when it is ready, and by then much has healed.
func (f *Fault) Recovery() string {
	switch {
	case f.Skipped != "":
		return "-"
	case f.Healed.IsZero():
		return "never"
	}
	return fmt.Sprintf("%.1f s (%.1f s since it began)", f.Healed.Sub(f.Ended).Seconds(), f.Healed.Sub(f.Began).Seconds())
}

// Bound is how long the clusters of a fault may take to be Ready again: as long as what is changed in them meanwhile may take, if that
// is longer.
func (r *Run) Bound(f *Fault) time.Duration {
	bound := f.Kind().Bound
	for _, c := range r.Changes {
		goesOn := c.Round == f.Round || c.Round < f.Round && (c.Ended.IsZero() || c.Ended.After(f.Began))
		if goesOn && f.Touches(c.Drawn.Cluster) {
			bound = max(bound, schedule.OperationOf(c.Drawn.Kind).Bound)
		}
	}
	return bound
}

// gap is the longest time without an acknowledged write of one lane of a cluster that began while something was going on.
func (r *Run) gap(clusters []string, from, to time.Time) (longest time.Duration) {
	in := func(name string) bool {
		for _, c := range clusters {
			if c == name {
				return true
			}
		}
		return false
	}
	for _, l := range r.Loads {
		if l.Summary == nil || !in(l.Cluster) {
			continue
		}
		for _, s := range l.Summary.Stalls {
			if s.ToMs > from.UnixMilli() && s.FromMs < to.UnixMilli() {
				longest = max(longest, time.Duration(s.ToMs-s.FromMs)*time.Millisecond)
			}
		}
	}
	return longest
}

// Gap is the longest time without an acknowledged write while a fault was made or healed.
func (r *Run) Gap(f *Fault) string {
	if f.Skipped != "" {
		return "-"
	}
	longest := r.gap(f.Clusters, f.Began, f.over(r.Ended))
	if longest == 0 {
		return "below 0.5 s"
	}
	return fmt.Sprintf("%.1f s", longest.Seconds())
}

// Said are the reasons that the clusters of a fault gave for not being Ready meanwhile.
func (r *Run) Said(f *Fault) []string {
	var out []string
	seen := map[string]bool{}
	for _, c := range f.Clusters {
		for _, h := range during(r.Ready[c], f.Began, f.over(r.Ended)) {
			if text := c + ": " + h.Reason; !h.OK && !seen[text] {
				seen[text] = true
				out = append(out, text)
			}
		}
	}
	return out
}

// during are the states that held at some time between two.
func during(all []Health, from, to time.Time) []Health {
	var out []Health
	for i, h := range all {
		ends := i+1 == len(all) || all[i+1].From.After(from)
		if h.From.Before(to) && ends {
			out = append(out, h)
		}
	}
	return out
}
