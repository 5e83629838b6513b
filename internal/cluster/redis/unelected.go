package redis

import (
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// mourning is how long a replica must have been without its primary before anybody is told that the servers will not
// replace it by themselves.
const mourning = time.Minute

// refuseUnelected deals with a primary whose pod exists, but is as dead as can be told: Kubernetes finds it not ready, the
// operator cannot read it, no server reaches it. A replica takes over by itself, if one stands and can win. If not, the
// disk of the dead one may still bring back writes that no replica has, and whether to wait for it is not for the
// operator to say.
func refuseUnelected(v *view) (cluster.Plan, bool) {
	ghosts := v.ghosts()
	for _, g := range ghosts {
		pod := v.podOf(g)
		if pod == nil || pod.Ready || !g.dead || len(v.stillOwned(g)) == 0 || !v.othersRead(pod) {
			continue
		}
		best := furthest(g.replicas)
		if best == nil || !v.bereaved(best) {
			continue
		}
		living, lost := v.voters(g, ghosts)
		switch {
		case 2*living <= living+lost:
			return cluster.Refuse(ReasonNoMajority,
				"pod %s does not answer, and only %d of %d primaries can vote on who replaces it: bring it back, or run CLUSTER FAILOVER TAKEOVER on %s to accept the loss of what was not replicated",
				pod.Name, living, living+lost, best.Name)
		case !g.failed || !v.unelectable(g) || !v.knownToVoters(best):
			continue
		case !v.Spec.Persistent && pod.Deleting: // Its data goes with it.
			return cluster.Do(Elect{best.Shard, g.id, best.Name}, "pod %s is gone with its data and no replica stands for election by itself; %s has most of it", pod.Name, best.Name)
		}
		return cluster.Refuse(ReasonNotElected,
			"pod %s does not answer, and no replica stands for election, because none has been connected to it lately: bring it back, or run CLUSTER FAILOVER FORCE on %s to accept the loss of what that one has not copied",
			pod.Name, best.Name)
	}
	return cluster.Pass()
}

// podOf is the pod that a node announced itself by, if its server cannot be read; nil otherwise.
func (v *view) podOf(g ghost) *Pod {
	name, _, _ := strings.Cut(g.host, ".")
	for i := range v.Pods {
		if p := &v.Pods[i]; p.Name == name && p.Node == nil {
			return p
		}
	}
	return nil
}

// othersRead tells whether all other pods of a pod's shard could be read: one that could not may have more, or be elected.
func (v *view) othersRead(pod *Pod) bool {
	if pod.Shard < 0 || pod.Shard >= len(v.shards) {
		return false
	}
	for _, p := range v.shards[pod.Shard] {
		if p != pod && (p.Node == nil || p.Node.Loading) {
			return false
		}
	}
	return true
}

// bereaved tells whether a replica has been without its primary for a while.
func (v *view) bereaved(p *Pod) bool {
	if p.Node.EverLinked {
		return p.Node.LinkDown >= mourning
	}
	return v.Now.Sub(p.Started) >= mourning
}
