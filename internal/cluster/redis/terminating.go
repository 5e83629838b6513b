package redis

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
)

// A claim with a deletion timestamp stays until its pod ends (pvc-protection), and takes the volume with it then. A
// server that runs on one counts as outdated: a rollout restarts replicas, hands the shard of a primary over first, and
// gives a shard of one copy a second one, so that every server gets another claim and nothing is lost.

// ReasonTerminatingClaims says that servers run on claims that are being deleted.
const ReasonTerminatingClaims = "ClaimsTerminating"

// markTerminating notes on a pod that its claim is being deleted.
func (v *view) markTerminating(p *Pod) {
	c := v.claim(p)
	if c == nil || !c.Leaving || c.Lost != "" || !v.Spec.Persistent || p.Deleting {
		return
	}
	p.terminating, p.Outdated = c.Name, true
}

// keepLastCopy lets no rule end a server whose claim is being deleted, unless another one leads its
// shard. The rules after it may bring the copy; reportTerminating says what waits.
func keepLastCopy(v *view, p cluster.Plan) (cluster.Plan, bool) {
	return p, !slices.ContainsFunc(v.endedBy(p.Step), v.losesData)
}

// endedBy returns the pods that a step ends.
func (v *view) endedBy(step cluster.Step) []PodRef {
	switch step := step.(type) {
	case Restart:
		return step.Pods
	case End:
		return step.Pods
	case ReplaceDisk:
		return []PodRef{step.Pod}
	case ScaleShards:
		return v.scaledDown(step)
	}
	return nil
}

// scaledDown returns the pods that StatefulSets have no room for after a step.
func (v *view) scaledDown(step ScaleShards) (out []PodRef) {
	for _, set := range step.Sets {
		for _, p := range v.everyPod() {
			if p.Shard == set.Shard && p.Ordinal >= set.To {
				out = append(out, p.ref())
			}
		}
	}
	return out
}

// losesData reports whether the data of a shard goes with a pod.
func (v *view) losesData(ref PodRef) bool {
	p := v.podNamed(ref.Name)
	if p == nil || p.terminating == "" || !v.formed || v.slotless(p.Shard) {
		return false
	}
	primary := v.primary(p.Shard)
	return primary == nil || primary == p
}

// outdatedWhy returns why pods are restarted: the claims that are being deleted, else the reason that is given.
func (v *view) outdatedWhy(pods []PodRef, otherwise string) string {
	var claims []string
	for _, ref := range pods {
		if p := v.podNamed(ref.Name); p != nil && p.terminating != "" {
			claims = append(claims, p.terminating)
		}
	}
	if len(claims) == 0 {
		return otherwise
	}
	return "claims " + strings.Join(claims, ", ") + " are being deleted and go with their pods: their servers restart on other ones"
}

// reportTerminating says what to do about claims whose servers are not restarted.
func reportTerminating(v *view) (cluster.Plan, bool) {
	claims := v.terminatingClaims()
	if len(claims) == 0 {
		return cluster.Pass()
	}
	return cluster.Refuse(ReasonTerminatingClaims, "claims %s are being deleted, and their volumes go when their pods end. Kubernetes cannot take the "+
		"deletion back: set spec.replicasPerShard higher, so that other servers copy the data, or create a Backup of this cluster", strings.Join(claims, ", "))
}

// terminatingClaims returns the names of claims that are being deleted under pods.
func (v *view) terminatingClaims() (claims []string) {
	for _, p := range v.Pods {
		if p.terminating != "" {
			claims = append(claims, p.terminating)
		}
	}
	return claims
}
