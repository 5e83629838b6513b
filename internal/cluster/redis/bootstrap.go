package redis

import (
	"slices"

	"github.com/quorate/quorate/internal/cluster"
)

// fullMesh is the largest number of nodes that are all introduced to one another at once. Beyond it everybody meets
// one node and gossip does the rest, which is slower but costs fewer commands.
const fullMesh = 32

// setConfigEpochs gives every node of a fresh cluster an epoch of its own while it is alone; afterwards it is too late.
func setConfigEpochs(v *view) (cluster.Plan, bool) {
	if v.formed {
		return cluster.Pass()
	}
	var step SetConfigEpochs
	for _, p := range v.read {
		if p.Node.Blank() && p.Node.Self().Epoch == 0 {
			step.Nodes = append(step.Nodes, NodeEpoch{p.Name, bootstrapEpoch(p)})
		}
	}
	if len(step.Nodes) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "%d fresh nodes get distinct config epochs", len(step.Nodes))
	plan.After = soon / 2
	return plan, ok
}

// meetNodes makes the nodes of a fresh cluster meet.
func meetNodes(v *view) (cluster.Plan, bool) {
	if v.formed || v.knowEachOther() {
		return cluster.Pass()
	}
	var step Meet
	shaking := false
	for i, p := range v.read {
		for j, other := range v.read {
			if j <= i || (len(v.read) > fullMesh && i > 0) {
				continue
			}
			if acquainted(p, other) {
				continue
			}
			if p.Node.shakesHandsWith(other.Addr) || other.Node.shakesHandsWith(p.Addr) {
				shaking = true
				continue
			}
			step.Pairs = append(step.Pairs, introduction(p, other))
		}
	}
	if len(step.Pairs) == 0 {
		return cluster.Wait(ReasonGossip, v.pace(soon, later), "%s", gossipMessage(shaking))
	}
	plan, ok := cluster.Do(step, "%d nodes of the new cluster are introduced to each other", len(v.read))
	plan.After = soon
	return plan, ok
}

func gossipMessage(shaking bool) string {
	if shaking {
		return "the nodes shake hands"
	}
	return "the nodes learn of each other"
}

// shakesHandsWith tells whether the node is about to get to know the one at the address.
func (n *Node) shakesHandsWith(a Address) bool {
	for _, p := range n.handshakes() {
		if p.Addr == a {
			return true
		}
	}
	return false
}

// acquainted tells whether two nodes know each other.
func acquainted(a, b *Pod) bool {
	_, ab := a.Node.Peer(b.Node.ID)
	_, ba := b.Node.Peer(a.Node.ID)
	return ab && ba
}

// addSlots assigns the slots of a fresh cluster, or goes on with it. It acts only where the facts leave no doubt that
// nobody ever owned what it assigns.
func addSlots(v *view) (cluster.Plan, bool) {
	if !v.bootstrapping() {
		return cluster.Pass()
	}
	if !v.knowEachOther() {
		return cluster.Wait(ReasonGossip, v.pace(soon, later), "the nodes learn of each other")
	}
	var step AddSlots
	shards := v.founders()
	for shard, pods := range v.shards[:shards] {
		if len(v.owners(shard)) == 0 {
			step.Owners = append(step.Owners, Ownership{pods[0].Name, Share(shard, shards)})
		}
	}
	if len(step.Owners) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "the slots are divided among %d shards", shards)
	plan.After = soon / 2
	return plan, ok
}

// founders is the number of shards among which the slots of a new cluster are divided. The specification may have changed
// since some of them got theirs; the others are moved later.
func (v *view) founders() int {
	for shard := range v.shards {
		for _, p := range v.owners(shard) {
			for n := shard + 1; n <= len(v.shards); n++ {
				if p.Node.Self().Slots.Equal(Share(shard, n)) {
					return n
				}
			}
		}
	}
	return v.Spec.Shards
}

// bootstrapping tells whether slots were never assigned, or not all of them yet: every shard either has just its share
// or is untouched, nobody replicates, nobody is missing. In a cluster that was formed once, a shard without an owner
// has lost its data instead, which must not be papered over with an empty one.
func (v *view) bootstrapping() bool {
	if len(v.ghosts()) > 0 {
		return false
	}
	if !v.formed && slices.ContainsFunc(v.read, func(p *Pod) bool { return p.Node.Keys > 0 || p.Node.Loading }) {
		return false
	}
	founders := v.founders()
	for shard, pods := range v.shards {
		if !v.founding(shard, founders) || slices.ContainsFunc(pods, func(p *Pod) bool { return p.Node.Self().Replica }) {
			return false
		}
	}
	return true
}

// founding tells whether a shard is as it is while the slots are divided among so many.
func (v *view) founding(shard, founders int) bool {
	switch owners := v.owners(shard); {
	case len(owners) > 1:
		return false
	case len(owners) == 1:
		return shard < founders && owners[0].Node.Self().Slots.Equal(Share(shard, founders))
	case shard >= founders:
		return v.slotless(shard)
	}
	return !v.formed || v.untouched(v.shards[shard])
}

// untouched tells whether the nodes of a shard were made for this cluster and never held anything. A node that joins a
// formed cluster later has no epoch, or the next free one after a collision, but never the one of the bootstrap.
func (v *view) untouched(pods []*Pod) bool {
	for _, p := range pods {
		if p.Node.Keys > 0 || p.Node.Loading {
			return false
		}
	}
	return len(pods) > 0 && pods[0].Ordinal == 0 && pods[0].Node.Self().Epoch == bootstrapEpoch(pods[0])
}

// unassigned are the slots that no server knows an owner of.
func (v *view) unassigned() Slots {
	var owned []Slots
	for _, t := range v.tables {
		owned = append(owned, t.owned())
	}
	return Union(owned...).Missing()
}
