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

// The servers report a primary as failed when it has been silent for a node timeout, and vote about
// a second after they have agreed on that. Kubernetes reports the end of a process immediately, so
// that the operator need not wait for them:
//
//	what Kubernetes reports of the primary                   what becomes of it                       its replica is elected immediately
//	its container has ended, and is started again in place   it is back within seconds, with all      only with deadPrimary: Replace
//	the same, but not before the others have elected         it is not waited for                     yes
//	its container has ended, and its pod ends or failed      it is back with another pod, if at all   yes
//	its node was deleted or is out of service                its pod has to be recreated              yes
//	its pod is gone                                          the same; a forced deletion may hide     as soon as all servers miss it
//	                                                         a server that is cut off
//	anything else, such as a node that does not report       it may run                               no
//
// With CLUSTER FAILOVER FORCE a replica also gets the votes of primaries that have not noticed that
// its primary is dead, so that the operator has to prove it: Kubernetes reports it, the primary
// does not answer, and no replica is connected to it. A primary that comes back at that moment
// takes no writes for two seconds (CLUSTER_WRITABLE_DELAY in the servers' source), meets a higher
// epoch, and becomes a replica.
//
// Where so many primaries have ended that there is no majority, and no replica would be elected
// without the operator, the takeover needs no vote. A primary whose data is on its way back is
// waited for then (see takeOver), unless deadPrimary is Replace.
//
// A failed election costs more than it could have gained: the candidate does not ask again for four
// node timeouts, and its voters vote for no other replica of the shard for two
// (clusterHandleSlaveFailover, clusterSendFailoverAuthIfNeeded). So no replica is told to start an
// election while the servers are about to elect one without the operator, here or elsewhere, while
// voters do not know it, or while they know of slots that it does not.

// beginning is how long after they have agreed that a primary is dead the servers begin to vote, at the latest.
const beginning = time.Second

// electedBy is when the servers will have elected somebody in the place of a primary that has just ended, at the latest.
func electedBy(v *model.View) time.Time { return v.Now.Add(v.Spec.NodeTimeout*3/2 + beginning) }

// failOverImmediately replaces a primary that Kubernetes says has ended before the servers notice, unless it is about to be back with everything
// and that is to be waited for.
func failOverImmediately(v *model.View) (cluster.Plan, bool) {
	if !v.HasOwners || len(v.Readable) == v.PodCount() {
		return cluster.Pass() // Nobody is missing.
	}
	ghosts := v.DepartedNodes()
	for _, g := range ghosts {
		best := facts.CandidateOf(g)
		if best == nil || !canBeReplaced(v, g, best) || election(v, ghosts) {
			continue
		}
		out := facts.OutageOf(v, g)
		why := fmt.Sprintf("%s has ended, as Kubernetes says, and %s takes over slots %s at once. It has everything up to byte %d of the replication stream and %s; what was acknowledged later is lost",
			out.What, best.Name, g.Slots, best.Node.Offset, facts.LastLinked(best))
		living, lost := facts.Voters(v, g, ghosts)
		switch {
		case 2*(living+unheardOf(v, g, ghosts)) <= living+lost:
			if (!v.Spec.ReplaceDead && out.Starting) || facts.RivalReturns(v, g, best) != nil {
				continue // Without the operator nobody would be elected: who waits loses nothing.
			}
			return cluster.Do(steps.TakeOver{Shard: best.Shard, PrimaryID: g.ID, To: best.Name}, "%s. This needs no vote, because only %d of %d primaries can vote on that", why, living, living+lost)
		case 2*living > living+lost && facts.KnownToVoters(v, best):
			return cluster.Do(steps.Elect{Shard: best.Shard, PrimaryID: g.ID, To: best.Name}, "%s", why)
		}
	}
	return cluster.Pass()
}

