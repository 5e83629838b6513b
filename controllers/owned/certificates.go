package owned

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// CAKey is the key of the authority's certificate in a Secret. The authority's own Secret holds its
// private key under corev1.TLSPrivateKeyKey too, and is mounted nowhere.
const CAKey = "ca.crt"

// Certificates are what a cluster needs.
type Certificates struct {
	Spec   *v1alpha1.TLSSpec
	Labels map[string]string
	// Leafs that the operator issues, by the name of their Secret.
	Leafs map[string]clustertls.Leaf
	// Clients names the leaf that clients are handed. Empty: they get the authorities alone.
	Clients string
	// Authority is the common name of a Managed authority. One of another name is replaced.
	Authority string
	// Hosts that a certificate of the user must vouch for.
	Hosts []string
	// InUse says that servers may have been started with certificates.
	InUse bool
	// Servers tells about the servers that run with the authorities of a fingerprint. Nil: the authority is never replaced.
	Servers func(ctx context.Context, fingerprint string) (Servers, error)
	// Followers names the Secrets that users of the cluster connect with. Nil: there are none.
	Followers func(ctx context.Context) ([]string, error)
	// PerBundle names the leaf that is issued anew along with another bundle of authorities, so that a server which shows it
	// proves to have read both. Empty: none.
	PerBundle string
	// RenewOnly leaves everything as it is but for leafs that would expire.
	RenewOnly bool
}

// EnsureCertificates brings the certificates of a cluster into place. Managed: an authority of the cluster's own and
// one Secret per leaf. CertManager: the same leafs, signed by an issuer. Provided: the Secret of the user is checked. The error is a CertificateError.
func (c *Client) EnsureCertificates(ctx context.Context, owner Owner, want Certificates) error {
	var err error
	switch want.Spec.TLSMode() {
	case v1alpha1.TLSDisabled:
	case v1alpha1.TLSProvided:
		err = c.checkProvided(ctx, owner, want)
	case v1alpha1.TLSCertManager:
		err = c.ensureIssued(ctx, owner, want)
	default:
		err = c.ensureManaged(ctx, owner, want)
	}
	if err != nil {
		return CertificateError{Err: err}
	}
	return nil
}

// RenewAnyway has certificates renewed although something else is refused, which may stay so for longer than they last.
func RenewAnyway(err error, upkeep func() error) error {
	var refusal cluster.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	return JoinDistinct(err, upkeep())
}

// RenewSecret brings the certificates in a Secret of the owner up to date, if it has any of ours: whatever else would be written into it may wait.
func (c *Client) RenewSecret(ctx context.Context, owner Owner, name string, labels map[string]string, issued map[string][]byte) error {
	live, err := c.OwnSecret(ctx, owner, name)
	if live == nil || err != nil || len(issued[CAKey]) == 0 {
		return err
	}
	data := map[string][]byte{}
	for _, key := range appliedKeys(live) {
		data[key] = live.Data[key]
		if value := issued[key]; len(value) > 0 {
			data[key] = value
		}
	}
	if len(data[CAKey]) == 0 || DataHolds(live.Data, data) {
		return nil
	}
	return c.bringSecret(ctx, owner, live, Secret{Name: name, Type: live.Type, Labels: labels, Data: data})
}

// followed reports whether the Secrets that users of a cluster connect with have what clients are to have, as far as they are there.
func (c *Client) followed(ctx context.Context, owner Owner, want Certificates, clients map[string][]byte) (bool, error) {
	if want.Followers == nil {
		return true, nil
	}
	names, err := want.Followers(ctx)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		s, err := c.namedSecret(ctx, owner, name)
		if err != nil {
			return false, err
		}
		if s != nil && s.Labels[cluster.LabelManagedBy] == cluster.ManagedBy && len(s.Data[CAKey]) > 0 && !DataHolds(s.Data, clients) {
			return false, nil
		}
	}
	return true, nil
}

func (c *Client) checkProvided(ctx context.Context, owner Owner, want Certificates) error {
	ca, pair, err := c.Keypair(ctx, owner, want.Spec, "")
	if err != nil {
		return err
	}
	for _, host := range want.Hosts {
		if flaw := clustertls.Check(ca, pair, host, c.Now()); flaw != "" {
			return InvalidSpec("spec.tls.secretName: in Secret %q, %s: replace it", want.Spec.Secret(), flaw)
		}
	}
	return nil
}

func (c *Client) ensureManaged(ctx context.Context, owner Owner, want Certificates) error {
	a, err := c.ensureAuthority(ctx, owner, want)
	if err != nil || len(a.Signing.Cert) == 0 {
		return err
	}
	for name := range want.Leafs {
		if err := c.ensureLeaf(ctx, owner, want, a, name); err != nil {
			return err
		}
	}
	return nil
}

