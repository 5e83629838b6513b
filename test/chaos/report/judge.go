package report

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/quorate/quorate/test/chaos/schedule"
	"github.com/quorate/quorate/test/e2e/load/ledger"
	"github.com/quorate/quorate/test/e2e/load/updates"
)

// Verdict is whether one promise was kept.
type Verdict struct {
	Promise string `json:"promise"`
	Kept    bool   `json:"kept"`
	// Text gives the figures, or what went wrong.
	Text string `json:"text"`
}

const (
	// around is how long before and after a fault a write may have gone that the fault took with it: what a replica had not been sent yet,
	// and what an old primary took before it heard of the new one. A loss is noticed within a second or so while the data store answers.
	around = 5 * time.Second
	// aftermath is how long after the end of a fault its consequences may take a write: a failover
	// that the fault has caused, with some time for slow machines. What is lost later, although the
	// cluster has not healed, was lost by a planned step.
	aftermath = 20 * time.Second
	// silent is how long a cluster may take no write before its conditions have to say that something is wrong.
	silent = 20 * time.Second
)

// Judge holds a run against every promise that there is a data store for.
func Judge(r *Run) []Verdict {
	out := []Verdict{r.wentOn(), r.checked()}
	if r.has(true) {
		out = append(out, r.etcdLostNothing(), r.oneClusterID(), r.watchersSawAll(), r.linearizable(), r.sameData())
	}
	if r.has(false) {
		out = append(out, r.redisLostNothingPlanned())
	}
	return append(out, r.healed(), r.changed(), r.operatorStayed(), r.conditionsSaid())
}

// Kept tells whether all promises were.
func Kept(verdicts []Verdict) bool {
	return !slices.ContainsFunc(verdicts, func(v Verdict) bool { return !v.Kept })
}

// verdict is kept when nothing is wrong; then the text is the figures.
func verdict(promise string, wrong []string, figures string, args ...any) Verdict {
	if len(wrong) > 0 {
		return Verdict{promise, false, strings.Join(wrong, "; ")}
	}
	return Verdict{promise, true, fmt.Sprintf(figures, args...)}
}

func (r *Run) store(cluster string) schedule.Store {
	for _, c := range r.Clusters {
		if c.Name == cluster {
			return c.Store
		}
	}
	return ""
}

// loads are those with a summary, of etcd or of the others.
func (r *Run) loads(etcd bool) []Load {
	return slices.DeleteFunc(slices.Clone(r.Loads), func(l Load) bool {
		return l.Summary == nil || (r.store(l.Cluster) == schedule.Etcd) != etcd
	})
}

// has tells whether there is an etcd cluster, or one of the others.
func (r *Run) has(etcd bool) bool {
	return slices.ContainsFunc(r.Clusters, func(c schedule.Cluster) bool { return (c.Store == schedule.Etcd) == etcd })
}

func (r *Run) wentOn() Verdict {
	made := 0
	for _, f := range r.Faults {
		if f.Skipped == "" && f.Error == "" {
			made++
		}
	}
	wrong := slices.Clone(r.Broken)
	if made == 0 {
		wrong = append(wrong, "no fault was made")
	}
	return verdict("the run came to its end", wrong, "%d faults and %d planned operations in %d rounds", made, len(r.Changes), len(r.Rounds))
}

func (r *Run) checked() Verdict {
	var wrong []string
	acked := 0
	for _, l := range r.Loads {
		switch {
		case l.Error != "":
			wrong = append(wrong, l.Name+": "+l.Error)
		case l.Summary == nil || !l.Summary.Checked:
			wrong = append(wrong, l.Name+" has not checked")
		case l.Summary.Acked == 0:
			wrong = append(wrong, l.Name+": no write was acknowledged")
		case l.Summary.Updates == nil || l.Summary.Updates.Acked == 0:
			wrong = append(wrong, l.Name+": no update was acknowledged")
		default:
			acked += l.Summary.Acked
		}
	}
	if len(r.Loads) == 0 {
		wrong = append(wrong, "nobody wrote")
	}
	return verdict("every acknowledged write was looked for", wrong, "%d acknowledged writes of %d writers", acked, len(r.Loads))
}

