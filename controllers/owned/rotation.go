package owned

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// Keys of the authority's Secret while the authority is being replaced, see clustertls.Authority.
const (
	nextCertKey  = "next.crt"
	nextKeyKey   = "next.key"
	retiredKey   = "retired.crt"
	handedOutKey = "handed-out"
)

// Servers are the servers of a cluster, as far as a replacement of the authority depends on them.
type Servers struct {
	// InForce says that every server is ready and was started with the authorities in question.
	InForce bool
	// Calm is when the last one got ready.
	Calm time.Time
}

// StartedWith tells whether as many pods as are wanted exist, and all are ready and were made with an annotation.
func StartedWith(pods []corev1.Pod, wanted int, annotation, value string) Servers {
	out := Servers{InForce: len(pods) > 0 && len(pods) >= wanted}
	for i := range pods {
		p := &pods[i]
		out.InForce = out.InForce && p.DeletionTimestamp == nil && PodReady(p) && p.Annotations[annotation] == value
		if since := ReadySince(p); since.After(out.Calm) {
			out.Calm = since
		}
	}
	return out
}

// AuthorityOf reads an authority out of its Secret.
func AuthorityOf(s *corev1.Secret) (clustertls.Authority, error) {
	a := clustertls.Authority{
		Signing: pairOf(s), Next: clustertls.Pair{Cert: s.Data[nextCertKey], Key: s.Data[nextKeyKey]}, Retired: s.Data[retiredKey],
	}
	_, _, err := clustertls.Parse(a.Signing)
	if a.Phase() == clustertls.Introduced {
		_, _, nextErr := clustertls.Parse(a.Next)
		err = errors.Join(err, nextErr)
	}
	if err != nil {
		return a, InvalidSpec("Secret %s holds no readable certificate authority (%v): restore it", s.Name, err)
	}
	// One that cannot be read costs no more than another wait.
	a.HandedOut, _ = time.Parse(time.RFC3339, string(s.Data[handedOutKey]))
	return a, nil
}

// AuthorityData returns the data of the Secret that keeps an authority.
func AuthorityData(a clustertls.Authority) map[string][]byte {
	data := map[string][]byte{corev1.TLSCertKey: a.Signing.Cert, corev1.TLSPrivateKeyKey: a.Signing.Key}
	if a.Phase() == clustertls.Introduced {
		data[nextCertKey], data[nextKeyKey] = a.Next.Cert, a.Next.Key
	}
	if len(a.Retired) > 0 {
		data[retiredKey] = a.Retired
	}
	if !a.HandedOut.IsZero() {
		data[handedOutKey] = []byte(a.HandedOut.UTC().Format(time.RFC3339))
	}
	return data
}

// Advance lets the replacement of an authority go on as far as the facts allow. The write depends on the Secret that was
// read: another operator that has not noticed yet that it leads no more must not bring back what was retired.
func (c *Client) Advance(
	ctx context.Context, owner Owner, want Certificates, live *corev1.Secret, a clustertls.Authority,
) (clustertls.Authority, error) {
	facts, err := c.rotationFacts(ctx, owner, want, a)
	if err != nil {
		return a, err
	}
	next, err := a.Advance(facts)
	if err != nil || (reflect.DeepEqual(AuthorityData(a), AuthorityData(next)) && labelled(live, want.Labels)) {
		return next, err
	}
	return next, c.replaceSecret(ctx, owner, want.Labels, live, AuthorityData(next))
}

// replaceSecret writes all that a Secret of ours is to hold, if it is still as it was read.
func (c *Client) replaceSecret(
	ctx context.Context, owner Owner, labels map[string]string, live *corev1.Secret, data map[string][]byte,
) error {
	ref, err := c.OwnerReference(owner)
	if err != nil {
		return err
	}
	ac := corev1ac.Secret(live.Name, live.Namespace).WithResourceVersion(live.ResourceVersion).
		WithLabels(labels).WithOwnerReferences(ref).WithType(live.Type).WithData(data)
	if err := c.Client.Apply(ctx, ac, client.FieldOwner(cluster.ManagedBy), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply Secret %s: %w", live.Name, err)
	}
	return nil
}

// rotationFacts reads what a replacement depends on. At rest that is the specification alone.
func (c *Client) rotationFacts(
	ctx context.Context, owner Owner, want Certificates, a clustertls.Authority,
) (clustertls.Facts, error) {
	f := clustertls.Facts{Name: want.Authority, After: want.Spec.RotateAfter(), Hold: want.Spec.RotationHold(), Now: c.Now()}
	if a.Phase() == clustertls.Settled {
		return f, nil
	}
	servers, err := want.Servers(ctx, clustertls.Fingerprint(a.Bundle()))
	if err != nil {
		return f, err
	}
	f.InForce, f.Calm = servers.InForce, servers.Calm
	f.HandedOut, err = c.handedOut(Uncached(ctx), owner, want, a)
	return f, err
}

