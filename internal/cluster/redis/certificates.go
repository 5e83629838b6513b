package redis

import (
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

// reloadCertificates has servers read what their Secret holds when they show another certificate than that. What they show is
// the proof that they have read it: a server reads all of its files at once, and the kubelet replaces them at once. It takes a
// minute and a half at most to bring a Secret to its pods, and says nothing then, so that servers are told until they show it.
func reloadCertificates(v *view) (cluster.Plan, bool) {
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
	plan.After = projection
	return plan, ok
}