func (r *Run) etcdLostNothing() Verdict {
	var wrong []string
	acked := 0
	for _, l := range r.loads(true) {
		s := l.Summary
		acked += s.Acked
		if s.Lost+s.Stale+s.OutOfOrder > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %d lost (%v), %d at a lower revision, %d out of order", l.Name, s.Lost, s.LostKeys, s.Stale, s.OutOfOrder))
		}
		if s.Returned > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %d gone for a while (%v)", l.Name, s.Returned, s.Returns[:min(len(s.Returns), 5)]))
		}
		if u := s.Updates; u != nil && u.Wrong > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %d wrong updates (%+v)", l.Name, u.Wrong, u.Faults[:min(len(u.Faults), 5)]))
		}
	}
	return verdict("etcd lost no acknowledged write, and its revision only grew", wrong, "0 of %d", acked)
}

func (r *Run) oneClusterID() Verdict {
	var wrong []string
	for _, l := range r.loads(true) {
		if len(l.Summary.ClusterIDs) != 1 {
			wrong = append(wrong, fmt.Sprintf("%s: cluster ids %v", l.Name, l.Summary.ClusterIDs))
		}
	}
	return verdict("the id of the etcd cluster stayed", wrong, "the same in every acknowledgement")
}

func (r *Run) watchersSawAll() Verdict {
	var wrong []string
	events := 0
	for _, l := range r.loads(true) {
		w := l.Summary.Watch
		if w == nil {
			wrong = append(wrong, l.Name+" had no watcher")
			continue
		}
		events += w.Events
		if w.Broken() {
			wrong = append(wrong, fmt.Sprintf("%s: %d missing, %d at another revision, %d twice, %d out of order, %d interruptions",
				l.Name, w.Missing, w.Differing, w.Duplicate, w.Unordered, w.Interrupted))
		}
	}
	return verdict("a watcher of etcd was told of every write, once and in order", wrong, "%d events", events)
}

func (r *Run) linearizable() Verdict {
	var wrong []string
	operations, unknown := 0, 0
	for _, l := range r.loads(true) {
		g := l.Summary.Registers
		if g == nil || g.Operations == 0 {
			wrong = append(wrong, l.Name+" had no registers")
			continue
		}
		operations, unknown = operations+g.Operations, unknown+g.Unknown
		if g.Result != "Ok" {
			wrong = append(wrong, fmt.Sprintf("%s: the history of %d operations is %s", l.Name, g.Operations, g.Result))
		}
	}
	return verdict("reads, writes and compare-and-swaps of etcd are linearizable (porcupine)", wrong, "%d operations, %d without an answer", operations, unknown)
}

func (r *Run) sameData() Verdict {
	var wrong []string
	sums := map[string]map[uint32]bool{}
	for _, h := range r.Hashes {
		if h.Error != "" {
			wrong = append(wrong, h.Member+": "+h.Error)
			continue
		}
		if sums[h.Cluster] == nil {
			sums[h.Cluster] = map[uint32]bool{}
		}
		sums[h.Cluster][h.Sum] = true
	}
	for cluster, s := range sums {
		if len(s) != 1 {
			wrong = append(wrong, fmt.Sprintf("the members of %s differ: %+v", cluster, r.Hashes))
		}
	}
	if len(r.Hashes) < 3 {
		wrong = append(wrong, fmt.Sprintf("only %d members were asked", len(r.Hashes)))
	}
	return verdict("all members of etcd have the same data at one revision (HashKV)", wrong, "%d members", len(r.Hashes))
}

// redisLostNothingPlanned: what was lost has to have gone while a server was being broken. Everything else was lost by a planned operation,
// or by nothing at all.
func (r *Run) redisLostNothingPlanned() Verdict {
	var wrong, figures []string
	for _, l := range r.loads(false) {
		planned, by := r.losses(l)
		if len(planned) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s (%s): %d lost while no server was broken, the first: %s", l.Name, l.Class, len(planned), strings.Join(planned[:min(len(planned), 5)], ", ")))
		}
		figures = append(figures, fmt.Sprintf("%s (%s): 0 planned, %d unplanned%s of %d", l.Name, l.Class, l.Summary.Lost, by, l.Summary.Acked))
	}
	return verdict("Redis and Valkey lost nothing in planned operations", wrong, "%s", strings.Join(figures, "; "))
}