// handedOut reports whether every Secret holds the bundle and a leaf of the authority that signs. The connection Secret
// does not exist before clients are let in.
func (c *Client) handedOut(ctx context.Context, owner Owner, want Certificates, a clustertls.Authority) (bool, error) {
	leafs := map[string]*corev1.Secret{}
	for name, leaf := range want.Leafs {
		s, err := c.OwnSecret(ctx, owner, name)
		if s == nil || err != nil {
			return false, err
		}
		if clustertls.NeedsIssue(a.Signing, pairOf(s), leaf, c.Now()) != "" || !DataHolds(s.Data, LeafData(a.Bundle(), pairOf(s))) {
			return false, nil
		}
		leafs[name] = s
	}
	clients := want.clientData(a.Bundle(), leafs)
	s, err := c.OwnSecret(ctx, owner, cluster.ConnectionSecret(owner.GetName()))
	if err != nil || (s != nil && !DataHolds(s.Data, clients)) {
		return false, err
	}
	return c.followed(ctx, owner, want, clients)
}

// CertificateReport tells about the certificates in the Secrets of the given names, or in that of the user.
func (c *Client) CertificateReport(
	ctx context.Context, owner Owner, spec *v1alpha1.TLSSpec, leafs map[string]clustertls.Leaf,
) (clustertls.Report, error) {
	var report clustertls.Report
	names := slices.Sorted(maps.Keys(leafs))
	switch spec.TLSMode() {
	case v1alpha1.TLSDisabled:
		return report, nil
	case v1alpha1.TLSProvided:
		names = []string{spec.Secret()}
	case v1alpha1.TLSCertManager:
		if err := c.reportIssued(ctx, owner, spec, leafs, &report); err != nil {
			return report, err
		}
	default:
		s, err := c.OwnSecret(ctx, owner, cluster.CASecret(owner.GetName()))
		if err != nil {
			return report, err
		}
		if s != nil {
			a, _ := AuthorityOf(s) // One that cannot be read has been refused before.
			report.Phase = a.Phase()
		}
	}
	for _, name := range names {
		ca, pair, err := c.Keypair(ctx, owner, spec, name)
		if err != nil {
			return report, err
		}
		report.Add(name, ca, pair.Cert, c.Now())
	}
	return report, nil
}

// TLSReady is True when the certificates that the specification asks for are in place.
func TLSReady(spec *v1alpha1.TLSSpec, r clustertls.Report, err error) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionTLSReady, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonIssued, Message: "all certificates are in place",
	}
	var bad CertificateError
	var refusal cluster.Refusal
	var hold cluster.Hold
	switch {
	case spec.TLSMode() == v1alpha1.TLSDisabled:
		c.Reason, c.Message = v1alpha1.ReasonDisabled,
			"spec.tls.mode is Disabled: only a NetworkPolicy keeps other pods from the ports that servers use among themselves"
	case errors.As(err, &refusal) && errors.As(err, &bad):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, refusal.Reason, refusal.Message
	case errors.As(err, &hold) && errors.As(err, &bad):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, hold.Reason, hold.Message
	case errors.As(err, &bad):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonReconcileError, bad.Error()
	case r.Exposed != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonExposed, r.Exposed
	case r.Missing != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec, r.Missing
	case r.Expiring != "":
		c.Reason = v1alpha1.ReasonExpiring
		c.Message = fmt.Sprintf("the certificates in Secret %s expire at %s, and nobody has renewed them: do so before then",
			r.Expiring, r.First().UTC().Format(time.RFC3339))
		if r.Pending != "" {
			c.Message += "; " + r.Pending
		}
	case r.Pending != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonCertManager, "those in place stay in use; "+r.Pending
	case r.Phase == clustertls.Introduced:
		c.Reason, c.Message = v1alpha1.ReasonIntroducingCA, "a new certificate authority is trusted beside the old one: "+
			"it signs when every server trusts it and clients have had spec.tls.rotation.hold to follow their Secret"
	case r.Phase == clustertls.Replaced:
		c.Reason, c.Message = v1alpha1.ReasonReplacingCertificates, "certificates of the new authority are handed out: "+
			"the old one is trusted no more when clients have had spec.tls.rotation.hold to follow their Secret"
	}
	return c
}

// CertificateStatus is what a report means for the status, nil without TLS.
func CertificateStatus(r clustertls.Report) *v1alpha1.CertificateStatus {
	if r.Leaf.IsZero() {
		return nil
	}
	st := &v1alpha1.CertificateStatus{NotAfter: &metav1.Time{Time: r.Leaf}}
	if !r.CA.IsZero() {
		st.CANotAfter = &metav1.Time{Time: r.CA}
	}
	return st
}
