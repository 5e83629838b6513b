package steps

import (
	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// ReasonTransport says that TLS is being switched on or off.
const ReasonTransport = "SwitchingTLS"

// WordFor returns the word for TLS or for its absence, for messages.
func WordFor(tls bool) string {
	if tls {
		return "TLS"
	}
	return "plain text"
}

// With returns how members are reached after a step.
func With(r model.Transport, s SetTransport, spec *v1alpha1.TLSSpec) model.Transport {
	out := model.Transport{Secure: s.Secure, TLSSwitch: model.TLSSwitch{Both: s.Both, Told: s.Told}}
	if out.UsesTLS() {
		out.TLS = r.Certificates(spec)
	}
	return out
}