// losses are the lost writes of a load that no fault explains, and the others in words, by what explains them.
func (r *Run) losses(l Load) (unexplained []string, explained string) {
	by := map[string]int{}
	losses, never := allLosses(l.Summary)
	unexplained = append(unexplained, never...)
	for _, loss := range losses {
		seen, missed := time.UnixMilli(loss.SeenMs), time.UnixMilli(loss.MissedMs)
		kind := r.explains(l.Cluster, seen, missed)
		if kind == "" {
			unexplained = append(unexplained, fmt.Sprintf("%s, acknowledged at %s, there until %s, gone at %s", loss.Key,
				time.UnixMilli(loss.AckedMs).UTC().Format(time.TimeOnly), seen.UTC().Format(time.TimeOnly), missed.UTC().Format(time.TimeOnly)))
			continue
		}
		by[kind]++
	}
	more := l.Summary.Lost - len(l.Summary.Losses) + l.Summary.Returned - len(l.Summary.Returns)
	if u := l.Summary.Updates; u != nil {
		more += u.Wrong - len(u.Faults)
	}
	if more > 0 {
		unexplained = append(unexplained, fmt.Sprintf("and %d more", more))
	}
	var parts []string
	for kind, n := range by {
		parts = append(parts, fmt.Sprintf("%s %d", kind, n))
	}
	sort.Strings(parts)
	if len(parts) > 0 {
		explained = " (" + strings.Join(parts, ", ") + ")"
	}
	return unexplained, explained
}

// allLosses are the lost writes, those that were gone for a while, and the lost updates. never are
// faults that asynchronous replication does not explain: an update that was applied twice, and a
// value that no writer sent.
func allLosses(s *ledger.Summary) (losses []ledger.Loss, never []string) {
	losses = slices.Concat(s.Losses, s.Returns)
	if s.Updates == nil {
		return losses, nil
	}
	for _, f := range s.Updates.Faults {
		text := fmt.Sprintf("%s %s: %s instead of %s", f.Key, f.Kind, f.Got, f.Want)
		if f.Kind == updates.AppliedTwice || f.Kind == updates.Foreign {
			never = append(never, text)
			continue
		}
		losses = append(losses, ledger.Loss{Key: text, AckedMs: f.AckedMs, SeenMs: f.SeenMs, MissedMs: f.MissedMs})
	}
	return losses, never
}

// explains names the kind of fault that may have lost a write of a cluster that was there at one time and gone at another, empty when
// there is none.
func (r *Run) explains(cluster string, seen, missed time.Time) string {
	for _, f := range r.Faults {
		if f.Skipped == "" && f.Kind().Loses && f.Touches(cluster) && missed.After(f.Began.Add(-around)) && seen.Before(f.takesUntil(r.Ended)) {
			return f.Drawn.Kind
		}
	}
	return ""
}

// takesUntil is when the last write that a fault may take with it was acknowledged: shortly after
// its end. A server that was told to end serves for up to its grace period.
func (f *Fault) takesUntil(end time.Time) time.Time {
	healed := f.over(end).Add(around)
	if f.Ended.IsZero() {
		return healed
	}
	if until := f.Ended.Add(f.Kind().Grace + aftermath); until.Before(healed) {
		return until
	}
	return healed
}

