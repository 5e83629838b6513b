package redis

import (
	"cmp"
	"context"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

// ReloadCertificates makes servers read their certificate, its key and the authorities that they trust anew.
type ReloadCertificates struct{ Pods []string }

// ReasonReloadCertificates is the reason of ReloadCertificates.
const ReasonReloadCertificates = "ReloadingCertificates"

// projection is how soon to tell servers again to read what the kubelet may not have brought yet.
const projection = 5 * time.Second

func (s ReloadCertificates) String() string {
	return "reload the certificates of " + list(s.Pods, func(pod string) string { return pod })
}

// Calls sends CONFIG SET.
func (s ReloadCertificates) Calls() []Call {
	return calls(s.Pods, func(pod string) Call {
		return Call{pod, func(ctx context.Context, c Client) error { return c.ReloadCertificates(ctx) }}
	})
}

// reloadCertificates has servers read a renewed certificate.
func reloadCertificates(v *view) (cluster.Plan, bool) { return v.reload(projection) }

// A reload depends on no other server, and a server that is away or unhealthy may stay so for as
// long as a certificate is valid. So a due reload goes ahead before each rule that waits for
// servers, or refuses a field of the specification, for that long.

// reloadWhileCanaryFails reloads certificates while a pod with new settings does not answer.
func reloadWhileCanaryFails(v *view) (cluster.Plan, bool) {
	if v.silentCanary() == "" {
		return cluster.Pass()
	}
	return v.reload(projection)
}

// reloadWhileIncomplete reloads certificates while a pod is missing or a server does not answer.
func reloadWhileIncomplete(v *view) (cluster.Plan, bool) {
	if v.complete {
		return cluster.Pass()
	}
	return v.reload(v.untilAnswered())
}

// reloadWhileRefused reloads certificates while spec.version or a pod with new settings is refused.
func reloadWhileRefused(v *view) (cluster.Plan, bool) {
	if !v.refusesRollout() {
		return cluster.Pass()
	}
	return v.reload(projection)
}

// reloadWhileUnsynced reloads certificates while a replica is not in sync.
func reloadWhileUnsynced(v *view) (cluster.Plan, bool) {
	p := v.firstUnsynced()
	if p == nil {
		return cluster.Pass()
	}
	return v.reload(cmp.Or(p.after, projection))
}

// reloadWhileMemoryRefused reloads certificates while less memory is refused.
func reloadWhileMemoryRefused(v *view) (cluster.Plan, bool) {
	if v.tooLittleMemory() == "" {
		return cluster.Pass()
	}
	return v.reload(projection)
}

// reloadWhileUnready reloads certificates while a pod is not ready.
func reloadWhileUnready(v *view) (cluster.Plan, bool) {
	if v.firstUnready() == nil {
		return cluster.Pass()
	}
	return v.reload(later)
}

// reload returns the step that has servers read what their Secret holds when they show another
// certificate than that. What they show is the proof that they have read it: a server reads all of
// its files together, and the kubelet replaces them together. It takes a minute and a half at most
// to bring a Secret to its pods, and reports nothing then, so the step is repeated until servers
// show the certificate: after projection, or within a shorter time.
func (v *view) reload(within time.Duration) (cluster.Plan, bool) {
	if v.Spec.Certificate == "" {
		return cluster.Pass()
	}
	var step ReloadCertificates
	for _, p := range v.read {
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
