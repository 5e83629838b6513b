package redis

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// A process that stands still (its disk does not answer, or it was stopped) does not end by itself, and as long as the kernel takes connections for it
// its probes pass. Where others see that as well, its pod is deleted:
//
//	the server                                     is ended
//	was a primary, and others own all its slots    at once: going on, it would first answer what clients have sent it meanwhile
//	copies a primary that answers                  when it has hung for hopeless
//	leads, and nobody has replaced it              when it has hung for hopeless, and its data is on a volume
//	may have more than those that answer           never: a process that has been started anew does not tell how far it had got
//	starts, and has not been heard of yet          never: it loads its data, and would begin again
//
// Where no server answers, it may be the operator that is cut off, and nothing is done.

// End ends servers that hang, which would not end by themselves.
type End struct {
	Pods []PodRef
	// Former says that they are former primaries of the mode Replicated. Where they cannot be ended,
	// clients find the new primary all the same.
	Former bool
}

// ReasonEnd is the reason of End.
const ReasonEnd = "EndingHungServers"

func (s End) String() string { return "end " + list(s.Pods, func(p PodRef) string { return p.Name }) }

// hopeless is how long a server that hangs is waited for: longer than Kubernetes takes to find that it is the whole node.
const hopeless = unreported + 30*time.Second

// Processes are what was seen of the process in each pod, by the UID of the pod.
type Processes map[string]process

type process struct {
	pod     string
	started time.Time
	// answered says that it has answered, hangs that it has hung at every look from first to last.
	answered, hangs bool
	first, last     time.Time
	// stood is when the operator last had it stand for election; zero: never.
	stood time.Time
	log   appendLog
}

// inattention is the longest time between two looks at a server that hangs in which nobody can say that it went on meanwhile.
const inattention = time.Minute

// Watch notes it in a state. Once the queue of a server that hangs is full, the kernel takes no more connections for it, those of the kubelet included,
// which asks from the same node: that it does not find the pod ready tells a full queue from a network that is cut.
func (h Processes) Watch(s *State) {
	exists := map[string]bool{}
	for i := range s.Pods {
		p := &s.Pods[i]
		exists[p.UID] = true
		h[p.UID] = p.remember(h[p.UID], s.Now, s.Spec.Live[appendFsync])
	}
	for uid, was := range h {
		switch gone := s.Now.Sub(was.last); {
		case exists[uid]:
		case gone > inattention || !was.hangs:
			delete(h, uid)
		default:
			s.Ended = append(s.Ended, Ending{was.pod, gone})
		}
	}
}

// remember compares a pod with what was seen of it before.
func (p *Pod) remember(was process, now time.Time, fsync string) process {
	if !was.started.Equal(p.Started) {
		was = process{}
	}
	known := was.hangs && now.Sub(was.last) <= inattention
	full := p.TimedOut && !p.Started.IsZero() && !p.Ready
	p.Hangs = p.Hangs || full || (known && p.TimedOut)
	if was.stood.After(p.Stood) { // The cached pod may not have the annotation yet.
		p.Stood = was.stood
	}
	p.Answered = was.answered || (p.Node != nil && !p.Node.Loading)
	is := process{pod: p.Name, started: p.Started, first: now, last: now, answered: p.Answered, hangs: p.Hangs, stood: p.Stood, log: p.watchLog(was.log, fsync)}
	if known && p.Hangs {
		is.first = was.first
	}
	p.HungFor = now.Sub(is.first)
	return is
}

// Ending is a pod that is gone, whose server hung to the last, and for how long it has been gone.
type Ending struct {
	Pod string
	For time.Duration
}

// endUnresponsive ends servers that hang.
func endUnresponsive(v *view) (cluster.Plan, bool) {
	for i := range v.Pods {
		p := &v.Pods[i]
		step := End{Pods: []PodRef{p.ref()}}
		switch {
		case !v.hangsAlone(p):
		case p.HungFor > 0 && v.displaced(p):
			return cluster.Do(step, "%s hangs, and others own its slots by now: going on, it would answer what clients have sent it meanwhile", p.Name)
		case p.HungFor >= hopeless && v.dispensable(p):
			return cluster.Do(step, "%s takes connections and has answered none for %s, and nobody else hears of it", p.Name, hopeless)
		}
	}
	return cluster.Pass()
}

