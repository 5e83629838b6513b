package planner

import (
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

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
