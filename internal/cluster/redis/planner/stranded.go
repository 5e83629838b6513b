package planner

import (
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// replaceStranded gives another volume to a pod that cannot be scheduled where its own is, while the primary of its shard
// has all of its data. Where nobody can tell that it has, the pod keeps its volume, and what is said of it names the cure.
// One at a time: the others of its shard may be schedulable once it runs elsewhere.
func replaceStranded(v *model.View) (cluster.Plan, bool) {
	for shard, pods := range v.Shards {
		if !facts.ShardHealthy(v, shard) || v.MayHaveLost(shard) {
			continue
		}
		head := v.DesignatedPrimary(shard)
		for _, p := range pods {
			c := v.Claim(p)
			if c == nil || c.Stranded == "" || c.Leaving || p.Node != nil || p.Deleting || v.Now.Sub(p.Made) < facts.Stranding {
				continue
			}
			if mayDiscard(v, p, head) && !facts.IsFresh(v, shard, c.Made) {
				return cluster.Do(replace(*c, p), "pod %s cannot be scheduled: %s; %s has all of its data, so it gets another volume", p.Name, c.Stranded, head.Name)
			}
		}
	}
	return cluster.Pass()
}

// mayDiscard reports whether the primary of a shard is known to have all data of another server, which does not run.
// Other shards tell. Without others, the primary has heard from that server since it started, and knows it as its replica:
// a server that had taken over would have said so.
func mayDiscard(v *model.View, p, primary *model.Pod) bool {
	switch facts.Witnesses(v, primary, p) {
	case facts.Confirmed:
		return true
	case facts.DoNotKnowYet:
		return false
	case facts.CannotKnow:
	}
	for _, g := range v.DepartedNodes() {
		if g.Pod != p.Name {
			continue
		}
		known, ok := primary.Node.Peer(g.ID)
		if ok && known.Replica && known.PrimaryID == primary.Node.ID && known.Answered.After(primary.Started) {
			return true
		}
	}
	return false
}
