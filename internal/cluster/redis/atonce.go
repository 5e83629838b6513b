package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// The servers take a primary for dead when it has been silent for a node timeout, and vote about a second after they have agreed on that.
// Kubernetes knows that a process has ended as soon as it has, so that the operator need not wait for them:
//
//	what Kubernetes says of the primary                      what becomes of it                       its replica is elected at once
//	its container has ended, and is started again in place   it is back within seconds, with all      only with deadPrimary: Replace
//	the same, but not before the others have elected         nobody waits for it                      yes
//	its container has ended, and its pod ends or failed      it is back with another pod, if at all   yes
//	its node was deleted or is out of service                its pod has to be made anew              yes
//	its pod is gone                                          the same; who forced that may have       as soon as all servers miss it
//	                                                         forgotten one that is cut off
//	anything else, such as a node that does not report       it may run                               no
//
// A replica that is told to stand (CLUSTER FAILOVER FORCE) is voted for also by those who have not noticed that the primary is dead, so
// that the proof is for the operator to have: Kubernetes says so, it does not answer, and no replica is connected to it. A primary that
// comes back just then takes no writes for two seconds (CLUSTER_WRITABLE_DELAY in the servers' source), meets a higher epoch, and
// becomes a replica.
//
// Where so many primaries have ended that there is no majority, and nobody would be elected without the operator, it takes nobody's vote. A
// primary whose data is on its way back is waited for then, as ever (see takeOver), unless it is not to be.
//
// A vote that fails costs more than it could have gained: whoever asked for it does not ask again for four node timeouts, and who voted
// votes for nobody else of the shard for two (clusterHandleSlaveFailover, clusterSendFailoverAuthIfNeeded). So nobody is told to stand
// while the servers are about to elect by themselves, here or elsewhere, while voters do not know him, or while they know of slots that he
// does not.

// beginning is how long after they have agreed that a primary is dead the servers begin to vote, at the latest.
const beginning = time.Second

// electedBy is when the servers will have elected somebody in the place of a primary that has just ended, at the latest.
func (v *view) electedBy() time.Time { return v.Now.Add(v.Spec.NodeTimeout*3/2 + beginning) }

// failOverImmediately replaces a primary that Kubernetes says has ended before the servers notice, unless it is about to be back with everything
// and that is to be waited for.
func failOverImmediately(v *view) (cluster.Plan, bool) {
	if !v.formed || len(v.read) == v.pods() {
		return cluster.Pass() // Nobody is missing.
	}
	ghosts := v.ghosts()
	for _, g := range ghosts {
		best := v.successor(g)
		if best == nil || !v.canBeReplaced(g, best) || v.election(ghosts) {
			continue
		}
		out := v.outageOf(g)
		why := fmt.Sprintf("%s has ended, as Kubernetes says, and %s takes over slots %s at once. It has everything up to byte %d of the replication stream and %s; what was acknowledged later is lost",
			out.what, best.Name, g.slots, best.Node.Offset, lastLinked(best))
		living, lost := v.voters(g, ghosts)
		switch {
		case 2*(living+v.unheardOf(g, ghosts)) <= living+lost:
			if (!v.Spec.ReplaceDead && out.starting) || v.rivalReturns(g, best) != nil {
				continue // Without the operator nobody would be elected: who waits loses nothing.
			}
			return cluster.Do(TakeOver{best.Shard, g.id, best.Name}, "%s. This needs no vote, because only %d of %d primaries can vote on that", why, living, living+lost)
		case 2*living > living+lost && v.knownToVoters(best):
			return cluster.Do(Elect{best.Shard, g.id, best.Name}, "%s", why)
		}
	}
	return cluster.Pass()
}

// canBeReplaced tells whether a ghost has ended and is not waited for, and whether a replica is known to be the one to take over its slots.
func (v *view) canBeReplaced(g ghost, best *Pod) bool {
	return v.hasEnded(g) && v.mayReplace(g) && len(v.stillOwned(g)) > 0 &&
		v.followedToTheEnd(g, best) && v.othersTold(g, best) && v.votersAgreeWith(best)
}

