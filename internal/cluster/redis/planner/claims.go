package planner

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// settleClaims waits for claims that are being deleted, and refuses claims that may hold newer
// data.
func settleClaims(v *model.View) (cluster.Plan, bool) { return awaitClaims(v) }

// awaitClaims stops where the disks that the pods have may not be all that belong to the data: a
// cluster that is made again with fewer pods over retained claims would go on with an older copy,
// and one over claims that are about to be deleted with none. A shard whose owner is alive needs
// nobody else's disk, so that what is left of an accidental scaling of a StatefulSet holds nothing
// back. In a formed cluster a terminating claim stays bound to its running pod and does not hold
// back the replica that takes over, which may run on that very claim as the last copy of its shard.
func awaitClaims(v *model.View) (cluster.Plan, bool) {
	if !v.Spec.Persistent || (v.HasOwners && !facts.AnyOwnerMissing(v)) {
		return cluster.Pass()
	}
	for _, c := range v.Claims {
		if c.Leaving && !inUse(v, c) {
			return cluster.Wait(ReasonStarting, facts.Later, "claim %s is being deleted; a pod that holds it has to be deleted, too", c.Name)
		}
	}
	if over := facts.LeftClaims(v); len(over) > 0 {
		return refuseClaims(over)
	}
	return cluster.Pass()
}

// inUse reports whether the cluster is formed and a claim stays as long as the pod that uses it.
func inUse(v *model.View, c model.Claim) bool {
	return v.HasOwners && slices.ContainsFunc(v.Pods, func(p model.Pod) bool { return p.TerminatingClaim == c.Name })
}

func refuseClaims(over []model.Claim) (cluster.Plan, bool) {
	return cluster.Refuse(ReasonRetained,
		"the claims %s of an earlier, larger cluster may hold the newest data: set spec.shards and spec.replicasPerShard to what that cluster had, or delete them to do without",
		steps.JoinItems(over, func(c model.Claim) string { return c.Name }))
}

// discardClaims deletes the claims of pods that have left, where the data is to go with its pods. All servers are well here,
// so that nobody needs what is in them. Where it is to stay, a pod that comes back finds its old disk, and copies its
// primary anew.
func discardClaims(v *model.View) (cluster.Plan, bool) {
	if !v.Spec.DiscardClaims {
		return cluster.Pass()
	}
	for _, c := range v.Claims {
		if c.Shard >= len(v.Shards) || c.Ordinal < v.Size(c.Shard) || c.Leaving || facts.LeavesWithShrink(v, c.Shard, c.Ordinal) {
			continue
		}
		return cluster.Do(steps.DeleteClaim{Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion}, "claim %s holds a copy of the data whose pod has left", c.Name)
	}
	return cluster.Pass()
}

// replaceDisks gives new disks to pods whose own are proven to be lost. Where nobody else has the data of the shard, they stay: the
// one who said that a node is gone for good may have been wrong.
func replaceDisks(v *model.View) (cluster.Plan, bool) {
	for _, c := range v.Claims {
		if c.Lost == "" || c.Shard >= len(v.Shards) {
			continue
		}
		i := slices.IndexFunc(v.Shards[c.Shard], func(p *model.Pod) bool { return p.Ordinal == c.Ordinal && p.Node == nil })
		if i < 0 {
			continue
		}
		p, head := v.Shards[c.Shard][i], v.DesignatedPrimary(c.Shard)
		if going := c.Leaving && p.Deleting && !p.Gone; head != nil && !going {
			return cluster.Do(replace(c, p), "pod %s has lost its disk (%s); %s has the data of its shard", p.Name, c.Lost, head.Name)
		}
	}
	return cluster.Pass()
}

func replace(c model.Claim, p *model.Pod) steps.ReplaceDisk {
	return steps.ReplaceDisk{Claim: steps.DeleteClaim{Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion}, Pod: ref(p), Gone: p.Gone}
}

// replaceStrayed has servers begin with nothing that hold a copy of what the primary of their shard has, and have forgotten whom they
// follow. Redis and Valkey follow nobody while they hold keys, and keep them over a restart.
func replaceStrayed(v *model.View) (cluster.Plan, bool) {
	for shard, pods := range v.Shards {
		if !facts.ShardHealthy(v, shard) {
			continue
		}
		head := v.DesignatedPrimary(shard)
		if slices.ContainsFunc(pods, func(p *model.Pod) bool { return p != head && facts.ComesOrGoes(p) && !facts.Strayed(p, head) }) {
			continue // One copy less at a time.
		}
		for _, p := range pods {
			if !facts.Strayed(p, head) {
				continue
			}
			if step := beginAnew(v, p); step != nil {
				return cluster.Do(step, "%s is a primary without slots, and what it holds is a copy of %s, which has all of it: it begins anew as a replica", p.Name, head.Name)
			}
		}
	}
	return cluster.Pass()
}

// beginAnew is the step that takes from a pod what it holds; nil: its claim is not known.
func beginAnew(v *model.View, p *model.Pod) cluster.Step {
	if !v.Spec.Persistent {
		return steps.Restart{Pods: []steps.PodRef{ref(p)}, Cause: steps.ReasonRestart}
	}
	if c := v.Claim(p); c != nil {
		return replace(*c, p)
	}
	return nil
}

