package tls

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/lru"
)

// Phase is how far the replacement of an authority has come.
type Phase string

// Phases of a replacement, in their order.
const (
	// Settled is the rest between two replacements.
	Settled Phase = "Settled"
	// Introduced says that the new authority is trusted beside the old one, and signs nothing yet.
	Introduced Phase = "Introduced"
	// Replaced says that the new authority signs, and the old one is still trusted.
	Replaced Phase = "Replaced"
)

// Authority is the certificate authority of a cluster, and while it is being replaced the other one that is trusted
// beside it. Servers read whom they trust when they start, and leafs at each handshake, so a leaf must not appear before
// everybody trusts its authority, and an authority must not go before its last leaf:
//
//	phase       signs  trusted   ends when
//	Settled     old    old       a new authority is due
//	Introduced  old    old, new  every server was started with both, and clients had time to take both up
//	Replaced    new    old, new  servers and clients had time to take up the leafs of the new one
//	Settled     new    new
type Authority struct {
	// Signing signs the leafs.
	Signing Pair
	// Next is the authority that was introduced.
	Next Pair
	// Retired is the certificate of the one that was replaced. Its key is gone.
	Retired []byte
	// HandedOut is when all that this phase gives out was first found in place, in whole seconds. Zero: not yet.
	HandedOut time.Time
}

// Facts are what a replacement depends on beside the authority.
type Facts struct {
	// Name is the common name that the authority has to have. Empty: any.
	Name string
	// After is the wish for an authority that was not made before this time. Zero: there is none.
	After time.Time
	// Hold is how long whoever follows a Secret may take to do so.
	Hold time.Duration
	// HandedOut says that every Secret, that of clients included, holds the bundle and a leaf of the authority that signs.
	HandedOut bool
	// InForce says that every server is ready and was started with the bundle, and Calm when the last one got ready.
	InForce bool
	Calm    time.Time
	Now     time.Time
}

// Phase of the replacement.
func (a Authority) Phase() Phase {
	switch {
	case len(a.Next.Cert) > 0:
		return Introduced
	case len(a.Retired) > 0:
		return Replaced
	}
	return Settled
}

// Bundle is what everybody has to trust. The authority whose leafs are shown comes first, for those who read no further.
func (a Authority) Bundle() []byte {
	return slices.Concat(a.Signing.Cert, a.Next.Cert, a.Retired)
}

// Advance returns what becomes of the authority: itself while there is nothing to do or something to wait for.
func (a Authority) Advance(f Facts) (Authority, error) {
	if a.Phase() == Settled {
		return a.introduce(f)
	}
	switch {
	case !f.HandedOut:
		a.HandedOut = time.Time{} // Whoever lost a Secret gets the whole time to take up another one.
	case a.HandedOut.IsZero():
		a.HandedOut = f.Now.Truncate(time.Second)
	case !f.InForce || f.Now.Before(latest(a.HandedOut, f.Calm).Add(f.Hold)):
	case a.Phase() == Introduced:
		return Authority{Signing: a.Next, Retired: a.Signing.Cert}, nil
	default:
		return Authority{Signing: a.Signing}, nil
	}
	return a, nil
}

// introduce makes a new authority when one is due: when it is wished for, a third of the old one's life is left, or the old
// one has another name.
func (a Authority) introduce(f Facts) (Authority, error) {
	cert, _, err := Parse(a.Signing)
	if err != nil {
		return a, fmt.Errorf("read CA: %w", err)
	}
	wished := cert.NotBefore.Add(backdate).Before(f.After) && !f.Now.Before(f.After)
	name := cmp.Or(f.Name, cert.Subject.CommonName)
	if !wished && !f.Now.After(RenewAt(cert)) && name == cert.Subject.CommonName {
		return a, nil
	}
	a.Next, err = NewCA(name, f.Now)
	return a, err
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Fingerprint tells sets of certificates apart, however they are ordered and written down. It is empty without any.
func Fingerprint(bundle []byte) string {
	var sums [][]byte
	for _, der := range certificates(bundle) {
		sum := sha256.Sum256(der)
		sums = append(sums, sum[:])
	}
	if len(sums) == 0 {
		return ""
	}
	slices.SortFunc(sums, bytes.Compare)
	all := sha256.Sum256(bytes.Join(slices.CompactFunc(sums, bytes.Equal), nil))
	return hex.EncodeToString(all[:8])
}

// FingerprintOf tells one certificate, in DER form, apart from others.
func FingerprintOf(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// LeafFingerprint is that of the first certificate in a PEM file, empty when there is none.
func LeafFingerprint(leaf []byte) string {
	ders := certificates(leaf)
	if len(ders) == 0 {
		return ""
	}
	return FingerprintOf(ders[0])
}

// certificates are the certificates of a PEM file in DER form.
func certificates(text []byte) [][]byte {
	var out [][]byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			out = append(out, block.Bytes)
		}
	}
	return out
}

