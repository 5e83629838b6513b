package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// Reasons of the steps that change the number of shards.
const (
	ReasonMoveSlots  = "MovingSlots"
	ReasonCloseSlots = "ClosingSlots"
	ReasonDropShard  = "DroppingShard"
	ReasonNoRoom     = "NotEnoughMemory"
)

const (
	// moveFor is how long slots are moved before the world is looked at again.
	moveFor = 2 * time.Second
	// movesAtOnce is how many pairs of servers move slots at the same time.
	movesAtOnce = 8
)

// MoveSlots moves slots and their keys between servers, until all are moved or so much time has passed. The pairs move at the same
// time, and none leaves a slot open unless it fails.
type MoveSlots struct {
	Moves []SlotMove
	For   time.Duration
}

// DropShard deletes the StatefulSet of a shard that owns nothing any more, and with it its pods.
type DropShard struct {
	Shard int
	UID   string
}

// TakeOver makes a replica primary in the place of one that is dead, without a vote.
type TakeOver struct {
	Shard     int
	PrimaryID string
	To        string
}

func (s TakeOver) String() string {
	return fmt.Sprintf("make %s primary of shard %d in the place of node %s, without a vote", s.To, s.Shard, short(s.PrimaryID))
}

// Calls sends CLUSTER FAILOVER TAKEOVER and waits until it has happened.
func (s TakeOver) Calls() []Call { return []Call{{s.To, instead(s.PrimaryID, FailoverTakeover)}} }

// Adopt makes a server the owner of slots that its predecessor had been given, which is gone.
type Adopt struct {
	Pod, ID string
	// From is the id of the predecessor.
	From  string
	Slots Slots
}

// Server is the one that the step is for.
func (s Adopt) Server() (pod, id string) { return s.Pod, s.ID }

func (s Adopt) String() string {
	return fmt.Sprintf("give slots %s of node %s to %s", s.Slots, short(s.From), s.Pod)
}

// Run makes the server import the slots, so that its claim counts for more than any other, and then own them.
func (s Adopt) Run(ctx context.Context, m Mover) error {
	if err := m.SetSlots(ctx, s.Slots, SlotImporting, s.From); err != nil {
		return err
	}
	return m.SetSlots(ctx, s.Slots, SlotOwner, s.ID)
}

func (s MoveSlots) String() string {
	return describe(s.Moves)
}

func describe(moves []SlotMove) string {
	return "move " + list(moves, func(m SlotMove) string { return fmt.Sprintf("%d slots from %s to %s", m.Slots.Count(), m.From, m.To) })
}

func (s DropShard) String() string { return fmt.Sprintf("delete the StatefulSet of shard %d", s.Shard) }

// promoteWithoutSlots replaces the primary of a shard without slots that is gone with its disk. It may have held keys of a slot that was on
// its way to it, and its replicas do.
func promoteWithoutSlots(v *view) (cluster.Plan, bool) {
	for _, g := range v.ghosts() {
		best := furthest(g.replicas)
		if best == nil && len(g.replicas) > 0 {
			best = g.replicas[0]
		}
		if best == nil || len(g.slots) > 0 || len(v.owners(best.Shard)) > 0 {
			continue
		}
		return cluster.Do(TakeOver{best.Shard, g.id, best.Name}, "node %s is gone, and owned no slots that a replica could be elected for", short(g.id))
	}
	return cluster.Pass()
}

// shardOf is the shard that a node belongs to, or did when it was alive: it announced the name of its pod. It is negative when
// nobody knows.
func (v *view) shardOf(id string) int {
	if p := v.byID[id]; p != nil {
		return p.Shard
	}
	for _, p := range v.read {
		peer, _ := p.Node.Peer(id)
		if shard, _, ok := ParsePod(v.Spec.Name, v.podBehind(peer)); ok {
			return shard
		}
	}
	return -1
}

// atRest tells whether no slot is on its way, and all servers think the same of who owns what. Who takes over a shard claims what
// it thinks that this owns: a slot that has just left it would come back, without its keys.
func (v *view) atRest() bool {
	return v.agreed() && len(v.migrations()) == 0 && !slices.ContainsFunc(v.read, func(p *Pod) bool { return len(p.Node.Self().Open) > 0 })
}

