package planner

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// calm is for how long all pods have to have been ready before primaries are moved just to divide them among the nodes: one that
// comes and goes must not take its shard along each time. While there is no key, nobody minds.
const calm = time.Minute

// handOverFromLeavingPod hands shards over whose primary is about to end, or is on a node that is being emptied. It comes early: others may be
// about to end as well.
func handOverFromLeavingPod(v *model.View) (cluster.Plan, bool) {
	for shard, pods := range v.Shards {
		i := slices.IndexFunc(pods, func(p *model.Pod) bool {
			return p.Node != nil && p.OwnsSlots() && p.Node.StateOK && (p.Deleting || p.Cordoned != "") && (!v.Spec.Replicated || p == facts.ActingPrimary(v))
		})
		if i < 0 {
			continue
		}
		primary, why := pods[i], pods[i].Cordoned
		if primary.Deleting {
			why = "is about to end"
		}
		if best := stayer(v, primary); best != nil && facts.AtRest(v) {
			return cluster.Do(steps.Failover{Shard: shard, From: primary.Name, To: best.Name}, "%s %s; %s has all of its data", primary.Name, why, best.Name)
		}
	}
	return cluster.Pass()
}

// stayer is the replica that takes over from a primary that leaves: one that clients outside reach, or any when there is no time to wait.
func stayer(v *model.View, primary *model.Pod) *model.Pod {
	stays := func(p *model.Pod) bool { return !p.Deleting && p.Cordoned == "" }
	best := bestOf(v, primary, func(p *model.Pod) bool { return stays(p) && !facts.CutsOff(v, primary, p) })
	if best == nil && primary.Deleting {
		return bestOf(v, primary, stays)
	}
	return best
}

// bestOf is the best replica of those that stay in the shard and that a condition holds for; nil when there is none.
func bestOf(v *model.View, primary *model.Pod, fits func(*model.Pod) bool) *model.Pod {
	var fit []*model.Pod
	for _, p := range facts.Staying(v, primary.Shard) {
		if p != primary && p.Node != nil && fits(p) && !facts.LeavesOlderVersion(v, p) {
			fit = append(fit, p)
		}
	}
	return facts.BestReplica(v, fit, primary)
}

// spreadPrimaries divides primaries among the nodes: each hand-over makes the busier one of two nodes less busy, so that it ends.
func spreadPrimaries(v *model.View) (cluster.Plan, bool) {
	primaries := map[string]int{}
	inUse := slices.ContainsFunc(v.Readable, func(p *model.Pod) bool { return p.Node.Keys > 0 })
	for i := range v.Pods {
		p := &v.Pods[i]
		if p.NodeName == "" || !p.Ready || (inUse && v.Now.Sub(p.Since) < calm) {
			return cluster.Pass()
		}
		if p.OwnsSlots() {
			primaries[p.NodeName]++
		}
	}
	if !facts.AtRest(v) {
		return cluster.Pass()
	}
	for shard := range v.Shards {
		primary := v.Primary(shard)
		if primary == nil || !slices.Contains(facts.Staying(v, shard), primary) {
			continue
		}
		best := bestOf(v, primary, func(p *model.Pod) bool {
			return !p.Outdated && p.Cordoned == "" && !facts.CutsOff(v, primary, p) && primaries[primary.NodeName]-primaries[p.NodeName] >= 2
		})
		if best != nil {
			return cluster.Do(steps.Failover{Shard: shard, From: primary.Name, To: best.Name}, "node %s has %d primaries and node %s has %d; %s has all data of %s",
				primary.NodeName, primaries[primary.NodeName], best.NodeName, primaries[best.NodeName], best.Name, primary.Name)
		}
	}
	return cluster.Pass()
}
