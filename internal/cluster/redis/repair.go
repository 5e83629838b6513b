package redis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// refuseDisjointClusters stops when there are groups of nodes that do not know of each other and hold slots or keys each: to let
// them meet would throw one side's data away.
func refuseDisjointClusters(v *view) (cluster.Plan, bool) {
	var islands [][]*Pod
	for _, group := range v.groups() {
		if slices.ContainsFunc(group, func(p *Pod) bool { return len(p.Node.Self().Slots) > 0 || p.Node.Keys > 0 }) {
			islands = append(islands, group)
		}
	}
	if len(islands) < 2 {
		return cluster.Pass()
	}
	return cluster.Refuse(ReasonIslands,
		"the pods %v and %v belong to different clusters that both hold data: keep one and delete the claims and pods of the other",
		names(islands[0]), names(islands[1]))
}

// groups divides the servers into those that know of each other, in either direction or through others.
func (v *view) groups() [][]*Pod {
	if len(v.read) > 0 && v.meshed() {
		return [][]*Pod{slices.Clone(v.read)}
	}
	var out [][]*Pod
	seen := map[*Pod]bool{}
	for _, p := range v.read {
		if seen[p] {
			continue
		}
		seen[p] = true
		group := []*Pod{p}
		for i := 0; i < len(group); i++ {
			for _, q := range v.read {
				if !seen[q] && knows(group[i], q) {
					seen[q] = true
					group = append(group, q)
				}
			}
		}
		out = append(out, group)
	}
	return out
}

// knows tells whether one of two nodes has the other in its table.
func knows(a, b *Pod) bool {
	_, ab := a.Node.Peer(b.Node.ID)
	_, ba := b.Node.Peer(a.Node.ID)
	return ab || ba
}

// reintroduce makes the nodes of a formed cluster find each other: those that moved to another address, also when all
// did at once, and fresh ones that replace a lost disk. It hurts nobody, so that it need not wait for all pods.
func reintroduce(v *view) (cluster.Plan, bool) {
	if !v.formed || v.meshed() {
		return cluster.Pass()
	}
	var step Meet
	for i, p := range v.read {
		for _, other := range v.read[i+1:] {
			if needIntroduction(p, other) && !p.Node.shakesHandsWith(other.Addr) && !other.Node.shakesHandsWith(p.Addr) {
				step.Pairs = append(step.Pairs, introduction(p, other))
			}
		}
	}
	step.Pairs = thin(step.Pairs, len(v.read))
	if len(step.Pairs) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "nodes moved to another address or are new: they are introduced to the others")
	plan.After = 2 * soon
	return plan, ok
}

// needIntroduction tells whether gossip cannot bring two nodes together by itself: both would look in the wrong place.
// Where one has the right address it calls, and the other learns from the call. That a link counts as connected proves
// nothing: it does so from the first attempt on.
func needIntroduction(a, b *Pod) bool {
	return !canFind(a.Node, b) && !canFind(b.Node, a)
}

// reintroduceForgotten introduces a node that was told to be forgotten and is back with its old disk: it calls on the others, and they
// do not listen to a stranger. The ban lasts for a minute, in which the servers drop it again (since Redis 7.2 they tell each
// other about bans), so that nothing more urgent may wait for this.
func reintroduceForgotten(v *view) (cluster.Plan, bool) {
	if v.meshed() {
		return cluster.Pass()
	}
	var step Meet
	for i, p := range v.read {
		for _, other := range v.read[i+1:] {
			_, knows := p.Node.Peer(other.Node.ID)
			_, known := other.Node.Peer(p.Node.ID)
			if knows != known && v.settledIn(p) && v.settledIn(other) && !p.Node.shakesHandsWith(other.Addr) && !other.Node.shakesHandsWith(p.Addr) {
				step.Pairs = append(step.Pairs, introduction(p, other))
			}
		}
	}
	step.Pairs = thin(step.Pairs, len(v.read))
	if len(step.Pairs) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "nodes that had left are back: the others know them again a minute after they had forgotten them at the latest")
	plan.After = later
	return plan, ok
}

