package redis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
)

// Guard changes which shards may lose a pod to an eviction. Only Kubernetes hears of it, no server does.
type Guard struct{ Protect, Release []int }

// ReasonGuard is the reason of Guard.
const ReasonGuard = "GuardingShards"

func (g Guard) String() string {
	var parts []string
	number := func(shard int) string { return fmt.Sprint(shard) }
	if len(g.Protect) > 0 {
		parts = append(parts, "allow no evictions in shards "+list(g.Protect, number))
	}
	if len(g.Release) > 0 {
		parts = append(parts, "allow evictions in shards "+list(g.Release, number))
	}
	return strings.Join(parts, "; ")
}

// guardEvictions keeps voluntary evictions away from the only copy of a shard. A budget counts ready pods, and a pod is ready long
// before it has all data; one that is not ready counts by itself. What is unknown changes nothing.
func guardEvictions(v *view) (cluster.Plan, bool) {
	var step Guard
	for _, set := range v.Sets {
		if set.Shard < 0 || set.Shard >= len(v.shards) {
			continue
		}
		primary := v.primary(set.Shard)
		switch {
		case primary == nil:
		case !set.Guarded && primary.Node.Keys > 0 && slices.ContainsFunc(v.shards[set.Shard], primary.looksCopiedBy):
			step.Protect = append(step.Protect, set.Shard)
		case set.Guarded && (primary.Node.Keys == 0 || v.copied(set.Shard, primary)):
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
func (p *Pod) looksCopiedBy(o *Pod) bool { return o != p && o.Ready && o.Node != nil && !o.follows(p) }

// copied tells whether a shard has all of its pods, and all replicas follow the primary.
func (v *view) copied(shard int, primary *Pod) bool {
	return len(v.shards[shard]) >= v.size(shard) && !slices.ContainsFunc(v.shards[shard], func(p *Pod) bool {
		return p != primary && (p.Node == nil || !p.follows(primary))
	})
}

// follows tells whether a replica has all data of a primary.
func (p *Pod) follows(primary *Pod) bool {
	return p.Node.LinkUp && p.Node.Self().PrimaryID == primary.Node.ID
}
