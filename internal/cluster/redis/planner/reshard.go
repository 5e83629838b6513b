package planner

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// keyLimit returns how large a key may be for its move to hold up servers for no longer than a
// fifth of the time after which the others report them as failed, in bytes: a source may wait four
// times for a target that hangs, see moveTimeout.
func keyLimit(v *model.View) int64 {
	return int64(v.Spec.NodeTimeout.Seconds() / 5 * steps.Slowest)
}

// moveTimeout is how long a source waits for a target that says nothing. It does so five times at most, before the others would take it for
// dead as well: once for each of the two MIGRATEs that it has in hand, and with TLS for the first of them up to four times, to write the
// rest of a record, the next one, and the end of that connection, and to be let in over another one.
func moveTimeout(v *model.View) time.Duration { return min(time.Second, v.Spec.NodeTimeout/6) }

// Reasons of the steps that change the number of shards.
const (
	ReasonNoRoom = "NotEnoughMemory"
)

const (
	// moveFor is how long slots are moved before the world is looked at again.
	moveFor = 2 * time.Second
	// movesAtOnce is how many pairs of servers move slots at the same time.
	movesAtOnce = 8
)

// promoteWithoutSlots replaces the primary of a shard without slots that is gone with its disk. It may have held keys of a slot that was on
// its way to it, and its replicas do.
func promoteWithoutSlots(v *model.View) (cluster.Plan, bool) {
	for _, g := range v.DepartedNodes() {
		best := facts.Furthest(g.Replicas)
		if best == nil && len(g.Replicas) > 0 {
			best = g.Replicas[0]
		}
		if best == nil || len(g.Slots) > 0 || len(v.Owners(best.Shard)) > 0 {
			continue
		}
		return cluster.Do(steps.TakeOver{Shard: best.Shard, PrimaryID: g.ID, To: best.Name}, "node %s is gone, and owned no slots that a replica could be elected for", model.ShortID(g.ID))
	}
	return cluster.Pass()
}

// mergeOwners makes one owner of two that share the slots of a shard: a server died that had just been given some, its replica was
// elected before it heard of them, and the dead one came back.
func mergeOwners(v *model.View) (cluster.Plan, bool) {
	for shard := range v.Shards {
		owners := v.Owners(shard)
		if len(owners) < 2 {
			continue
		}
		slices.SortStableFunc(owners, func(a, b *model.Pod) int {
			return cmp.Compare(b.Node.Self().Slots.Count(), a.Node.Self().Slots.Count())
		})
		to, from := owners[0], owners[1]
		if to.Node.Self().Slots.Overlaps(from.Node.Self().Slots) {
			continue
		}
		if plan, ok := tellOwner(to, from, from.Node.Self().Slots); ok {
			return plan, true
		}
		return cluster.Do(steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{moveBetween(v, from, to, from.Node.Self().Slots)}},
			"%s and %s each own slots of shard %d", to.Name, from.Name, shard)
	}
	return cluster.Pass()
}

func moveBetween(v *model.View, from, to *model.Pod, slots slots.Set) steps.SlotMove {
	return steps.SlotMove{
		From: from.Name, To: to.Name, FromID: from.Node.ID, ToID: to.Node.ID, ToAddr: to.Addr, Slots: slots,
		Process: from.Node.Process, ToProcess: to.Node.Process, Patience: moveTimeout(v),
	}
}

// moveSlots divides the slots among the wanted shards.
func moveSlots(v *model.View) (cluster.Plan, bool) {
	moves := facts.Balance(v)
	if why := facts.TightTarget(v, moves); why != "" {
		return cluster.Refuse(ReasonNoRoom, "%s", why)
	}
	how := "share them evenly"
	if v.Spec.Rebalance.On() {
		how = "own them"
	}
	return moveOrMigrate(v, moves, "%d slots are to move so that %d shards %s", facts.SlotsOf(moves), v.Spec.Shards, how)
}