func canFind(n *Node, p *Pod) bool {
	peer, ok := n.Peer(p.Node.ID)
	return ok && !peer.NoAddr && peer.Addr == p.Addr
}

// thin keeps the introductions of a large cluster to those with one well-known node; gossip does the rest.
func thin(pairs []Introduction, nodes int) []Introduction {
	if nodes <= fullMesh || len(pairs) == 0 {
		return pairs
	}
	hub := pairs[0].Pod
	return slices.DeleteFunc(slices.Clone(pairs), func(i Introduction) bool { return i.Pod != hub })
}

// settledIn tells whether a server has run for longer than gossip takes to make it known.
func (v *view) settledIn(p *Pod) bool { return v.Now.Sub(p.Started) >= 2*time.Second }

// attachReplicas makes empty nodes without slots, and replicas of a foreign shard, copy the primary of their own shard.
func attachReplicas(v *view) (cluster.Plan, bool) {
	var step Replicate
	for shard, pods := range v.shards {
		primary := v.head(shard)
		if primary == nil {
			continue
		}
		for _, p := range pods {
			if p != primary && (v.canFollow(p, primary) || (misled(p, primary) && v.unlinked(p) < patience)) {
				step.Replicas = append(step.Replicas, Following{p.Name, primary.Name, primary.Node.ID})
			}
		}
	}
	// A fresh cluster gets its replicas only after all of its slots: that nobody replicates is how it is recognised.
	if len(step.Replicas) == 0 || (len(v.unassigned()) > 0 && !v.anyReplica()) {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "nodes become replicas of the primary of their shard")
	plan.After = soon
	return plan, ok
}

// misled tells whether a replica looks for its primary at an address that this has left, although it knows better. Told
// once more whom to follow, Redis looks at the right one; Valkey takes that for nothing new.
func misled(p, primary *Pod) bool {
	if p.Node == nil || p.Deleting || p.Node.Loading || p.Node.LinkUp || p.Node.Asks.IP == "" {
		return false
	}
	self := p.Node.Self()
	return self.Replica && self.PrimaryID == primary.Node.ID && p.Node.Asks != primary.Addr && canFind(p.Node, primary)
}

// unlinked is for how long a replica has not been connected to its primary.
func (v *view) unlinked(p *Pod) time.Duration {
	if p.Node.EverLinked {
		return p.Node.LinkDown
	}
	return v.Now.Sub(p.Started)
}

// restartMisdirectedReplica restarts a replica that does not find its primary by itself: it reads the right address at its start.
func restartMisdirectedReplica(v *view) (cluster.Plan, bool) {
	for shard, pods := range v.shards {
		if !v.thrives(shard) {
			continue
		}
		for _, p := range pods {
			if misled(p, v.head(shard)) && v.unlinked(p) >= patience {
				return cluster.Do(Restart{Pods: []PodRef{p.ref()}, Cause: ReasonRestart},
					"%s looks for its primary %s at %s, where it is no more", p.Name, v.head(shard).Name, p.Node.Asks)
			}
		}
	}
	return cluster.Pass()
}

// canFollow tells whether a pod is to become a replica of its shard's primary, and can: it knows that node.
func (v *view) canFollow(p, primary *Pod) bool {
	if p.Node == nil || p.Deleting || p.Node.Loading || p.ownsSlots() {
		return false
	}
	if peer, ok := p.Node.Peer(primary.Node.ID); !ok || peer.Replica {
		return false // It would refuse to follow a node that it takes for a replica.
	}
	self := p.Node.Self()
	if !self.Replica {
		return p.Node.Keys == 0
	}
	if self.PrimaryID == primary.Node.ID {
		return false
	}
	// Its data may be the last copy of another shard, unless that shard's primary is alive and well.
	other := v.byID[self.PrimaryID]
	return other != nil && !other.Deleting && (other.Shard == p.Shard || other.ownsSlots())
}

// anyReplica tells whether some server knows of a replica.
func (v *view) anyReplica() bool {
	for _, t := range v.tables {
		for node := range t.nodes() {
			if t.line(node).Replica {
				return true
			}
		}
	}
	return false
}

