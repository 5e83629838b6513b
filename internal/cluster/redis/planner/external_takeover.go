package planner

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// waitForOutside holds up what is less urgent than a hand-over that waits for its server to be reached from outside. Until here everything
// goes on that it waits for.
func waitForOutside(v *model.View) (cluster.Plan, bool) {
	for shard, pods := range v.Shards {
		primary := v.Primary(shard)
		if primary == nil || (!primary.Outdated && slices.Contains(facts.Staying(v, shard), primary)) {
			continue
		}
		if best := facts.BestReplica(v, facts.Current(pods), primary); best != nil && facts.CutsOff(v, primary, best) {
			return waitOutside("%s is to take over from %s as soon as clients outside reach it: %s", best.Name, primary.Name, facts.WhyCutOff(v, best))
		}
	}
	return cluster.Pass()
}

// waitOutside looks again soon for what is missing outside: gossip tells nobody of it.
func waitOutside(format string, args ...any) (cluster.Plan, bool) {
	return cluster.Wait(ReasonExternal, facts.Later, "%s", fmt.Sprintf(format, args...))
}

// openMoves are the moves after which clients outside reach the slots that they reached before. to is the first server that others wait
// for; nil: none do.
func openMoves(v *model.View, moves []slots.Move) (open []slots.Move, to *model.Pod) {
	for _, m := range moves {
		from, target := v.Primary(m.From), v.DesignatedPrimary(m.To)
		if from == nil || target == nil || !facts.CutsOff(v, from, target) {
			open = append(open, m)
		} else if to == nil {
			to = target
		}
	}
	return open, to
}
