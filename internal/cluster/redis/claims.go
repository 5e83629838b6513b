package redis

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/internal/cluster"
)

// settleClaims waits for claims that are being deleted, and refuses claims that may hold newer
// data.
func settleClaims(v *view) (cluster.Plan, bool) { return v.awaitClaims() }

// awaitClaims stops where the disks that the pods have may not be all that belong to the data: a
// cluster that is made again with fewer pods over retained claims would go on with an older copy,
// and one over claims that are about to be deleted with none. A shard whose owner is alive needs
// nobody else's disk, so that what is left of an accidental scaling of a StatefulSet holds nothing
// back. In a formed cluster a terminating claim stays bound to its running pod and does not hold
// back the replica that takes over, which may run on that very claim as the last copy of its shard.
func (v *view) awaitClaims() (cluster.Plan, bool) {
	if !v.Spec.Persistent || (v.formed && !v.anyOwnerMissing()) {
		return cluster.Pass()
	}
	for _, c := range v.Claims {
		if c.Leaving && !v.inUse(c) {
			return cluster.Wait(ReasonStarting, later, "claim %s is being deleted; a pod that holds it has to be deleted, too", c.Name)
		}
	}
	if over := v.leftClaims(); len(over) > 0 {
		return refuseClaims(over)
	}
	return cluster.Pass()
}

// inUse reports whether the cluster is formed and a claim stays as long as the pod that uses it.
func (v *view) inUse(c Claim) bool {
	return v.formed && slices.ContainsFunc(v.Pods, func(p Pod) bool { return p.terminating == c.Name })
}

// leftClaims are those of pods that no StatefulSet has room for any more.
func (v *view) leftClaims() []Claim {
	return slices.DeleteFunc(slices.Clone(v.Claims), func(c Claim) bool { return c.Shard < len(v.shards) && c.Ordinal < v.size(c.Shard) })
}

func refuseClaims(over []Claim) (cluster.Plan, bool) {
	return cluster.Refuse(ReasonRetained,
		"the claims %s of an earlier, larger cluster may hold the newest data: set spec.shards and spec.replicasPerShard to what that cluster had, or delete them to do without",
		list(over, func(c Claim) string { return c.Name }))
}

// anyOwnerMissing tells whether slots belong to a node that no pod has.
func (v *view) anyOwnerMissing() bool {
	for _, g := range v.ghosts() {
		if len(v.stillOwned(g)) > 0 {
			return true
		}
	}
	return false
}

// DeleteClaim deletes the claim of a pod that has left, if it still is the one that was decided on.
type DeleteClaim struct{ Name, UID, ResourceVersion string }

// ReasonDeleteClaim is the reason of DeleteClaim.
const ReasonDeleteClaim = "DeletingClaim"

func (s DeleteClaim) String() string { return "delete claim " + s.Name }

// discardClaims deletes the claims of pods that have left, where the data is to go with its pods. All servers are well here,
// so that nobody needs what is in them. Where it is to stay, a pod that comes back finds its old disk, and copies its
// primary anew.
func discardClaims(v *view) (cluster.Plan, bool) {
	if !v.Spec.DiscardClaims {
		return cluster.Pass()
	}
	for _, c := range v.Claims {
		if c.Shard >= len(v.shards) || c.Ordinal < v.size(c.Shard) || c.Leaving || v.leaves(c.Shard, c.Ordinal) {
			continue
		}
		return cluster.Do(DeleteClaim{c.Name, c.UID, c.ResourceVersion}, "claim %s holds a copy of the data whose pod has left", c.Name)
	}
	return cluster.Pass()
}

// leaves tells whether a pod that no StatefulSet has room for exists yet.
func (v *view) leaves(shard, ordinal int) bool {
	return slices.ContainsFunc(v.leavers, func(p Pod) bool { return p.Shard == shard && p.Ordinal == ordinal })
}

// ReplaceDisk deletes the claim of a volume that cannot come back or is in the way, and its pod: another pod gets a new volume.
type ReplaceDisk struct {
	Claim DeleteClaim
	Pod   PodRef
	// Gone says that the pod's node is gone as well, so that nobody is left there to confirm that it has ended.
	Gone bool
}

