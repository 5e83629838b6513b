package redis

import (
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// A process that stands still (its disk does not answer, or it was stopped) ends neither by itself nor by its probes: the kernel takes connections
// for it. Where others see that as well, its pod is deleted:
//
//	the server                                     is ended
//	was a primary whose slots others own by now    at once: going on, it would first answer what clients have sent it meanwhile
//	copies a primary that answers                  when it has hung for hopeless
//	leads, and nobody has replaced it              when it has hung for hopeless, and its data is on a volume or was copied to the end
//	may have more than those that answer           never: a process that has been started anew does not tell how far it had got
//
// Where no server answers, it may be the operator that is cut off, and nothing is done.

// hopeless is how long a server that hangs is waited for: longer than Kubernetes takes to find that it is the whole node.
const hopeless = unreported + 30*time.Second

// ReasonEndHung is the reason of the step.
const ReasonEndHung = "EndingHungServers"

// Hangs are since when, and until when, servers were seen to hang at every look, by the UID of the pod.
type Hangs map[string]hang

type hang struct{ process, first, last time.Time }

// inattention is the longest time between two looks at a server that hangs in which nobody can say that it went on meanwhile.
const inattention = 20 * time.Second

// Watch notes it in a state.
func (h Hangs) Watch(s *State) {
	seen := Hangs{}
	for i := range s.Pods {
		p := &s.Pods[i]
		if !p.Hangs {
			continue
		}
		was, known := h[p.UID]
		if !known || !was.process.Equal(p.Started) || s.Now.Sub(was.last) > inattention {
			was = hang{process: p.Started, first: s.Now}
		}
		was.last = s.Now
		seen[p.UID] = was
		p.HungFor = s.Now.Sub(was.first)
	}
	clear(h)
	maps.Copy(h, seen)
}

// endHung ends servers that hang.
func endHung(v *view) (cluster.Plan, bool) {
	for i := range v.Pods {
		p := &v.Pods[i]
		step := Restart{Pods: []PodRef{p.ref()}, Cause: ReasonEndHung, Hung: true}
		switch {
		case !v.hangsAlone(p):
		case v.displaced(p):
			return cluster.Do(step, "%s hangs, and others own its slots by now: going on, it would answer what clients have sent it meanwhile", p.Name)
		case p.HungFor >= hopeless && v.dispensable(p):
			return cluster.Do(step, "%s takes connections and has answered none for %s, and nobody else hears of it", p.Name, hopeless)
		}
	}
	return cluster.Pass()
}

// hangsAlone tells whether a server hangs, and neither its whole node nor the operator does.
func (v *view) hangsAlone(p *Pod) bool {
	return p.Hangs && !p.Deleting && !p.NodeLost && len(v.read) > 0
}

// doomed tells whether a server is ended if it goes on to hang.
func (v *view) doomed(p *Pod) bool { return p != nil && v.hangsAlone(p) && v.dispensable(p) }

// displaced tells whether a server was a primary of the mode Sharded, and others own all that it had.
func (v *view) displaced(p *Pod) bool {
	all := v.ghostsOf(p)
	for _, g := range all {
		if !g.dead || !g.failed || !g.primary || len(v.stillOwned(g)) > 0 {
			return false
		}
	}
	return len(all) > 0 && v.primary(p.Shard) != nil
}

// dispensable tells whether nobody hears of a server any more, and what is on its disk is all that anybody could want of it.
func (v *view) dispensable(p *Pod) bool {
	if v.Spec.Replicated {
		return v.dispensableReplicated(p)
	}
	all := v.ghostsOf(p)
	remains := func(g ghost) bool {
		best := v.successor(g)
		return len(v.stillOwned(g)) > 0 && (v.Spec.Persistent || (best != nil && v.followed(g, best)))
	}
	return !slices.ContainsFunc(all, lives) && (v.primary(p.Shard) != nil || slices.ContainsFunc(all, remains))
}

// lives tells whether some server has not found that a node does not answer.
func lives(g ghost) bool { return !g.dead }

// ghostsOf are the nodes that were the server of a pod that does not answer, as far as others know.
func (v *view) ghostsOf(p *Pod) []ghost {
	return slices.DeleteFunc(v.ghosts(), func(g ghost) bool { return g.pod != p.Name })
}

// dispensableReplicated is the same in the mode Replicated. The appointed primary is only ended where nobody could take its place.
func (v *view) dispensableReplicated(p *Pod) bool {
	if leader := v.leader(); leader != nil {
		return leader.Node.Copies <= len(v.copies(leader)) // It hears from no more of them than answer.
	}
	if p.Name != v.Appointed.Pod || (v.Appointed.Guard > 0 && (v.furthestHeir(p) != nil || v.unheardHeir(p) != nil)) {
		return false
	}
	return v.Spec.Persistent && !slices.ContainsFunc(v.everyPod(), func(o *Pod) bool { return o.copied(p) && o.Node.Replication.Silence < hopeless })
}
