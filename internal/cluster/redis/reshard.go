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

// Reason names the step.
func (OpenSlots) Reason() string { return ReasonMoveSlots }

// Repairs marks the step.
func (OpenSlots) Repairs() {}

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

// Reason names the step.
func (TakeOver) Reason() string { return ReasonElect }

// Repairs marks the step.
func (TakeOver) Repairs() {}

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

// Reason names the step.
func (Adopt) Reason() string { return ReasonMoveSlots }

// Repairs marks the step.
func (Adopt) Repairs() {}

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

// Pieces marks the step.
func (MoveSlots) Pieces() {}

// Reason names the step.
func (MoveSlots) Reason() string { return ReasonMoveSlots }

// Reason names the step.
func (CloseSlots) Reason() string { return ReasonCloseSlots }

// Reason names the step.
func (DropShard) Reason() string { return ReasonDropShard }

func (s MoveSlots) String() string {
	return describe(s.Moves)
}

func describe(moves []SlotMove) string {
	return "move " + list(moves, func(m SlotMove) string { return fmt.Sprintf("%d slots from %s to %s", m.Slots.Count(), m.From, m.To) })
}

// Run sends CLUSTER SETSLOT STABLE.
func (s CloseSlots) Run(ctx context.Context, m Mover) error {
	return m.SetSlots(ctx, s.Slots, SlotStable, "")
}

// Server is the one that the step is for, whatever its id.
func (s CloseSlots) Server() (pod, id string) { return s.Pod, "" }

func (s CloseSlots) String() string { return fmt.Sprintf("close slots %s of %s", s.Slots, s.Pod) }

func (s DropShard) String() string { return fmt.Sprintf("delete the StatefulSet of shard %d", s.Shard) }

// promoteHeir replaces the primary of a shard without slots that is gone with its disk. It may have held keys of a slot that was on
// its way to it, and its replicas do.
func promoteHeir(v *view) (cluster.Plan, bool) {
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

// closeSlots cleans up after a slot that has got where it was to go: a server that learned of it from the others still says that
// it sends or awaits it. So does one that sends a slot to a node that nobody knows any more.
func closeSlots(v *view) (cluster.Plan, bool) {
	for shard := range v.shards {
		p := v.head(shard)
		if p == nil {
			continue
		}
		var stale Slots
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
		if len(stale) > 0 {
			return cluster.Do(CloseSlots{p.Name, stale}, "slots %s of %s are not on their way any more", stale, p.Name)
		}
	}
	return cluster.Pass()
}

// reopen makes two servers between which slots are on their way know of each other after one was elected in the place of the owner: it may
// not have heard that they are (older servers tell their replicas nothing of open slots), and would answer for keys that have left as if
// there were none. And who awaits slots believes nobody who claims them: when the former owner has become a replica they are nobody's to it,
// and it takes no keys of them. This takes the word of the two, and is what finishMoves goes on with, so that it waits for nobody else.
func reopen(v *view) (cluster.Plan, bool) {
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

// shardOf is the shard that a node belongs to, or did when it was alive: it announced the name of its pod. It is negative when
// nobody knows.
func (v *view) shardOf(id string) int {
	if p := v.byID[id]; p != nil {
		return p.Shard
	}
	for _, p := range v.read {
		peer, _ := p.Node.Peer(id)
		if shard, _, ok := parsePod(v.Spec.Name, v.podBehind(peer)); ok {
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
		return cluster.Do(MoveSlots{For: moveFor, Moves: []SlotMove{moveBetween(from, to, from.Node.Self().Slots)}},
			"%s and %s each own slots of shard %d", to.Name, from.Name, shard)
	}
	return cluster.Pass()
}

func moveBetween(from, to *Pod, slots Slots) SlotMove {
	return SlotMove{
		From: from.Name, To: to.Name, FromID: from.Node.ID, ToID: to.Node.ID, ToAddr: to.Addr, Slots: slots,
		Process: from.Node.Process, ToProcess: to.Node.Process,
	}
}

// moveSlots divides the slots among the wanted shards.
func moveSlots(v *view) (cluster.Plan, bool) {
	moves := v.balance()
	if plan, refused := v.refuseTight(moves); refused {
		return plan, true
	}
	how := "share them evenly"
	if v.Spec.Rebalance.On() {
		how = "own them"
	}
	return v.moveOrMigrate(moves, "%d slots are to move so that %d shards %s", slotsOf(moves), v.Spec.Shards, how)
}

// headroom is how much of what a server may use is filled with moved keys at most.
const headroom = 0.9

// refuseTight stops before keys are moved that their target has no room for. A server that may throw any key away when it is full
// is a cache, and takes them.
func (v *view) refuseTight(moves []Move) (cluster.Plan, bool) {
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
			return cluster.Refuse(ReasonNoRoom,
				"%d shards would need about %d MiB of memory on %s, which may use %d MiB: raise spec.config.maxMemory and spec.resources.limits.memory, or keep more shards",
				v.Spec.Shards, need>>20, to.Name, limit>>20)
		}
	}
	return cluster.Pass()
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
		out = append(out, moveBetween(from, to, m.Slots))
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
	set, ok := v.lastIdle()
	if !ok || v.parting(set) > 0 {
		return cluster.Pass() // See waitForLeavers.
	}
	return cluster.Do(DropShard{set.Shard, set.UID}, "shard %d is not wanted any more, and owns nothing", set.Shard)
}
