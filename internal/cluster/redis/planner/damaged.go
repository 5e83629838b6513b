package planner

import (
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/gate"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// replaceDamaged has servers begin with nothing that cannot read their data, while the primary of their shard has all of it.
func replaceDamaged(v *model.View) (cluster.Plan, bool) {
	var held *cluster.Plan
	for shard, pods := range v.Shards {
		if !facts.ShardHealthy(v, shard) || v.MayHaveLost(shard) {
			continue
		}
		head := v.DesignatedPrimary(shard)
		for _, p := range pods {
			if !facts.IsDamaged(p) || onTrial(v, p) {
				continue
			}
			plan, ok := replacement(v, p, head)
			if ok && plan.Step != nil {
				return plan, true
			}
			if ok && held == nil {
				held = &plan // What another shard needs does not wait for this one.
			}
		}
	}
	if held != nil {
		return *held, true
	}
	return cluster.Pass()
}

// replacement is what becomes of a server that cannot read its data: another volume, if that is safe and was not just done.
func replacement(v *model.View, p, head *model.Pod) (cluster.Plan, bool) {
	made := p.Made
	if c := v.Claim(p); c != nil && v.Spec.Persistent {
		made = c.Made
	}
	switch witnesses := facts.Witnesses(v, head, p); {
	case witnesses == facts.CannotKnow:
		return cluster.Refuse(ReasonDamaged, "%s cannot start from its data (%s), and no other shard can tell that %s, which says that it is the primary, "+
			"has been it since: repair what is on its volume; or delete its claim and pod, to go on with what %s has", p.Name, p.Fatal, head.Name, head.Name)
	case witnesses == facts.DoNotKnowYet:
		return cluster.Pass()
	case facts.IsFresh(v, p.Shard, made):
		age := v.Now.Sub(made)
		return cluster.Wait(ReasonDamaged, facts.Between-age, "%s cannot start from its data (%s); its volume is only %s old, so it is not replaced again before %s have passed",
			p.Name, p.Fatal, age.Round(time.Second), facts.Between)
	}
	if step := beginAnew(v, p); step != nil {
		return cluster.Do(step, "%s cannot start from its data (%s), and %s has all of it: it begins anew as a replica", p.Name, p.Fatal, head.Name)
	}
	return cluster.Pass()
}

// onTrial tells whether a pod may be damaged by what it was made from: it is the first one of a new template.
func onTrial(v *model.View, p *model.Pod) bool {
	return !p.Outdated && slices.ContainsFunc(v.Pods, func(o model.Pod) bool { return o.Outdated }) && !facts.ServesWell(v, p)
}

// refuseDamaged stops where a server cannot read its data and nobody is left to copy.
func refuseDamaged(v *model.View) (cluster.Plan, bool) {
	for shard, pods := range v.Shards {
		i := slices.IndexFunc(pods, func(p *model.Pod) bool { return facts.IsDamaged(p) })
		switch {
		case i < 0:
			continue
		case !slices.ContainsFunc(pods, func(p *model.Pod) bool { return !facts.IsDamaged(p) }):
			return cluster.Refuse(ReasonDamaged, "no server of shard %d can start from its data (%s: %s): repair what is on a volume of theirs; "+
				"or delete the claims and pods of %s, to have the slots back from a backup (a Restore with spec.slots: Lost) or to go on without that data",
				shard, pods[i].Name, pods[i].Fatal, strings.Join(model.PodNames(pods), ", "))
		case !v.ReportedOwner(shard) && !v.MayHaveLost(shard) && slices.ContainsFunc(v.Readable, (*model.Pod).OwnsSlots): // Who owns slots knows all that do.
			return cluster.Refuse(ReasonDamaged, "%s cannot start from its data (%s), and its shard owns no slots: delete its claim and pod, to have it begin anew",
				pods[i].Name, pods[i].Fatal)
		case v.Primary(shard) != nil:
			if only := ownedOnlyBy(v, pods[i]); len(only) > 0 {
				return cluster.Refuse(ReasonDamaged, "%s cannot start from its data (%s), and slots %s had just been moved to it when it ended, as %s, which was elected in its place, has not heard: "+
					"repair what is on its volume; or delete its claim and pod, to go on with what %s has of these slots",
					pods[i].Name, pods[i].Fatal, only, v.Primary(shard).Name, v.Primary(shard).Name)
			}
		}
	}
	return cluster.Pass()
}

// ownedOnlyBy returns the slots of a server that has been silent for long which no server that
// answers claims.
func ownedOnlyBy(v *model.View, p *model.Pod) (only slots.Set) {
	for _, g := range facts.DepartedNodesOf(v, p) {
		if g.Silent >= mourning {
			only = slots.Union(only, facts.UnclaimedSlots(v, g))
		}
	}
	return only
}

// A process that stands still (its disk does not answer, or it was stopped) does not end without
// the operator, and as long as the kernel takes connections for it its probes pass. Where other
// servers do not hear of it either, its pod is deleted:
//
//	the server                                     is ended
//	was a primary, and others own all its slots    immediately: going on, it would first answer what clients have sent it since
//	copies a primary that answers                  when it has hung for facts.Hopeless
//	leads, and has not been replaced               when it has hung for facts.Hopeless, and its data is on a volume
//	may have more than those that answer           never: a restarted process does not report how far it had got
//	starts, and has not been heard of yet          never: it loads its data, and would begin again
//
// Where no server answers, it may be the operator that is cut off, and no pod is deleted.

// endUnresponsive ends servers that hang.
func endUnresponsive(v *model.View) (cluster.Plan, bool) {
	for i := range v.Pods {
		p := &v.Pods[i]
		step := steps.End{Pods: []steps.PodRef{ref(p)}}
		switch {
		case !facts.HangsAlone(v, p):
		case p.HungFor > 0 && displaced(v, p):
			return cluster.Do(step, "%s hangs, and others own its slots by now: going on, it would answer what clients have sent it meanwhile", p.Name)
		case p.HungFor >= facts.Hopeless && facts.Dispensable(v, p):
			return cluster.Do(step, "%s takes connections and has answered none for %s, and nobody else hears of it", p.Name, facts.Hopeless)
		}
	}
	return cluster.Pass()
}

// displaced tells whether a server was a primary of the mode Sharded, and others own all that it had.
func displaced(v *model.View, p *model.Pod) bool {
	all := facts.DepartedNodesOf(v, p)
	for _, g := range all {
		if !facts.Silenced(v, g, p) || !g.Failed || !g.Primary || len(facts.UnclaimedSlots(v, g)) > 0 {
			return false
		}
	}
	return len(all) > 0 && v.Primary(p.Shard) != nil
}

// heldBack returns the first pod whose start gate does not let its server start, nil for none.
func heldBack(v *model.View) *model.Pod {
	for i := range v.Pods {
		if p := &v.Pods[i]; p.Node == nil && !p.Deleting && strings.HasPrefix(p.Stuck, gate.HeldBack) {
			return p
		}
	}
	return nil
}

// tellHeldBack adds to a plan without a step what a start gate refuses: other rules see only that a server does not
// answer, and what the gate found decides what to do about it.
func tellHeldBack(v *model.View, plan cluster.Plan) cluster.Plan {
	p := heldBack(v)
	if p == nil || plan.Step != nil || plan.Settled() || strings.Contains(plan.Message, p.Stuck) {
		return plan
	}
	plan.Message += "; pod " + p.Name + " cannot start: " + p.Stuck
	return plan
}