func (r *Run) healed() Verdict {
	var wrong []string
	var slowest time.Duration
	name := ""
	for _, f := range r.Faults {
		switch took := f.Healed.Sub(f.Ended); {
		case f.Skipped != "":
		case f.Error != "":
			wrong = append(wrong, fmt.Sprintf("round %d, %s of %s: %s", f.Round, f.Drawn.Kind, f.Target, f.Error))
		case f.Healed.IsZero():
			wrong = append(wrong, fmt.Sprintf("round %d, %s of %s: never Ready again", f.Round, f.Drawn.Kind, f.Target))
		case took > r.Bound(f):
			wrong = append(wrong, fmt.Sprintf("round %d, %s of %s: Ready again after %.0f s, later than %s", f.Round, f.Drawn.Kind, f.Target, took.Seconds(), r.Bound(f)))
		case took > slowest:
			slowest, name = took, f.Drawn.Kind
		}
	}
	return verdict("after each fault all was Ready again within its bound, with nobody's help", wrong, "the slowest: %.1f s (%s)", slowest.Seconds(), name)
}

func (r *Run) changed() Verdict {
	var wrong []string
	for _, c := range r.Changes {
		if c.Error != "" || c.Ended.IsZero() {
			wrong = append(wrong, fmt.Sprintf("round %d, %s of %s: %s", c.Round, c.Drawn.Kind, c.Drawn.Cluster, c.Error))
		}
	}
	return verdict("every planned operation was completed", wrong, "%d", len(r.Changes))
}

// operatorStayed: its processes end by our hand, or because they could not renew their lease while the API server stood still.
func (r *Run) operatorStayed() Verdict {
	var wrong []string
	for _, e := range r.Ends {
		if e.Panic != "" {
			wrong = append(wrong, fmt.Sprintf("%s: %s", e.Pod, e.Panic))
			continue
		}
		ours := slices.ContainsFunc(r.Faults, func(f *Fault) bool {
			return f.Kind().Restarts && f.Skipped == "" && e.At.After(f.Began.Add(-2*time.Second)) && e.At.Before(f.Ended.Add(30*time.Second))
		})
		if !ours {
			wrong = append(wrong, fmt.Sprintf("%s ended at %s: %s (exit code %d)", e.Pod, e.At.UTC().Format(time.TimeOnly), e.Why, e.Code))
		}
	}
	return verdict("the operator ended by our hand only, and never panicked", wrong, "%d ends", len(r.Ends))
}

// conditionsSaid: whoever is not Ready gives a reason, and no cluster is silent while it takes no writes.
func (r *Run) conditionsSaid() Verdict {
	var wrong []string
	reasons := map[string]bool{}
	for _, c := range r.Clusters {
		for _, h := range r.Ready[c.Name] {
			if h.OK {
				continue
			}
			reasons[h.Reason] = true
			if h.Reason == "" || h.Text == "" {
				wrong = append(wrong, fmt.Sprintf("%s was not Ready at %s without a reason", c.Name, h.From.UTC().Format(time.TimeOnly)))
			}
		}
	}
	for _, l := range r.Loads {
		if l.Summary == nil {
			continue
		}
		for _, s := range l.Summary.Stalls {
			from, to := time.UnixMilli(s.FromMs), time.UnixMilli(s.ToMs)
			if to.Sub(from) >= silent && !r.mute(from, to) && !slices.ContainsFunc(during(r.Ready[l.Cluster], from, to.Add(around)), func(h Health) bool { return !h.OK || !h.Available }) {
				wrong = append(wrong, fmt.Sprintf("%s took no write of %s from %s for %.0f s, and said that it was Ready (a client saw: %s)",
					l.Cluster, s.Lane, from.UTC().Format(time.TimeOnly), to.Sub(from).Seconds(), cmp.Or(s.Why, "nothing")))
			}
		}
	}
	return verdict("conditions said why", wrong, "%d reasons: %s", len(reasons), strings.Join(sorted(reasons), ", "))
}

// mute tells whether the operator could not say anything at a time, because it was itself hit, or what it speaks through.
func (r *Run) mute(from, to time.Time) bool {
	return slices.ContainsFunc(r.Faults, func(f *Fault) bool {
		return f.Kind().Scope == schedule.World && f.Skipped == "" && f.Began.Before(to) && f.over(r.Ended).After(from)
	})
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for s := range set {
		out = append(out, s)
	}
	sort.Strings(out)
	return out
}
