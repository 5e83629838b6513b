package planner

import (
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// allowReplication lets others copy the servers that restarted in place after they had been started
// with nothing to give. steps.AddSlots and steps.Replicate admit them otherwise. It need not wait
// for all pods, because until it is done their shards have no second copy.
func allowReplication(v *model.View) (cluster.Plan, bool) {
	step := steps.AdmitReplicas{How: model.AdmitsForNow}
	for _, p := range v.Readable {
		if p.Node.Admits == model.AdmitsNobody && !p.Node.Loading && mayBeCopied(v, p) {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "servers that started empty have got their place in the cluster, and may be copied from now on")
}

// keepReplicationAllowed lets others copy servers also after these have restarted in place, as soon as their disks hold what they do. A replica that
// crashes before that comes back empty, and it may be the primary by then.
func keepReplicationAllowed(v *model.View) (cluster.Plan, bool) {
	step := steps.AdmitReplicas{How: model.AdmitsForGood}
	for _, p := range v.Readable {
		if p.Node.Admits == model.AdmitsForNow && p.Node.OnDisk && (p.Node.LinkUp || p.OwnsSlots()) {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "what these servers hold is on their disks, and may be copied when they have restarted in place")
}

// mayBeCopied tells whether nobody loses anything by copying a server: it is a replica, which is copied only once it has
// all of its primary's data, or a primary that has as much as any other pod of its shard.
func mayBeCopied(v *model.View, p *model.Pod) bool {
	if p.Node.Self().Replica {
		return true
	}
	heads := p.OwnsSlots() || (len(v.Unassigned()) == 0 && p.Shard < len(v.Shards) && p == v.DesignatedPrimary(p.Shard))
	return heads && len(facts.Richer(v, p)) == 0 && (p.Node.Keys > 0 || facts.ShardRead(v, p.Shard))
}

// failOverFromEmpty hands a shard whose primary came back empty in place to the replica that has most of its data. An ordinary
// failover would have it copy the empty one first. Where the primaries that can be read are no majority, it takes over without a vote:
// nobody stands for election against it, because the empty one lives.
func failOverFromEmpty(v *model.View) (cluster.Plan, bool) {
	for shard := range v.Shards {
		primary := v.Primary(shard)
		if primary == nil || primary.Node.Admits != model.AdmitsNobody || primary.Node.Loading || !facts.ShardRead(v, shard) {
			continue
		}
		best := facts.Furthest(slices.DeleteFunc(facts.Richer(v, primary), func(p *model.Pod) bool { return p.Node.Self().PrimaryID != primary.Node.ID }))
		switch {
		case best == nil:
			continue
		case 2*primaries(v) <= facts.Voting(v):
			return cluster.Do(steps.TakeOver{Shard: shard, PrimaryID: primary.Node.ID, To: best.Name},
				"%s owns the slots of shard %d and came back with %d keys; %s holds %d, and only %d of %d primaries can vote on that",
				primary.Name, shard, primary.Node.Keys, best.Name, best.Node.Keys, primaries(v), facts.Voting(v))
		case !facts.KnownToVoters(v, best):
			continue
		}
		return cluster.Do(steps.Elect{Shard: shard, PrimaryID: primary.Node.ID, To: best.Name},
			"%s owns the slots of shard %d and came back with %d keys; %s holds %d", primary.Name, shard, primary.Node.Keys, best.Name, best.Node.Keys)
	}
	return cluster.Pass()
}

// primaries counts the shards whose primary could be read.
func primaries(v *model.View) int {
	n := 0
	for shard := range v.Shards {
		if v.Primary(shard) != nil {
			n++
		}
	}
	return n
}