// ReasonReplaceDisk is the reason of ReplaceDisk.
const ReasonReplaceDisk = "ReplacingDisk"

func (s ReplaceDisk) String() string { return fmt.Sprintf("give pod %s a new disk", s.Pod.Name) }

// lostDisk tells whether the volume of a pod cannot come back.
func (v *view) lostDisk(p *Pod) bool {
	return slices.ContainsFunc(v.Claims, func(c Claim) bool { return c.Lost != "" && c.Shard == p.Shard && c.Ordinal == p.Ordinal })
}

// replaceDisks gives new disks to pods whose own are proven to be lost. Where nobody else has the data of the shard, they stay: the
// one who said that a node is gone for good may have been wrong.
func replaceDisks(v *view) (cluster.Plan, bool) {
	for _, c := range v.Claims {
		if c.Lost == "" || c.Shard >= len(v.shards) {
			continue
		}
		i := slices.IndexFunc(v.shards[c.Shard], func(p *Pod) bool { return p.Ordinal == c.Ordinal && p.Node == nil })
		if i < 0 {
			continue
		}
		p, head := v.shards[c.Shard][i], v.head(c.Shard)
		if going := c.Leaving && p.Deleting && !p.Gone; head != nil && !going {
			return cluster.Do(c.replace(p), "pod %s has lost its disk (%s); %s has the data of its shard", p.Name, c.Lost, head.Name)
		}
	}
	return cluster.Pass()
}

func (c Claim) replace(p *Pod) ReplaceDisk {
	return ReplaceDisk{DeleteClaim{c.Name, c.UID, c.ResourceVersion}, p.ref(), p.Gone}
}

// replaceStrayed has servers begin with nothing that hold a copy of what the primary of their shard has, and have forgotten whom they
// follow. Redis and Valkey follow nobody while they hold keys, and keep them over a restart.
func replaceStrayed(v *view) (cluster.Plan, bool) {
	for shard, pods := range v.shards {
		if !v.thrives(shard) {
			continue
		}
		head := v.head(shard)
		if slices.ContainsFunc(pods, func(p *Pod) bool { return p != head && p.comesOrGoes() && !strayed(p, head) }) {
			continue // One copy less at a time.
		}
		for _, p := range pods {
			if !strayed(p, head) {
				continue
			}
			if step := v.beginAnew(p); step != nil {
				return cluster.Do(step, "%s is a primary without slots, and what it holds is a copy of %s, which has all of it: it begins anew as a replica", p.Name, head.Name)
			}
		}
	}
	return cluster.Pass()
}

// beginAnew is the step that takes from a pod what it holds; nil: its claim is not known.
func (v *view) beginAnew(p *Pod) cluster.Step {
	if !v.Spec.Persistent {
		return Restart{Pods: []PodRef{p.ref()}, Cause: ReasonRestart}
	}
	if c := v.claim(p); c != nil {
		return c.replace(p)
	}
	return nil
}

func (v *view) claim(p *Pod) *Claim {
	if i := slices.IndexFunc(v.Claims, func(c Claim) bool { return c.Shard == p.Shard && c.Ordinal == p.Ordinal }); i >= 0 {
		return &v.Claims[i]
	}
	return nil
}

// strayed tells whether a server takes itself for a primary though it is a copy of the one of its shard. One whose slots were taken over
// while it was gone becomes a replica, and an old message about what it owned before makes it a primary again (clusterProcessPacket of
// Redis and Valkey, message UPDATE), up to Valkey 9.0 without an end to its replication. Both halves are of one answer, INFO being the first.
func strayed(p, primary *Pod) bool {
	return p != primary && p.Node != nil && !p.Deleting && !p.ownsSlots() && !p.Node.Self().Replica && p.Node.Keys > 0 &&
		p.Node.Stream != "" && p.Node.Stream == primary.Node.Stream &&
		(p.Node.Offset <= primary.Node.Offset || (p.Node.LinkUp && p.Node.Asks == primary.Addr))
}
