package tls

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"
)

// Trust is whom a cluster trusts whose leafs are signed by an issuer that is not ours. The issuer changes its authority
// when it likes, and leafs follow one by one as they are renewed, so there may be any number of authorities at a time.
// The order is that of an Authority:
//
//	phase       leafs shown are by   trusted                ends when
//	Settled     proven               proven                 a leaf comes with another authority, or the last leaf of one went
//	Introduced  proven               proven, next           every server was started with all, and clients had time to follow
//	Replaced    proven               proven, retired        servers and clients had time to take up the leafs of the others
type Trust struct {
	// Proven authorities are trusted by everybody: leafs of theirs may be shown.
	Proven []byte
	// Next are those that were introduced. No leaf of theirs may be shown yet.
	Next []byte
	// Retired are those of which no leaf is left. There are none while others are being introduced.
	Retired []byte
	// HandedOut is when all that this phase gives out was first found in place, in whole seconds. Zero: not yet.
	HandedOut time.Time
}

// NewTrust is whom to trust when nothing is written down: the authorities of what was issued, and where leafs are in use
// already those that are handed out with them, which are taken for new ones: nobody knows who has heard of them.
func NewTrust(issued, inUse []byte) Trust {
	if len(certificates(inUse)) > 0 {
		return Trust{Next: without(inUse, nil)}
	}
	return Trust{Proven: without(issued, nil)}
}

// Phase of the replacement.
func (t Trust) Phase() Phase {
	switch {
	case len(t.Next) > 0:
		return Introduced
	case len(t.Retired) > 0:
		return Replaced
	}
	return Settled
}

// Bundle is what everybody has to trust.
func (t Trust) Bundle() []byte { return slices.Concat(t.Proven, t.Next, t.Retired) }

// Accepts reports whether a leaf may be shown: everybody trusts an authority that it leads to.
func (t Trust) Accepts(leaf []byte) bool {
	cert, chain := parseChain(leaf)
	return cert != nil && rootOf(t.Proven, cert, chain) != nil
}

// Advance returns what becomes of it: itself while there is nothing to do or something to wait for. seen are the
// authorities of all leafs that the issuer has signed last.
func (t Trust) Advance(seen []byte, f Facts) Trust {
	if fresh := without(seen, t.Bundle()); len(fresh) > 0 {
		return Trust{Proven: slices.Concat(t.Proven, t.Retired), Next: slices.Concat(t.Next, fresh)}
	}
	if left := without(t.Retired, seen); len(left) < len(t.Retired) {
		return Trust{Proven: slices.Concat(t.Proven, t.Retired)} // The issuer came back to one that was to go.
	}
	if t.Phase() == Settled {
		return t.retire(seen)
	}
	switch {
	case !f.HandedOut:
		t.HandedOut = time.Time{} // Whoever lost a Secret gets the whole time to take up another one.
	case t.HandedOut.IsZero():
		t.HandedOut = f.Now.Truncate(time.Second)
	case !f.InForce || f.Now.Before(latest(t.HandedOut, f.Calm).Add(f.Hold)):
	case t.Phase() == Introduced:
		return Trust{Proven: slices.Concat(t.Next, t.Proven)}.retire(seen)
	default:
		return Trust{Proven: t.Proven}
	}
	return t
}

// retire takes the authorities out of which no leaf was signed last.
func (t Trust) retire(seen []byte) Trust {
	idle := without(t.Proven, seen)
	return Trust{Proven: without(t.Proven, idle), Retired: idle}
}

// Hand is the pair that is to be shown: the one that was issued last, and until its authority is trusted the one that is
// in use, for as long as that is valid. Nobody trusts one that has expired.
func (t Trust) Hand(issued, inUse Pair, now time.Time) Pair {
	if len(issued.Cert) == 0 {
		return inUse
	}
	if cert, _ := parseChain(inUse.Cert); t.Accepts(issued.Cert) || cert == nil || now.After(cert.NotAfter) {
		return issued
	}
	return inUse
}

// without are the certificates of a bundle that are not in another one, each of them once.
func without(bundle, other []byte) []byte {
	known := certificates(other)
	var out []byte
	for _, der := range certificates(bundle) {
		if slices.ContainsFunc(known, func(k []byte) bool { return bytes.Equal(k, der) }) {
			continue
		}
		known = append(known, der)
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return out
}

// parseChain reads a leaf and what stands behind it, nil when it cannot be read.
func parseChain(text []byte) (leaf *x509.Certificate, chain [][]byte) {
	ders := certificates(text)
	if len(ders) == 0 {
		return nil, nil
	}
	leaf, err := x509.ParseCertificate(ders[0])
	if err != nil {
		return nil, nil
	}
	return leaf, ders[1:]
}
