package steps

import (
	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// TLS is switched on and off while the cluster serves. Both kinds of listener are open as long as that takes:
//
//	members listen for    URLs in the record, and in the member list          next
//	---------------------------------------------------------------------------------------------------------------
//	plain text            http                                                every member restarts with both
//	both                  http                                                the record turns to https: clients are told
//	both                  https, the list follows member by member            clients have time to follow their Secret
//	both                  https                                               every member restarts with TLS alone
//	TLS                   https
//
// It goes the same way back, and from wherever it is when the specification changes again. At any time every member listens
// for what the record says, so that peers, clients and the operator can go by that, and for what the member list says of it.
//
// The client port takes both (etcd tells them apart by their first bytes, see serve.go in server/embed), a peer port does
// not: there are two.

// ReasonTransport says that TLS is being switched on or off.
const ReasonTransport = "SwitchingTLS"

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
