package planner

import (
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// Slots that move key by key may be left open when something comes in between. reopenSlots makes
// both ends know of the move, closeSlots closes what has arrived, and finishMoves moves the rest.

// closeSlots closes slots that are open although their move is over: a server that learned the new
// owner over the bus keeps the state of the move, as does one whose slot was to go to a node that has
// left the cluster, and a replica that was down when its primary closed the slot.
func closeSlots(v *model.View) (cluster.Plan, bool) {
	for shard := range v.Shards {
		p := v.DesignatedPrimary(shard)
		if p == nil {
			continue
		}
		if stale := redisslots.Union(closed(v, p), openOnReplicas(v, p)); len(stale) > 0 {
			return cluster.Do(steps.CloseSlots{Pod: p.Name, Slots: stale}, "slots %s of %s are not on their way any more", stale, p.Name)
		}
		for _, former := range v.Shards[shard] {
			if stale := openOnFormer(v, former, p); len(stale) > 0 {
				return cluster.Do(steps.CloseSlots{Pod: former.Name, Slots: stale}, "slots %s are not on their way to or from %s any more, whose shard %s leads", stale, former.Name, p.Name)
			}
		}
	}
	return cluster.Pass()
}

// closed returns the slots that are open on a primary although their move is over.
func closed(v *model.View, p *model.Pod) (stale redisslots.Set) {
	for _, open := range p.Node.Self().Open {
		own := p.Node.Self().Slots.And(open.Slots)
		if open.Importing {
			stale = redisslots.Union(stale, own)
			continue
		}
		stale = redisslots.Union(stale, open.Slots.Minus(own))
		if to := v.ShardOf(open.Other); to < 0 || to >= len(v.Shards) {
			stale = redisslots.Union(stale, own)
		}
	}
	return stale
}

// openOnFormer returns the slots that are open on a former primary and that no server sends to it. It
// was replaced while they were on their way, during a partition, and holds keys or lost its last slots
// one by one, so that it does not follow its successor. An importing server rejects what others report
// of such slots (clusterUpdateSlotsConfigWith in the servers' source).
func openOnFormer(v *model.View, former, primary *model.Pod) (stale redisslots.Set) {
	if former.Node == nil || former == primary || !primary.OwnsSlots() || former.Node.Self().Replica || former.OwnsSlots() {
		return nil
	}
	for _, open := range former.Node.Self().Open {
		stale = redisslots.Union(stale, open.Slots)
	}
	for _, p := range v.Readable {
		for _, open := range p.Node.Self().Open {
			if !open.Importing && open.Other == former.Node.ID && p.OwnsSlots() {
				stale = stale.Minus(open.Slots)
			}
		}
	}
	return stale
}

// openOnReplicas returns the slots that are open on replicas of a primary and not on the primary. A
// replica rejects CLUSTER SETSLOT from clients. Valkey 8.0 and later replicate the command, so that
// the primary closes the slots of its replicas, whatever its own state is; replicas of other servers
// never have open slots.
func openOnReplicas(v *model.View, p *model.Pod) (stale redisslots.Set) {
	for _, replica := range v.Shards[p.Shard] {
		if replica.Node == nil || replica.Node.Self().PrimaryID != p.Node.ID || !replica.Node.LinkUp {
			continue
		}
		for _, open := range replica.Node.Self().Open {
			stale = redisslots.Union(stale, open.Slots)
		}
	}
	for _, open := range p.Node.Self().Open {
		stale = stale.Minus(open.Slots)
	}
	return stale
}

// reopenSlots makes two servers between which slots are on their way know of each other after one was elected in the place of the owner: it may
// not have heard that they are (older servers tell their replicas nothing of open slots), and would answer for keys that have left as if
// there were none. And who awaits slots believes nobody who claims them: when the former owner has become a replica they are nobody's to it,
// and it takes no keys of them. This takes the word of the two, and is what finishMoves goes on with, so that it waits for nobody else.
func reopenSlots(v *model.View) (cluster.Plan, bool) {
	for _, to := range v.Readable {
		if to.Node.Self().Replica || to.Node.Loading {
			continue
		}
		for _, open := range to.Node.Self().Open {
			for shard := range v.Shards {
				from := v.Primary(shard)
				if !open.Importing || shard == to.Shard || from == nil || from.Node.Loading {
					continue
				}
				if plan, ok := introduceSlots(from, to, open.Slots.And(from.Node.Self().Slots).Minus(to.Node.Self().Slots)); ok {
					return plan, true
				}
			}
		}
	}
	return cluster.Pass()
}

// introduceSlots tells whoever of the two does not know it that slots are on their way from one to the other.
func introduceSlots(from, to *model.Pod, slots redisslots.Set) (cluster.Plan, bool) {
	if plan, ok := tellOwner(to, from, slots); ok {
		return plan, true
	}
	heir, _ := from.Node.Peer(to.Node.ID)
	if unsaid := slots.Minus(sends(from.Node)); len(unsaid) > 0 && heir.ID != "" && !heir.Replica {
		return cluster.Do(steps.OpenSlots{Pod: from.Name, ID: from.Node.ID, Slots: unsaid, State: steps.SlotMigrating, Other: to.Node.ID}, "%s owns slots that %s awaits, and does not know of it", from.Name, to.Name)
	}
	return cluster.Pass()
}

// tellOwner tells a server whose slots are that it is to get, where it does not know.
func tellOwner(to, owner *model.Pod, slots redisslots.Set) (cluster.Plan, bool) {
	known, _ := to.Node.Peer(owner.Node.ID)
	foreign := slots.Minus(known.Slots)
	if len(foreign) == 0 || known.ID == "" || known.Replica {
		return cluster.Pass()
	}
	return cluster.Do(steps.OpenSlots{Pod: to.Name, ID: to.Node.ID, Slots: foreign, State: steps.SlotOwner, Other: owner.Node.ID}, "%s is to get slots, and does not know that %s owns them", to.Name, owner.Name)
}

// sends are the slots that a server is sending to others.
func sends(n *model.Node) redisslots.Set {
	var out redisslots.Set
	for _, open := range n.Self().Open {
		if !open.Importing {
			out = redisslots.Union(out, open.Slots)
		}
	}
	return out
}

// finishMoves finishes what was begun: clients are redirected twice for an open slot, and whoever takes over from a server that had
// some does not know of them. It goes by both ends: the server that has died, or was replaced, said so on its own disk alone.
func finishMoves(v *model.View) (cluster.Plan, bool) {
	var moves []redisslots.Move
	add := func(from, to int, slots redisslots.Set) {
		if len(slots) == 0 || from == to {
			return
		}
		if i := slices.IndexFunc(moves, func(m redisslots.Move) bool { return m.From == from && m.To == to }); i >= 0 {
			moves[i].Slots = redisslots.Union(moves[i].Slots, slots)
			return
		}
		moves = append(moves, redisslots.Move{From: from, To: to, Slots: slots})
	}
	for shard := range v.Shards {
		p := v.DesignatedPrimary(shard)
		if p == nil {
			continue
		}
		for _, open := range p.Node.Self().Open {
			if to := v.ShardOf(open.Other); !open.Importing {
				add(shard, to, open.Slots.Minus(facts.SlotsOwned(v, to)))
				continue
			}
			for from := range v.Shards {
				if owner := v.Primary(from); owner != nil {
					add(from, shard, open.Slots.And(owner.Node.Self().Slots))
				}
			}
		}
	}
	return move(v, moves, "slots that are open from before are moved to the end")
}
