package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// The servers replace a dead primary by a vote of the others. Where no vote can be had, the operator decides in their place:
//
//	the others are no majority,            what else has to be so                         what is done
//	or their election stays stuck
//	the primary is silent                  every server that can be read says so          wait, or elect
//	its server does not run any more       Kubernetes says so, which is the other view    TakeOver
//	it may be back in a moment             its disk may have what no replica has          wait, for patience
//	it may be back some day, and           a slot was on its way, or the replica was      refuse, and say how
//	                                       not connected lately
//
// A cluster of one shard or two never has a majority without the dead one, so that there the operator is the one who votes.

// mourning is how long a primary must have been silent before anybody is told that it will not be replaced without a human.
const mourning = time.Minute

// takeOver replaces primaries that are dead and that the servers do not replace.
func takeOver(v *model.View) (cluster.Plan, bool) { return nextTakeOver(v) }

// settleClaimsBeforeTakeOver settles retained claims when the next step is a take-over.
func settleClaimsBeforeTakeOver(v *model.View) (cluster.Plan, bool) {
	plan, held := awaitClaims(v)
	if !held {
		return cluster.Pass()
	}
	next, _ := nextTakeOver(v)
	_, takesOver := next.Step.(steps.TakeOver)
	return plan, takesOver
}

// nextTakeOver returns how the next dead primary that the servers do not replace is replaced, or
// why not.
func nextTakeOver(v *model.View) (cluster.Plan, bool) {
	ghosts := v.DepartedNodes()
	for _, g := range ghosts {
		best := facts.CandidateOf(g)
		if best == nil || len(facts.StillOwned(v, g)) == 0 || !facts.OthersTold(v, g, best) || facts.ToBeEnded(v, v.PodNamed(g.Pod)) || facts.IsForeign(v, g) {
			continue
		}
		plan, ok := cluster.Pass()
		living, lost := facts.Voters(v, g, ghosts)
		switch overdue := g.Dead && isOverdue(v, g, best); {
		case 2*living <= living+lost:
			plan, ok = succeed(v, g, best, ReasonNoMajority, fmt.Sprintf("only %d of %d primaries can vote on that", living, living+lost))
		case lacksCandidate(v, g, best) && (!overdue || (!followed(v, g, best) && !facts.OutageOf(v, g).Fenced)):
			plan, ok = electStale(v, g, best)
		case overdue:
			plan, ok = succeed(v, g, best, ReasonNotElected, fmt.Sprintf("the servers have not elected anybody in %s", facts.Electing(v.Spec)))
		}
		if ok {
			return plan, true
		}
	}
	return cluster.Pass()
}

// lacksCandidate tells whether a dead primary would be replaced by a vote if somebody stood.
func lacksCandidate(v *model.View, g model.DepartedNode, best *model.Pod) bool {
	return g.Dead && g.Failed && facts.Unelectable(v, g) && facts.KnownToVoters(v, best)
}

// isOverdue tells whether an election has taken longer than it can. One that nobody stands for is not begun.
func isOverdue(v *model.View, g model.DepartedNode, best *model.Pod) bool {
	return g.Silent >= facts.Electing(v.Spec) && (followed(v, g, best) || !facts.OutageOf(v, g).Returns)
}

// succeed makes a replica primary in the place of a dead one without a vote, or says what is in the way.
func succeed(v *model.View, g model.DepartedNode, best *model.Pod, reason, why string) (cluster.Plan, bool) {
	out := facts.OutageOf(v, g)
	switch {
	case !g.Dead && out.Fenced:
		return cluster.Wait(ReasonElection, facts.PollInterval(v, facts.Soon*3, facts.Later), "%s does not run; the others have yet to find out, and then %s takes over", out.What, best.Name)
	case !g.Dead:
		return cluster.Pass()
	case !out.Fenced:
		return awaitApproval(g, best, reason, why, out.What+" does not answer, and as far as Kubernetes knows its server may still run")
	case out.Returns && isOpen(v, g):
		return awaitApproval(g, best, reason, why, out.What+" does not run, and slots that were on their way to or from it are known in full on its disk alone")
	case out.Starting && facts.AwaitedFor(v, g) < facts.Patience:
		return cluster.Wait(ReasonElection, facts.Later, "%s is being started and may have data that no replica has: %s takes over when that has lasted for %s; %s",
			out.What, best.Name, facts.Patience, why)
	case facts.RivalReturns(v, g, best) != nil && facts.AwaitedFor(v, g) < facts.Patience:
		return cluster.Wait(ReasonElection, facts.Later, "%s is started again in a moment and may have taken over from %s, unknown to %s, which takes over when that has lasted for %s; %s",
			facts.RivalReturns(v, g, best).Name, out.What, best.Name, facts.Patience, why)
	case out.Returns && !followed(v, g, best):
		return awaitApproval(g, best, reason, why, out.What+" does not run, and no replica has been connected to it lately")
	}
	return cluster.Do(steps.TakeOver{Shard: best.Shard, PrimaryID: g.ID, To: best.Name},
		"%s is dead, and %s: %s takes over slots %s. It has everything up to byte %d of the replication stream and %s; what was acknowledged later is lost",
		out.What, why, best.Name, g.Slots, best.Node.Offset, facts.LastLinked(best))
}

// awaitApproval leaves it to a human to accept a loss that cannot be told, when there is no hope left that it heals by itself.
func awaitApproval(g model.DepartedNode, best *model.Pod, reason, why, what string) (cluster.Plan, bool) {
	if g.Silent < mourning {
		return cluster.Pass()
	}
	return cluster.Refuse(reason,
		"%s; %s: bring it back, or delete its pod and its claim if it cannot come back, or run CLUSTER FAILOVER TAKEOVER on %s to accept the loss of what was not replicated",
		what, why, best.Name)
}

// electStale makes a replica stand for election that does not do so by itself, because it has not been connected to its primary
// lately. As long as the primary may come back with its data, whether to wait for it is not for the operator to say.
func electStale(v *model.View, g model.DepartedNode, best *model.Pod) (cluster.Plan, bool) {
	switch out := facts.OutageOf(v, g); {
	case !out.Returns:
		return cluster.Do(steps.Elect{Shard: best.Shard, PrimaryID: g.ID, To: best.Name}, "%s is gone with its data and no replica stands for election by itself; %s has most of it", out.What, best.Name)
	case g.Silent < mourning:
		return cluster.Pass()
	default:
		return cluster.Refuse(ReasonNotElected,
			"%s does not answer, and no replica stands for election, because none has been connected to it lately: bring it back, or run CLUSTER FAILOVER FORCE on %s to accept the loss of what that one has not copied",
			out.What, best.Name)
	}
}

// isOpen tells whether a slot is on its way to or from a departed node, as far as any server knows.
func isOpen(v *model.View, g model.DepartedNode) bool {
	return slices.ContainsFunc(v.Readable, func(p *model.Pod) bool {
		return slices.ContainsFunc(p.Node.Self().Open, func(o model.Open) bool { return o.Other == g.ID })
	})
}

// waitForRetry waits until a replica that is to take its shard over can be elected.
func waitForRetry(v *model.View) (cluster.Plan, bool) {
	if v.Stood == nil {
		return cluster.Pass()
	}
	return awaitRetry(v, v.Stood)
}

// awaitRetry returns the wait until a replica can be elected again.
func awaitRetry(v *model.View, p *model.Pod) (cluster.Plan, bool) {
	return cluster.Wait(ReasonElection, facts.Later, "%s stood for election less than %s ago (four node timeouts), and the servers do not elect it again before that: then it takes its shard over",
		p.Name, facts.RetryAfter(v.Spec))
}
