package redis

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// In the mode Replicated there is one primary with copies, and no cluster protocol: the servers decide nothing among
// themselves, so that the operator is the arbiter. What keeps the data safe:
//
//   - A server starts as a replica of nobody. It takes writes only when it is told to, and nobody copies it before, so that one
//     that comes back, empty or outdated, harms nobody.
//   - Clients get to a primary only through the Service <name>-primary, which names one pod. That name is the record of who has
//     the newest data, and outlives all pods. Another one is named before it is promoted, so that whoever takes itself for the
//     primary and is not named is a former one, or was handed over to by the one that is.
//   - A primary that has a copy takes writes only while a copy acknowledges them (min-replicas-to-write). Once nobody does, it
//     stops by itself, and another one may be made primary even though nobody can reach it to tell.
//
// To the rules that the modes share, such a cluster is one shard whose primary owns all slots, see inTermsOfShards.

// Appointment is who takes the writes, as the Service of the primary says.
type Appointment struct {
	// Pod is the name of the pod.
	Pod string
	// History is the replication id of its server since it became the primary: who was connected to it has the same.
	History string
	// Guard is for how long it takes writes at most after the last replica has acknowledged any; 0: for as long as it likes.
	Guard time.Duration
}

// FailoverCandidate is a pod that is about to take over from the appointed one: the Service of the primary names it already.
type FailoverCandidate struct {
	// Pod is the name of the pod; empty: there is none.
	Pod string
	// History is the replication id that its server was chosen by, to be promoted; empty: the appointed primary hands over to it.
	History string
	// Since is when the Service was led to a pod that is handed over to.
	Since time.Time
}

// planned tells whether a primary is to hand over to the candidate.
func (c FailoverCandidate) planned() bool { return c.Pod != "" && c.History == "" }

// Replication is how a server stands to the others.
type Replication struct {
	// Primary says that the server takes writes.
	Primary bool
	// ID of the history that the server has, and of the one that it went on from. A process that starts has one of its own.
	ID, FormerID string
	// HandsOver says that the server, a primary until then, has given the one that it asks all that it has and waits for its word.
	HandsOver bool
	// Silence is how long ago a replica last heard from the server that it asks, in whole seconds; Never: it never did.
	Silence time.Duration
}

// Never is the silence of a replica that was never connected to the server that it asks.
const Never time.Duration = math.MaxInt64

// Nobody is the address that a server asks that has not been told whom to ask: its own, at a port that nobody listens at.
var Nobody = Address{IP: "127.0.0.1", Port: 1}

// Parameters that keep a primary from taking writes that nobody copies.
const (
	writeGuard    = "min-replicas-to-write"
	writeGuardLag = "min-replicas-max-lag"
)

// replicatedStart is the part of the configuration that servers read when they start.
func replicatedStart() []directive {
	return []directive{
		{"cluster-enabled", []string{"no"}},
		{"replicaof", []string{Nobody.IP, strconv.Itoa(Nobody.Port)}},
		{"repl-ping-replica-period", []string{"1"}}, // So that silence means something, see Replication.
	}
}

// fencing is when a primary counts a replica as lost. How many it needs is told to the running server, see setMinReplicasOfPrimary.
func fencing(c *v1alpha1.RedisConfig) []directive {
	return []directive{{writeGuardLag, []string{strconv.Itoa(int(maxSilence(NodeTimeout(c)).Seconds()))}}}
}

// maxSilence is how long a primary takes writes without hearing from a replica: the node timeout, in whole seconds, and no less than replicas
// need to report.
func maxSilence(nodeTimeout time.Duration) time.Duration {
	return max((nodeTimeout + time.Second - 1).Truncate(time.Second), leastLag)
}

// nextReplicated decides on the next step in the mode Replicated. Who is the primary comes before everything that needs one.
func nextReplicated(s State) cluster.Plan {
	v := lookAhead(s)
	plan := cluster.Decide(v, replicatedPhases(), keepLastCopy)
	return plan.Refined(v.complement)
}

// complement puts in the place of a step what has to come before it in this mode, as long as there is something.
func (v *view) complement(plan cluster.Plan) cluster.Plan {
	switch s := plan.Step.(type) {
	case Failover:
		plan = v.prepareHandOver(plan, s)
	case Restart, ScaleShards:
		if before := v.unguard(s); before != nil {
			plan.Step, plan.Reason, plan.After = before, before.Meta().Reason, atOnce
		}
	}
	if plan.Settled() {
		plan.After = v.Spec.NodeTimeout // Nobody but the operator notices that the primary hangs. That it has ended Kubernetes tells.
	}
	return v.tellHeldBack(plan).WithTerminating(v.terminatingClaims())
}

