package facts

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
)

// Migrations are those that have not ended, as primaries tell it. The target of one that broke removes what it got before it has.
func Migrations(v *model.View) []model.Migration {
	var out []model.Migration
	for _, p := range v.Readable {
		for _, m := range p.Node.Migrations {
			known := slices.ContainsFunc(out, func(o model.Migration) bool { return o.Name == m.Name })
			if m.Running() && !known && !p.Node.Self().Replica {
				out = append(out, m)
			}
		}
	}
	return out
}

// Notice is how long before it begins a proposal is told.
const Notice = 10 * time.Minute

// SettledShards tells whether every shard has one primary, and none is to go.
func SettledShards(v *model.View) bool {
	for shard := range v.Shards {
		if v.Unwanted(shard) || v.Primary(shard) == nil {
			return false
		}
	}
	return true
}

// Remaining is what of the proposal is yet to be carried out.
func Remaining(p *model.Proposal, owned []redisslots.Set) []redisslots.Move {
	var out []redisslots.Move
	for _, m := range p.Moves {
		if m.From < len(owned) && m.To < len(owned) {
			if slots := m.Slots.And(owned[m.From]); len(slots) > 0 {
				out = append(out, redisslots.Move{From: m.From, To: m.To, Slots: slots})
			}
		}
	}
	return out
}

// HasBegun tells whether some of its slots are not where they were.
func HasBegun(p *model.Proposal, owned []redisslots.Set) bool {
	return SlotsOf(Remaining(p, owned)) < SlotsOf(p.Moves)
}

// RebalanceBegins is when a proposal is carried out without approval.
func RebalanceBegins(v *model.View) time.Time {
	at, cooled := v.Proposal.Found.Add(Notice), v.Rebalanced.Add(v.Spec.Rebalance.CoolDown)
	if cooled.After(at) {
		return cooled
	}
	return at
}

// Approved tells whether the proposal may be carried out.
func Approved(v *model.View) bool {
	r := v.Spec.Rebalance
	if !r.On() || v.Proposal == nil || v.Proposal.ID == "" {
		return false
	}
	return r.Approved == v.Proposal.ID || (r.Automatic && !v.Now.Before(RebalanceBegins(v)))
}

// BytesOf is about what slots take on their server.
func BytesOf(v *model.View, from *model.Pod, slots redisslots.Set) int64 {
	if v.Spec.Rebalance.By == v1alpha1.RebalanceByMemory && v.Weights != nil {
		return redisslots.WeightOf(slots, v.Weights)
	}
	mem := from.Node.Memory
	return (mem.Used - mem.Empty) * int64(slots.Count()) / int64(max(1, from.Node.Self().Slots.Count()))
}

// AtRest tells whether no slot is on its way, and all servers think the same of who owns what. Who takes over a shard claims what
// it thinks that this owns: a slot that has just left it would come back, without its keys.
func AtRest(v *model.View) bool {
	return Agreed(v) && len(Migrations(v)) == 0 && !slices.ContainsFunc(v.Readable, func(p *model.Pod) bool { return len(p.Node.Self().Open) > 0 })
}

// SlotsOwned are the slots that the servers of a shard say they own.
func SlotsOwned(v *model.View, shard int) redisslots.Set {
	var all []redisslots.Set
	if shard >= 0 && shard < len(v.Shards) {
		for _, p := range v.Owners(shard) {
			all = append(all, p.Node.Self().Slots)
		}
	}
	return redisslots.Union(all...)
}

// TightTarget says which server has no room for the keys that moves bring, and what to do; empty if all
// have room. A server that may evict any key when it is full is a cache, and takes them.
func TightTarget(v *model.View, moves []redisslots.Move) string {
	for shard := range v.Shards {
		to := v.DesignatedPrimary(shard)
		if to == nil || to.Node.Memory.Evicts {
			continue
		}
		limit := MemoryRoom(v, to)
		room, need := int64(float64(limit)*Headroom), to.Node.Memory.Used
		for _, m := range moves {
			if from := v.Primary(m.From); m.To == shard && from != nil {
				need += BytesOf(v, from, m.Slots)
			}
		}
		if limit > 0 && need > room && need > to.Node.Memory.Used {
			return fmt.Sprintf(
				"%d shards would need about %d MiB of memory on %s, which may use %d MiB: raise spec.config.maxMemory and spec.resources.limits.memory, or keep more shards",
				v.Spec.Shards, need>>20, to.Name, limit>>20)
		}
	}
	return ""
}

// Balance returns the moves that divide the slots evenly among the wanted shards. Where they are divided by weight, it only empties
// shards that are to go and sees to it that no other has next to none.
func Balance(v *model.View) []redisslots.Move {
	if v.Spec.Rebalance.On() {
		return redisslots.Fill(Layout(v), v.Spec.Shards)
	}
	return redisslots.Balance(Layout(v), v.Spec.Shards)
}

// Layout is what each shard owns.
func Layout(v *model.View) []redisslots.Set {
	owned := make([]redisslots.Set, len(v.Shards))
	for shard := range v.Shards {
		owned[shard] = SlotsOwned(v, shard)
	}
	return owned
}

// SlotsOf returns how many slots are moved.
func SlotsOf(moves []redisslots.Move) int {
	n := 0
	for _, m := range moves {
		n += m.Slots.Count()
	}
	return n
}

// Courtesy is how long the servers of a shard stay that has given everything away. Clients that have not heard of the last slots come to them
// and are sent on, and fetch what is where anew. Where nobody answered they would have to wait until they give up.
const Courtesy = 10 * time.Second

// Parting is for how long a shard stays that has given everything away.
func Parting(v *model.View, s model.Set) time.Duration {
	if s.IdleSince.IsZero() {
		return Courtesy
	}
	return Courtesy - v.Now.Sub(s.IdleSince)
}

// LastIdle is the last shard, if it has given everything away.
func LastIdle(v *model.View) (model.Set, bool) {
	shard := len(v.Shards) - 1
	i := slices.IndexFunc(v.Sets, func(s model.Set) bool { return s.Shard == shard })
	if i < 0 || !v.Idle(shard) || v.Importer(shard) != nil {
		return model.Set{}, false
	}
	return v.Sets[i], true
}
