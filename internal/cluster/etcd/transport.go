package etcd

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
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

// Transport is what the record says about how members are reached, beside the scheme of their URLs.
type Transport struct {
	// Both says that members are made to listen for plain text and TLS at the same time.
	Both bool `json:"both,omitempty"`
	// TLS says where the certificates come from that members use, or used last. The specification says so no more when TLS is
	// being switched off.
	TLS *v1alpha1.TLSSpec `json:"tls,omitempty"`
	// Told is when members and clients were told to use other URLs, zero before they were: the member list has those of the
	// record then.
	Told time.Time `json:"told,omitzero"`
}

// Secure reports whether members and clients are told to use TLS.
func (r Record) Secure() bool { return len(r.Members) > 0 && secure(r.Members[0].URL) }

func secure(u string) bool { return strings.HasPrefix(u, "https://") }

// host is who a peer URL leads to. A member is known by it, whatever the scheme and the port.
func host(peerURL string) string {
	if _, rest, ok := strings.Cut(peerURL, "://"); ok && !strings.ContainsAny(rest, "/?#@[]%") {
		if name, _, _ := strings.Cut(rest, ":"); name != "" {
			return name // That is what all are that the operator writes.
		}
	}
	u, err := url.Parse(peerURL)
	if err != nil || u.Hostname() == "" {
		return peerURL
	}
	return u.Hostname()
}

// sameHost reports whether two peer URLs are of one member.
func sameHost(a, b string) bool { return a == b || host(a) == host(b) }

// encode returns the transport as text.
func (t Transport) encode() string {
	raw, _ := json.Marshal(t) // It holds nothing that cannot be encoded.
	return string(raw)
}

func parseTransport(text string) (t Transport, err error) {
	if text == "" {
		return t, nil // The record of a cluster whose TLS was never switched need not say anything.
	}
	if err = json.Unmarshal([]byte(text), &t); err != nil {
		return t, fmt.Errorf("key %s: %w", keyTransport, err)
	}
	return t, nil
}

// listens reports whether the member in a pod listens for TLS, or for plain text.
func (p Pod) listens(tls bool) bool {
	if tls {
		return p.TLS
	}
	return p.Plain
}

// revertTransport follows a change of mind as long as nothing but listeners has changed: before anybody was told of other URLs, or after
// everybody has followed. It comes before anything waits for members, because what is not well may be so for the change.
func revertTransport(s State) (cluster.Plan, bool) {
	r := s.Record
	mixed := slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.Plain && p.TLS })
	switch wanted := r.Secure() == s.Want.TLS; {
	case wanted && r.Transport.Both && r.Transport.Told.IsZero():
		return cluster.Do(SetTransport{Secure: r.Secure()}, "spec.tls.mode was set back: members go on with %s alone", wordFor(r.Secure()))
	case !wanted && !r.Transport.Both && mixed:
		return openBoth(s)
	}
	return cluster.Pass()
}

// openBoth makes members listen for plain text and TLS, whichever of the two they go without.
func openBoth(s State) (cluster.Plan, bool) {
	if s.Record.Transport.Both || s.Record.Secure() == s.Want.TLS {
		return cluster.Pass()
	}
	return cluster.Do(SetTransport{Secure: s.Record.Secure(), Both: true}, "%s: members are made to listen for plain text and TLS", s.switching())
}

// switchTransport begins a change when everything else is done.
func switchTransport(s State) (cluster.Plan, bool) {
	if s.anyOutdated() || len(s.Members) != len(s.Record.Members) {
		return cluster.Pass()
	}
	return openBoth(s)
}

// listenForBothTransports lets members find each other that an earlier cluster of this name has left, or that lost their record while TLS was
// being switched: what their disks say of their peers may be what nobody listens for. Once the identity of the cluster is
// recorded, they have found each other.
func listenForBothTransports(s State) (cluster.Plan, bool) {
	r, lonely := s.Record, 0
	for _, p := range s.Pods {
		if p.View != nil && p.View.Leader == 0 {
			lonely++
		}
	}
	if s.Members != nil || s.known() || r.Bootstrap == BootstrapNew || r.Transport.Both || s.anyYoung() || lonely < Quorum(len(r.Members)) {
		return cluster.Pass()
	}
	if !r.Secure() && !s.Want.TLS {
		return cluster.Wait(ReasonNoQuorum, whileWaiting, "the members do not find each other%s: where their volumes are of a cluster with TLS, "+
			"set spec.tls.mode to Managed until it is Ready", troubles(s))
	}
	return cluster.Do(SetTransport{Secure: r.Secure(), Both: true, Told: s.Now},
		"the members do not find each other: they are made to listen for plain text and TLS, because their volumes may know either")
}

// correctPeerURL brings the URL of a member into line that does not listen for what its peers use any more.
func correctPeerURL(s State) (cluster.Plan, bool) {
	for _, m := range s.Members {
		if p := s.pod(m); p != nil && !p.Terminating && p.View != nil && !m.Learner && !p.listens(secure(m.PeerURL)) && p.listens(s.Record.Secure()) {
			return s.tell(m)
		}
	}
	return cluster.Pass()
}

// tell tells the quorum the URL of a member that the record has.
func (s State) tell(m Member) (cluster.Plan, bool) {
	p, peer := s.pod(m), s.Want.Peers[s.Ordinal(m)]
	return cluster.Do(UpdatePeer{ID: m.ID, Name: p.Name, URL: peer.URL, Via: s.via(Member{})},
		"%s: %s listens for %s, and its peers are told to use that", s.switching(), p.Name, wordFor(secure(peer.URL)))
}