// resharding says how far a move of slots has got, nil when none are to move.
func resharding(v *model.View) *v1alpha1.RedisReshardingStatus {
	if !v.HasOwners || len(v.Unassigned()) > 0 {
		return nil
	}
	left := facts.SlotsOf(facts.Balance(v))
	if left == 0 && facts.Approved(v) {
		left = facts.SlotsOf(facts.Remaining(v.Proposal, facts.Layout(v)))
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
func pairs(v *model.View, moves []slots.Move) (out []steps.SlotMove, plan cluster.Plan, stop bool) {
	busy := map[int]bool{}
	for _, m := range moves {
		if busy[m.From] || len(out) == movesAtOnce {
			continue
		}
		from, to := v.Primary(m.From), v.DesignatedPrimary(m.To)
		if from == nil || to == nil {
			plan, stop = cluster.Wait(ReasonGossip, facts.PollInterval(v, facts.Soon*3, facts.Later), "slots of shard %d go to shard %d, and one of the two has no primary", m.From, m.To)
			return nil, plan, stop
		}
		busy[m.From] = true
		out = append(out, moveBetween(v, from, to, m.Slots))
	}
	return out, cluster.Plan{}, false
}

// move carries moves out key by key.
func move(v *model.View, moves []slots.Move, why string, args ...any) (cluster.Plan, bool) {
	pairs, plan, stop := pairs(v, moves)
	if stop || len(pairs) == 0 {
		return plan, stop
	}
	return begin(steps.MoveSlots{For: moveFor, Moves: pairs}, why, args...)
}

// moveOrMigrate carries moves out, each with the best engine that its two servers have. One that waits after it broke holds up
// only itself.
func moveOrMigrate(v *model.View, moves []slots.Move, why string, args ...any) (cluster.Plan, bool) {
	moves, closed := openMoves(v, moves)
	pairs, plan, stop := pairs(v, moves)
	if stop {
		return plan, stop
	}
	migrate, byKey := steps.MigrateSlots{Access: v.Spec.Access}, steps.MoveSlots{For: moveFor}
	busy := map[string]bool{}
	for _, m := range pairs {
		from := v.ByID[m.FromID]
		byThemselves, wait, message := engine(v, from, v.ByID[m.ToID])
		switch {
		case wait > 0:
			plan, stop = cluster.Wait(steps.ReasonMigrationBroken, wait, "%s did not get its slots to %s, and is to try again: %s", m.From, m.To, message)
		case byThemselves && from.Node.Pulls && (busy[m.From] || busy[m.To]):
			// It is their turn when the others are done.
		case byThemselves:
			m.Slots, m.Pull = piece(from, m.Slots), from.Node.Pulls
			busy[m.From], busy[m.To] = true, true
			migrate.Moves = append(migrate.Moves, m)
		default:
			m.Limit = keyLimit(v)
			byKey.Moves = append(byKey.Moves, m)
		}
	}
	switch {
	case len(migrate.Moves) > 0:
		return begin(migrate, why, args...)
	case len(byKey.Moves) > 0:
		return begin(byKey, why, args...)
	case !stop && closed != nil:
		return waitOutside("%s is to get slots as soon as clients outside reach it: %s", closed.Name, facts.WhyCutOff(v, closed))
	}
	return plan, stop
}

// begin does a step after which there is more to do soon.
func begin(step cluster.Step, why string, args ...any) (cluster.Plan, bool) {
	plan, ok := cluster.Do(step, why, args...)
	plan.After = facts.Soon / 2
	return plan, ok
}

// dropUnstarted removes a shard that is not wanted any more before all of its servers have been started: it may be for want of room for them.
func dropUnstarted(v *model.View) (cluster.Plan, bool) {
	shard := len(v.Shards) - 1
	i := slices.IndexFunc(v.Sets, func(s model.Set) bool { return s.Shard == shard })
	if i < 0 || !v.Unwanted(shard) || !hasNothing(v, shard) || len(facts.Migrations(v)) > 0 {
		return cluster.Pass()
	}
	owned := make([]slots.Set, v.Spec.Shards)
	for n := range owned {
		owned[n] = facts.SlotsOwned(v, n)
	}
	unstarted := 0
	for _, p := range v.Shards[shard] {
		if p.Node == nil {
			unstarted++
		}
	}
	if unstarted == 0 || slots.Union(owned...).Count() < slots.Count {
		return cluster.Pass()
	}
	return cluster.Do(steps.DropShard{Shard: shard, UID: v.Sets[i].UID}, "shard %d is not wanted any more, owns nothing, and %d of its %d servers have not been started", shard, unstarted, len(v.Shards[shard]))
}

// hasNothing tells whether no server has ever been of a shard but those that run, and none of these owns or holds anything. That a pod has not
// run says nothing of the one before it, which may have got keys of slots that are on their way.
func hasNothing(v *model.View, shard int) bool {
	itsOwn := func(id string) bool { of := v.ShardOf(id); return of == shard || of < 0 }
	opens := func(p *model.Pod) bool {
		return slices.ContainsFunc(p.Node.Self().Open, func(o model.Open) bool { return p.Shard == shard || itsOwn(o.Other) })
	}
	leaves := func(p model.Pod) bool { return p.Shard == shard }
	if v.ReportedOwner(shard) || slices.ContainsFunc(v.Readable, opens) || slices.ContainsFunc(v.Leavers, leaves) ||
		slices.ContainsFunc(v.DepartedNodes(), func(g model.DepartedNode) bool { return itsOwn(g.ID) }) {
		return false
	}
	return !slices.ContainsFunc(v.Shards[shard], func(p *model.Pod) bool {
		if p.Node == nil {
			return p.HasRun
		}
		return p.OwnsSlots() || p.Node.Loading || p.Node.Keys > 0
	})
}

// dropShard removes a shard that has given everything away, the last one first. Its nodes are forgotten when their pods are gone.
func dropShard(v *model.View) (cluster.Plan, bool) {
	for _, set := range v.Sets {
		if onItsWayOut(v, set.Shard) {
			return cluster.Do(steps.DropShard{Shard: set.Shard, UID: set.UID}, "shard %d owns nothing, and a disk of it is being deleted: it starts anew before it gets slots", set.Shard)
		}
	}
	set, ok := facts.LastIdle(v)
	if !ok || facts.Parting(v, set) > 0 {
		return cluster.Pass() // See waitForLeavingPods.
	}
	return cluster.Do(steps.DropShard{Shard: set.Shard, UID: set.UID}, "shard %d is not wanted any more, and owns nothing", set.Shard)
}

// onItsWayOut tells whether a wanted shard owns nothing and has a disk that is being deleted: what it gets would go with that. It was to leave until a
// moment ago, or somebody has deleted the claim.
func onItsWayOut(v *model.View, shard int) bool {
	return !v.Unwanted(shard) && v.Unowned(shard) && v.Importer(shard) == nil &&
		slices.ContainsFunc(v.Claims, func(c model.Claim) bool { return c.Shard == shard && c.Ordinal < v.Size(shard) && c.Leaving })
}
