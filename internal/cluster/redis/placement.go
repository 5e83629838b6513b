package redis

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// calm is for how long all pods have to have been ready before primaries are moved just to divide them among the nodes: one that
// comes and goes must not take its shard along each time.
const calm = time.Minute

// successor is the replica that a primary, whose pod is about to be asked to go, can hand its shard to; nil when there is none.
func (v *view) successor(primary *Pod) *Pod {
	if primary == nil || primary.Cordoned == "" {
		return nil
	}
	return v.bestOf(primary, func(p *Pod) bool { return p.Cordoned == "" })
}

// bestOf is the best replica of those that stay in the shard and that a condition holds for; nil when there is none.
func (v *view) bestOf(primary *Pod, fits func(*Pod) bool) *Pod {
	var fit []*Pod
	for _, p := range v.staying(primary.Shard) {
		if p != primary && p.Node != nil && fits(p) && !v.leavesBehind(p) {
			fit = append(fit, p)
		}
	}
	return bestReplica(fit, primary)
}

// leaveNode hands shards over whose primary is on a node that is being emptied. The guard holds its pod there until it is done. It
// comes early: what else is on that node may be gone already, and have nowhere to go to.
func leaveNode(v *view) (cluster.Plan, bool) {
	for shard := range v.shards {
		primary := v.primary(shard)
		if best := v.successor(primary); best != nil && primary.Node.StateOK && v.atRest() {
			return cluster.Do(Failover{shard, primary.Name, best.Name}, "%s %s; %s has all of its data", primary.Name, primary.Cordoned, best.Name)
		}
	}
	return cluster.Pass()
}

// spreadPrimaries divides primaries among the nodes: each hand-over makes the busier one of two nodes less busy, so that it ends.
func spreadPrimaries(v *view) (cluster.Plan, bool) {
	primaries := map[string]int{}
	for i := range v.Pods {
		p := &v.Pods[i]
		if p.NodeName == "" || !p.Ready || v.Now.Sub(p.Since) < calm {
			return cluster.Pass()
		}
		if p.ownsSlots() {
			primaries[p.NodeName]++
		}
	}
	if !v.atRest() {
		return cluster.Pass()
	}
	for shard := range v.shards {
		primary := v.primary(shard)
		if primary == nil || !slices.Contains(v.staying(shard), primary) {
			continue
		}
		best := v.bestOf(primary, func(p *Pod) bool {
			return p.Cordoned == "" && primaries[primary.NodeName]-primaries[p.NodeName] >= 2
		})
		if best != nil {
			return cluster.Do(Failover{shard, primary.Name, best.Name}, "node %s has %d primaries and node %s has %d; %s has all data of %s",
				primary.NodeName, primaries[primary.NodeName], best.NodeName, primaries[best.NodeName], best.Name, primary.Name)
		}
	}
	return cluster.Pass()
}
