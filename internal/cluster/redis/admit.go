package redis

import (
	"slices"

	"github.com/quorate/quorate/internal/cluster"
)

// Admission says for how long others may copy a server, see Decision.Admit. The gate runs once in a pod's life, so that a server that
// restarts in place begins as its file of users has it: as it began the first time, or as the operator has left that file since.
type Admission int

// Admissions of servers.
const (
	AdmitsNobody Admission = iota
	// AdmitsForNow lasts until the server restarts.
	AdmitsForNow
	// AdmitsForGood outlasts a restart in place, which brings back what is on the disk. Without it the shard would have no second copy
	// until an operator comes, however long that takes.
	AdmitsForGood
)

// allowReplication lets others copy the servers that restarted in place after they had been started with nothing to give. AddSlots and
// Replicate admit them otherwise. It need not wait for all pods, because until it is done their shards have no second copy.
func allowReplication(v *view) (cluster.Plan, bool) {
	step := AdmitReplicas{How: AdmitsForNow}
	for _, p := range v.read {
		if p.Node.Admits == AdmitsNobody && !p.Node.Loading && v.mayBeCopied(p) {
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
func keepReplicationAllowed(v *view) (cluster.Plan, bool) {
	step := AdmitReplicas{How: AdmitsForGood}
	for _, p := range v.read {
		if p.Node.Admits == AdmitsForNow && p.Node.OnDisk && (p.Node.LinkUp || p.ownsSlots()) {
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
func (v *view) mayBeCopied(p *Pod) bool {
	if p.Node.Self().Replica {
		return true
	}
	heads := p.ownsSlots() || (len(v.unassigned()) == 0 && p.Shard < len(v.shards) && p == v.head(p.Shard))
	return heads && len(v.richer(p)) == 0 && (p.Node.Keys > 0 || v.shardRead(p.Shard))
}

// richer are the pods of a primary's shard that hold far more than it does, whatever they take themselves for: one that
// was the primary before learns only later that it is a replica now. A few keys more prove nothing: writes and expiry go
// on, and a crash may have cost the primary the last second of them.
func (v *view) richer(primary *Pod) []*Pod {
	var out []*Pod
	for _, p := range v.read {
		if p != primary && p.Shard == primary.Shard && p.Node.Keys > 2*primary.Node.Keys {
			out = append(out, p)
		}
	}
	return out
}

// shardRead tells whether every pod of a shard could be read to the end.
func (v *view) shardRead(shard int) bool {
	if shard < 0 || shard >= len(v.shards) {
		return false
	}
	for _, p := range v.shards[shard] {
		if p.Node == nil || p.Node.Loading {
			return false
		}
	}
	return len(v.shards[shard]) >= v.size(shard)
}

// failOverFromEmpty hands a shard whose primary came back empty in place to the replica that has most of its data. An ordinary
// failover would have it copy the empty one first. Where the primaries that can be read are no majority, it takes over without a vote:
// nobody stands for election against it, because the empty one lives.
func failOverFromEmpty(v *view) (cluster.Plan, bool) {
	for shard := range v.shards {
		primary := v.primary(shard)
		if primary == nil || primary.Node.Admits != AdmitsNobody || primary.Node.Loading || !v.shardRead(shard) {
			continue
		}
		best := furthest(slices.DeleteFunc(v.richer(primary), func(p *Pod) bool { return p.Node.Self().PrimaryID != primary.Node.ID }))
		switch {
		case best == nil:
			continue
		case 2*v.primaries() <= v.voting():
			return cluster.Do(TakeOver{shard, primary.Node.ID, best.Name},
				"%s owns the slots of shard %d and came back with %d keys; %s holds %d, and only %d of %d primaries can vote on that",
				primary.Name, shard, primary.Node.Keys, best.Name, best.Node.Keys, v.primaries(), v.voting())
		case !v.knownToVoters(best):
			continue
		}
		return cluster.Do(Elect{shard, primary.Node.ID, best.Name},
			"%s owns the slots of shard %d and came back with %d keys; %s holds %d", primary.Name, shard, primary.Node.Keys, best.Name, best.Node.Keys)
	}
	return cluster.Pass()
}

// knownToVoters tells whether a majority of the primaries knows a replica as one: nobody votes for a stranger, or for a primary. In the mode
// Replicated nobody votes.
func (v *view) knownToVoters(replica *Pod) bool {
	if v.Spec.Replicated {
		return true
	}
	n := 0
	for shard := range v.shards {
		if p := v.primary(shard); p != nil {
			if known, ok := p.Node.Peer(replica.Node.ID); ok && known.Replica {
				n++
			}
		}
	}
	return 2*n > v.voting()
}

// primaries counts the shards whose primary could be read.
func (v *view) primaries() int {
	n := 0
	for shard := range v.shards {
		if v.primary(shard) != nil {
			n++
		}
	}
	return n
}

// voting counts the shards that have slots, as far as can be told, and so a vote.
func (v *view) voting() int {
	n := 0
	for shard := range v.shards {
		if !v.slotless(shard) {
			n++
		}
	}
	return n
}
