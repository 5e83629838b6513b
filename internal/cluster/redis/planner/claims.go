package planner

import (
	"slices"

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