// hasEnded tells whether Kubernetes proves that the process of a ghost is no more.
func (v *view) hasEnded(g ghost) bool {
	p := v.podNamed(g.pod)
	switch {
	case g.pod == "" || g.noAddr || (p != nil && p.Node != nil):
		return false // Another server has its place, or nobody knows where it was.
	case g.failed:
		return false // The servers know, and are about to vote. Where they do not get to a decision, see takeOver.
	case p != nil && (p.Gone || (p.HasRun && p.Started.IsZero())):
		return true
	case p == nil || !p.HasRun:
		return g.dead // One that is cut off has found so by then as well, and takes no writes any more.
	}
	return false
}

// mayReplace tells whether a ghost that has ended is not to be waited for.
func (v *view) mayReplace(g ghost) bool {
	p := v.podNamed(g.pod)
	if v.Spec.ReplaceDead || p == nil || !p.HasRun || p.Deleting || p.NodeLost || p.Gone {
		return true
	}
	if !p.HeldUntil.IsZero() {
		return p.HeldUntil.After(v.electedBy())
	}
	return p.Stuck != ""
}

// unheardOf counts the primaries besides a ghost that cannot be read, and may be able to vote for all that Kubernetes knows.
func (v *view) unheardOf(g ghost, ghosts []ghost) int {
	n := 0
	for _, other := range ghosts {
		if other.id != g.id && len(v.stillOwned(other)) > 0 && !v.outageOf(other).fenced {
			n++
		}
	}
	return n
}

// unreadyWithin is how long it takes Kubernetes at most to find that a container has ended.
const unreadyWithin = 3 * time.Second

// followedToTheEnd tells whether a replica had been connected to a ghost until that ended, and no replica is any more. A replica that had lost
// it before lacks more than the last moment: whether that one stands is left to the servers.
func (v *view) followedToTheEnd(g ghost, best *Pod) bool {
	linked := slices.ContainsFunc(g.replicas, func(p *Pod) bool { return p.Node.LinkUp })
	ended := min(g.silent+time.Second, v.endedWithin(g)+unreadyWithin) // Servers count whole seconds.
	return !linked && best.Node.EverLinked && best.Node.LinkDown <= ended
}

// votersAgreeWith tells whether all primaries think the same as a replica of who owns what, and no slot is on its way: nobody votes for who
// claims slots that have just left his shard, and who takes over without a vote would bring them back without their keys.
func (v *view) votersAgreeWith(replica *Pod) bool {
	table := v.ownership(replica.Node)
	for shard := range v.shards {
		if slices.ContainsFunc(v.owners(shard), func(p *Pod) bool { return v.ownership(p.Node) != table }) {
			return false
		}
	}
	return len(v.migrations()) == 0 && !slices.ContainsFunc(v.read, func(p *Pod) bool { return len(p.Node.Self().Open) > 0 })
}

// election tells whether the servers are about to vote by themselves: in one epoch a primary votes once.
func (v *view) election(ghosts []ghost) bool {
	return slices.ContainsFunc(ghosts, func(g ghost) bool {
		return g.failed && g.silent < v.Spec.electing() && len(v.stillOwned(g)) > 0 && slices.ContainsFunc(g.replicas, v.stands)
	})
}

// instead makes a replica primary in the place of another server, if it still is a replica of that one and not connected to it: whoever was
// elected meanwhile, or is back, would lose what clients have written to it since.
func instead(of string, how FailoverMode) func(ctx context.Context, c Client) error {
	return func(ctx context.Context, c Client) error {
		n, err := c.Read(ctx)
		if err != nil {
			return err
		}
		self := n.Self()
		primary, _ := n.Peer(of)
		switch {
		case !self.Replica:
			return nil // It has been elected.
		case self.PrimaryID != of:
			return fmt.Errorf("it is a replica of node %s by now", short(self.PrimaryID))
		case n.LinkUp && !primary.NoAddr && !primary.Failing && !primary.Failed:
			return fmt.Errorf("node %s is back", short(of))
		}
		return c.Failover(ctx, how)
	}
}
