package planner

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

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
