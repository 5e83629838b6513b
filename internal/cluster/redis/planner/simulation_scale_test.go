package planner_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/balance"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// ensure makes the StatefulSets that are missing, and gives every one the pods that are asked for at least, as the controller does in
// each pass.
func (s *simulation) ensure() {
	for shard := range s.spec.Shards {
		if _, ok := s.sets[shard]; !ok {
			s.uids++
			s.sets[shard] = model.Set{Shard: shard, UID: fmt.Sprintf("set-%d", s.uids)}
		}
	}
	for _, shard := range slices.Sorted(maps.Keys(s.sets)) {
		set := s.sets[shard]
		set.Replicas = max(set.Replicas, s.spec.Copies())
		s.sets[shard] = set
		for ordinal := range set.Replicas {
			name := cluster.Pod(cluster.ShardSet("c", shard), ordinal)
			i := slices.IndexFunc(s.pods, func(p *simPod) bool { return p.name == name })
			switch {
			case i < 0:
				s.pods = append(s.pods, &simPod{name: name, shard: shard, ordinal: ordinal, backAt: s.soon(20)})
			case !s.pods[i].exists && s.pods[i].backAt.IsZero():
				s.pods[i].backAt = s.soon(20)
			}
		}
	}
}

// heavy are slots that weigh a MiB each, and all others nothing to speak of.
const heavy = 900

// weigh does what the controller does. Now and then somebody approves of what is proposed, or the operator forgets it.
func (s *simulation) weigh(state *model.State) {
	if !s.spec.Rebalance.On() {
		return
	}
	state.Weights = make([]int64, slots.Count)
	for slot := range heavy {
		state.Weights[slot] = 1 << 20
	}
	if s.rnd.IntN(50) == 0 {
		s.proposal = nil
	}
	if s.proposal, _ = balance.Propose(*state, s.proposal); s.proposal != nil && s.rnd.IntN(10) == 0 {
		s.spec.Rebalance.Approved, s.resharded = s.proposal.ID, true
		state.Spec.Rebalance.Approved = s.proposal.ID
	}
	state.Proposal = s.proposal
}

// drop deletes a StatefulSet, and with it its pods and their claims.
func (s *simulation) drop(step steps.DropShard) {
	if s.sets[step.Shard].UID != step.UID {
		return
	}
	delete(s.sets, step.Shard)
	delete(s.guarded, step.Shard)
	for _, p := range s.pods {
		if p.shard == step.Shard {
			s.delete(p, true, 1)
			p.backAt = time.Time{}
		}
	}
}

// leave deletes pods that their set has no room for any more, sooner or later.
func (s *simulation) leave() {
	for _, p := range s.pods {
		if p.exists && p.ordinal >= s.sets[p.shard].Replicas && s.rnd.IntN(3) == 0 {
			s.log("pod %s leaves", p.name)
			s.delete(p, !s.spec.Persistent, 20)
			s.crashed(p) // A fault since the step may have left it the last copy, which nobody asked to keep.
		}
	}
}

// left tells whether a pod has left: what remains of it is its disk, if that.
func (s *simulation) left(p *simPod) bool { return !p.exists && p.ordinal >= s.sets[p.shard].Replicas }

// present are the pods that have not left.
func (s *simulation) present() []*simPod {
	return slices.DeleteFunc(slices.Clone(s.pods), s.left)
}

// staff are the pods that their set has room for.
func (s *simulation) staff() []*simPod {
	return slices.DeleteFunc(slices.Clone(s.pods), func(p *simPod) bool { return p.ordinal >= s.sets[p.shard].Replicas })
}

// discard deletes the claim of a pod that has left.
func (s *simulation) discard(st steps.DeleteClaim) {
	for _, p := range s.pods {
		mine := "data-"+p.name == st.Name && ((p.server != nil && p.server.ID == st.UID) || (p.homeless && p.uid == st.UID))
		if !mine {
			continue
		}
		if !s.left(p) || !s.spec.DiscardClaims {
			s.fail("%+v: %s needs it", st, p.name)
		}
		if p.server != nil {
			s.net.Remove(p.server)
		}
		p.server, p.homeless = nil, false
	}
}

// checkScale insists that no pod leaves that has what nobody else has, and that the others are in sync with each other.
func (s *simulation) checkScale(st steps.SetSize) {
	if st.To > st.From {
		return
	}
	var owner *redisfake.Server
	for slot := range sampleSlots {
		if o := s.owner(slot); o != nil && o.Shard == st.Shard {
			owner = o
		}
	}
	if owner == nil {
		return // A shard without slots has nothing to lose.
	}
	for k := range sampleKeys {
		if s.owner(k.Slot) == owner && s.visible(k) < s.acked[k] {
			s.fail("%+v: its primary does not have everything", st)
		}
	}
	for _, p := range s.pods {
		switch stays := p.ordinal < st.To; {
		case p.shard != st.Shard || p.server == nil:
		case !stays && p.server == owner:
			s.fail("%+v: %s is the primary", st, p.name)
		case stays && !p.exists, stays && !p.server.OnDisk():
			s.fail("%+v: %s is not there or not on disk", st, p.name)
		case stays && p.server != owner && !p.linkSeen:
			s.fail("%+v: %s is not in sync", st, p.name)
		}
	}
}

// checkSizes insists that there are the pods that were asked for, and that the servers have forgotten the others.
func (s *simulation) checkSizes() {
	for shard, set := range s.sets {
		if set.Replicas != s.spec.Copies() {
			s.fail("settled, but shard %d has %d pods of %d", shard, set.Replicas, s.spec.Copies())
		}
	}
	for _, p := range s.pods {
		switch {
		case p.exists && p.ordinal >= s.spec.Copies():
			s.fail("settled, but %s exists", p.name)
		case s.left(p) && p.server != nil && s.spec.DiscardClaims:
			s.fail("settled, but the claim of %s exists", p.name)
		case !s.left(p) && p.server.Knows() != len(s.present())-1:
			s.fail("settled, but %s knows %d others of %d", p.name, p.server.Knows(), len(s.present())-1)
		}
	}
}
