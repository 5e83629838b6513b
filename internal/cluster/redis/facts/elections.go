package facts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// Richer are the pods of a primary's shard that hold far more than it does, whatever they take themselves for: one that
// was the primary before learns only later that it is a replica now. A few keys more prove nothing: writes and expiry go
// on, and a crash may have cost the primary the last second of them.
func Richer(v *model.View, primary *model.Pod) []*model.Pod {
	var out []*model.Pod
	for _, p := range v.Readable {
		if p != primary && p.Shard == primary.Shard && p.Node.Keys > 2*primary.Node.Keys {
			out = append(out, p)
		}
	}
	return out
}

// ShardRead tells whether every pod of a shard could be read to the end.
func ShardRead(v *model.View, shard int) bool {
	if shard < 0 || shard >= len(v.Shards) {
		return false
	}
	for _, p := range v.Shards[shard] {
		if p.Node == nil || p.Node.Loading {
			return false
		}
	}
	return len(v.Shards[shard]) >= v.Size(shard)
}

// KnownToVoters tells whether a majority of the primaries lists a replica as one: a primary votes
// for no node that it does not know, or lists as a primary. In the mode Replicated there are no
// votes.
func KnownToVoters(v *model.View, replica *model.Pod) bool {
	if v.Spec.Replicated {
		return true
	}
	n := 0
	for shard := range v.Shards {
		if p := v.Primary(shard); p != nil {
			if known, ok := p.Node.Peer(replica.Node.ID); ok && known.Replica {
				n++
			}
		}
	}
	return 2*n > Voting(v)
}

// Voting counts the shards that have slots, as far as can be told, and so a vote.
func Voting(v *model.View) int {
	n := 0
	for shard := range v.Shards {
		if !v.Slotless(shard) {
			n++
		}
	}
	return n
}

// Knows tells whether one of two nodes has the other in its table.
func Knows(a, b *model.Pod) bool {
	_, ab := a.Node.Peer(b.Node.ID)
	_, ba := b.Node.Peer(a.Node.ID)
	return ab || ba
}

// CanFind reports whether a server has the node of a pod in its table, at the address of that pod.
func CanFind(n *model.Node, p *model.Pod) bool {
	peer, ok := n.Peer(p.Node.ID)
	return ok && !peer.NoAddr && peer.Addr == p.Addr
}

// Unlinked is for how long a replica has not been connected to its primary.
func Unlinked(v *model.View, p *model.Pod) time.Duration {
	if p.Node.EverLinked {
		return p.Node.LinkDown
	}
	return v.Now.Sub(p.Started)
}

// CandidateOf is the replica that has most of a departed node's data, nil for none.
func CandidateOf(g model.DepartedNode) *model.Pod {
	return Furthest(slices.DeleteFunc(slices.Clone(g.Replicas), func(p *model.Pod) bool { return wiped(g, p) }))
}

// Candidate is the server that owns the slots of a departed node's shard in its place; nil when
// there is none. Slots that are restored from a backup have none: the owner of other slots of that
// shard was loaded with them.
func Candidate(v *model.View, g model.DepartedNode) *model.Pod {
	shard := v.ShardOf(g.ID)
	if shard < 0 || shard >= len(v.Shards) || len(g.Replicas) > 0 || (v.Restore != nil && v.Restore.Slots.Overlaps(StillOwned(v, g))) {
		return nil
	}
	return v.Primary(shard)
}

// Unelectable tells whether gossip will not replace a dead node: its failure goes unnoticed, or none of its replicas stands
// for election.
func Unelectable(v *model.View, g model.DepartedNode) bool {
	return g.NoAddr || !slices.ContainsFunc(g.Replicas, func(p *model.Pod) bool { return StandsForElection(v, p) })
}

// StandsForElection tells whether a replica stands for election by itself: it has been connected to its primary since it started,
// and not too long ago.
func StandsForElection(v *model.View, p *model.Pod) bool {
	return p.Node.EverLinked && p.Node.LinkDown <= config.Validity(v.Spec.NodeTimeout)
}

// unreported is how long it takes Kubernetes at most to find that a node does not report, and that its pods are not ready.
const unreported = time.Minute

// EndedWithin is for how long a departed node may have been dead at most, as far as Kubernetes
// reports. A primary that other servers could not reach may have lived on, and taken writes, if it
// had a majority: a pod that was ready was not dead.
func EndedWithin(v *model.View, g model.DepartedNode) time.Duration {
	former := v.PodNamed(g.Pod)
	if former == nil || former.Unready.IsZero() || !mayHaveHadMajority(v, g) {
		return math.MaxInt64 / 2
	}
	unready := v.Now.Sub(former.Unready)
	if former.NodeLost {
		unready += unreported
	}
	return unready
}