// owned are the slots that the servers of a shard say they own.
func (v *view) owned(shard int) Slots {
	var all []Slots
	if shard >= 0 && shard < len(v.shards) {
		for _, p := range v.owners(shard) {
			all = append(all, p.Node.Self().Slots)
		}
	}
	return Union(all...)
}

// mergeOwners makes one owner of two that share the slots of a shard: a server died that had just been given some, its replica was
// elected before it heard of them, and the dead one came back.
func mergeOwners(v *view) (cluster.Plan, bool) {
	for shard := range v.shards {
		owners := v.owners(shard)
		if len(owners) < 2 {
			continue
		}
		slices.SortStableFunc(owners, func(a, b *Pod) int { return cmp.Compare(b.Node.Self().Slots.Count(), a.Node.Self().Slots.Count()) })
		to, from := owners[0], owners[1]
		if to.Node.Self().Slots.Overlaps(from.Node.Self().Slots) {
			continue
		}
		if plan, ok := tellOwner(to, from, from.Node.Self().Slots); ok {
			return plan, true
		}
		return cluster.Do(MoveSlots{For: moveFor, Moves: []SlotMove{v.moveBetween(from, to, from.Node.Self().Slots)}},
			"%s and %s each own slots of shard %d", to.Name, from.Name, shard)
	}
	return cluster.Pass()
}

func (v *view) moveBetween(from, to *Pod, slots Slots) SlotMove {
	return SlotMove{
		From: from.Name, To: to.Name, FromID: from.Node.ID, ToID: to.Node.ID, ToAddr: to.Addr, Slots: slots,
		Process: from.Node.Process, ToProcess: to.Node.Process, Patience: v.patience(),
	}
}

// moveSlots divides the slots among the wanted shards.
func moveSlots(v *view) (cluster.Plan, bool) {
	moves := v.balance()
	if why := v.tightTarget(moves); why != "" {
		return cluster.Refuse(ReasonNoRoom, "%s", why)
	}
	how := "share them evenly"
	if v.Spec.Rebalance.On() {
		how = "own them"
	}
	return v.moveOrMigrate(moves, "%d slots are to move so that %d shards %s", slotsOf(moves), v.Spec.Shards, how)
}

// headroom is how much of what a server may use is filled with moved keys at most.
const headroom = 0.9

