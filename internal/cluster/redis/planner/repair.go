package planner

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// refuseDisjointClusters stops when there are groups of nodes that do not know of each other and hold slots or keys each: to let
// them meet would throw one side's data away.
func refuseDisjointClusters(v *model.View) (cluster.Plan, bool) {
	var islands [][]*model.Pod
	for _, group := range groups(v) {
		if slices.ContainsFunc(group, func(p *model.Pod) bool { return len(p.Node.Self().Slots) > 0 || p.Node.Keys > 0 }) {
			islands = append(islands, group)
		}
	}
	if len(islands) < 2 {
		return cluster.Pass()
	}
	return cluster.Refuse(ReasonIslands,
		"the pods %v and %v belong to different clusters that both hold data: keep one and delete the claims and pods of the other",
		model.PodNames(islands[0]), model.PodNames(islands[1]))
}

// groups divides the servers into those that know of each other, in either direction or through others.
func groups(v *model.View) [][]*model.Pod {
	if len(v.Readable) > 0 && v.Meshed() {
		return [][]*model.Pod{slices.Clone(v.Readable)}
	}
	var out [][]*model.Pod
	seen := map[*model.Pod]bool{}
	for _, p := range v.Readable {
		if seen[p] {
			continue
		}
		seen[p] = true
		group := []*model.Pod{p}
		for i := 0; i < len(group); i++ {
			for _, q := range v.Readable {
				if !seen[q] && facts.Knows(group[i], q) {
					seen[q] = true
					group = append(group, q)
				}
			}
		}
		out = append(out, group)
	}
	return out
}

// reintroduce makes the nodes of a formed cluster find each other: those that moved to another address, also when all
// did at once, and fresh ones that replace a lost disk. It hurts nobody, so that it need not wait for all pods.
func reintroduce(v *model.View) (cluster.Plan, bool) {
	if !v.HasOwners || v.Meshed() {
		return cluster.Pass()
	}
	var step steps.Meet
	for i, p := range v.Readable {
		for _, other := range v.Readable[i+1:] {
			if needIntroduction(p, other) && !facts.ShakesHandsWith(p.Node, other.Addr) && !facts.ShakesHandsWith(other.Node, p.Addr) {
				step.Pairs = append(step.Pairs, steps.Introduce(p, other))
			}
		}
	}
	step.Pairs = thin(step.Pairs, len(v.Readable))
	if len(step.Pairs) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "nodes moved to another address or are new: they are introduced to the others")
	plan.After = 2 * facts.Soon
	return plan, ok
}

// needIntroduction tells whether gossip cannot bring two nodes together by itself: both would look in the wrong place.
// Where one has the right address it calls, and the other learns from the call. That a link counts as connected proves
// nothing: it does so from the first attempt on.
func needIntroduction(a, b *model.Pod) bool {
	return !facts.CanFind(a.Node, b) && !facts.CanFind(b.Node, a)
}

// reintroduceForgotten introduces a node that was forgotten and is back with its old disk: it
// connects to the others, which ignore unknown nodes. The ban lasts for a minute, in which the
// servers drop it again (since Redis 7.2 they tell each other about bans), so that nothing more
// urgent may wait for this.
func reintroduceForgotten(v *model.View) (cluster.Plan, bool) {
	if v.Meshed() {
		return cluster.Pass()
	}
	var step steps.Meet
	for i, p := range v.Readable {
		for _, other := range v.Readable[i+1:] {
			_, knows := p.Node.Peer(other.Node.ID)
			_, known := other.Node.Peer(p.Node.ID)
			if knows != known && settledIn(v, p) && settledIn(v, other) && !facts.ShakesHandsWith(p.Node, other.Addr) && !facts.ShakesHandsWith(other.Node, p.Addr) {
				step.Pairs = append(step.Pairs, steps.Introduce(p, other))
			}
		}
	}
	step.Pairs = thin(step.Pairs, len(v.Readable))
	if len(step.Pairs) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "nodes that had left are back: the others know them again a minute after they had forgotten them at the latest")
	plan.After = facts.Later
	return plan, ok
}

// thin keeps the introductions of a large cluster to those with one well-known node; gossip does the rest.
func thin(pairs []steps.Introduction, nodes int) []steps.Introduction {
	if nodes <= fullMesh || len(pairs) == 0 {
		return pairs
	}
	hub := pairs[0].Pod
	return slices.DeleteFunc(slices.Clone(pairs), func(i steps.Introduction) bool { return i.Pod != hub })
}

// settledIn tells whether a server has run for longer than gossip takes to make it known.
func settledIn(v *model.View, p *model.Pod) bool { return v.Now.Sub(p.Started) >= 2*time.Second }

