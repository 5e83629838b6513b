package planner

import (
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

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
