package planner

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// A StatefulSet gives up its pods from the highest ordinal down, so those are the ones that leave:
//
//	c-0-0 replica        c-0-0 primary        c-0-0 primary
//	c-0-1 replica   ──>  c-0-1 replica   ──>  c-0-1 replica
//	c-0-2 primary        c-0-2 replica        its node is forgotten, and its claim goes or stays
//	         a failover             the set is scaled
//
// More pods are simpler: the set gets them when it is applied, and they are servers without a place
// in the cluster like any other, see reintroduce and attachReplicas.

// shrink lets the pods go that shards have too many of. It asks nothing of them but that they own no slots, and nothing of
// the other shards, so that what is wrong with a pod does not keep it from leaving. Where an owner of slots is missing, a claim that is
// left could be taken for its own: see settleClaims.
func shrink(v *model.View) (cluster.Plan, bool) {
	if facts.AnyOwnerMissing(v) {
		return cluster.Pass()
	}
	var step steps.ScaleShards
	var leave []string
	for shard := range v.Shards {
		to := facts.WantedCopies(v, shard)
		if v.Size(shard) <= to || !staysWhole(v, shard) {
			continue
		}
		primary := v.DesignatedPrimary(shard)
		if primary.Ordinal >= to && !facts.AtRest(v) {
			continue // Who takes over must know what it owns.
		}
		if primary.Ordinal >= to && !v.Slotless(shard) {
			if best := facts.BestReplica(v, facts.ReachedFromOutside(v, primary, facts.Current(facts.Staying(v, shard))), primary); best != nil && !facts.LeavesOlderVersion(v, best) {
				return cluster.Do(steps.Failover{Shard: shard, From: primary.Name, To: best.Name}, "%s is one pod too many and leaves; %s has all of its data", primary.Name, best.Name)
			}
			continue
		}
		if !slices.ContainsFunc(v.Shards[shard], func(p *model.Pod) bool { return p.Ordinal >= to && !mayLeave(v, p, primary) }) {
			step.Sets = append(step.Sets, resize(v, shard, to))
			leave = append(leave, leaving(v, shard)...)
		}
	}
	if len(step.Sets) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "pods that are too many leave, and own nothing: %s", steps.JoinItems(leave, func(n string) string { return n }))
}

func resize(v *model.View, shard, to int) steps.SetSize {
	set := v.SetOf[shard]
	return steps.SetSize{Shard: shard, From: set.Replicas, To: to, UID: set.UID, ResourceVersion: set.ResourceVersion}
}

// leaving are the names of the other ones.
func leaving(v *model.View, shard int) []string {
	return model.PodNames(slices.DeleteFunc(slices.Clone(v.Shards[shard]), func(p *model.Pod) bool { return p.Ordinal < facts.WantedCopies(v, shard) }))
}

// staysWhole tells whether a shard has all the copies that it is to have, on disk, without those that leave. The servers have to
// know each copy, or it could not be elected.
func staysWhole(v *model.View, shard int) bool {
	primary, staying := v.DesignatedPrimary(shard), facts.Staying(v, shard)
	if !facts.ShardHealthy(v, shard) || len(staying) < facts.WantedCopies(v, shard) {
		return false
	}
	return !slices.ContainsFunc(staying, func(p *model.Pod) bool {
		return p != primary && (p.Node == nil || p.Deleting || !p.Ready || !facts.Follows(p, primary) || !p.Node.OnDisk || !knownToAll(v, p))
	})
}

// knownToAll tells whether all servers that could be read know another one.
func knownToAll(v *model.View, p *model.Pod) bool {
	return !slices.ContainsFunc(v.Readable, func(o *model.Pod) bool {
		_, ok := o.Node.Peer(p.Node.ID)
		return !ok
	})
}

// mayLeave tells whether a pod takes nothing with it that others need. One that cannot be read may have become the primary:
// unless it never ran, all others have to know better.
func mayLeave(v *model.View, p, primary *model.Pod) bool {
	switch {
	case p.Node != nil:
		return !p.OwnsSlots() && !slices.Contains(facts.Richer(v, primary), p)
	case !p.HasRun:
		return true
	}
	return !p.Ready && stayingAgree(v, v.Ownership(primary.Node))
}

// stayingAgree tells whether all pods of the cluster that stay could be read, and think the same of who owns what.
func stayingAgree(v *model.View, table string) bool {
	for shard := range v.Shards {
		if slices.ContainsFunc(facts.Staying(v, shard), func(p *model.Pod) bool { return p.Node == nil || v.Ownership(p.Node) != table }) {
			return false
		}
	}
	return true
}

// waitForLeavingPods waits until the pods that are too many are gone.
func waitForLeavingPods(v *model.View) (cluster.Plan, bool) {
	for shard := range v.Shards {
		if leaving := leaving(v, shard); len(leaving) > 0 {
			return cluster.Wait(ReasonLeaving, facts.Later, "%s leave as soon as the others of shard %d have everything on their disks",
				strings.Join(leaving, ", "), shard)
		}
	}
	if len(v.Leavers) > 0 {
		return cluster.Wait(ReasonLeaving, facts.Later, "pod %s is one too many, and is being deleted", v.Leavers[0].Name)
	}
	if set, ok := facts.LastIdle(v); ok {
		return cluster.Wait(ReasonLeaving, min(facts.Later, max(facts.Parting(v, set), facts.Soon)),
			"shard %d owns nothing any more, and leaves %s after its last slot: clients that come to it are sent on", set.Shard, facts.Courtesy)
	}
	return cluster.Pass()
}

// hasLeft tells whether a node was that of a pod that no StatefulSet has room for and that is gone.
func hasLeft(v *model.View, g model.DepartedNode) bool {
	shard, ordinal, ok := podOfDepartedNode(v, g)
	return ok && shard < len(v.Shards) && ordinal >= v.Size(shard) && !facts.LeavesWithShrink(v, shard, ordinal)
}

// isLeaving tells whether a node is that of a pod that no StatefulSet has room for and that is not gone yet.
func isLeaving(v *model.View, g model.DepartedNode) bool {
	shard, ordinal, ok := podOfDepartedNode(v, g)
	return ok && facts.LeavesWithShrink(v, shard, ordinal)
}

// podOfDepartedNode is the shard and the ordinal of the pod that a node was the server of.
func podOfDepartedNode(v *model.View, g model.DepartedNode) (shard, ordinal int, ok bool) {
	return model.ParsePod(v.Spec.Name, g.Pod)
}
