package redis

import (
	"context"
	"fmt"
	"slices"

	"github.com/quorate/quorate/internal/cluster"
)

// Slots that are on their way from one server to another key by key, and what becomes of them when something comes in between: both ends
// are made to know of each other (reopen), what has arrived is closed (closeSlots), and the rest is moved to the end (finishMoves).

// CloseSlots makes a server forget that slots are on their way, which its own table says they are not.
type CloseSlots struct {
	Pod   string
	Slots Slots
}

// OpenSlots tells one of two servers between which slots are on their way what it does not know of it: with SlotMigrating the owner that
// the other one awaits them, and with SlotOwner the one that awaits them whose they are.
type OpenSlots struct {
	Pod, ID string
	Slots   Slots
	State   SlotState
	// Other is the id of the other one.
	Other string
}

// Server is the one that the step is for.
func (s OpenSlots) Server() (pod, id string) { return s.Pod, s.ID }

func (s OpenSlots) String() string {
	return fmt.Sprintf("set slots %s of %s to %s %s", s.Slots, s.Pod, s.State, short(s.Other))
}

// Run sends CLUSTER SETSLOT. Who awaits slots is to await them from the owner as well: one that came back without slots could otherwise hand
// over what it does not own any more.
func (s OpenSlots) Run(ctx context.Context, m Mover) error {
	if s.State == SlotOwner {
		if err := m.SetSlots(ctx, s.Slots, SlotImporting, s.Other); err != nil {
			return err
		}
	}
	return m.SetSlots(ctx, s.Slots, s.State, s.Other)
}

// Run sends CLUSTER SETSLOT STABLE.
func (s CloseSlots) Run(ctx context.Context, m Mover) error {
	return m.SetSlots(ctx, s.Slots, SlotStable, "")
}

// Server is the one that the step is for, whatever its id.
func (s CloseSlots) Server() (pod, id string) { return s.Pod, "" }

func (s CloseSlots) String() string { return fmt.Sprintf("close slots %s of %s", s.Slots, s.Pod) }

// closeSlots closes slots that are open although their move is over: a server that learned the new
// owner over the bus keeps the state of the move, as does one whose slot was to go to a node that has
// left the cluster, and a replica that was down when its primary closed the slot.
func closeSlots(v *view) (cluster.Plan, bool) {
	for shard := range v.shards {
		p := v.head(shard)
		if p == nil {
			continue
		}
		if stale := Union(v.closed(p), v.openOnReplicas(p)); len(stale) > 0 {
			return cluster.Do(CloseSlots{p.Name, stale}, "slots %s of %s are not on their way any more", stale, p.Name)
		}
		for _, former := range v.shards[shard] {
			if stale := v.openOnFormer(former, p); len(stale) > 0 {
				return cluster.Do(CloseSlots{former.Name, stale}, "slots %s are not on their way to or from %s any more, whose shard %s leads", stale, former.Name, p.Name)
			}
		}
	}
	return cluster.Pass()
}

// closed returns the slots that are open on a primary although their move is over.
func (v *view) closed(p *Pod) (stale Slots) {
	for _, open := range p.Node.Self().Open {
		own := p.Node.Self().Slots.And(open.Slots)
		if open.Importing {
			stale = Union(stale, own)
			continue
		}
		stale = Union(stale, open.Slots.Minus(own))
		if to := v.shardOf(open.Other); to < 0 || to >= len(v.shards) {
			stale = Union(stale, own)
		}
	}
	return stale
}

// openOnFormer returns the slots that are open on a former primary and that no server sends to it. It
// was replaced while they were on their way, during a partition, and holds keys or lost its last slots
// one by one, so that it does not follow its successor. An importing server rejects what others report
// of such slots (clusterUpdateSlotsConfigWith in the servers' source).
func (v *view) openOnFormer(former, primary *Pod) (stale Slots) {
	if former.Node == nil || former == primary || !primary.ownsSlots() || former.Node.Self().Replica || former.ownsSlots() {
		return nil
	}
	for _, open := range former.Node.Self().Open {
		stale = Union(stale, open.Slots)
	}
	for _, p := range v.read {
		for _, open := range p.Node.Self().Open {
			if !open.Importing && open.Other == former.Node.ID && p.ownsSlots() {
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
func (v *view) openOnReplicas(p *Pod) (stale Slots) {
	for _, replica := range v.shards[p.Shard] {
		if replica.Node == nil || replica.Node.Self().PrimaryID != p.Node.ID || !replica.Node.LinkUp {
			continue
		}
		for _, open := range replica.Node.Self().Open {
			stale = Union(stale, open.Slots)
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
func reopenSlots(v *view) (cluster.Plan, bool) {
	for _, to := range v.read {
		if to.Node.Self().Replica || to.Node.Loading {
			continue
		}
		for _, open := range to.Node.Self().Open {
			for shard := range v.shards {
				from := v.primary(shard)
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
func introduceSlots(from, to *Pod, slots Slots) (cluster.Plan, bool) {
	if plan, ok := tellOwner(to, from, slots); ok {
		return plan, true
	}
	heir, _ := from.Node.Peer(to.Node.ID)
	if unsaid := slots.Minus(from.Node.sends()); len(unsaid) > 0 && heir.ID != "" && !heir.Replica {
		return cluster.Do(OpenSlots{from.Name, from.Node.ID, unsaid, SlotMigrating, to.Node.ID}, "%s owns slots that %s awaits, and does not know of it", from.Name, to.Name)
	}
	return cluster.Pass()
}

// tellOwner tells a server whose slots are that it is to get, where it does not know.
func tellOwner(to, owner *Pod, slots Slots) (cluster.Plan, bool) {
	known, _ := to.Node.Peer(owner.Node.ID)
	foreign := slots.Minus(known.Slots)
	if len(foreign) == 0 || known.ID == "" || known.Replica {
		return cluster.Pass()
	}
	return cluster.Do(OpenSlots{to.Name, to.Node.ID, foreign, SlotOwner, owner.Node.ID}, "%s is to get slots, and does not know that %s owns them", to.Name, owner.Name)
}

// sends are the slots that a server is sending to others.
func (n *Node) sends() Slots {
	var out Slots
	for _, open := range n.Self().Open {
		if !open.Importing {
			out = Union(out, open.Slots)
		}
	}
	return out
}

// finishMoves finishes what was begun: clients are redirected twice for an open slot, and whoever takes over from a server that had
// some does not know of them. It goes by both ends: the server that has died, or was replaced, said so on its own disk alone.
func finishMoves(v *view) (cluster.Plan, bool) {
	var moves []Move
	add := func(from, to int, slots Slots) {
		if len(slots) == 0 || from == to {
			return
		}
		if i := slices.IndexFunc(moves, func(m Move) bool { return m.From == from && m.To == to }); i >= 0 {
			moves[i].Slots = Union(moves[i].Slots, slots)
			return
		}
		moves = append(moves, Move{from, to, slots})
	}
	for shard := range v.shards {
		p := v.head(shard)
		if p == nil {
			continue
		}
		for _, open := range p.Node.Self().Open {
			if to := v.shardOf(open.Other); !open.Importing {
				add(shard, to, open.Slots.Minus(v.owned(to)))
				continue
			}
			for from := range v.shards {
				if owner := v.primary(from); owner != nil {
					add(from, shard, open.Slots.And(owner.Node.Self().Slots))
				}
			}
		}
	}
	return v.move(moves, "slots that are open from before are moved to the end")
}