// attachReplicas makes empty nodes without slots, and replicas of a foreign shard, copy the primary of their own shard.
func attachReplicas(v *model.View) (cluster.Plan, bool) {
	var step steps.Replicate
	for shard, pods := range v.Shards {
		primary := v.DesignatedPrimary(shard)
		if primary == nil {
			continue
		}
		for _, p := range pods {
			if p != primary && (canFollow(v, p, primary) || (misled(p, primary) && facts.Unlinked(v, p) < facts.Patience)) {
				step.Replicas = append(step.Replicas, steps.Following{Pod: p.Name, Primary: primary.Name, PrimaryID: primary.Node.ID})
			}
		}
	}
	// A fresh cluster gets its replicas only after all of its slots: that nobody replicates is how it is recognised.
	if len(step.Replicas) == 0 || (len(v.Unassigned()) > 0 && !anyReplica(v)) {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "nodes become replicas of the primary of their shard")
	plan.After = facts.Soon
	return plan, ok
}

// misled tells whether a replica looks for its primary at an address that this has left, although it knows better. Told
// once more whom to follow, Redis looks at the right one; Valkey takes that for nothing new.
func misled(p, primary *model.Pod) bool {
	if p.Node == nil || p.Deleting || p.Node.Loading || p.Node.LinkUp || p.Node.Asks.IP == "" {
		return false
	}
	self := p.Node.Self()
	return self.Replica && self.PrimaryID == primary.Node.ID && p.Node.Asks != primary.Addr && facts.CanFind(p.Node, primary)
}

// restartMisdirectedReplica restarts a replica that does not find its primary by itself: it reads the right address at its start.
func restartMisdirectedReplica(v *model.View) (cluster.Plan, bool) {
	for shard, pods := range v.Shards {
		if !facts.ShardHealthy(v, shard) {
			continue
		}
		for _, p := range pods {
			if misled(p, v.DesignatedPrimary(shard)) && facts.Unlinked(v, p) >= facts.Patience {
				return cluster.Do(steps.Restart{Pods: []steps.PodRef{ref(p)}, Cause: steps.ReasonRestart},
					"%s looks for its primary %s at %s, where it is no more", p.Name, v.DesignatedPrimary(shard).Name, p.Node.Asks)
			}
		}
	}
	return cluster.Pass()
}

