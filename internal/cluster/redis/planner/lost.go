package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// assignLostSlots deals with slots whose owner is gone for good and left no copy. All servers could
// be read, and no other claim may hold one. That a shard is empty from now on is for a user to
// allow: always (spec.recovery.lostShard), or for this incident. See refill for slots of a
// confirmed backup.
func assignLostSlots(v *model.View) (cluster.Plan, bool) {
	lost := facts.Losses(v)
	if len(lost) == 0 {
		return cluster.Pass()
	}
	l := lost[0]
	if i := slices.IndexFunc(lost, func(l facts.Loss) bool { return serves(v.Restore, l) }); i > 0 {
		l = lost[i] // Nobody has to be asked for it.
	}
	g, slots := l.DepartedNode, l.Slots
	shard, incident := facts.ShardOfDeparted(v, g), facts.Digest(g.ID) // A node dies once.
	what := fmt.Sprintf("slots %s belong to node %s, which is gone with its disk and left no replica with data", slots, model.ShortID(g.ID))
	if shard < 0 || shard >= len(v.Shards) {
		return cluster.Refuse(ReasonShardLost, "%s. %s. Bring its volume back or restore a backup", what, others(v, g))
	}
	what = fmt.Sprintf("shard %d is lost (pods %s): %s", shard, strings.Join(model.PodNames(v.Shards[shard]), ", "), what)
	var allowed string
	switch {
	case serves(v.Restore, l):
		allowed = "backup " + v.Restore.Directory + " is loaded into them afterwards"
	case v.Spec.Approved == incident:
		allowed = "this was approved"
	case v.Spec.AssignEmpty:
		allowed = "spec.recovery.lostShard is AssignEmpty"
	default:
		return cluster.Refuse(ReasonShardLost,
			"%s. %s. Bring its volume back, or its slots from a backup (a Restore with spec.slots: Lost); or give the slots to an empty server: %s",
			what, others(v, g), facts.ApprovalCommand(v, v1alpha1.AnnotationRecover, incident))
	}
	if p, ok := refuseLeftover(v, slots); ok {
		return p, true
	}
	if into, _ := refills(v, slots, nil); len(into) > 0 {
		to := into[0]
		return cluster.Do(steps.AssignEmpty{Pod: to.Pod, ID: to.ID, Other: to.Other, Slots: to.Slots},
			"%s. Slots %s were on their way to %s, which owns them from now on, with the keys that had arrived (%s)", what, to.Slots, to.Pod, allowed)
	}
	step := emptyCandidate(v, g, shard, slots)
	if step == nil {
		return cluster.Wait(ReasonGossip, facts.Later, "%s. Its slots are served empty as soon as an empty server of shard %d knows the other primaries", what, shard)
	}
	return cluster.Do(step, "%s. Its data is lost, and its slots are served empty from now on (%s)", what, allowed)
}

// loseUnowned deals with slots of a formed cluster that no server knows an owner of: whoever knew was lost, too. All servers could be read, and
// no claim that is not in use may hold them. Giving them to an empty server would hide a loss, so that it is allowed in the same way.
func loseUnowned(v *model.View) (cluster.Plan, bool) {
	missing := v.Unassigned()
	if len(missing) == 0 {
		return cluster.Pass()
	}
	part := missing.And(facts.Served(v.Restore))
	if len(part) > 0 {
		missing = part
	}
	incident := incidentOf(v, missing)
	if len(part) == 0 && !v.Spec.AssignEmpty && v.Spec.Approved != incident {
		return cluster.Refuse(ReasonSlotsUnassigned,
			"slots %s have no owner although the cluster was formed before: bring back the pods or claims that held them, or the slots from a backup (a Restore with spec.slots: Lost); or give them to empty servers: %s",
			missing, facts.ApprovalCommand(v, v1alpha1.AnnotationRecover, incident))
	}
	if p, ok := refuseLeftover(v, missing); ok {
		return p, true
	}
	if len(v.Leavers) > 0 {
		return cluster.Wait(ReasonSlotsUnassigned, facts.Later, "slots %s have no owner, but %s, which is about to go, may know of one", missing, v.Leavers[0].Name)
	}
	if over := facts.LeftClaims(v); len(over) > 0 {
		return refuseClaims(over)
	}
	step := shares(v, missing)
	if len(step.Owners) == 0 {
		return cluster.Wait(ReasonSlotsUnassigned, facts.Later, "slots %s have no owner, and no shard that is to have them has a primary that knows the others", missing)
	}
	return cluster.Do(step, "slots %s have no owner, nor does any server know of one: their data is lost, and they are served empty from now on", missing)
}

// shares gives slots that nobody owns to the shards that are to have them, as far as these have a primary.
func shares(v *model.View, missing slots.Set) (step steps.AddSlots) {
	for shard := range min(v.Spec.Shards, len(v.Shards)) {
		share := missing.And(slots.Share(shard, v.Spec.Shards))
		to := v.DesignatedPrimary(shard)
		if i := slices.IndexFunc(v.Shards[shard], func(p *model.Pod) bool { return !p.Node.Self().Replica }); to == nil && i >= 0 {
			to = v.Shards[shard][i]
		}
		if len(share) > 0 && to != nil && !to.Node.Loading && meetsOwners(v, to) {
			step.Owners = append(step.Owners, steps.Ownership{Pod: to.Name, Slots: share})
		}
	}
	return step
}

// incidentOf tells losses of slots apart that nobody knows an owner of: those who were lost with them do not come back.
func incidentOf(v *model.View, slots slots.Set) string {
	ids := make([]string, len(v.Readable))
	for i, p := range v.Readable {
		ids[i] = p.Node.ID
	}
	slices.Sort(ids)
	return facts.Digest(slots.String() + strings.Join(ids, ""))
}

// others says what the other shards do meanwhile: without a majority of the primaries, no server serves.
func others(v *model.View, g model.DepartedNode) string {
	if living, lost := facts.Voters(v, g, v.DepartedNodes()); 2*living <= living+lost {
		return "The other shards do not serve either, because a majority of the primaries is gone"
	}
	return "The other shards keep serving"
}

// emptyCandidate makes a server of the shard the owner of its slots: a replica of the dead one, which knows what that owned, or any other. It
// is nil when no server can be.
func emptyCandidate(v *model.View, g model.DepartedNode, shard int, slots slots.Set) cluster.Step {
	if len(g.Replicas) > 0 {
		return steps.TakeOver{Shard: g.Replicas[0].Shard, PrimaryID: g.ID, To: g.Replicas[0].Name}
	}
	p := facts.SlotTaker(v, shard, func(p *model.Pod) bool {
		return (p.Node.Keys == 0 || p.OwnsSlots()) && facts.Primary(p.Node, g.ID) != "" && meetsOwners(v, p)
	})
	if p == nil {
		return nil
	}
	return steps.AssignEmpty{Pod: p.Name, ID: p.Node.ID, Other: facts.Primary(p.Node, g.ID), Slots: slots}
}

// meetsOwners reports whether of a server and every owner of slots one has the other in its table.
// Servers that a partition keeps from meeting become separate clusters when both own slots, which
// only a human can end.
func meetsOwners(v *model.View, p *model.Pod) bool {
	for shard := range v.Shards {
		if slices.ContainsFunc(v.Owners(shard), func(o *model.Pod) bool { return o != p && !facts.Knows(o, p) }) {
			return false
		}
	}
	return true
}
