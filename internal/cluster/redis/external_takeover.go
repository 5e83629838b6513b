package redis

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/internal/cluster"
)

// Clients outside reach a server only where it says that it is outside. So what is planned gives no slots of a server that they reach to
// one that they do not reach yet: its load balancer has no address, or its server has not been told. Whose server is dead, or about to
// end, is replaced all the same.

// cutsOff tells whether clients outside would lose what one server has if another one got it. Without doors they are to lose it.
func (v *view) cutsOff(from, to *Pod) bool {
	return len(v.Doors) > 0 && from.Node.HostOutside() != "" && (to.Node.HostOutside() == "" || len(to.Differs()) > 0)
}

// reached are those of some pods that may be given what a server has, see cutsOff.
func (v *view) reached(from *Pod, pods []*Pod) []*Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *Pod) bool { return p.Node != nil && v.cutsOff(from, p) })
}

// whyCutOff says in words what a server waits for that clients outside do not reach yet.
func (v *view) whyCutOff(p *Pod) string {
	if i := slices.IndexFunc(v.Doors, func(d Door) bool { return d.Pod == p.Name && d.Problem != "" }); i >= 0 {
		return v.Doors[i].Problem
	}
	return "its server does not say yet where that is"
}

// waitForOutside holds up what is less urgent than a hand-over that waits for its server to be reached from outside. Until here everything
// goes on that it waits for.
func waitForOutside(v *view) (cluster.Plan, bool) {
	for shard, pods := range v.shards {
		primary := v.primary(shard)
		if primary == nil || (!primary.Outdated && slices.Contains(v.staying(shard), primary)) {
			continue
		}
		if best := v.bestReplica(current(pods), primary); best != nil && v.cutsOff(primary, best) {
			return v.waitOutside("%s is to take over from %s as soon as clients outside reach it: %s", best.Name, primary.Name, v.whyCutOff(best))
		}
	}
	return cluster.Pass()
}

// waitOutside looks again soon for what is missing outside: gossip tells nobody of it.
func (v *view) waitOutside(format string, args ...any) (cluster.Plan, bool) {
	return cluster.Wait(ReasonExternal, later, "%s", fmt.Sprintf(format, args...))
}

// openMoves are the moves after which clients outside reach the slots that they reached before. to is the first server that others wait
// for; nil: none do.
func (v *view) openMoves(moves []Move) (open []Move, to *Pod) {
	for _, m := range moves {
		from, target := v.primary(m.From), v.head(m.To)
		if from == nil || target == nil || !v.cutsOff(from, target) {
			open = append(open, m)
		} else if to == nil {
			to = target
		}
	}
	return open, to
}