// updatePeerURLs brings the URLs in the member list into line with the record, one at a time. It waits for a learner: an update of
// one would give it a vote before it has the data (etcd issue 21694).
func updatePeerURLs(s State) (cluster.Plan, bool) {
	for _, m := range s.Members {
		p, peer := s.pod(m), s.Want.Peers[s.Ordinal(m)]
		tls := secure(peer.URL)
		switch {
		case m.PeerURL == peer.URL:
		case m.Learner:
			return cluster.Wait(ReasonTransport, whileWaiting, "%s: %s has no vote yet", s.switching(), p.Name)
		case !p.listens(tls):
			return cluster.Wait(ReasonTransport, whileWaiting, "%s: %s does not listen for %s", s.switching(), p.Name, wordFor(tls))
		default:
			return s.tell(m)
		}
	}
	return cluster.Pass()
}

// closeOldListeners ends a change: what nobody is told to use any more is not listened for any more.
func closeOldListeners(s State) (cluster.Plan, bool) {
	r := s.Record
	if !r.Transport.Both || r.Secure() != s.Want.TLS || s.grace() > 0 {
		return cluster.Pass()
	}
	return cluster.Do(SetTransport{Secure: r.Secure()}, "%s: peers and clients use %s, and members listen for nothing else from now on",
		s.switching(), wordFor(r.Secure()))
}

// switchClients makes members and clients use other URLs, once every member listens for both, and lets clients follow. The rules
// below it wait until the change is over, because members listen for plain text as long as it takes.
func switchClients(s State) (cluster.Plan, bool) {
	r := s.Record
	switch {
	case !r.Transport.Both:
		return cluster.Pass()
	case r.Secure() == s.Want.TLS:
		left := s.grace()
		return cluster.Wait(ReasonTransport, left, "%s: clients have %s more to follow the connection Secret to %s; until then members "+
			"serve plain text and TLS", s.switching(), left.Round(time.Second), wordFor(r.Secure()))
	}
	for _, m := range s.Members {
		if p := s.pod(m); !p.Plain || !p.TLS {
			return cluster.Pass() // It cannot be spared, see rollOut, before the cluster has another size.
		}
	}
	return cluster.Do(SetTransport{Secure: s.Want.TLS, Both: true, Told: s.Now}, "%s: every member listens for both, so peers and clients are told to use %s",
		s.switching(), wordFor(s.Want.TLS))
}

// grace is how much longer clients may take to follow.
func (s State) grace() time.Duration {
	t := s.Record.Transport.Told
	if t.IsZero() || !s.Open {
		return 0
	}
	return max(0, s.Want.Hold-s.Now.Sub(t))
}

// switching says what is going on.
func (s State) switching() string {
	if s.Want.TLS {
		return "TLS is switched on"
	}
	return "TLS is switched off"
}

func wordFor(tls bool) string {
	if tls {
		return "TLS"
	}
	return "plain text"
}

// Switching says in words that TLS is being switched, empty when it is not.
func Switching(s State) string {
	if s.Record == nil || (!s.Record.Transport.Both && s.Record.Secure() == s.Want.TLS) {
		return ""
	}
	plain := "members serve plain text too until that is over"
	switch {
	case !s.Record.Transport.Both && !s.Record.Secure():
		plain = "members serve plain text until then"
	case !s.Record.Transport.Both:
		plain = "members serve TLS alone until that has begun"
	}
	return s.switching() + ": " + plain
}

// Reach is how members are reached. The StatefulSet repeats what the record says: one that is deleted is written anew from that.
type Reach struct {
	Secure bool `json:"secure"`
	Transport
}

// Reach returns what a record says.
func (r Record) Reach() Reach { return Reach{r.Secure(), r.Transport} }

// UsesTLS reports whether members listen for TLS, so that they have certificates.
func (r Reach) UsesTLS() bool { return r.Secure || r.Both }

// Encode returns it as text.
func (r Reach) Encode() string {
	raw, _ := json.Marshal(r) // It holds nothing that cannot be encoded.
	return string(raw)
}

// ParseReach reads what Encode wrote.
func ParseReach(text string) (r Reach, err error) {
	if err = json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("decode how the members are reached: %w", err)
	}
	return r, nil
}

// Certificates says where the certificates of the members come from: from where they have them as long as they use any, and else
// from where the specification says.
func (r Reach) Certificates(spec *v1alpha1.TLSSpec) *v1alpha1.TLSSpec {
	if r.UsesTLS() && r.TLS != nil && !sameSource(r.TLS, spec) {
		return r.TLS
	}
	return spec
}

// WantsTLS reports whether connections are to be encrypted now. Certificates from elsewhere are taken up when those in use are not
// used any more.
func (r Reach) WantsTLS(spec *v1alpha1.TLSSpec) bool {
	return spec.TLSMode() != v1alpha1.TLSDisabled && r.Certificates(spec) == spec
}

func sameSource(a, b *v1alpha1.TLSSpec) bool { return reflect.DeepEqual(source(a), source(b)) }

// source is what a specification says about where certificates come from, without how they are replaced: another issuer of
// cert-manager is a change of authorities, which members live through with TLS.
func source(t *v1alpha1.TLSSpec) v1alpha1.TLSSpec {
	var out v1alpha1.TLSSpec
	if t != nil {
		out = *t
	}
	mode := t.TLSMode()
	out.Mode, out.IssuerRef, out.Rotation = &mode, nil, nil
	return out
}

// With returns how members are reached after a step.
func (r Reach) With(s SetTransport, spec *v1alpha1.TLSSpec) Reach {
	out := Reach{s.Secure, Transport{Both: s.Both, Told: s.Told}}
	if out.UsesTLS() {
		out.TLS = r.Certificates(spec)
	}
	return out
}