// hangsAlone tells whether a server hangs, and neither its whole node nor the operator does.
func (v *view) hangsAlone(p *Pod) bool {
	return p.Hangs && !p.Deleting && !p.NodeLost && len(v.read) > 0 && p.Shard >= 0 && p.Shard < len(v.shards)
}

// doomed tells whether a server is ended if it goes on to hang.
func (v *view) doomed(p *Pod) bool { return p != nil && v.hangsAlone(p) && v.dispensable(p) }

// fate says that a server is ended if it goes on to hang, empty when it is not.
func (v *view) fate(p *Pod) string {
	if !v.doomed(p) {
		return ""
	}
	return fmt.Sprintf("; it is ended when that has lasted for %s", hopeless)
}

// displaced tells whether a server was a primary of the mode Sharded, and others own all that it had.
func (v *view) displaced(p *Pod) bool {
	all := v.ghostsOf(p)
	for _, g := range all {
		if !v.silenced(g, p) || !g.failed || !g.primary || len(v.unclaimed(g)) > 0 {
			return false
		}
	}
	return len(all) > 0 && v.primary(p.Shard) != nil
}

// unclaimed are the slots of a ghost that no living node claims, one by one: stillOwned knows all or nothing.
func (v *view) unclaimed(g ghost) Slots {
	left := g.slots
	for shard := range v.shards {
		for _, o := range v.owners(shard) {
			left = left.Minus(o.Node.Self().Slots)
		}
	}
	return left
}

// dispensable tells whether nobody hears of a server any more, and what is on its disk is all that anybody could want of it.
func (v *view) dispensable(p *Pod) bool {
	if v.Spec.Replicated {
		return v.dispensableReplicated(p)
	}
	owns := false
	for _, g := range v.ghosts() {
		switch {
		case g.pod == "" && !g.dead:
			return false // It may be this one.
		case g.pod != p.Name:
		case !v.silenced(g, p):
			return false
		default:
			owns = owns || len(v.stillOwned(g)) > 0
		}
	}
	return v.primary(p.Shard) != nil || (owns && v.Spec.Persistent)
}

// silenced tells whether no server hears of a ghost any more, which was the process that runs in a pod: one that starts is not heard of either.
func (v *view) silenced(g ghost, p *Pod) bool {
	return g.dead && g.heard && v.Now.Sub(p.Started) > g.silent
}

// ghostsOf are the nodes that were the server of a pod that does not answer, as far as others know.
func (v *view) ghostsOf(p *Pod) []ghost {
	return slices.DeleteFunc(v.ghosts(), func(g ghost) bool { return g.pod != p.Name })
}

// dispensableReplicated is the same in the mode Replicated. The appointed primary is only ended where nobody could take its place.
func (v *view) dispensableReplicated(p *Pod) bool {
	if !p.Answered {
		return false
	}
	if leader := v.leader(); leader != nil {
		return leader.Node.Connected <= len(v.copies(leader)) // No other than those that answer is connected to it.
	}
	best := v.furthestHeir(p)
	succeeds := best != nil && !v.comesBackWithMore(p, best)
	if p.Name != v.Appointed.Pod || (v.Appointed.Guard > 0 && (succeeds || v.unheardHeir(p) != nil)) {
		return false
	}
	return v.Spec.Persistent && !slices.ContainsFunc(v.everyPod(), func(o *Pod) bool { return o.copied(p) && o.Node.Replication.Silence < hopeless })
}

// awaitedFor is for how long a server whose process has ended has been waited for. One that hung before was silent for longer.
func (v *view) awaitedFor(g ghost) time.Duration {
	p := v.podNamed(g.pod)
	if p != nil && !p.Unready.IsZero() {
		return min(g.silent, v.Now.Sub(p.Unready))
	}
	if i := slices.IndexFunc(v.Ended, func(e Ending) bool { return p == nil && e.Pod == g.pod }); i >= 0 {
		return min(g.silent, v.Ended[i].For)
	}
	return g.silent
}
