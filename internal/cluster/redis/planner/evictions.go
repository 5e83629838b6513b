package planner

import (
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// guardEvictions keeps voluntary evictions away from the only copy of a shard. A budget counts ready pods, and a pod is ready long
// before it has all data; one that is not ready counts by itself. What is unknown changes nothing.
func guardEvictions(v *model.View) (cluster.Plan, bool) {
	var step steps.Guard
	for _, set := range v.Sets {
		if set.Shard < 0 || set.Shard >= len(v.Shards) {
			continue
		}
		primary := v.Primary(set.Shard)
		switch {
		case primary == nil:
		case !set.Guarded && primary.Node.Keys > 0 && slices.ContainsFunc(v.Shards[set.Shard], func(o *model.Pod) bool { return looksCopiedBy(primary, o) }):
			step.Protect = append(step.Protect, set.Shard)
		case set.Guarded && (primary.Node.Keys == 0 || hasCopy(v, set.Shard, primary)):
			step.Release = append(step.Release, set.Shard)
		}
	}
	switch {
	case len(step.Protect) > 0:
		return cluster.Do(step, "evictions wait while a replica that is ready does not have all data")
	case len(step.Release) > 0:
		return cluster.Do(step, "the replicas have all data again")
	}
	return cluster.Pass()
}

// looksCopiedBy tells whether a pod counts as a copy of a primary and is none.
func looksCopiedBy(p *model.Pod, o *model.Pod) bool {
	return o != p && o.Ready && o.Node != nil && !facts.Follows(o, p)
}

// hasCopy tells whether a shard has all of its pods, and all replicas follow the primary.
func hasCopy(v *model.View, shard int, primary *model.Pod) bool {
	return len(v.Shards[shard]) >= v.Size(shard) && !slices.ContainsFunc(v.Shards[shard], func(p *model.Pod) bool {
		return p != primary && (p.Node == nil || !facts.Follows(p, primary))
	})
}