// mayHaveHadMajority tells whether a primary that has died may have been among a majority while others did not hear from it: they are those
// that cannot be read, and those that say nothing about when they last heard from it because they have been started since. Who reaches no
// majority refuses writes after a node timeout (clusterUpdateState in the servers' source). Whose slots were taken over since was with it.
func mayHaveHadMajority(v *model.View, dead model.DepartedNode) bool {
	with, owners := 0, 0
	for _, g := range v.DepartedNodes() {
		if g.Primary {
			with++
		}
		if len(StillOwned(v, g)) > 0 {
			owners++
		}
	}
	for shard := range v.Shards {
		for _, p := range v.Owners(shard) {
			owners++
			if peer, known := p.Node.Peer(dead.ID); !known || !p.Heard(peer) {
				with++
			}
		}
	}
	return 2*with > owners
}

// wiped tells whether a replica copies an empty server that has got the address of its primary, which is gone.
func wiped(g model.DepartedNode, p *model.Pod) bool {
	return g.NoAddr && p.Node.LinkUp && p.Node.Keys == 0
}

// Furthest is the replica that has applied most of the replication stream; nil when none has a copy of the data. One
// that has been connected since its start has all; one that has not may have what it loaded from its disk.
func Furthest(replicas []*model.Pod) *model.Pod {
	var best *model.Pod
	for _, p := range replicas {
		if p.Node.Loading || (!p.Node.EverLinked && p.Node.Keys == 0) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(p.Node.Offset, best.Node.Offset), cmp.Compare(p.Node.Keys, best.Node.Keys)) > 0 {
			best = p
		}
	}
	return best
}

// StillOwned are the slots of a departed node that no living node claims.
func StillOwned(v *model.View, g model.DepartedNode) slots.Set {
	for shard := range v.Shards {
		for _, p := range v.Owners(shard) {
			if p.Node.Self().Slots.Overlaps(g.Slots) {
				return nil
			}
		}
	}
	return g.Slots
}

// Voters counts the primaries with slots: those that can vote on the replacement of a departed
// node, and the others. A primary that was elected after that node died has never met it, and does
// not vote on its replacement.
func Voters(v *model.View, g model.DepartedNode, ghosts []model.DepartedNode) (can, cannot int) {
	for shard := range v.Shards {
		for _, p := range v.Owners(shard) {
			if _, ok := p.Node.Peer(g.ID); ok {
				can++
			} else {
				cannot++
			}
		}
	}
	for _, other := range ghosts {
		if len(StillOwned(v, other)) > 0 {
			cannot++
		}
	}
	return can, cannot
}

// Unsynced is why a server is not in sync with its primary, and how soon it may be; 0: only a user
// can bring it into sync.
type Unsynced struct {
	Why   string
	After time.Duration
}

// FirstUnsynced returns the first server that is not in sync with the primary of its own shard; nil
// for none.
func FirstUnsynced(v *model.View) *Unsynced {
	because := func(after time.Duration, format string, args ...any) *Unsynced {
		return &Unsynced{fmt.Sprintf(format, args...), after}
	}
	for shard, pods := range v.Shards {
		primary := v.DesignatedPrimary(shard)
		for _, p := range pods {
			self := p.Node.Self()
			switch {
			case v.Idle(shard):
			case p.Node.Loading:
				return because(PollInterval(v, Soon*3, Slowly), "%s loads its data", p.Name)
			case p == primary:
			case Strayed(p, primary):
				return because(PollInterval(v, Soon, Slowly), "%s holds a copy of %s, and has yet to begin anew as its replica", p.Name, primary.Name)
			case !self.Replica && p.Node.Keys > 0:
				return because(0, "%s holds %d keys but owns no slots: save what is needed from it, then delete its claim and pod", p.Name, p.Node.Keys)
			case self.PrimaryID != primary.Node.ID:
				return because(PollInterval(v, Soon, Slowly), "%s is about to become a replica of %s", p.Name, primary.Name)
			case !p.Node.LinkUp:
				return because(PollInterval(v, Soon, Slowly), "%s receives the data of %s", p.Name, primary.Name)
			case primary.Node.Offset-p.Node.Offset > FarBehind:
				return because(PollInterval(v, Soon, Slowly), "%s is far behind %s, by more than %d MiB", p.Name, primary.Name, FarBehind>>20)
			}
		}
	}
	return nil
}

// RetryAfter returns how long after an election a process cannot win another one: twice the time
// that it waits for votes, which is two node timeouts and two seconds at least, and a second in
// which the last attempt was begun.
func RetryAfter(s model.Spec) time.Duration {
	return 2*max(2*s.NodeTimeout, 2*time.Second) + time.Second
}

