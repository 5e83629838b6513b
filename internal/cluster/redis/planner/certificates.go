package planner

import (
	"cmp"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// projection is how soon to tell servers again to read what the kubelet may not have brought yet.
const projection = 5 * time.Second

// reloadCertificates has servers read a renewed certificate.
func reloadCertificates(v *model.View) (cluster.Plan, bool) { return reload(v, projection) }

// A reload depends on no other server, and a server that is away or unhealthy may stay so for as
// long as a certificate is valid. So a due reload goes ahead before each rule that waits for
// servers, or refuses a field of the specification, for that long.

// reloadWhileCanaryFails reloads certificates while a pod with new settings does not answer.
func reloadWhileCanaryFails(v *model.View) (cluster.Plan, bool) {
	if facts.SilentCanary(v) == "" {
		return cluster.Pass()
	}
	return reload(v, projection)
}

// reloadWhileIncomplete reloads certificates while a pod is missing or a server does not answer.
func reloadWhileIncomplete(v *model.View) (cluster.Plan, bool) {
	if v.Complete {
		return cluster.Pass()
	}
	return reload(v, facts.UntilAnswered(v))
}

// reloadWhileRefused reloads certificates while spec.version or a pod with new settings is refused.
func reloadWhileRefused(v *model.View) (cluster.Plan, bool) {
	if !facts.RefusesRollout(v) {
		return cluster.Pass()
	}
	return reload(v, projection)
}

// reloadWhileUnsynced reloads certificates while a replica is not in sync.
func reloadWhileUnsynced(v *model.View) (cluster.Plan, bool) {
	p := facts.FirstUnsynced(v)
	if p == nil {
		return cluster.Pass()
	}
	return reload(v, cmp.Or(p.After, projection))
}

// reloadWhileMemoryRefused reloads certificates while less memory is refused.
func reloadWhileMemoryRefused(v *model.View) (cluster.Plan, bool) {
	if facts.TooLittleMemory(v) == "" {
		return cluster.Pass()
	}
	return reload(v, projection)
}

// reloadWhileUnready reloads certificates while a pod is not ready.
func reloadWhileUnready(v *model.View) (cluster.Plan, bool) {
	if facts.FirstUnready(v) == nil {
		return cluster.Pass()
	}
	return reload(v, facts.Later)
}

// reload returns the step that has servers read what their Secret holds when they show another
// certificate than that. What they show is the proof that they have read it: a server reads all of
// its files together, and the kubelet replaces them together. It takes a minute and a half at most
// to bring a Secret to its pods, and reports nothing then, so the step is repeated until servers
// show the certificate: after projection, or within a shorter time.
func reload(v *model.View, within time.Duration) (cluster.Plan, bool) {
	if v.Spec.Certificate == "" {
		return cluster.Pass()
	}
	var step steps.ReloadCertificates
	for _, p := range v.Readable {
		if p.Node.Certificate != v.Spec.Certificate {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	plan, ok := cluster.Do(step, "servers show another certificate than their Secret holds, which the kubelet may take a minute and a half to bring to them")
	plan.After = min(projection, within)
	return plan, ok
}
