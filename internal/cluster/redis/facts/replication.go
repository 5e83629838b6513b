package facts

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Follows tells whether a replica has all data of a primary.
func Follows(p *model.Pod, primary *model.Pod) bool {
	return p.Node.LinkUp && p.Node.Self().PrimaryID == primary.Node.ID
}

// ActingPrimary is the server that takes the writes: the appointed one, the one that it has handed over to, or the one that it has its data from. Who is a primary besides
// was replaced, and does not know it yet. While nobody is appointed it is the only one that is a primary. It is nil when there is none.
func ActingPrimary(v *model.View) *model.Pod {
	all := ActingPrimaries(v)
	if c := v.Candidate; c.Pod != "" && c.History != "" {
		if i := slices.IndexFunc(all, func(p *model.Pod) bool { return p.Name == c.Pod }); i >= 0 {
			return all[i]
		}
		if p := v.PodNamed(c.Pod); p != nil && Unheard(p) {
			return nil // It may have been promoted.
		}
	}
	if v.Appointed.Pod == "" && len(all) == 1 {
		return all[0]
	}
	if i := slices.IndexFunc(all, func(p *model.Pod) bool { return p.Name == v.Appointed.Pod }); i >= 0 {
		return all[i]
	}
	if i := slices.IndexFunc(all, func(p *model.Pod) bool { return v.Candidate.Planned() && p.Name == v.Candidate.Pod }); i >= 0 {
		return all[i]
	}
	if i := slices.IndexFunc(all, func(p *model.Pod) bool { return p.Node.Replication.FormerID == v.Appointed.History }); i >= 0 {
		return all[i]
	}
	return source(v, v.PodNamed(v.Appointed.Pod))
}

// source is the primary that a server has its data from, by way of others or not; nil when it is not known of any that it has.
func source(v *model.View, of *model.Pod) *model.Pod {
	if of == nil || of.Node == nil || (!of.Node.LinkUp && of.Node.Replication.ID == v.Appointed.History) {
		return nil
	}
	all := v.EveryPod()
	for range all { // They may copy each other.
		i := slices.IndexFunc(all, func(from *model.Pod) bool { return copiedFrom(of, from) })
		if i < 0 || all[i].Node == nil {
			return nil
		}
		if of = all[i]; of.Node.Replication.Primary {
			return of
		}
	}
	return nil
}

// ActingPrimaries are all servers that take writes, those of pods that are on their way out included.
func ActingPrimaries(v *model.View) []*model.Pod {
	var out []*model.Pod
	for _, p := range v.EveryPod() {
		if p.Node != nil && p.Node.Replication.Primary {
			out = append(out, p)
		}
	}
	return out
}

// Copies are the replicas that have all data of the primary.
func Copies(v *model.View, leader *model.Pod) []*model.Pod {
	return slices.DeleteFunc(slices.Clone(v.Readable), func(p *model.Pod) bool { return !InSync(v, p, leader) })
}

// InSync tells whether a replica has all data of the primary. A connection that carries nothing counts for a minute with the replica itself, and the
// primary does without it long before. After a primary has hung only its replicas have heard nothing: it misses none of them.
func InSync(v *model.View, p, leader *model.Pod) bool {
	return isLinked(p, leader) && (p.Node.Replication.Silence < GuardLag(v, leader)+Noticed || !misses(v, leader))
}

func isLinked(p, leader *model.Pod) bool {
	return p != leader && !p.Node.Loading && Follows(p, leader)
}

// misses tells whether a primary hears of fewer replicas than take themselves for connected to it, as far as it says so.
func misses(v *model.View, leader *model.Pod) bool {
	linked := 0
	for _, p := range v.Readable {
		if isLinked(p, leader) {
			linked++
		}
	}
	return leader.Node.Acknowledging == nil || *leader.Node.Acknowledging < linked
}

// GuardLag is how long a server that needs a replica takes writes at most without one.
func GuardLag(v *model.View, p *model.Pod) time.Duration {
	inForce := time.Duration(model.ParseNumber(p.Node.Config[model.WriteGuardLag])) * time.Second
	return max(inForce, config.MaxSilence(v.Spec.NodeTimeout))
}

// MaxLag is how many bytes a replica may be behind before it is trusted with its shard. The failover itself loses
// nothing whatever the lag: the primary holds its clients until the replica has everything. This bounds how long.
const MaxLag = 16 << 20

// FarBehind is how many bytes a replica may be behind and still count as in sync. It is larger, because the servers are
// not read at the same moment: a busy primary must not look out of sync for what it wrote in between.
const FarBehind = 4 * MaxLag

// Patience is how long a server is given to get into sync or to become ready before it counts as broken.
const Patience = 30 * time.Second

// ShardHealthy tells whether a shard has a primary that could do without the others for a while.
func ShardHealthy(v *model.View, shard int) bool {
	p := v.DesignatedPrimary(shard)
	return p != nil && p.Ready && p.Node.StateOK && p.Node.OnDisk && p.Node.Admits != model.AdmitsNobody && !p.Node.Loading
}

// Proven tells whether some pod was made from the current template, and has the resources of it.
func Proven(v *model.View) bool {
	return slices.ContainsFunc(v.Pods, func(p model.Pod) bool { return !p.Outdated && p.Resize == model.Resizing{} })
}

// Current are the pods that were made from the wanted template.
func Current(pods []*model.Pod) []*model.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *model.Pod) bool { return p.Outdated })
}

// BestReplica is the replica that is furthest with the data of its primary, nil when none is near enough. One that is not elected would hold
// up writes for the 5 s that the servers try it.
func BestReplica(v *model.View, pods []*model.Pod, primary *model.Pod) *model.Pod {
	var best *model.Pod
	for _, p := range pods {
		if Obstacle(v, p, primary) == "" && (best == nil || p.Node.Offset > best.Node.Offset) && !stoodLately(v, p) {
			best = p
		}
	}
	return best
}

// Obstacle returns why a replica cannot take over from its primary; empty: it can, if it did not stand for election lately.
func Obstacle(v *model.View, p, primary *model.Pod) string {
	known, ok := primary.Node.Peer(p.Node.ID)
	switch {
	case p == primary:
		return "it is the primary"
	case !p.Ready:
		return "it is not ready"
	case !Follows(p, primary), primary.Node.Offset-p.Node.Offset > MaxLag:
		return "it has not all data of " + primary.Name
	case v.Spec.Replicated && !InSync(v, p, primary): // The hand-over would be undone, and begin again.
		return "it has not heard from " + primary.Name + " for too long"
	case !p.Node.OnDisk:
		return "it has yet to write the data that it copied to its disk"
	case !ok, !known.Replica, !KnownToVoters(v, p):
		return "the other servers do not know it as a replica yet"
	}
	return ""
}

// ComesOrGoes tells whether a replica is known to be starting or ending. One whose node does not report is neither.
func ComesOrGoes(p *model.Pod) bool {
	starting := (p.Node == nil && !p.HasRun) || (p.Node != nil && !p.Node.EverLinked)
	return !p.NodeLost && (p.Deleting || starting)
}