// recoverSlotsWithoutOwner deals with slots whose owner no pod has any more: a replica is elected by itself, if one may be. See takeOver for
// what is done where it cannot be, and assignLostSlots where there is none.
func recoverSlotsWithoutOwner(v *view) (cluster.Plan, bool) {
	for _, g := range v.ghosts() {
		slots := v.stillOwned(g)
		if len(slots) == 0 {
			continue
		}
		best := v.successor(g)
		switch {
		case v.foreign(g):
			return v.refuseForeign(g, slots)
		case slices.ContainsFunc(g.replicas, func(p *Pod) bool { return p.Node.Loading }):
			return cluster.Wait(ReasonSync, later, "node %s is gone; one of %v loads its data", short(g.id), names(g.replicas))
		case v.heir(g) != nil:
			return cluster.Do(Adopt{v.heir(g).Name, v.heir(g).Node.ID, g.id, slots},
				"slots %s had just been moved to node %s when it died, and %s, which was elected in its place, has not heard of that", slots, short(g.id), v.heir(g).Name)
		case best == nil:
			continue
		case g.dead && v.unelectable(g):
			return cluster.Do(Elect{best.Shard, g.id, best.Name},
				"node %s is gone and no replica stands for election by itself; %s has most of its data", short(g.id), best.Name)
		}
		return cluster.Wait(ReasonElection, v.pace(soon*3, later), "node %s is gone; a replica among %v takes over its slots", short(g.id), names(g.replicas))
	}
	return cluster.Pass()
}

// successor is the replica that has most of a ghost's data, nil for none.
func (v *view) successor(g ghost) *Pod {
	return furthest(slices.DeleteFunc(slices.Clone(g.replicas), g.wiped))
}

// heir is the server that owns the slots of a ghost's shard in its place; nil when there is none. Slots that are brought back from a backup
// have none: whoever owns others of that shard by then was loaded with these.
func (v *view) heir(g ghost) *Pod {
	shard := v.shardOf(g.id)
	if shard < 0 || shard >= len(v.shards) || len(g.replicas) > 0 || (v.Restore != nil && v.Restore.Slots.Overlaps(v.stillOwned(g))) {
		return nil
	}
	return v.primary(shard)
}

// unelectable tells whether gossip will not replace a dead node: its failure goes unnoticed, or none of its replicas stands
// for election.
func (v *view) unelectable(g ghost) bool {
	return g.noAddr || !slices.ContainsFunc(g.replicas, v.stands)
}

// stands tells whether a replica stands for election by itself: it has been connected to its primary since it started,
// and not too long ago.
func (v *view) stands(p *Pod) bool {
	return p.Node.EverLinked && p.Node.LinkDown <= Validity(v.Spec.NodeTimeout)
}

// unreported is how long it takes Kubernetes at most to find that a node does not report, and that its pods are not ready.
const unreported = time.Minute

// followed tells whether a replica stood for election when a ghost died, however long ago that is.
func (v *view) followed(g ghost, p *Pod) bool {
	return p.Node.EverLinked && p.Node.LinkDown <= min(g.silent, v.endedWithin(g))+Validity(v.Spec.NodeTimeout)
}