// MayStand returns an error that says how long to wait where a pod cannot be elected yet.
func MayStand(s *model.State, p *model.Pod) error {
	if wait := RetryAfter(s.Spec) - s.Now.Sub(p.Stood); !p.Stood.IsZero() && wait > 0 {
		return fmt.Errorf("%s stood for election less than %s ago (four node timeouts), and the servers do not elect it again before that: %s are left",
			p.Name, RetryAfter(s.Spec), wait.Round(time.Second))
	}
	return nil
}

// stoodLately reports whether a pod cannot be elected yet because it stood for election before, and
// notes it in v.Stood for waitForRetry in package planner.
func stoodLately(v *model.View, p *model.Pod) bool {
	if MayStand(&v.State, p) == nil {
		return false
	}
	v.Stood = p
	return true
}

// Electing is how long the servers are given to replace a dead primary by themselves. They notice its death within 1.5 times the
// node timeout, ask for votes about a second later, give up after twice the node timeout, and ask once more four node timeouts
// after they first did (clusterHandleSlaveFailover in the servers' source). Both attempts may have failed for good: where the dead
// one had an epoch that its replica never heard of, nobody votes for that (Valkey issue 2169).
func Electing(s model.Spec) time.Duration { return 8*s.NodeTimeout + 5*time.Second }

// LastLinked says how old a replica's copy is.
func LastLinked(p *model.Pod) string {
	if !p.Node.EverLinked {
		return "has not been connected since it started"
	}
	return fmt.Sprintf("lost the connection %s ago", p.Node.LinkDown)
}

// Outage is what Kubernetes knows of a server that does not answer.
type Outage struct {
	// What is the name of the server, for messages.
	What string
	// Fenced says that it does not run any more.
	Fenced bool
	// Returns says that its data exists and may come back, and Starting that it is on its way.
	Returns, Starting bool
}

// OutageOf returns what Kubernetes reports about the server that a departed node was.
func OutageOf(v *model.View, g model.DepartedNode) Outage {
	if g.Pod == "" && len(g.Replicas) > 0 && ShardRead(v, g.Replicas[0].Shard) {
		return Outage{What: "node " + model.ShortID(g.ID), Fenced: true} // It ran in one of the pods of its shard, and none has it any more.
	}
	if g.Pod == "" {
		return Outage{What: "node " + model.ShortID(g.ID), Fenced: v.Complete, Returns: !v.Complete}
	}
	return outageOfPod(v, g.Pod)
}

// outageOfPod goes by the pod that a server ran in. What is on a volume outlives a pod; without storage, it outlives the process, and goes with the node.
func outageOfPod(v *model.View, name string) Outage {
	out := Outage{What: "the server of pod " + name, Fenced: true, Returns: v.Spec.Persistent, Starting: v.Spec.Persistent}
	p := v.PodNamed(name)
	switch {
	case p == nil:
	case p.Node != nil: // Another server runs there by now: the disk of this one is gone.
		out.Returns, out.Starting = false, false
	default:
		out.Fenced = p.Started.IsZero() || p.NodeLost
		out.Returns = v.Spec.Persistent || (p.HasRun && !p.Deleting && !p.Gone)
		out.Starting = out.Returns && !p.NodeLost && p.Stuck == ""
	}
	return out
}

// OthersTold tells whether all other pods of a departed node's shard could be read to the end, or
// cannot be in a moment: any of them may have more than the candidate, or be elected.
func OthersTold(v *model.View, g model.DepartedNode, best *model.Pod) bool {
	for ordinal := range v.Size(best.Shard) {
		name := cluster.Pod(cluster.ShardSet(v.Spec.Name, best.Shard), ordinal)
		if g.Pod == name {
			continue
		}
		if p := v.PodNamed(name); p != nil && p.Node != nil {
			if p.Node.Loading {
				return false
			}
			continue
		}
		out := outageOfPod(v, name)
		if !out.Fenced || (out.Starting && AwaitedFor(v, g) < Patience) {
			return false
		}
	}
	return true
}

// RivalReturns returns a pod of a departed node's shard that cannot be read, has data, and is
// started again within the patience; nil for none. It may have taken over before it ended, unknown
// to a replica that a partition kept from it. Without a vote, that replica would take over under
// the same epoch, and what either has written since would be lost when they meet.
func RivalReturns(v *model.View, g model.DepartedNode, best *model.Pod) *model.Pod {
	for _, p := range v.Shards[best.Shard] {
		held := p.HeldUntil.After(v.Now) && p.HeldUntil.Sub(v.Now) < Patience
		if p.Node == nil && p.Name != g.Pod && held && outageOfPod(v, p.Name).Returns {
			return p
		}
	}
	return nil
}
