package facts

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Noticed is how much later than a replica at the latest a primary notices that the two do not hear of each other: the replica may have
// reported once more, which it does every second, both count in whole seconds, and the primary looks once a second.
const Noticed = 4 * time.Second

// ComesBackWithMore tells whether the appointed server has acknowledged writes, on a disk that is there or may come back, which the one that got furthest
// was never sent: nobody had to copy them, as far as is written down, or that one was out of sync.
func ComesBackWithMore(v *model.View, was, best *model.Pod) bool {
	if v.Appointed.Guard > 0 && (best == nil || wasInSync(v, was, best)) {
		return false
	}
	if was != nil && was.Node != nil {
		r := was.Node.Replication
		return r.ID != v.Appointed.History && r.FormerID != v.Appointed.History && (was.Node.Loading || was.Node.Keys > 0)
	}
	lost := func(c model.Claim) bool {
		return c.Lost != "" && cluster.Pod(cluster.ShardSet(v.Spec.Name, c.Shard), c.Ordinal) == v.Appointed.Pod
	}
	return outageOfPod(v, v.Appointed.Pod).Returns && !slices.ContainsFunc(v.Claims, lost)
}

// wasInSync tells whether a candidate copied a primary until that ended, or to within the time that
// the two take to notice. Its label is from when it was last read, and says nothing about a time in
// which it could not be read. If all other servers are there, the one that got furthest has all
// that any of them acknowledged; else it has to have heard the primary for as long as that may have
// led.
func wasInSync(v *model.View, was, heir *model.Pod) bool {
	if heir.Role != model.RoleReplica {
		return false
	}
	if allCandidates(v, was) {
		return true
	}
	end := v.Now // Its pod has just gone.
	if was != nil {
		end = was.Ended
	}
	if was != nil && Unheard(was) && was.Unready.After(end) {
		end = was.Unready
	}
	heard := v.Now.Add(-heir.Node.Replication.Silence)
	return !heard.Before(end.Add(-v.Appointed.Guard - Noticed))
}

// allCandidates tells whether all other servers are there, and have the history of the appointed primary.
func allCandidates(v *model.View, was *model.Pod) bool {
	others := slices.DeleteFunc(v.EveryPod(), func(p *model.Pod) bool { return p == was })
	return len(others) >= v.Spec.Replicas && !slices.ContainsFunc(others, func(p *model.Pod) bool { return p.Node == nil || !isCandidate(v, p) })
}

// isCandidate tells whether a server has the history of the appointed primary, or went on from it.
func isCandidate(v *model.View, p *model.Pod) bool {
	r := p.Node.Replication
	return !p.Node.Loading && (r.ID == v.Appointed.History || r.FormerID == v.Appointed.History)
}

// Unheard tells whether a server seems to run and could not be read.
func Unheard(p *model.Pod) bool { return p.Node == nil && !p.Started.IsZero() }

// UnheardCandidate is a server that may have more than all that answer; nil when there is none. One that is about to end is no use, unless it may lead.
// One that hangs while the appointed server hands over to it has no more than that one.
func UnheardCandidate(v *model.View, was *model.Pod) *model.Pod {
	lost := was != nil && Unheard(was)
	handing := was != nil && was.Node != nil && !was.Deleting && was.Node.Replication.HandsOver && was.Node.Replication.ID == v.Appointed.History
	for _, p := range v.EveryPod() {
		if p != was && Unheard(p) && (!handing || !copiedFrom(was, p) || !p.Hangs) && (lost || !p.Deleting || tookOver(v, p, was)) {
			return p
		}
	}
	return nil
}

// tookOver tells whether a server leads as far as the appointed one knows, which has another history since.
func tookOver(v *model.View, p, was *model.Pod) bool {
	return was != nil && copiedFrom(was, p) && was.Node.Replication.ID != v.Appointed.History
}

// copiedFrom tells whether a server was last told to copy another one.
func copiedFrom(p *model.Pod, from *model.Pod) bool { return p.Node != nil && p.Node.Asks == from.Addr }

// HandsOver is the server that a primary is handing over to: each asks the other. Nil: there is none.
func HandsOver(v *model.View, was *model.Pod) *model.Pod {
	for _, p := range v.EveryPod() {
		if was != nil && copiedFrom(was, p) && copiedFrom(p, was) {
			return p
		}
	}
	return nil
}

// FurthestCandidate is the server that has most of the history of the appointed primary; nil when none has any. Of several with as much it is that one itself:
// it may be handing over, which nobody else can end; or one that has it on its disk, too.
func FurthestCandidate(v *model.View, was *model.Pod) *model.Pod {
	if was != nil && was.Deleting {
		was = HandsOver(v, was)
	}
	var best *model.Pod
	for _, p := range v.Readable {
		if !isCandidate(v, p) {
			continue
		}
		if best == nil || p.Node.Offset > best.Node.Offset ||
			(p.Node.Offset == best.Node.Offset && (p == was || (best != was && p.Node.OnDisk && !best.Node.OnDisk))) {
			best = p
		}
	}
	return best
}