// ensureAuthority reads the authority of a cluster and lets its replacement go on. It makes one only when nothing can
// have been signed by an earlier one: members trust the authority that they started with, and would reject each other and
// us. It returns none where there is none to renew with.
func (c *Client) ensureAuthority(ctx context.Context, owner Owner, want Certificates) (clustertls.Authority, error) {
	name := cluster.CASecret(owner.GetName())
	live, err := c.OwnSecret(ctx, owner, name)
	if err != nil {
		return clustertls.Authority{}, err
	}
	if live != nil {
		a, err := AuthorityOf(live)
		if err != nil || want.RenewOnly {
			return a, err
		}
		if err := c.Adopt(ctx, owner, live); err != nil || want.Servers == nil {
			return a, err
		}
		return c.Advance(ctx, owner, want, live, a)
	}
	signed, err := c.anySecret(ctx, owner, slices.Sorted(maps.Keys(want.Leafs)))
	if err != nil {
		return clustertls.Authority{}, err
	}
	if signed || want.InUse {
		return clustertls.Authority{}, InvalidSpec("Secret %s, the certificate authority of this cluster, is gone: restore it. "+
			"The certificates in use stay valid, but none can be renewed", name)
	}
	if want.RenewOnly {
		return clustertls.Authority{}, nil
	}
	ca, err := clustertls.NewCA(want.Authority, c.Now())
	if err != nil {
		return clustertls.Authority{}, err
	}
	a := clustertls.Authority{Signing: ca}
	return a, c.makeSecret(ctx, owner, Secret{Name: name, Type: corev1.SecretTypeTLS, Labels: want.Labels, Data: AuthorityData(a)})
}

// anySecret reports whether the cluster has a Secret of any of the names.
func (c *Client) anySecret(ctx context.Context, owner Owner, names []string) (bool, error) {
	for _, name := range names {
		s, err := c.OwnSecret(ctx, owner, name)
		if s != nil || err != nil {
			return err == nil, err
		}
	}
	return false, nil
}

// ensureLeaf keeps the Secret of one of the wanted leafs up to date, signed by an authority.
func (c *Client) ensureLeaf(ctx context.Context, owner Owner, want Certificates, a clustertls.Authority, name string) error {
	live, err := c.OwnSecret(ctx, owner, name)
	if err != nil || (live == nil && want.RenewOnly) {
		return err
	}
	leaf := want.Leafs[name]
	var pair clustertls.Pair
	if live != nil {
		pair = pairOf(live)
	}
	if had, ok := clustertls.LeafOf(pair); ok && want.RenewOnly {
		leaf = had // Servers go on under the names that they have.
	}
	alone := live != nil && name == want.PerBundle && !bytes.Equal(live.Data[CAKey], a.Bundle())
	if alone || clustertls.NeedsIssue(a.Signing, pair, leaf, c.Now()) != "" {
		if pair, err = clustertls.Issue(a.Signing, leaf, c.Now()); err != nil {
			return err
		}
	}
	return c.bringSecret(ctx, owner, live, Secret{
		Name: name, Type: corev1.SecretTypeTLS, Labels: want.Labels, Data: LeafData(a.Bundle(), pair),
	})
}

// clientData returns what every Secret that clients connect with holds: the authorities of a bundle,
// and the leaf of clients where there is one.
func (w Certificates) clientData(bundle []byte, leafs map[string]*corev1.Secret) map[string][]byte {
	if s := leafs[w.Clients]; s != nil {
		return LeafData(bundle, pairOf(s))
	}
	return map[string][]byte{CAKey: bundle}
}

// LeafData returns the data of a Secret with a leaf certificate.
func LeafData(bundle []byte, pair clustertls.Pair) map[string][]byte {
	return map[string][]byte{corev1.TLSCertKey: pair.Cert, corev1.TLSPrivateKeyKey: pair.Key, CAKey: bundle}
}

// Keypair reads a certificate back: from the Secret of the given name when certificates are issued, from the Secret
// of the user when they are provided. It returns nothing when TLS is disabled or the Secret does not exist yet.
func (c *Client) Keypair(
	ctx context.Context, owner Owner, spec *v1alpha1.TLSSpec, name string,
) (caPEM []byte, pair clustertls.Pair, err error) {
	var s *corev1.Secret
	switch spec.TLSMode() {
	case v1alpha1.TLSDisabled:
		return nil, pair, nil
	case v1alpha1.TLSProvided:
		s, err = c.UserSecret(ctx, owner, "spec.tls.secretName", spec.Secret(), CAKey, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	default:
		s, err = c.OwnSecret(ctx, owner, name)
	}
	if s == nil || err != nil {
		return nil, pair, err
	}
	return s.Data[CAKey], pairOf(s), nil
}

// ClientKeypair reads the authority and the certificate that clients are handed. The key of a certificate of the user
// stays where it is: it is the servers' as well, so clients need one of their own.
func (c *Client) ClientKeypair(ctx context.Context, owner Owner, spec *v1alpha1.TLSSpec) ([]byte, clustertls.Pair, error) {
	ca, pair, err := c.Keypair(ctx, owner, spec, cluster.ClientTLSSecret(owner.GetName()))
	if spec.TLSMode() == v1alpha1.TLSProvided {
		pair = clustertls.Pair{}
	}
	return ca, pair, err
}

// TLSSecret returns the Secret that pods mount for a purpose: our own, or that of the user; empty without TLS.
func TLSSecret(spec *v1alpha1.TLSSpec, managed string) string {
	switch spec.TLSMode() {
	case v1alpha1.TLSDisabled:
		return ""
	case v1alpha1.TLSProvided:
		return spec.Secret()
	}
	return managed
}

func pairOf(s *corev1.Secret) clustertls.Pair {
	return clustertls.Pair{Cert: s.Data[corev1.TLSCertKey], Key: s.Data[corev1.TLSPrivateKeyKey]}
}

// CertificateError marks an error that keeps the certificates from being ready.
type CertificateError struct{ Err error }

func (e CertificateError) Error() string { return e.Err.Error() }

func (e CertificateError) Unwrap() error { return e.Err }