// tightTarget says which server has no room for the keys that moves bring, and what to do; empty if all
// have room. A server that may evict any key when it is full is a cache, and takes them.
func (v *view) tightTarget(moves []Move) string {
	for shard := range v.shards {
		to := v.head(shard)
		if to == nil || to.Node.Memory.Evicts {
			continue
		}
		limit := v.room(to)
		room, need := int64(float64(limit)*headroom), to.Node.Memory.Used
		for _, m := range moves {
			if from := v.primary(m.From); m.To == shard && from != nil {
				need += v.bytesOf(from, m.Slots)
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

// balance returns the moves that divide the slots evenly among the wanted shards. Where they are divided by weight, it only empties
// shards that are to go and sees to it that no other has next to none.
func (v *view) balance() []Move {
	if v.Spec.Rebalance.On() {
		return Fill(v.layout(), v.Spec.Shards)
	}
	return Balance(v.layout(), v.Spec.Shards)
}

// layout is what each shard owns.
func (v *view) layout() []Slots {
	owned := make([]Slots, len(v.shards))
	for shard := range v.shards {
		owned[shard] = v.owned(shard)
	}
	return owned
}

func slotsOf(moves []Move) int {
	n := 0
	for _, m := range moves {
		n += m.Slots.Count()
	}
	return n
}

// resharding says how far a move of slots has got, nil when none are to move.
func (v *view) resharding() *v1alpha1.RedisReshardingStatus {
	if !v.formed || len(v.unassigned()) > 0 {
		return nil
	}
	left := slotsOf(v.balance())
	if left == 0 && v.approved() {
		left = slotsOf(v.Proposal.left(v.layout()))
	}
	if left == 0 {
		return nil
	}
	done := v.Progress
	out := &v1alpha1.RedisReshardingStatus{
		SlotsLeft: int32(left), SlotsMoved: int32(done.Slots), KeysMoved: done.Keys, BytesMoved: done.Bytes, //nolint:gosec // at most 16384
	}
	if took := v.Now.Sub(done.Since); done.Slots > 0 && took > 0 {
		out.BytesPerSecond = int64(float64(done.Bytes) / took.Seconds())
		out.TimeLeft = &metav1.Duration{Duration: (took / time.Duration(done.Slots) * time.Duration(left)).Round(time.Second)}
	}
	return out
}

// pairs are moves between servers, one from every shard at a time, because a server that sends keys does nothing else meanwhile.
func (v *view) pairs(moves []Move) (out []SlotMove, plan cluster.Plan, stop bool) {
	busy := map[int]bool{}
	for _, m := range moves {
		if busy[m.From] || len(out) == movesAtOnce {
			continue
		}
		from, to := v.primary(m.From), v.head(m.To)
		if from == nil || to == nil {
			plan, stop = cluster.Wait(ReasonGossip, v.pace(soon*3, later), "slots of shard %d go to shard %d, and one of the two has no primary", m.From, m.To)
			return nil, plan, stop
		}
		busy[m.From] = true
		out = append(out, v.moveBetween(from, to, m.Slots))
	}
	return out, cluster.Plan{}, false
}

// move carries moves out key by key.
func (v *view) move(moves []Move, why string, args ...any) (cluster.Plan, bool) {
	pairs, plan, stop := v.pairs(moves)
	if stop || len(pairs) == 0 {
		return plan, stop
	}
	return v.begin(MoveSlots{For: moveFor, Moves: pairs}, why, args...)
}

// moveOrMigrate carries moves out, each with the best engine that its two servers have. One that waits after it broke holds up
// only itself.
func (v *view) moveOrMigrate(moves []Move, why string, args ...any) (cluster.Plan, bool) {
	moves, closed := v.openMoves(moves)
	pairs, plan, stop := v.pairs(moves)
	if stop {
		return plan, stop
	}
	migrate, byKey := MigrateSlots{access: v.Spec.Access}, MoveSlots{For: moveFor}
	busy := map[string]bool{}
	for _, m := range pairs {
		from := v.byID[m.FromID]
		byThemselves, wait, message := v.engine(from, v.byID[m.ToID])
		switch {
		case wait > 0:
			plan, stop = cluster.Wait(ReasonMigrationBroken, wait, "%s did not get its slots to %s, and is to try again: %s", m.From, m.To, message)
		case byThemselves && from.Node.Pulls && (busy[m.From] || busy[m.To]):
			// It is their turn when the others are done.
		case byThemselves:
			m.Slots, m.Pull = piece(from, m.Slots), from.Node.Pulls
			busy[m.From], busy[m.To] = true, true
			migrate.Moves = append(migrate.Moves, m)
		default:
			m.Limit = v.keyLimit()
			byKey.Moves = append(byKey.Moves, m)
		}
	}
	switch {
	case len(migrate.Moves) > 0:
		return v.begin(migrate, why, args...)
	case len(byKey.Moves) > 0:
		return v.begin(byKey, why, args...)
	case !stop && closed != nil:
		return v.waitOutside("%s is to get slots as soon as clients outside reach it: %s", closed.Name, v.whyCutOff(closed))
	}
	return plan, stop
}

// begin does a step after which there is more to do soon.
func (v *view) begin(step cluster.Step, why string, args ...any) (cluster.Plan, bool) {
	plan, ok := cluster.Do(step, why, args...)
	plan.After = soon / 2
	return plan, ok
}

// courtesy is how long the servers of a shard stay that has given everything away. Clients that have not heard of the last slots come to them
// and are sent on, and fetch what is where anew. Where nobody answered they would have to wait until they give up.
const courtesy = 10 * time.Second

// Idle remembers since when shards that are to go have owned nothing, by number.
type Idle map[int]time.Time

// Watch notes it in a state. An operator that has just been started begins to count anew.
func (i Idle) Watch(s *State) {
	if len(i) == 0 && len(s.Sets) <= s.Spec.Shards {
		return
	}
	v := look(*s)
	for n := range s.Sets {
		set := &s.Sets[n]
		if set.Shard >= len(v.shards) || !v.idle(set.Shard) {
			delete(i, set.Shard)
			continue
		}
		if _, ok := i[set.Shard]; !ok {
			i[set.Shard] = s.Now
		}
		set.IdleSince = i[set.Shard]
	}
}

// parting is for how long a shard stays that has given everything away.
func (v *view) parting(s Set) time.Duration {
	if s.IdleSince.IsZero() {
		return courtesy
	}
	return courtesy - v.Now.Sub(s.IdleSince)
}

// lastIdle is the last shard, if it has given everything away.
func (v *view) lastIdle() (Set, bool) {
	shard := len(v.shards) - 1
	i := slices.IndexFunc(v.Sets, func(s Set) bool { return s.Shard == shard })
	if i < 0 || !v.idle(shard) || v.importer(shard) != nil {
		return Set{}, false
	}
	return v.Sets[i], true
}

// dropUnstarted removes a shard that is not wanted any more before all of its servers have been started: it may be for want of room for them.
func dropUnstarted(v *view) (cluster.Plan, bool) {
	shard := len(v.shards) - 1
	i := slices.IndexFunc(v.Sets, func(s Set) bool { return s.Shard == shard })
	if i < 0 || !v.unwanted(shard) || !v.hasNothing(shard) || len(v.migrations()) > 0 {
		return cluster.Pass()
	}
	owned := make([]Slots, v.Spec.Shards)
	for n := range owned {
		owned[n] = v.owned(n)
	}
	unstarted := 0
	for _, p := range v.shards[shard] {
		if p.Node == nil {
			unstarted++
		}
	}
	if unstarted == 0 || Union(owned...).Count() < SlotCount {
		return cluster.Pass()
	}
	return cluster.Do(DropShard{shard, v.Sets[i].UID}, "shard %d is not wanted any more, owns nothing, and %d of its %d servers have not been started", shard, unstarted, len(v.shards[shard]))
}

// hasNothing tells whether no server has ever been of a shard but those that run, and none of these owns or holds anything. That a pod has not
// run says nothing of the one before it, which may have got keys of slots that are on their way.
func (v *view) hasNothing(shard int) bool {
	itsOwn := func(id string) bool { of := v.shardOf(id); return of == shard || of < 0 }
	opens := func(p *Pod) bool {
		return slices.ContainsFunc(p.Node.Self().Open, func(o Open) bool { return p.Shard == shard || itsOwn(o.Other) })
	}
	leaves := func(p Pod) bool { return p.Shard == shard }
	if v.believed(shard) || slices.ContainsFunc(v.read, opens) || slices.ContainsFunc(v.leavers, leaves) ||
		slices.ContainsFunc(v.ghosts(), func(g ghost) bool { return itsOwn(g.id) }) {
		return false
	}
	return !slices.ContainsFunc(v.shards[shard], func(p *Pod) bool {
		if p.Node == nil {
			return p.HasRun
		}
		return p.ownsSlots() || p.Node.Loading || p.Node.Keys > 0
	})
}

// dropShard removes a shard that has given everything away, the last one first. Its nodes are forgotten when their pods are gone.
func dropShard(v *view) (cluster.Plan, bool) {
	for _, set := range v.Sets {
		if v.onItsWayOut(set.Shard) {
			return cluster.Do(DropShard{set.Shard, set.UID}, "shard %d owns nothing, and a disk of it is being deleted: it starts anew before it gets slots", set.Shard)
		}
	}
	set, ok := v.lastIdle()
	if !ok || v.parting(set) > 0 {
		return cluster.Pass() // See waitForLeavingPods.
	}
	return cluster.Do(DropShard{set.Shard, set.UID}, "shard %d is not wanted any more, and owns nothing", set.Shard)
}

// onItsWayOut tells whether a wanted shard owns nothing and has a disk that is being deleted: what it gets would go with that. It was to leave until a
// moment ago, or somebody has deleted the claim.
func (v *view) onItsWayOut(shard int) bool {
	return !v.unwanted(shard) && v.unowned(shard) && v.importer(shard) == nil &&
		slices.ContainsFunc(v.Claims, func(c Claim) bool { return c.Shard == shard && c.Ordinal < v.size(shard) && c.Leaving })
}