// canBeReplaced tells whether a departed node has ended and is not waited for, and whether a
// replica is known to be the one to take over its slots.
func canBeReplaced(v *model.View, g model.DepartedNode, best *model.Pod) bool {
	return hasEnded(v, g) && mayReplace(v, g) && len(facts.StillOwned(v, g)) > 0 &&
		followedToTheEnd(v, g, best) && facts.OthersTold(v, g, best) && votersAgreeWith(v, best)
}

// hasEnded tells whether Kubernetes proves that the process of a departed node is no more.
func hasEnded(v *model.View, g model.DepartedNode) bool {
	p := v.PodNamed(g.Pod)
	switch {
	case g.Pod == "" || g.NoAddr || (p != nil && p.Node != nil):
		return false // Another server has its place, or nobody knows where it was.
	case g.Failed:
		return false // The servers know, and are about to vote. Where they do not get to a decision, see takeOver.
	case p != nil && (p.Gone || (p.HasRun && p.Started.IsZero())):
		return true
	case p == nil || !p.HasRun:
		return g.Dead // One that is cut off has found so by then as well, and takes no writes any more.
	}
	return false
}

// mayReplace tells whether a departed node that has ended is not to be waited for.
func mayReplace(v *model.View, g model.DepartedNode) bool {
	p := v.PodNamed(g.Pod)
	if v.Spec.ReplaceDead || p == nil || !p.HasRun || p.Deleting || p.NodeLost || p.Gone {
		return true
	}
	if !p.HeldUntil.IsZero() {
		return p.HeldUntil.After(electedBy(v))
	}
	return p.Stuck != ""
}

// unheardOf counts the primaries beside a departed node that cannot be read, and may be able to
// vote as far as Kubernetes reports.
func unheardOf(v *model.View, g model.DepartedNode, ghosts []model.DepartedNode) int {
	n := 0
	for _, other := range ghosts {
		if other.ID != g.ID && len(facts.StillOwned(v, other)) > 0 && !facts.OutageOf(v, other).Fenced {
			n++
		}
	}
	return n
}

// unreadyWithin is how long it takes Kubernetes at most to find that a container has ended.
const unreadyWithin = 3 * time.Second

// followedToTheEnd tells whether a replica had been connected to a departed node until that ended,
// and no replica is any more. A replica that had lost it before lacks more than the last moment:
// whether it starts an election is left to the servers.
func followedToTheEnd(v *model.View, g model.DepartedNode, best *model.Pod) bool {
	linked := slices.ContainsFunc(g.Replicas, func(p *model.Pod) bool { return p.Node.LinkUp })
	ended := min(g.Silent+time.Second, facts.EndedWithin(v, g)+unreadyWithin) // Servers count whole seconds.
	return !linked && best.Node.EverLinked && best.Node.LinkDown <= ended
}

// votersAgreeWith tells whether all primaries think the same as a replica of who owns what, and no slot is on its way: nobody votes for who
// claims slots that have just left his shard, and who takes over without a vote would bring them back without their keys.
func votersAgreeWith(v *model.View, replica *model.Pod) bool {
	table := v.Ownership(replica.Node)
	for shard := range v.Shards {
		if slices.ContainsFunc(v.Owners(shard), func(p *model.Pod) bool { return v.Ownership(p.Node) != table }) {
			return false
		}
	}
	return len(facts.Migrations(v)) == 0 && !slices.ContainsFunc(v.Readable, func(p *model.Pod) bool { return len(p.Node.Self().Open) > 0 })
}

// election tells whether the servers are about to vote by themselves: in one epoch a primary votes once.
func election(v *model.View, ghosts []model.DepartedNode) bool {
	return slices.ContainsFunc(ghosts, func(g model.DepartedNode) bool {
		return g.Failed && g.Silent < facts.Electing(v.Spec) && len(facts.StillOwned(v, g)) > 0 && slices.ContainsFunc(g.Replicas, func(p *model.Pod) bool { return facts.StandsForElection(v, p) })
	})
}
