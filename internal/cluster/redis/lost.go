package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

// ReasonAssignEmpty is the reason of AssignEmpty.
const ReasonAssignEmpty = "AssigningLostSlots"

// AssignEmpty gives the slots of a lost shard to a server without data.
type AssignEmpty struct {
	Pod, ID string
	// Other is the id of some other primary, see Run.
	Other string
	Slots Slots
}

// Server is the one that the step is for.
func (s AssignEmpty) Server() (pod, id string) { return s.Pod, s.ID }

func (s AssignEmpty) String() string {
	return fmt.Sprintf("give slots %s to %s, empty", s.Slots, s.Pod)
}

// Run makes the server import the slots and then own them, which gives it the highest epoch: all others believe the dead owner until
// they hear of a higher one. Where the slots are said to come from does not matter, as long as the server knows it; of the dead owner
// one that came later never hears.
func (s AssignEmpty) Run(ctx context.Context, m Mover) error {
	if err := m.SetSlots(ctx, s.Slots, SlotImporting, s.Other); err != nil {
		return err
	}
	return m.SetSlots(ctx, s.Slots, SlotOwner, s.ID)
}

// assignLostSlots deals with slots whose owner is gone for good and left no copy. All servers could
// be read, and no other claim may hold one. That a shard is empty from now on is for a user to
// allow: always (spec.recovery.lostShard), or for this incident. See refill for slots of a
// confirmed backup.
func assignLostSlots(v *view) (cluster.Plan, bool) {
	lost := v.losses()
	if len(lost) == 0 {
		return cluster.Pass()
	}
	l := lost[0]
	if i := slices.IndexFunc(lost, func(l loss) bool { return v.Restore.serves(l) }); i > 0 {
		l = lost[i] // Nobody has to be asked for it.
	}
	g, slots := l.ghost, l.slots
	shard, incident := v.homeOf(g), digest(g.id) // A node dies once.
	what := fmt.Sprintf("slots %s belong to node %s, which is gone with its disk and left no replica with data", slots, short(g.id))
	if shard < 0 || shard >= len(v.shards) {
		return cluster.Refuse(ReasonShardLost, "%s. %s. Bring its volume back or restore a backup", what, v.others(g))
	}
	what = fmt.Sprintf("shard %d is lost (pods %s): %s", shard, strings.Join(names(v.shards[shard]), ", "), what)
	var allowed string
	switch {
	case v.Restore.serves(l):
		allowed = "backup " + v.Restore.Directory + " is loaded into them afterwards"
	case v.Spec.Approved == incident:
		allowed = "this was approved"
	case v.Spec.AssignEmpty:
		allowed = "spec.recovery.lostShard is AssignEmpty"
	default:
		return cluster.Refuse(ReasonShardLost,
			"%s. %s. Bring its volume back, or its slots from a backup (a Restore with spec.slots: Lost); or give the slots to an empty server: %s",
			what, v.others(g), v.annotate(v1alpha1.AnnotationRecover, incident))
	}
	if p, ok := v.refuseLeftover(slots); ok {
		return p, true
	}
	if into, _ := v.refills(slots, nil); len(into) > 0 {
		to := into[0]
		return cluster.Do(AssignEmpty{to.Pod, to.ID, to.other, to.Slots},
			"%s. Slots %s were on their way to %s, which owns them from now on, with the keys that had arrived (%s)", what, to.Slots, to.Pod, allowed)
	}
	step := v.emptyHeir(g, shard, slots)
	if step == nil {
		return cluster.Wait(ReasonGossip, later, "%s. Its slots are served empty as soon as an empty server of shard %d knows the other primaries", what, shard)
	}
	return cluster.Do(step, "%s. Its data is lost, and its slots are served empty from now on (%s)", what, allowed)
}

// homeOf is the shard of a node that is gone: that of its pod or of its replicas, or else the first that has no owner; -1: nobody knows.
func (v *view) homeOf(g ghost) int {
	if shard := v.shardOf(g.id); shard >= 0 {
		return shard
	}
	if len(g.replicas) > 0 {
		return g.replicas[0].Shard
	}
	for shard := range v.shards {
		if len(v.owners(shard)) == 0 {
			return shard
		}
	}
	return -1
}

