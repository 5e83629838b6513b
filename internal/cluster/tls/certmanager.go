package tls

import (
	"crypto/ecdsa"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CertManagerGroup is the API group of cert-manager, and AnnotationCertificate what it puts on the Secrets that it writes:
// the name of the Certificate that asked for it, https://cert-manager.io/docs/reference/annotations/.
const (
	CertManagerGroup      = "cert-manager.io"
	AnnotationCertificate = "cert-manager.io/certificate-name"
)

// CertificateSpec is what we say in a Certificate of cert-manager,
// https://cert-manager.io/docs/reference/api-docs/#cert-manager.io/v1.CertificateSpec. When to renew is left to its
// default, a third of the life that the issuer has given: that also holds where the issuer gives less than was asked for.
type CertificateSpec struct {
	CommonName  string     `json:"commonName"`
	DNSNames    []string   `json:"dnsNames,omitempty"`
	IPAddresses []string   `json:"ipAddresses,omitempty"`
	Duration    string     `json:"duration"`
	Usages      []string   `json:"usages"`
	SecretName  string     `json:"secretName"`
	IssuerRef   Issuer     `json:"issuerRef"`
	PrivateKey  PrivateKey `json:"privateKey"`
}

// Issuer names an issuer.
type Issuer struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Group string `json:"group"`
}

// PrivateKey says how keys are made.
type PrivateKey struct {
	Algorithm      string `json:"algorithm"`
	Size           int    `json:"size"`
	Encoding       string `json:"encoding"`
	RotationPolicy string `json:"rotationPolicy"`
}

// CertificateStatus is what we read of the status of a Certificate.
type CertificateStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Request asks an issuer for a leaf, into a Secret. Keys are like those that we make ourselves.
func Request(leaf Leaf, secret string, issuer Issuer) CertificateSpec {
	s := CertificateSpec{
		CommonName: leaf.CommonName, DNSNames: leaf.DNSNames, Duration: LeafValidity.String(),
		Usages:     []string{"digital signature", "server auth", "client auth"},
		SecretName: secret, IssuerRef: issuer,
		PrivateKey: PrivateKey{Algorithm: "ECDSA", Size: 256, Encoding: "PKCS8", RotationPolicy: "Always"},
	}
	for _, ip := range leaf.IPs {
		s.IPAddresses = append(s.IPAddresses, ip.String())
	}
	return s
}

// Waiting says why a Certificate of a generation is not ready, empty when it is.
func (s CertificateStatus) Waiting(generation int64) string {
	i := slices.IndexFunc(s.Conditions, func(c metav1.Condition) bool { return c.Type == "Ready" })
	switch {
	case i < 0, s.Conditions[i].ObservedGeneration < generation:
		return "cert-manager has not looked at it yet"
	case s.Conditions[i].Status != metav1.ConditionTrue:
		return s.Conditions[i].Message
	}
	return ""
}

// Flaw says why what was issued for a leaf cannot serve, or returns an empty string.
func Flaw(ca []byte, have Pair, want Leaf, now time.Time) string {
	if len(certificates(ca)) == 0 {
		return "it comes without the certificate authority (ca.crt), which servers need to trust each other"
	}
	if _, _, err := Parse(have); err != nil {
		return fmt.Sprintf("tls.crt and tls.key cannot be read (%v)", err)
	}
	cert, chain := parseChain(have.Cert)
	_, key, _ := Parse(have)
	pub, ok := cert.PublicKey.(*ecdsa.PublicKey)
	switch {
	case !ok || !pub.Equal(key.Public()):
		return "tls.crt and tls.key do not belong together"
	case len(without(have.Cert, ca)) == 0:
		return "it is signed by itself: every other one would be a change of the certificate authority"
	case rootOf(ca, cert, chain) == nil:
		return "it is not signed by the certificate authority (ca.crt) that comes with it"
	case now.After(cert.NotAfter):
		return fmt.Sprintf("it has expired at %s", cert.NotAfter.UTC().Format(time.RFC3339))
	case cert.Subject.CommonName != want.CommonName:
		return fmt.Sprintf("its common name is %q instead of %q", cert.Subject.CommonName, want.CommonName)
	case !serves(cert, x509.ExtKeyUsageServerAuth) || !serves(cert, x509.ExtKeyUsageClientAuth):
		return "it is not for the authentication of servers and clients both"
	}
	return flawOfNames(cert, want)
}

// flawOfNames allows for names beyond those that were asked for, but not where there should be none: etcd looks a client's
// address up among the names in its certificate, if there are any.
func flawOfNames(cert *x509.Certificate, want Leaf) string {
	if len(want.DNSNames)+len(want.IPs) == 0 && len(cert.DNSNames)+len(cert.IPAddresses) > 0 {
		return "it has alternative names, and a certificate for clients must have none"
	}
	for _, name := range want.DNSNames {
		if !slices.Contains(cert.DNSNames, name) {
			return fmt.Sprintf("it is not for the name %s", name)
		}
	}
	for _, ip := range addresses(want.IPs) {
		if !slices.ContainsFunc(cert.IPAddresses, ip.Equal) {
			return fmt.Sprintf("it is not for the address %s", ip)
		}
	}
	return ""
}

// serves reports whether a certificate may be used for a purpose. One that names none may be used for all.
func serves(c *x509.Certificate, purpose x509.ExtKeyUsage) bool {
	return len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) == 0 ||
		slices.Contains(c.ExtKeyUsage, purpose) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny)
}