// endedWithin is for how long a ghost may have been dead at most for all that Kubernetes says. A primary that other servers could not reach
// may have lived on, and taken writes, if it had a majority: what Kubernetes had for ready was not dead.
func (v *view) endedWithin(g ghost) time.Duration {
	former := v.podNamed(g.pod)
	if former == nil || former.Unready.IsZero() || !v.mayHaveHadMajority(g) {
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
func (v *view) mayHaveHadMajority(dead ghost) bool {
	with, owners := 0, 0
	for _, g := range v.ghosts() {
		if g.primary {
			with++
		}
		if len(v.stillOwned(g)) > 0 {
			owners++
		}
	}
	for shard := range v.shards {
		for _, p := range v.owners(shard) {
			owners++
			if peer, known := p.Node.Peer(dead.id); !known || !p.heard(peer) {
				with++
			}
		}
	}
	return 2*with > owners
}

// wiped tells whether a replica copies an empty server that has got the address of its primary, which is gone.
func (g ghost) wiped(p *Pod) bool { return g.noAddr && p.Node.LinkUp && p.Node.Keys == 0 }

// furthest is the replica that has applied most of the replication stream; nil when none has a copy of the data. One
// that has been connected since its start has all; one that has not may have what it loaded from its disk.
func furthest(replicas []*Pod) *Pod {
	var best *Pod
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

// stillOwned are the slots of a ghost that no living node claims.
func (v *view) stillOwned(g ghost) Slots {
	for shard := range v.shards {
		for _, p := range v.owners(shard) {
			if p.Node.Self().Slots.Overlaps(g.slots) {
				return nil
			}
		}
	}
	return g.slots
}

// voters counts the primaries with slots: those that can vote on who replaces a ghost, and the others. One that was
// elected after the ghost died has never met it, and votes on nothing that concerns it.
func (v *view) voters(g ghost, ghosts []ghost) (can, cannot int) {
	for shard := range v.shards {
		for _, p := range v.owners(shard) {
			if _, ok := p.Node.Peer(g.id); ok {
				can++
			} else {
				cannot++
			}
		}
	}
	for _, other := range ghosts {
		if len(v.stillOwned(other)) > 0 {
			cannot++
		}
	}
	return can, cannot
}

// forgetDepartedNodes removes nodes from all tables that no pod has, that own nothing, that nobody copies, and that are found
// dead or whose pod has left for good. All other pods are known here, so that the id cannot come back at another address.
func forgetDepartedNodes(v *view) (cluster.Plan, bool) {
	ghosts := slices.DeleteFunc(v.ghosts(), func(g ghost) bool { return v.awaited(g) || v.isLeaving(g) })
	if len(ghosts) == 0 {
		return cluster.Pass()
	}
	g := ghosts[0] // One at a time; the others have their turn.
	if step := v.orphans(g); len(step.Replicas) > 0 {
		return cluster.Do(step, "others own what node %s had, and its replicas have not followed them", short(g.id))
	}
	switch {
	case len(g.replicas) > 0 || len(g.slots) > 0:
		return cluster.Wait(ReasonGossip, v.pace(soon*3, later), "the nodes have yet to learn who took over from node %s", short(g.id))
	case !g.dead && !v.hasLeft(g):
		return cluster.Wait(ReasonGossip, v.pace(soon*3, later), "node %s is gone; the others have yet to find out", short(g.id))
	}
	return cluster.Do(Forget{g.id, g.knownBy}, "node %s is gone for good, owns nothing and has no replicas", short(g.id))
}

// orphans are replicas of a ghost that owns nothing any more. A replica follows by itself whoever takes over all that its primary had as far as it
// knows, and nothing else (cluster-allow-replica-migration is off): not when it was away while slots came or went.
func (v *view) orphans(g ghost) (step Replicate) {
	for _, p := range g.replicas {
		primary := v.head(p.Shard)
		if len(g.slots) > 0 || primary == nil || !primary.ownsSlots() || p.Deleting || p.Node.Loading || v.unlinked(p) < patience {
			continue
		}
		if peer, ok := p.Node.Peer(primary.Node.ID); ok && !peer.Replica {
			step.Replicas = append(step.Replicas, Following{p.Name, primary.Name, primary.Node.ID})
		}
	}
	return step
}

// awaited tells whether some slot is on its way to or from a ghost: its name says which shard goes on with that.
func (v *view) awaited(g ghost) bool {
	return slices.ContainsFunc(v.read, func(p *Pod) bool {
		return slices.ContainsFunc(p.Node.Self().Open, func(o Open) bool { return o.Other == g.id && !o.Importing })
	})
}

// waitForOwners waits until every shard has one owner, or none that anybody knows of.
func (v *view) waitForOwners() (cluster.Plan, bool) {
	for shard := range v.shards {
		switch owners := v.owners(shard); {
		case len(owners) > 1:
			return cluster.Wait(ReasonGossip, v.pace(soon, later), "%v both claim the slots of shard %d; the others settle it", names(owners), shard)
		case len(owners) == 0 && v.believed(shard):
			return cluster.Wait(ReasonGossip, v.pace(soon, later), "the servers have yet to agree on who owns the slots of shard %d", shard)
		case len(owners) == 0 && v.head(shard) == nil && !v.idle(shard):
			return cluster.Refuse(ReasonForeignSlots,
				"shard %d owns no slots, and its servers hold keys or copy those of another shard: save what is needed from them, then delete their claims and pods", shard)
		}
	}
	return cluster.Pass()
}

// waitForGossip waits until all servers tell the same about who owns what, and all of them are content.
func waitForGossip(v *view) (cluster.Plan, bool) {
	if plan, waits := v.waitForOwners(); waits {
		return plan, true
	}
	for _, p := range v.read {
		if !p.Node.StateOK {
			return cluster.Wait(ReasonGossip, v.pace(soon, later), "%s does not see a working cluster yet", p.Name)
		}
		if v.ownership(p.Node) != v.ownership(v.read[0].Node) {
			return cluster.Wait(ReasonGossip, v.pace(soon, later), "%s and %s do not agree on who owns which slots yet", v.read[0].Name, p.Name)
		}
		if v.meshed() {
			continue
		}
		for _, other := range v.read {
			if peer, ok := p.Node.Peer(other.Node.ID); !ok || peer.Failed || peer.Failing {
				return cluster.Wait(ReasonGossip, v.pace(soon*3, later), "%s does not see %s yet", p.Name, other.Name)
			}
		}
	}
	return cluster.Pass()
}

// believed tells whether some server takes a pod of the shard for the owner of slots.
func (v *view) believed(shard int) bool {
	if v.claimed != nil {
		return v.claimed[shard]
	}
	v.claimed = map[int]bool{}
	for _, t := range v.tables {
		for node := range t.nodes() {
			peer := t.line(node)
			if owner := v.byID[peer.ID]; owner != nil && len(peer.Slots) > 0 {
				v.claimed[owner.Shard] = true
			}
		}
	}
	return v.claimed[shard]
}

// waitForReplicas waits until every replica copies its own shard's primary and has caught up with it.
func waitForReplicas(v *view) (cluster.Plan, bool) {
	switch p := v.firstUnsynced(); {
	case p == nil:
		return cluster.Pass()
	case p.after == 0:
		return cluster.Refuse(ReasonKeysNoSlots, "%s", p.why)
	default:
		return cluster.Wait(ReasonSync, p.after, "%s", p.why)
	}
}

// unsynced is why a server is not in sync with its primary, and how soon it may be; 0: only a user
// can bring it into sync.
type unsynced struct {
	why   string
	after time.Duration
}

// firstUnsynced returns the first server that is not in sync with the primary of its own shard; nil
// for none.
func (v *view) firstUnsynced() *unsynced {
	because := func(after time.Duration, format string, args ...any) *unsynced {
		return &unsynced{fmt.Sprintf(format, args...), after}
	}
	for shard, pods := range v.shards {
		primary := v.head(shard)
		for _, p := range pods {
			self := p.Node.Self()
			switch {
			case v.idle(shard):
			case p.Node.Loading:
				return because(v.pace(soon*3, slowly), "%s loads its data", p.Name)
			case p == primary:
			case strayed(p, primary):
				return because(v.pace(soon, slowly), "%s holds a copy of %s, and has yet to begin anew as its replica", p.Name, primary.Name)
			case !self.Replica && p.Node.Keys > 0:
				return because(0, "%s holds %d keys but owns no slots: save what is needed from it, then delete its claim and pod", p.Name, p.Node.Keys)
			case self.PrimaryID != primary.Node.ID:
				return because(v.pace(soon, slowly), "%s is about to become a replica of %s", p.Name, primary.Name)
			case !p.Node.LinkUp:
				return because(v.pace(soon, slowly), "%s receives the data of %s", p.Name, primary.Name)
			case primary.Node.Offset-p.Node.Offset > farBehind:
				return because(v.pace(soon, slowly), "%s is far behind %s, by more than %d MiB", p.Name, primary.Name, farBehind>>20)
			}
		}
	}
	return nil
}