// loseUnowned deals with slots of a formed cluster that no server knows an owner of: whoever knew was lost, too. All servers could be read, and
// no claim that is not in use may hold them. Giving them to an empty server would hide a loss, so that it is allowed in the same way.
func loseUnowned(v *view) (cluster.Plan, bool) {
	missing := v.unassigned()
	if len(missing) == 0 {
		return cluster.Pass()
	}
	part := missing.And(v.Restore.served())
	if len(part) > 0 {
		missing = part
	}
	incident := v.incidentOf(missing)
	if len(part) == 0 && !v.Spec.AssignEmpty && v.Spec.Approved != incident {
		return cluster.Refuse(ReasonSlotsUnassigned,
			"slots %s have no owner although the cluster was formed before: bring back the pods or claims that held them, or the slots from a backup (a Restore with spec.slots: Lost); or give them to empty servers: %s",
			missing, v.annotate(v1alpha1.AnnotationRecover, incident))
	}
	if p, ok := v.refuseLeftover(missing); ok {
		return p, true
	}
	if len(v.leavers) > 0 {
		return cluster.Wait(ReasonSlotsUnassigned, later, "slots %s have no owner, but %s, which is about to go, may know of one", missing, v.leavers[0].Name)
	}
	if over := v.leftClaims(); len(over) > 0 {
		return refuseClaims(over)
	}
	step := v.shares(missing)
	if len(step.Owners) == 0 {
		return cluster.Wait(ReasonSlotsUnassigned, later, "slots %s have no owner, and no shard that is to have them has a primary that knows the others", missing)
	}
	return cluster.Do(step, "slots %s have no owner, nor does any server know of one: their data is lost, and they are served empty from now on", missing)
}

// shares gives slots that nobody owns to the shards that are to have them, as far as these have a primary.
func (v *view) shares(missing Slots) (step AddSlots) {
	for shard := range min(v.Spec.Shards, len(v.shards)) {
		share := missing.And(Share(shard, v.Spec.Shards))
		to := v.head(shard)
		if i := slices.IndexFunc(v.shards[shard], func(p *Pod) bool { return !p.Node.Self().Replica }); to == nil && i >= 0 {
			to = v.shards[shard][i]
		}
		if len(share) > 0 && to != nil && !to.Node.Loading && v.meetsOwners(to) {
			step.Owners = append(step.Owners, Ownership{to.Name, share})
		}
	}
	return step
}

// incidentOf tells losses of slots apart that nobody knows an owner of: those who were lost with them do not come back.
func (v *view) incidentOf(slots Slots) string {
	ids := make([]string, len(v.read))
	for i, p := range v.read {
		ids[i] = p.Node.ID
	}
	slices.Sort(ids)
	return digest(slots.String() + strings.Join(ids, ""))
}

// others says what the other shards do meanwhile: without a majority of the primaries, no server serves.
func (v *view) others(g ghost) string {
	if living, lost := v.voters(g, v.ghosts()); 2*living <= living+lost {
		return "The other shards do not serve either, because a majority of the primaries is gone"
	}
	return "The other shards keep serving"
}

// digest is a name for an incident that a person can type.
func digest(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:])[:6]
}

// emptyHeir makes a server of the shard the owner of its slots: a replica of the dead one, which knows what that owned, or any other. It
// is nil when no server can be.
func (v *view) emptyHeir(g ghost, shard int, slots Slots) cluster.Step {
	if len(g.replicas) > 0 {
		return TakeOver{g.replicas[0].Shard, g.id, g.replicas[0].Name}
	}
	p := v.taker(shard, func(p *Pod) bool {
		return (p.Node.Keys == 0 || p.ownsSlots()) && p.Node.primary(g.id) != "" && v.meetsOwners(p)
	})
	if p == nil {
		return nil
	}
	return AssignEmpty{p.Name, p.Node.ID, p.Node.primary(g.id), slots}
}

// meetsOwners reports whether of a server and every owner of slots one has the other in its table.
// Servers that a partition keeps from meeting become separate clusters when both own slots, which
// only a human can end.
func (v *view) meetsOwners(p *Pod) bool {
	for shard := range v.shards {
		if slices.ContainsFunc(v.owners(shard), func(o *Pod) bool { return o != p && !knows(o, p) }) {
			return false
		}
	}
	return true
}

// annotate is the command by which somebody allows what is proposed.
func (v *view) annotate(annotation, value string) string {
	return cluster.ToAnnotate("redisclusters", v.Spec.Namespace, v.Spec.Name, annotation, value)
}
