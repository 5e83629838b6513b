package redis

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
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

// electing is how long the servers are given to replace a dead primary by themselves. They notice its death within 1.5 times the
// node timeout, ask for votes about a second later, give up after twice the node timeout, and ask once more four node timeouts
// after they first did (clusterHandleSlaveFailover in the servers' source). Both attempts may have failed for good: where the dead
// one had an epoch that its replica never heard of, nobody votes for that (Valkey issue 2169).
func (s Spec) electing() time.Duration { return 8*s.NodeTimeout + 5*time.Second }

// takeOver replaces primaries that are dead and that the servers do not replace.
func takeOver(v *view) (cluster.Plan, bool) { return v.nextTakeOver() }

// settleClaimsBeforeTakeOver settles retained claims when the next step is a take-over.
func settleClaimsBeforeTakeOver(v *view) (cluster.Plan, bool) {
	plan, held := v.awaitClaims()
	if !held {
		return cluster.Pass()
	}
	next, _ := v.nextTakeOver()
	_, takesOver := next.Step.(TakeOver)
	return plan, takesOver
}

// nextTakeOver returns how the next dead primary that the servers do not replace is replaced, or
// why not.
func (v *view) nextTakeOver() (cluster.Plan, bool) {
	ghosts := v.ghosts()
	for _, g := range ghosts {
		best := v.successor(g)
		if best == nil || len(v.stillOwned(g)) == 0 || !v.othersTold(g, best) || v.doomed(v.podNamed(g.pod)) || v.foreign(g) {
			continue
		}
		plan, ok := cluster.Pass()
		living, lost := v.voters(g, ghosts)
		switch overdue := g.dead && v.isOverdue(g, best); {
		case 2*living <= living+lost:
			plan, ok = v.succeed(g, best, ReasonNoMajority, fmt.Sprintf("only %d of %d primaries can vote on that", living, living+lost))
		case v.lacksCandidate(g, best) && (!overdue || (!v.followed(g, best) && !v.outageOf(g).fenced)):
			plan, ok = v.electStale(g, best)
		case overdue:
			plan, ok = v.succeed(g, best, ReasonNotElected, fmt.Sprintf("the servers have not elected anybody in %s", v.Spec.electing()))
		}
		if ok {
			return plan, true
		}
	}
	return cluster.Pass()
}

// lacksCandidate tells whether a dead primary would be replaced by a vote if somebody stood.
func (v *view) lacksCandidate(g ghost, best *Pod) bool {
	return g.dead && g.failed && v.unelectable(g) && v.knownToVoters(best)
}

// isOverdue tells whether an election has taken longer than it can. One that nobody stands for is not begun.
func (v *view) isOverdue(g ghost, best *Pod) bool {
	return g.silent >= v.Spec.electing() && (v.followed(g, best) || !v.outageOf(g).returns)
}

// succeed makes a replica primary in the place of a dead one without a vote, or says what is in the way.
func (v *view) succeed(g ghost, best *Pod, reason, why string) (cluster.Plan, bool) {
	out := v.outageOf(g)
	switch {
	case !g.dead && out.fenced:
		return cluster.Wait(ReasonElection, v.pace(soon*3, later), "%s does not run; the others have yet to find out, and then %s takes over", out.what, best.Name)
	case !g.dead:
		return cluster.Pass()
	case !out.fenced:
		return v.mourn(g, best, reason, why, out.what+" does not answer, and as far as Kubernetes knows its server may still run")
	case out.returns && v.isOpen(g):
		return v.mourn(g, best, reason, why, out.what+" does not run, and slots that were on their way to or from it are known in full on its disk alone")
	case out.starting && v.awaitedFor(g) < patience:
		return cluster.Wait(ReasonElection, later, "%s is being started and may have data that no replica has: %s takes over when that has lasted for %s; %s",
			out.what, best.Name, patience, why)
	case v.rivalReturns(g, best) != nil && v.awaitedFor(g) < patience:
		return cluster.Wait(ReasonElection, later, "%s is started again in a moment and may have taken over from %s, unknown to %s, which takes over when that has lasted for %s; %s",
			v.rivalReturns(g, best).Name, out.what, best.Name, patience, why)
	case out.returns && !v.followed(g, best):
		return v.mourn(g, best, reason, why, out.what+" does not run, and no replica has been connected to it lately")
	}
	return cluster.Do(TakeOver{best.Shard, g.id, best.Name},
		"%s is dead, and %s: %s takes over slots %s. It has everything up to byte %d of the replication stream and %s; what was acknowledged later is lost",
		out.what, why, best.Name, g.slots, best.Node.Offset, lastLinked(best))
}