// Expiry is until when a certificate and the authority behind it are valid. Zero: unknown.
type Expiry struct{ CA, Leaf time.Time }

// ExpiryOf reads it from the certificates. Of several authorities that a leaf may lead to the longest lived one counts.
// due says that less than a fifth of the life of either is left: whoever renews in time, as tools do when a third is
// left, has not done so.
func ExpiryOf(bundle, leaf []byte, now time.Time) (e Expiry, due bool) {
	question := sums{sha256.Sum256(bundle), sha256.Sum256(leaf)}
	known, ok := lives.Get(question)
	if !ok {
		known = livesOf(bundle, leaf)
		lives.Add(question, known)
	}
	of := known.(pairLife) //nolint:forcetypeassert // Nothing else is added.
	return Expiry{CA: of.ca.end, Leaf: of.leaf.end}, of.leaf.late(now) || of.ca.late(now)
}

// sums tell a bundle and a leaf apart from others.
type sums struct{ bundle, leaf [sha256.Size]byte }

// lives are those of the certificates that were asked for last (sums -> pairLife). They are asked for at every look at a cluster, and to
// read them takes signatures.
var lives = lru.New(4096)

// pairLife are the lives of a leaf and of the authority that it leads to.
type pairLife struct{ ca, leaf life }

// life is from when until when a certificate is valid, zero: unknown.
type life struct{ begin, end time.Time }

func lifeOf(c *x509.Certificate) life { return life{c.NotBefore, c.NotAfter} }

// late reports whether less than a fifth of it is left.
func (l life) late(now time.Time) bool {
	return !l.end.IsZero() && now.After(l.end.Add(-l.end.Sub(l.begin)/5))
}

func livesOf(bundle, leaf []byte) (out pairLife) {
	ders := certificates(leaf)
	if len(ders) == 0 {
		return out
	}
	cert, err := x509.ParseCertificate(ders[0])
	if err != nil {
		return out
	}
	out.leaf = lifeOf(cert)
	if root := rootOf(bundle, cert, ders[1:]); root != nil {
		out.ca = lifeOf(root)
	}
	return out
}

// Report is what is to be told about the certificates of a cluster.
type Report struct {
	// Phase of a replacement of the authority, empty where the authority is not ours.
	Phase Phase
	// Expiry of the certificate that expires first, and of the authority that does.
	Expiry
	// Expiring names the Secret with a certificate that nobody has renewed in time, empty when there is none.
	Expiring string
	// Missing says what a certificate of the user lacks, empty when it lacks nothing.
	Missing string
	// Exposed says why certificates of others act as a server of this cluster, empty if they do not.
	Exposed string
	// Pending says what an issuer that is not ours has not done, empty when it has done all.
	Pending string
}

// Add takes the certificates of a Secret into the report.
func (r *Report) Add(secret string, bundle, leaf []byte, now time.Time) {
	e, due := ExpiryOf(bundle, leaf, now)
	r.CA, r.Leaf = earliest(r.CA, e.CA), earliest(r.Leaf, e.Leaf)
	if due && r.Expiring == "" {
		r.Expiring = secret
	}
}

// First is when the first of all certificates expires.
func (r Report) First() time.Time { return earliest(r.CA, r.Leaf) }

// earliest of two times of which either may be zero: unknown.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// rootOf is the authority in a bundle that a leaf leads to, nil when there is none. The question is who it is, not
// whether the leaf is still valid, so it is asked at a time at which the leaf was.
func rootOf(bundle []byte, leaf *x509.Certificate, chain [][]byte) *x509.Certificate {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, der := range chain {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore) / 2),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return nil
	}
	var best *x509.Certificate
	for _, c := range chains {
		if root := c[len(c)-1]; best == nil || root.NotAfter.After(best.NotAfter) {
			best = root
		}
	}
	return best
}
