package model

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
)

// TLSSwitch is what the record says about how members are reached, beside the scheme of their URLs.
type TLSSwitch struct {
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
func (r Record) Secure() bool { return len(r.Members) > 0 && Secure(r.Members[0].URL) }

// Secure reports whether a URL is one of TLS.
func Secure(u string) bool { return strings.HasPrefix(u, "https://") }

// Host is who a peer URL leads to. A member is known by it, whatever the scheme and the port.
func Host(peerURL string) string {
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

// SameHost reports whether two peer URLs are of one member.
func SameHost(a, b string) bool { return a == b || Host(a) == Host(b) }

// encode returns the transport as text.
func (t TLSSwitch) encode() string {
	raw, _ := json.Marshal(t) // It holds nothing that cannot be encoded.
	return string(raw)
}

// ParseTLSSwitch reads what encode returned. The zero value stands for empty text, which is the
// record of a cluster whose TLS was never switched.
func ParseTLSSwitch(text string) (t TLSSwitch, err error) {
	if text == "" {
		return t, nil // The record of a cluster whose TLS was never switched need not say anything.
	}
	if err = json.Unmarshal([]byte(text), &t); err != nil {
		return t, fmt.Errorf("key %s: %w", keyTransport, err)
	}
	return t, nil
}

// Listens reports whether the member in a pod listens for TLS, or for plain text.
func (p Pod) Listens(tls bool) bool {
	if tls {
		return p.TLS
	}
	return p.Plain
}

// Transport is how members are reached. The StatefulSet repeats what the record says: a deleted
// record is recreated from that.
type Transport struct {
	Secure bool `json:"secure"`
	TLSSwitch
}

// Transport returns what a record says.
func (r Record) Transport() Transport { return Transport{r.Secure(), r.TLSSwitch} }

// UsesTLS reports whether members listen for TLS, so that they have certificates.
func (r Transport) UsesTLS() bool { return r.Secure || r.Both }

// Encode returns it as text.
func (r Transport) Encode() string {
	raw, _ := json.Marshal(r) // It holds nothing that cannot be encoded.
	return string(raw)
}

// ParseTransport reads what Encode wrote.
func ParseTransport(text string) (r Transport, err error) {
	if err = json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("decode how the members are reached: %w", err)
	}
	return r, nil
}

// Certificates says where the certificates of the members come from: from where they have them as long as they use any, and else
// from where the specification says.
func (r Transport) Certificates(spec *v1alpha1.TLSSpec) *v1alpha1.TLSSpec {
	if r.UsesTLS() && r.TLS != nil && !sameSource(r.TLS, spec) {
		return r.TLS
	}
	return spec
}

// WantsTLS reports whether connections are to be encrypted now. Certificates from elsewhere are taken up when those in use are not
// used any more.
func (r Transport) WantsTLS(spec *v1alpha1.TLSSpec) bool {
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
