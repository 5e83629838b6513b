package redis

import (
	"github.com/quorate/quorate/internal/cluster"
)

// settleClaims stops where the disks that the pods have may not be all that belong to the data: a cluster that is made
// again with fewer pods over retained claims would go on with an older copy, and one over claims that are about to be
// deleted with none. A shard whose owner is alive needs nobody else's disk, so that what is left of an accidental scaling
// of a StatefulSet is in nobody's way.
func settleClaims(v *view) (cluster.Plan, bool) {
	if !v.Spec.Persistent || (v.formed && !v.anyOwnerMissing()) {
		return cluster.Pass()
	}
	var over []Claim
	for _, c := range v.Claims {
		switch {
		case c.Leaving:
			return cluster.Wait(ReasonStarting, later, "claim %s is being deleted; a pod that holds it has to be deleted, too", c.Name)
		case c.Shard >= v.Spec.Shards || c.Ordinal >= v.Spec.Copies():
			over = append(over, c)
		}
	}
	if len(over) == 0 {
		return cluster.Pass()
	}
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