// replaceStranded gives another volume to a pod that cannot be scheduled where its own is, while the primary of its shard
// has all of its data. Where nobody can tell that it has, the pod keeps its volume, and what is said of it names the cure.
// One at a time: the others of its shard may be schedulable once it runs elsewhere.
func replaceStranded(v *model.View) (cluster.Plan, bool) {
	for shard, pods := range v.Shards {
		if !facts.ShardHealthy(v, shard) || v.MayHaveLost(shard) {
			continue
		}
		head := v.DesignatedPrimary(shard)
		for _, p := range pods {
			c := v.Claim(p)
			if c == nil || c.Stranded == "" || c.Leaving || p.Node != nil || p.Deleting || v.Now.Sub(p.Made) < facts.Stranding {
				continue
			}
			if mayDiscard(v, p, head) && !facts.IsFresh(v, shard, c.Made) {
				return cluster.Do(replace(*c, p), "pod %s cannot be scheduled: %s; %s has all of its data, so it gets another volume", p.Name, c.Stranded, head.Name)
			}
		}
	}
	return cluster.Pass()
}

// mayDiscard reports whether the primary of a shard is known to have all data of another server, which does not run.
// Other shards tell. Without others, the primary has heard from that server since it started, and knows it as its replica:
// a server that had taken over would have said so.
func mayDiscard(v *model.View, p, primary *model.Pod) bool {
	switch facts.Witnesses(v, primary, p) {
	case facts.Confirmed:
		return true
	case facts.DoNotKnowYet:
		return false
	case facts.CannotKnow:
	}
	for _, g := range v.DepartedNodes() {
		if g.Pod != p.Name {
			continue
		}
		known, ok := primary.Node.Peer(g.ID)
		if ok && known.Replica && known.PrimaryID == primary.Node.ID && known.Answered.After(primary.Started) {
			return true
		}
	}
	return false
}

// A claim with a deletion timestamp stays until its pod ends (pvc-protection), and takes the volume with it then. A
// server that runs on one counts as outdated: a rollout restarts replicas, hands the shard of a primary over first, and
// gives a shard of one copy a second one, so that every server gets another claim and nothing is lost.

// ReasonTerminatingClaims says that servers run on claims that are being deleted.
const ReasonTerminatingClaims = "ClaimsTerminating"

// keepLastCopy lets no rule end a server whose claim is being deleted, unless another one leads its
// shard. The rules after it may bring the copy; reportTerminating says what waits.
func keepLastCopy(v *model.View, p cluster.Plan) (cluster.Plan, bool) {
	return p, !slices.ContainsFunc(endedBy(v, p.Step), func(ref steps.PodRef) bool { return losesData(v, ref) })
}

// endedBy returns the pods that a step ends.
func endedBy(v *model.View, step cluster.Step) []steps.PodRef {
	switch step := step.(type) {
	case steps.Restart:
		return step.Pods
	case steps.End:
		return step.Pods
	case steps.ReplaceDisk:
		return []steps.PodRef{step.Pod}
	case steps.ScaleShards:
		return scaledDown(v, step)
	}
	return nil
}

// scaledDown returns the pods that StatefulSets have no room for after a step.
func scaledDown(v *model.View, step steps.ScaleShards) (out []steps.PodRef) {
	for _, set := range step.Sets {
		for _, p := range v.EveryPod() {
			if p.Shard == set.Shard && p.Ordinal >= set.To {
				out = append(out, ref(p))
			}
		}
	}
	return out
}

// losesData reports whether the data of a shard goes with a pod.
func losesData(v *model.View, ref steps.PodRef) bool {
	p := v.PodNamed(ref.Name)
	if p == nil || p.TerminatingClaim == "" || !v.HasOwners || v.Slotless(p.Shard) {
		return false
	}
	primary := v.Primary(p.Shard)
	return primary == nil || primary == p
}

// outdatedWhy returns why pods are restarted: the claims that are being deleted, else the reason that is given.
func outdatedWhy(v *model.View, pods []steps.PodRef, otherwise string) string {
	var claims []string
	for _, ref := range pods {
		if p := v.PodNamed(ref.Name); p != nil && p.TerminatingClaim != "" {
			claims = append(claims, p.TerminatingClaim)
		}
	}
	if len(claims) == 0 {
		return otherwise
	}
	return "claims " + strings.Join(claims, ", ") + " are being deleted and go with their pods: their servers restart on other ones"
}

// reportTerminating says what to do about claims whose servers are not restarted.
func reportTerminating(v *model.View) (cluster.Plan, bool) {
	claims := facts.TerminatingClaims(v)
	if len(claims) == 0 {
		return cluster.Pass()
	}
	return cluster.Refuse(ReasonTerminatingClaims, "claims %s are being deleted, and their volumes go when their pods end. Kubernetes cannot take the "+
		"deletion back: set spec.replicasPerShard higher, so that other servers copy the data, or create a Backup of this cluster", strings.Join(claims, ", "))
}
