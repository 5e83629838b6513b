package redis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
)

// A StatefulSet gives up its pods from the highest ordinal down, so those are the ones that leave:
//
//	c-0-0 replica        c-0-0 primary        c-0-0 primary
//	c-0-1 replica   ──>  c-0-1 replica   ──>  c-0-1 replica
//	c-0-2 primary        c-0-2 replica        its node is forgotten, and its claim goes or stays
//	         a failover             the set is scaled
//
// More pods are simpler: the set gets them when it is applied, and they are servers without a place in the cluster like any
// other, see reintroduce and attachReplicas.

// ScaleShards changes the number of pods of StatefulSets, of those that still are the ones that were decided on.
type ScaleShards struct{ Sets []SetSize }

// SetSize is the StatefulSet of a shard, with the number of pods that it has and that it gets.
type SetSize struct {
	Shard, From, To      int
	UID, ResourceVersion string
}

// ReasonScaleShards is the reason of ScaleShards.
const ReasonScaleShards = "ScalingShards"

func (s ScaleShards) String() string {
	return "scale " + list(s.Sets, func(c SetSize) string { return fmt.Sprintf("shard %d from %d pods to %d", c.Shard, c.From, c.To) })
}

// shrink lets the pods go that shards have too many of. It asks nothing of them but that they own no slots, and nothing of
// the other shards, so that what is wrong with a pod does not keep it from leaving. Where an owner of slots is missing, a claim that is
// left could be taken for its own: see settleClaims.
func shrink(v *view) (cluster.Plan, bool) {
	if v.anyOwnerMissing() {
		return cluster.Pass()
	}
	var step ScaleShards
	var leave []string
	for shard := range v.shards {
		to := v.target(shard)
		if v.size(shard) <= to || !v.staysWhole(shard) {
			continue
		}
		primary := v.head(shard)
		if primary.Ordinal >= to && !v.atRest() {
			continue // Who takes over must know what it owns.
		}
		if primary.Ordinal >= to && !v.slotless(shard) {
			if best := v.bestReplica(v.reached(primary, current(v.staying(shard))), primary); best != nil && !v.leavesBehind(best) {
				return cluster.Do(Failover{shard, primary.Name, best.Name}, "%s is one pod too many and leaves; %s has all of its data", primary.Name, best.Name)
			}
			continue
		}
		if !slices.ContainsFunc(v.shards[shard], func(p *Pod) bool { return p.Ordinal >= to && !v.mayLeave(p, primary) }) {
			step.Sets = append(step.Sets, v.resize(shard, to))
			leave = append(leave, v.leaving(shard)...)
		}
	}
	if len(step.Sets) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "pods that are too many leave, and own nothing: %s", list(leave, func(n string) string { return n }))
}

func (v *view) resize(shard, to int) SetSize {
	set := v.sets[shard]
	return SetSize{shard, set.Replicas, to, set.UID, set.ResourceVersion}
}

// staying are the pods of a shard that are not to leave.
func (v *view) staying(shard int) []*Pod {
	return slices.DeleteFunc(slices.Clone(v.shards[shard]), func(p *Pod) bool { return p.Ordinal >= v.target(shard) })
}

// leaving are the names of the other ones.
func (v *view) leaving(shard int) []string {
	return names(slices.DeleteFunc(slices.Clone(v.shards[shard]), func(p *Pod) bool { return p.Ordinal < v.target(shard) }))
}

// staysWhole tells whether a shard has all the copies that it is to have, on disk, without those that leave. The servers have to
// know each copy, or it could not be elected.
func (v *view) staysWhole(shard int) bool {
	primary, staying := v.head(shard), v.staying(shard)
	if !v.thrives(shard) || len(staying) < v.target(shard) {
		return false
	}
	return !slices.ContainsFunc(staying, func(p *Pod) bool {
		return p != primary && (p.Node == nil || p.Deleting || !p.Ready || !p.follows(primary) || !p.Node.OnDisk || !v.knownToAll(p))
	})
}

// knownToAll tells whether all servers that could be read know another one.
func (v *view) knownToAll(p *Pod) bool {
	return !slices.ContainsFunc(v.read, func(o *Pod) bool {
		_, ok := o.Node.Peer(p.Node.ID)
		return !ok
	})
}

// mayLeave tells whether a pod takes nothing with it that others need. One that cannot be read may have become the primary:
// unless it never ran, all others have to know better.
func (v *view) mayLeave(p, primary *Pod) bool {
	switch {
	case p.Node != nil:
		return !p.ownsSlots() && !slices.Contains(v.richer(primary), p)
	case !p.HasRun:
		return true
	}
	return !p.Ready && v.stayingAgree(v.ownership(primary.Node))
}

// stayingAgree tells whether all pods of the cluster that stay could be read, and think the same of who owns what.
func (v *view) stayingAgree(table string) bool {
	for shard := range v.shards {
		if slices.ContainsFunc(v.staying(shard), func(p *Pod) bool { return p.Node == nil || v.ownership(p.Node) != table }) {
			return false
		}
	}
	return true
}

// waitForLeavingPods waits until the pods that are too many are gone.
func waitForLeavingPods(v *view) (cluster.Plan, bool) {
	for shard := range v.shards {
		if leaving := v.leaving(shard); len(leaving) > 0 {
			return cluster.Wait(ReasonLeaving, later, "%s leave as soon as the others of shard %d have everything on their disks",
				strings.Join(leaving, ", "), shard)
		}
	}
	if len(v.leavers) > 0 {
		return cluster.Wait(ReasonLeaving, later, "pod %s is one too many, and is being deleted", v.leavers[0].Name)
	}
	if set, ok := v.lastIdle(); ok {
		return cluster.Wait(ReasonLeaving, min(later, max(v.parting(set), soon)),
			"shard %d owns nothing any more, and leaves %s after its last slot: clients that come to it are sent on", set.Shard, courtesy)
	}
	return cluster.Pass()
}

// hasLeft tells whether a node was that of a pod that no StatefulSet has room for and that is gone.
func (v *view) hasLeft(g ghost) bool {
	shard, ordinal, ok := v.podOfGhost(g)
	return ok && shard < len(v.shards) && ordinal >= v.size(shard) && !v.leaves(shard, ordinal)
}

// isLeaving tells whether a node is that of a pod that no StatefulSet has room for and that is not gone yet.
func (v *view) isLeaving(g ghost) bool {
	shard, ordinal, ok := v.podOfGhost(g)
	return ok && v.leaves(shard, ordinal)
}

// podOfGhost is the shard and the ordinal of the pod that a node was the server of.
func (v *view) podOfGhost(g ghost) (shard, ordinal int, ok bool) {
	return ParsePod(v.Spec.Name, g.pod)
}
