package planner

import (
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// fullMesh is the largest number of nodes that are all introduced to one another at once. Beyond it everybody meets
// one node and gossip does the rest, which is slower but costs fewer commands.
const fullMesh = 32

// setConfigEpochs gives every node of a fresh cluster an epoch of its own while it is alone; afterwards it is too late.
func setConfigEpochs(v *model.View) (cluster.Plan, bool) {
	if v.HasOwners {
		return cluster.Pass()
	}
	var step steps.SetConfigEpochs
	for _, p := range v.Readable {
		if p.Node.Blank() && p.Node.Self().Epoch == 0 {
			step.Nodes = append(step.Nodes, steps.NodeEpoch{Pod: p.Name, Epoch: model.BootstrapEpoch(p)})
		}
	}
	if len(step.Nodes) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "%d fresh nodes get distinct config epochs", len(step.Nodes))
	plan.After = facts.Soon / 2
	return plan, ok
}

// meetNodes makes the nodes of a fresh cluster meet.
func meetNodes(v *model.View) (cluster.Plan, bool) {
	if v.HasOwners || v.KnowEachOther() {
		return cluster.Pass()
	}
	var step steps.Meet
	shaking := false
	for i, p := range v.Readable {
		for j, other := range v.Readable {
			if j <= i || (len(v.Readable) > fullMesh && i > 0) {
				continue
			}
			if acquainted(p, other) {
				continue
			}
			if facts.ShakesHandsWith(p.Node, other.Addr) || facts.ShakesHandsWith(other.Node, p.Addr) {
				shaking = true
				continue
			}
			step.Pairs = append(step.Pairs, steps.Introduce(p, other))
		}
	}
	if len(step.Pairs) == 0 {
		return cluster.Wait(ReasonGossip, facts.PollInterval(v, facts.Soon, facts.Later), "%s", gossipMessage(shaking))
	}
	plan, ok := cluster.Do(step, "%d nodes of the new cluster are introduced to each other", len(v.Readable))
	plan.After = facts.Soon
	return plan, ok
}

func gossipMessage(shaking bool) string {
	if shaking {
		return "the nodes shake hands"
	}
	return "the nodes learn of each other"
}

// acquainted tells whether two nodes know each other.
func acquainted(a, b *model.Pod) bool {
	_, ab := a.Node.Peer(b.Node.ID)
	_, ba := b.Node.Peer(a.Node.ID)
	return ab && ba
}

// addSlots assigns the slots of a fresh cluster, or goes on with it. It acts only where the facts leave no doubt that
// nobody ever owned what it assigns.
func addSlots(v *model.View) (cluster.Plan, bool) {
	if !bootstrapping(v) {
		return cluster.Pass()
	}
	if !v.KnowEachOther() {
		return cluster.Wait(ReasonGossip, facts.PollInterval(v, facts.Soon, facts.Later), "the nodes learn of each other")
	}
	var step steps.AddSlots
	shards := founders(v)
	for shard, pods := range v.Shards[:shards] {
		if len(v.Owners(shard)) == 0 {
			step.Owners = append(step.Owners, steps.Ownership{Pod: pods[0].Name, Slots: slots.Share(shard, shards)})
		}
	}
	if len(step.Owners) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "the slots are divided among %d shards", shards)
	plan.After = facts.Soon / 2
	return plan, ok
}

// founders is the number of shards among which the slots of a new cluster are divided. The specification may have changed
// since some of them got theirs; the others are moved later.
func founders(v *model.View) int {
	for shard := range v.Shards {
		for _, p := range v.Owners(shard) {
			for n := shard + 1; n <= len(v.Shards); n++ {
				if p.Node.Self().Slots.Equal(slots.Share(shard, n)) {
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
func bootstrapping(v *model.View) bool {
	if len(v.DepartedNodes()) > 0 {
		return false
	}
	if !v.HasOwners && slices.ContainsFunc(v.Readable, func(p *model.Pod) bool { return p.Node.Keys > 0 || p.Node.Loading }) {
		return false
	}
	founders := founders(v)
	for shard, pods := range v.Shards {
		if !isFounding(v, shard, founders) || slices.ContainsFunc(pods, func(p *model.Pod) bool { return p.Node.Self().Replica }) {
			return false
		}
	}
	return true
}

// isFounding tells whether a shard is as it is while the slots are divided among so many.
func isFounding(v *model.View, shard, founders int) bool {
	switch owners := v.Owners(shard); {
	case len(owners) > 1:
		return false
	case len(owners) == 1:
		return shard < founders && owners[0].Node.Self().Slots.Equal(slots.Share(shard, founders))
	case shard >= founders:
		return v.Slotless(shard)
	}
	return !v.HasOwners || untouched(v.Shards[shard])
}

// untouched tells whether the nodes of a shard were made for this cluster and never held anything. A node that joins a
// formed cluster later has no epoch, or the next free one after a collision, but never the one of the bootstrap.
func untouched(pods []*model.Pod) bool {
	for _, p := range pods {
		if p.Node.Keys > 0 || p.Node.Loading {
			return false
		}
	}
	return len(pods) > 0 && pods[0].Ordinal == 0 && pods[0].Node.Self().Epoch == model.BootstrapEpoch(pods[0])
}