// lastLinked says how old a replica's copy is.
func lastLinked(p *Pod) string {
	if !p.Node.EverLinked {
		return "has not been connected since it started"
	}
	return fmt.Sprintf("lost the connection %s ago", p.Node.LinkDown)
}

// mourn leaves it to a human to accept a loss that cannot be told, when there is no hope left that it heals by itself.
func (v *view) mourn(g ghost, best *Pod, reason, why, what string) (cluster.Plan, bool) {
	if g.silent < mourning {
		return cluster.Pass()
	}
	return cluster.Refuse(reason,
		"%s; %s: bring it back, or delete its pod and its claim if it cannot come back, or run CLUSTER FAILOVER TAKEOVER on %s to accept the loss of what was not replicated",
		what, why, best.Name)
}

// electStale makes a replica stand for election that does not do so by itself, because it has not been connected to its primary
// lately. As long as the primary may come back with its data, whether to wait for it is not for the operator to say.
func (v *view) electStale(g ghost, best *Pod) (cluster.Plan, bool) {
	switch out := v.outageOf(g); {
	case !out.returns:
		return cluster.Do(Elect{best.Shard, g.id, best.Name}, "%s is gone with its data and no replica stands for election by itself; %s has most of it", out.what, best.Name)
	case g.silent < mourning:
		return cluster.Pass()
	default:
		return cluster.Refuse(ReasonNotElected,
			"%s does not answer, and no replica stands for election, because none has been connected to it lately: bring it back, or run CLUSTER FAILOVER FORCE on %s to accept the loss of what that one has not copied",
			out.what, best.Name)
	}
}

// outage is what Kubernetes knows of a server that does not answer.
type outage struct {
	// what it is called.
	what string
	// fenced says that it does not run any more.
	fenced bool
	// returns says that its data exists and may come back, and starting that it is on its way.
	returns, starting bool
}

func (v *view) outageOf(g ghost) outage {
	if g.pod == "" && len(g.replicas) > 0 && v.shardRead(g.replicas[0].Shard) {
		return outage{what: "node " + short(g.id), fenced: true} // It ran in one of the pods of its shard, and none has it any more.
	}
	if g.pod == "" {
		return outage{what: "node " + short(g.id), fenced: v.complete, returns: !v.complete}
	}
	return v.outageOfPod(g.pod)
}

// outageOfPod goes by the pod that a server ran in. What is on a volume outlives a pod; without storage, it outlives the process, and goes with the node.
func (v *view) outageOfPod(name string) outage {
	out := outage{what: "the server of pod " + name, fenced: true, returns: v.Spec.Persistent, starting: v.Spec.Persistent}
	p := v.podNamed(name)
	switch {
	case p == nil:
	case p.Node != nil: // Another server runs there by now: the disk of this one is gone.
		out.returns, out.starting = false, false
	default:
		out.fenced = p.Started.IsZero() || p.NodeLost
		out.returns = v.Spec.Persistent || (p.HasRun && !p.Deleting && !p.Gone)
		out.starting = out.returns && !p.NodeLost && p.Stuck == ""
	}
	return out
}

// othersTold tells whether all other pods of a ghost's shard could be read to the end, or cannot be in a moment: any of them may have
// more than the one that is to take over, or be elected.
func (v *view) othersTold(g ghost, best *Pod) bool {
	for ordinal := range v.size(best.Shard) {
		name := cluster.Pod(cluster.ShardSet(v.Spec.Name, best.Shard), ordinal)
		if g.pod == name {
			continue
		}
		if p := v.podNamed(name); p != nil && p.Node != nil {
			if p.Node.Loading {
				return false
			}
			continue
		}
		out := v.outageOfPod(name)
		if !out.fenced || (out.starting && v.awaitedFor(g) < patience) {
			return false
		}
	}
	return true
}

// rivalReturns returns a pod of a ghost's shard that cannot be read, has data, and is started again
// within the patience; nil for none. It may have taken over before it ended, unknown to a replica
// that a partition kept from it. Without a vote, that replica would take over under the same epoch,
// and what either has written since would be lost when they meet.
func (v *view) rivalReturns(g ghost, best *Pod) *Pod {
	for _, p := range v.shards[best.Shard] {
		held := p.HeldUntil.After(v.Now) && p.HeldUntil.Sub(v.Now) < patience
		if p.Node == nil && p.Name != g.pod && held && v.outageOfPod(p.Name).returns {
			return p
		}
	}
	return nil
}

// isOpen tells whether a slot is on its way to or from a ghost, as far as anybody knows.
func (v *view) isOpen(g ghost) bool {
	return slices.ContainsFunc(v.read, func(p *Pod) bool {
		return slices.ContainsFunc(p.Node.Self().Open, func(o Open) bool { return o.Other == g.id })
	})
}
