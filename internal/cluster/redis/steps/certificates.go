package steps

import (
	"context"
)

// ReloadCertificates makes servers read their certificate, its key and the authorities that they trust anew.
type ReloadCertificates struct{ Pods []string }

// ReasonReloadCertificates is the reason of ReloadCertificates.
const ReasonReloadCertificates = "ReloadingCertificates"

func (s ReloadCertificates) String() string {
	return "reload the certificates of " + JoinItems(s.Pods, func(pod string) string { return pod })
}

// Calls sends CONFIG SET.
func (s ReloadCertificates) Calls() []Call {
	return calls(s.Pods, func(pod string) Call {
		return Call{pod, func(ctx context.Context, c Client) error { return c.ReloadCertificates(ctx) }}
	})
}