// canFollow tells whether a pod is to become a replica of its shard's primary, and can: it knows that node.
func canFollow(v *model.View, p, primary *model.Pod) bool {
	if p.Node == nil || p.Deleting || p.Node.Loading || p.OwnsSlots() {
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
	other := v.ByID[self.PrimaryID]
	return other != nil && !other.Deleting && (other.Shard == p.Shard || other.OwnsSlots())
}

// anyReplica tells whether some server knows of a replica.
func anyReplica(v *model.View) bool {
	for _, t := range v.Tables {
		for node := range t.Nodes() {
			if t.Line(node).Replica {
				return true
			}
		}
	}
	return false
}

// recoverSlotsWithoutOwner deals with slots whose owner no pod has any more: a replica is elected by itself, if one may be. See takeOver for
// what is done where it cannot be, and assignLostSlots where there is none.
func recoverSlotsWithoutOwner(v *model.View) (cluster.Plan, bool) {
	for _, g := range v.DepartedNodes() {
		slots := facts.StillOwned(v, g)
		if len(slots) == 0 {
			continue
		}
		best := facts.CandidateOf(g)
		switch {
		case facts.IsForeign(v, g):
			return refuseForeign(v, g, slots)
		case slices.ContainsFunc(g.Replicas, func(p *model.Pod) bool { return p.Node.Loading }):
			return cluster.Wait(ReasonSync, facts.Later, "node %s is gone; one of %v loads its data", model.ShortID(g.ID), model.PodNames(g.Replicas))
		case facts.Candidate(v, g) != nil:
			return cluster.Do(steps.Adopt{Pod: facts.Candidate(v, g).Name, ID: facts.Candidate(v, g).Node.ID, From: g.ID, Slots: slots},
				"slots %s had just been moved to node %s when it died, and %s, which was elected in its place, has not heard of that", slots, model.ShortID(g.ID), facts.Candidate(v, g).Name)
		case best == nil:
			continue
		case g.Dead && facts.Unelectable(v, g):
			return cluster.Do(steps.Elect{Shard: best.Shard, PrimaryID: g.ID, To: best.Name},
				"node %s is gone and no replica stands for election by itself; %s has most of its data", model.ShortID(g.ID), best.Name)
		}
		return cluster.Wait(ReasonElection, facts.PollInterval(v, facts.Soon*3, facts.Later), "node %s is gone; a replica among %v takes over its slots", model.ShortID(g.ID), model.PodNames(g.Replicas))
	}
	return cluster.Pass()
}

// followed tells whether a replica could start an election when a departed node died, however long
// ago that is.
func followed(v *model.View, g model.DepartedNode, p *model.Pod) bool {
	return p.Node.EverLinked && p.Node.LinkDown <= min(g.Silent, facts.EndedWithin(v, g))+config.Validity(v.Spec.NodeTimeout)
}

// forgetDepartedNodes removes nodes from all tables that no pod has, that own nothing, that nobody copies, and that are found
// dead or whose pod has left for good. All other pods are known here, so that the id cannot come back at another address.
func forgetDepartedNodes(v *model.View) (cluster.Plan, bool) {
	ghosts := slices.DeleteFunc(v.DepartedNodes(), func(g model.DepartedNode) bool { return awaited(v, g) || isLeaving(v, g) })
	if len(ghosts) == 0 {
		return cluster.Pass()
	}
	g := ghosts[0] // One at a time; the others have their turn.
	if step := orphans(v, g); len(step.Replicas) > 0 {
		return cluster.Do(step, "others own what node %s had, and its replicas have not followed them", model.ShortID(g.ID))
	}
	switch {
	case len(g.Replicas) > 0 || len(g.Slots) > 0:
		return cluster.Wait(ReasonGossip, facts.PollInterval(v, facts.Soon*3, facts.Later), "the nodes have yet to learn who took over from node %s", model.ShortID(g.ID))
	case !g.Dead && !hasLeft(v, g):
		return cluster.Wait(ReasonGossip, facts.PollInterval(v, facts.Soon*3, facts.Later), "node %s is gone; the others have yet to find out", model.ShortID(g.ID))
	}
	return cluster.Do(steps.Forget{ID: g.ID, Pods: g.KnownBy}, "node %s is gone for good, owns nothing and has no replicas", model.ShortID(g.ID))
}

// orphans are replicas of a departed node that owns nothing any more. A replica follows the node
// that takes over all slots that its primary had, as far as it knows, and no other
// (cluster-allow-replica-migration is off): not when it was away while slots came or went.
func orphans(v *model.View, g model.DepartedNode) (step steps.Replicate) {
	for _, p := range g.Replicas {
		primary := v.DesignatedPrimary(p.Shard)
		if len(g.Slots) > 0 || primary == nil || !primary.OwnsSlots() || p.Deleting || p.Node.Loading || facts.Unlinked(v, p) < facts.Patience {
			continue
		}
		if peer, ok := p.Node.Peer(primary.Node.ID); ok && !peer.Replica {
			step.Replicas = append(step.Replicas, steps.Following{Pod: p.Name, Primary: primary.Name, PrimaryID: primary.Node.ID})
		}
	}
	return step
}

// awaited tells whether some slot is on its way to or from a departed node: its name says which
// shard goes on with that.
func awaited(v *model.View, g model.DepartedNode) bool {
	return slices.ContainsFunc(v.Readable, func(p *model.Pod) bool {
		return slices.ContainsFunc(p.Node.Self().Open, func(o model.Open) bool { return o.Other == g.ID && !o.Importing })
	})
}

// waitForOwners waits until every shard has one owner, or none that anybody knows of.
func waitForOwners(v *model.View) (cluster.Plan, bool) {
	for shard := range v.Shards {
		switch owners := v.Owners(shard); {
		case len(owners) > 1:
			return cluster.Wait(ReasonGossip, facts.PollInterval(v, facts.Soon, facts.Later), "%v both claim the slots of shard %d; the others settle it", model.PodNames(owners), shard)
		case len(owners) == 0 && v.ReportedOwner(shard):
			return cluster.Wait(ReasonGossip, facts.PollInterval(v, facts.Soon, facts.Later), "the servers have yet to agree on who owns the slots of shard %d", shard)
		case len(owners) == 0 && v.DesignatedPrimary(shard) == nil && !v.Idle(shard):
			return cluster.Refuse(ReasonForeignSlots,
				"shard %d owns no slots, and its servers hold keys or copy those of another shard: save what is needed from them, then delete their claims and pods", shard)
		}
	}
	return cluster.Pass()
}

// waitForGossip waits until all servers tell the same about who owns what, and all of them are content.
func waitForGossip(v *model.View) (cluster.Plan, bool) {
	if plan, waits := waitForOwners(v); waits {
		return plan, true
	}
	for _, p := range v.Readable {
		if !p.Node.StateOK {
			return cluster.Wait(ReasonGossip, facts.PollInterval(v, facts.Soon, facts.Later), "%s does not see a working cluster yet", p.Name)
		}
		if v.Ownership(p.Node) != v.Ownership(v.Readable[0].Node) {
			return cluster.Wait(ReasonGossip, facts.PollInterval(v, facts.Soon, facts.Later), "%s and %s do not agree on who owns which slots yet", v.Readable[0].Name, p.Name)
		}
		if v.Meshed() {
			continue
		}
		for _, other := range v.Readable {
			if peer, ok := p.Node.Peer(other.Node.ID); !ok || peer.Failed || peer.Failing {
				return cluster.Wait(ReasonGossip, facts.PollInterval(v, facts.Soon*3, facts.Later), "%s does not see %s yet", p.Name, other.Name)
			}
		}
	}
	return cluster.Pass()
}

// waitForReplicas waits until every replica copies its own shard's primary and has caught up with it.
func waitForReplicas(v *model.View) (cluster.Plan, bool) {
	switch p := facts.FirstUnsynced(v); {
	case p == nil:
		return cluster.Pass()
	case p.After == 0:
		return cluster.Refuse(ReasonKeysNoSlots, "%s", p.Why)
	default:
		return cluster.Wait(ReasonSync, p.After, "%s", p.Why)
	}
}