// inTermsOfShards completes what servers say of themselves to what they would say in a cluster of one shard: who is a primary
// owns all slots, and everybody knows everybody.
func inTermsOfShards(s State) State {
	s.Pods = slices.Clone(s.Pods)
	at := map[Address]string{}
	for _, p := range s.Pods {
		if p.Node != nil {
			at[p.Addr] = p.Node.ID
		}
	}
	var peers []Peer
	for _, p := range s.Pods {
		if p.Node == nil {
			continue
		}
		self := Peer{ID: p.Node.ID, Addr: p.Addr, Host: p.Node.Self().Host, Replica: !p.Node.Replication.Primary}
		if self.Replica {
			self.PrimaryID = at[p.Node.Asks]
		} else {
			self.Slots = Slots{{From: 0, To: SlotCount - 1}}
		}
		peers = append(peers, self)
	}
	for i, p := range s.Pods {
		if p.Node == nil {
			continue
		}
		n := *p.Node
		n.Peers, n.report = slices.Clone(peers), nil
		for j := range n.Peers {
			n.Peers[j].Myself = n.Peers[j].ID == n.ID
		}
		s.Pods[i].Node = &n
	}
	return s
}

// leader is the server that takes the writes: the appointed one, the one that it has handed over to, or the one that it has its data from. Who is a primary besides
// was replaced, and does not know it yet. While nobody is appointed it is the only one that is a primary. It is nil when there is none.
func (v *view) leader() *Pod {
	all := v.leaders()
	if c := v.Candidate; c.Pod != "" && c.History != "" {
		if i := slices.IndexFunc(all, func(p *Pod) bool { return p.Name == c.Pod }); i >= 0 {
			return all[i]
		}
		if p := v.podNamed(c.Pod); p != nil && p.unheard() {
			return nil // It may have been promoted.
		}
	}
	if v.Appointed.Pod == "" && len(all) == 1 {
		return all[0]
	}
	if i := slices.IndexFunc(all, func(p *Pod) bool { return p.Name == v.Appointed.Pod }); i >= 0 {
		return all[i]
	}
	if i := slices.IndexFunc(all, func(p *Pod) bool { return v.Candidate.planned() && p.Name == v.Candidate.Pod }); i >= 0 {
		return all[i]
	}
	if i := slices.IndexFunc(all, func(p *Pod) bool { return p.Node.Replication.FormerID == v.Appointed.History }); i >= 0 {
		return all[i]
	}
	return v.source(v.podNamed(v.Appointed.Pod))
}

// source is the primary that a server has its data from, by way of others or not; nil when it is not known of any that it has.
func (v *view) source(of *Pod) *Pod {
	if of == nil || of.Node == nil || (!of.Node.LinkUp && of.Node.Replication.ID == v.Appointed.History) {
		return nil
	}
	all := v.everyPod()
	for range all { // They may copy each other.
		i := slices.IndexFunc(all, of.copied)
		if i < 0 || all[i].Node == nil {
			return nil
		}
		if of = all[i]; of.Node.Replication.Primary {
			return of
		}
	}
	return nil
}

// leaders are all servers that take writes, those of pods that are on their way out included.
func (v *view) leaders() []*Pod {
	var out []*Pod
	for _, p := range v.everyPod() {
		if p.Node != nil && p.Node.Replication.Primary {
			out = append(out, p)
		}
	}
	return out
}

// copies are the replicas that have all data of the primary.
func (v *view) copies(leader *Pod) []*Pod {
	return slices.DeleteFunc(slices.Clone(v.read), func(p *Pod) bool { return !v.inSync(p, leader) })
}

// inSync tells whether a replica has all data of the primary. A connection that carries nothing counts for a minute with the replica itself, and the
// primary does without it long before. After a primary has hung only its replicas have heard nothing: it misses none of them.
func (v *view) inSync(p, leader *Pod) bool {
	return v.linked(p, leader) && (p.Node.Replication.Silence < v.guardLag(leader)+noticed || !v.misses(leader))
}

func (v *view) linked(p, leader *Pod) bool {
	return p != leader && !p.Node.Loading && p.follows(leader)
}

// misses tells whether a primary hears of fewer replicas than take themselves for connected to it, as far as it says so.
func (v *view) misses(leader *Pod) bool {
	linked := 0
	for _, p := range v.read {
		if v.linked(p, leader) {
			linked++
		}
	}
	return leader.Node.Acknowledging == nil || *leader.Node.Acknowledging < linked
}

// refuseTwoPrimaries stops where several servers are primaries and nobody was ever appointed: somebody has told them to.
func refuseTwoPrimaries(v *view) (cluster.Plan, bool) {
	if all := v.leaders(); len(all) > 1 && v.Appointed.Pod == "" {
		return cluster.Refuse(ReasonRivals,
			"the pods %v are all primaries, and clients were sent to none of them: run REPLICAOF on all but the one whose data is to stay", names(all))
	}
	return cluster.Pass()
}
