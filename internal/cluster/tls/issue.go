// Package tls issues the certificates of a cluster: a certificate authority and the leafs signed by it. It is pure:
// keys come from crypto/rand, the time from the caller, and nothing is read or written.
package tls

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Validity of what the operator issues. Leafs are renewed when a third of their life is left.
const (
	CAValidity   = 10 * 365 * 24 * time.Hour
	LeafValidity = 365 * 24 * time.Hour
	// backdate allows for clocks that are a little behind.
	backdate = 5 * time.Minute
)

// Loopback are the addresses under which a server is reached through a forwarded port.
var Loopback = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}

// Pair is a certificate and its private key, PEM encoded; Key is in PKCS #8 form.
type Pair struct{ Cert, Key []byte }

// Leaf says what a certificate has to vouch for. Every leaf may authenticate a server and a client: etcd's own
// gateway and Redis' cluster bus use the server's certificate as a client.
type Leaf struct {
	CommonName string
	DNSNames   []string
	IPs        []netip.Addr
}

// Hosts are the names and the addresses that the certificate is for.
func (l Leaf) Hosts() []string {
	hosts := slices.Clone(l.DNSNames)
	for _, ip := range l.IPs {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

// NewCA makes a self-signed certificate authority (ECDSA P-256).
func NewCA(commonName string, now time.Time) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generate CA key: %w", err)
	}
	tmpl, err := template(commonName, now, CAValidity)
	if err != nil {
		return Pair{}, err
	}
	tmpl.IsCA, tmpl.BasicConstraintsValid = true, true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	return sign(tmpl, tmpl, key, key)
}

// Issue makes a leaf certificate signed by the given authority.
func Issue(ca Pair, leaf Leaf, now time.Time) (Pair, error) {
	caCert, caKey, err := Parse(ca)
	if err != nil {
		return Pair{}, fmt.Errorf("read CA: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generate key of %s: %w", leaf.CommonName, err)
	}
	tmpl, err := template(leaf.CommonName, now, LeafValidity)
	if err != nil {
		return Pair{}, err
	}
	tmpl.DNSNames, tmpl.IPAddresses = leaf.DNSNames, addresses(leaf.IPs)
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return sign(tmpl, caCert, key, caKey)
}

// NeedsIssue says why a leaf has to be issued (again), or returns an empty string when it is fine.
func NeedsIssue(ca, have Pair, want Leaf, now time.Time) string {
	caCert, _, err := Parse(ca)
	if err != nil {
		return "the certificate authority cannot be read"
	}
	cert, key, err := Parse(have)
	if err != nil {
		return "there is no readable certificate yet"
	}
	pub, ok := cert.PublicKey.(*ecdsa.PublicKey)
	switch {
	case !ok || !pub.Equal(key.Public()):
		return "certificate and key do not belong together"
	case cert.CheckSignatureFrom(caCert) != nil:
		return "it is signed by another authority"
	case now.After(RenewAt(cert)):
		return "it expires soon"
	case cert.Subject.CommonName != want.CommonName:
		return "its common name changed"
	case !sameStrings(cert.DNSNames, want.DNSNames) || !slices.EqualFunc(cert.IPAddresses, addresses(want.IPs), net.IP.Equal):
		return "its names changed"
	}
	return ""
}

// LeafOf is what a certificate was issued for; false when it cannot be read.
func LeafOf(have Pair) (Leaf, bool) {
	cert, _, err := Parse(have)
	if err != nil {
		return Leaf{}, false
	}
	leaf := Leaf{CommonName: cert.Subject.CommonName, DNSNames: cert.DNSNames}
	for _, raw := range cert.IPAddresses {
		if ip, ok := netip.AddrFromSlice(raw); ok {
			leaf.IPs = append(leaf.IPs, ip.Unmap())
		}
	}
	return leaf, true
}

// RenewAt is the time at which a third of a certificate's life is left.
func RenewAt(c *x509.Certificate) time.Time {
	return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3)
}

// Check says what is wrong with a certificate that the user provides, or returns an empty string: it must belong to its
// key, be signed by the authority, vouch for the host and be valid now.
func Check(caPEM []byte, have Pair, host string, now time.Time) string {
	pair, err := tls.X509KeyPair(have.Cert, have.Key)
	if err != nil {
		return fmt.Sprintf("tls.crt and tls.key cannot be used: %v", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(caPEM) {
		return "ca.crt holds no certificate"
	}
	between := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: between, CurrentTime: now})
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return fmt.Sprintf("tls.crt is valid from %s to %s only", pair.Leaf.NotBefore.Format(time.RFC3339), pair.Leaf.NotAfter.Format(time.RFC3339))
	}
	if err != nil {
		return fmt.Sprintf("tls.crt does not serve: %v", err)
	}
	return ""
}

// Vouches tells whether a certificate in PEM form is for a DNS name or an address.
func Vouches(leaf []byte, host string) bool {
	cert, _ := parseChain(leaf)
	return cert != nil && cert.VerifyHostname(host) == nil
}

// Parse decodes a pair.
func Parse(p Pair) (*x509.Certificate, crypto.Signer, error) {
	cb, _ := pem.Decode(p.Cert)
	kb, _ := pem.Decode(p.Key)
	if cb == nil || kb == nil {
		return nil, nil, errors.New("no PEM block in certificate or key")
	}
	cert, err := x509.ParseCertificate(cb.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("parse certificate: %w", err)
	}
	raw, err := x509.ParsePKCS8PrivateKey(kb.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("parse key: %w", err)
	}
	key, ok := raw.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("a key of type %T cannot sign", raw)
	}
	return cert, key, nil
}

func template(commonName string, now time.Time, validity time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(validity),
	}, nil
}

func sign(tmpl, parent *x509.Certificate, key *ecdsa.PrivateKey, parentKey crypto.Signer) (Pair, error) {
	if tmpl.IsCA {
		der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
		if err != nil {
			return Pair{}, fmt.Errorf("encode public key: %w", err)
		}
		id := sha256.Sum256(der)
		tmpl.SubjectKeyId = id[:20]
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, parentKey)
	if err != nil {
		return Pair{}, fmt.Errorf("sign certificate of %s: %w", tmpl.Subject.CommonName, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encode key of %s: %w", tmpl.Subject.CommonName, err)
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

func sameStrings(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// addresses are in the form that x509 takes.
func addresses(in []netip.Addr) []net.IP {
	var out []net.IP
	for _, a := range in {
		out = append(out, a.AsSlice())
	}
	return out
}
