package redis

import (
	"github.com/quorate/quorate/internal/cluster"
)

// replaceStranded gives another volume to a pod that cannot be scheduled where its own is, while the primary of its shard
// has all of its data. Where nobody can tell that it has, the pod keeps its volume, and what is said of it names the cure.
// One at a time: the others of its shard may be schedulable once it runs elsewhere.
func replaceStranded(v *view) (cluster.Plan, bool) {
	for shard, pods := range v.shards {
		if !v.thrives(shard) || v.mayHaveLost(shard) {
			continue
		}
		head := v.head(shard)
		for _, p := range pods {
			c := v.claim(p)
			if c == nil || c.Stranded == "" || c.Leaving || p.Node != nil || p.Deleting || v.Now.Sub(p.Made) < stranding {
				continue
			}
			if v.mayDiscard(p, head) && !v.fresh(shard, c.Made) {
				return cluster.Do(c.replace(p), "pod %s cannot be scheduled: %s; %s has all of its data, so it gets another volume", p.Name, c.Stranded, head.Name)
			}
		}
	}
	return cluster.Pass()
}

// mayDiscard reports whether the primary of a shard is known to have all data of another server, which does not run.
// Other shards tell. Without others, the primary has heard from that server since it started, and knows it as its replica:
// a server that had taken over would have said so.
func (v *view) mayDiscard(p, primary *Pod) bool {
	switch v.witnesses(primary, p) {
	case confirmed:
		return true
	case doNotKnowYet:
		return false
	case cannotKnow:
	}
	for _, g := range v.ghosts() {
		if g.pod != p.Name {
			continue
		}
		known, ok := primary.Node.Peer(g.id)
		if ok && known.Replica && known.PrimaryID == primary.Node.ID && known.Answered.After(primary.Started) {
			return true
		}
	}
	return false
}
