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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// Certificates are read by name from the API server: a watch would keep the manager from starting where there is no
// cert-manager.
// +kubebuilder:rbac:groups=cert-manager.io,resources=certificates,verbs=get;create;patch

// afterCertManager is how soon cert-manager's answer is looked for again.
const afterCertManager = 5 * time.Second

// provenKey is the key of the authorities in the Secret that says whom a cluster trusts, see clustertls.Trust.
const provenKey = "proven.crt"

// CertificateKind is the kind of the resource that cert-manager issues by.
var CertificateKind = schema.GroupVersionKind{Group: clustertls.CertManagerGroup, Version: "v1", Kind: "Certificate"}

// ensureIssued has cert-manager issue the leafs, and copies them into the Secrets that are in use as soon as everybody
// trusts whoever has signed them. cert-manager never writes into those itself: it would hand out a leaf of another
// authority before anybody has heard of it.
//
//	Certificate <name>-server -> cert-manager -> Secret <name>-server-tls-issued -> operator -> Secret <name>-server-tls
//
// While cert-manager cannot issue, what was issued before stays in use, and only the report says so.
func (c *Client) ensureIssued(ctx context.Context, owner Owner, want Certificates) error {
	issued, pending := c.issued(ctx, owner, want, !want.RenewOnly)
	if pending != nil && !WaitsForIssuer(pending) {
		return pending
	}
	used, err := c.leafSecrets(ctx, owner, want.Leafs)
	if err != nil {
		return err
	}
	if pending != nil && len(used) < len(want.Leafs) {
		return pending
	}
	trust, err := c.ensureTrust(ctx, owner, want, issuedLeafs{issued: issued, used: used, complete: pending == nil})
	if err != nil || len(trust.Bundle()) == 0 {
		return err
	}
	for name := range want.Leafs {
		s := Secret{Name: name, Type: corev1.SecretTypeTLS, Labels: want.Labels, Data: c.handed(trust, issued[name], used[name])}
		if err := c.bringSecret(ctx, owner, used[name], s); err != nil {
			return err
		}
	}
	return nil
}

// handed is what the Secret of a leaf is to hold.
func (c *Client) handed(trust clustertls.Trust, issued, used *corev1.Secret) map[string][]byte {
	return LeafData(trust.Bundle(), trust.Hand(pairIn(issued), pairIn(used), c.Now()))
}

// pairIn is the pair in a Secret that there may not be.
func pairIn(s *corev1.Secret) clustertls.Pair {
	if s == nil {
		return clustertls.Pair{}
	}
	return pairOf(s)
}

// WaitsForIssuer reports whether an error says what cert-manager has not done.
func WaitsForIssuer(err error) bool {
	var hold cluster.Hold
	var refusal cluster.Refusal
	return errors.As(err, &hold) || errors.As(err, &refusal)
}

// leafSecrets reads the Secrets of the leafs, as far as they exist.
func (c *Client) leafSecrets(ctx context.Context, owner Owner, leafs map[string]clustertls.Leaf) (map[string]*corev1.Secret, error) {
	out := map[string]*corev1.Secret{}
	for name := range leafs {
		s, err := c.OwnSecret(ctx, owner, name)
		if err != nil {
			return nil, err
		}
		if s != nil {
			out[name] = s
		}
	}
	return out, nil
}

// issuedLeafs are the Secrets of the leafs, by the names of those in use.
type issuedLeafs struct {
	// issued are those that cert-manager wrote, used those that servers and clients use.
	issued, used map[string]*corev1.Secret
	// complete means that cert-manager has issued every leaf.
	complete bool
}

// ensureTrust reads whom the cluster trusts, and lets that go on as far as the facts allow. What cert-manager has not
// issued leaves it as it is: an authority that the missing leaf needs would pass for one that nobody needs any more.
func (c *Client) ensureTrust(ctx context.Context, owner Owner, want Certificates, leafs issuedLeafs) (clustertls.Trust, error) {
	name := cluster.CASecret(owner.GetName())
	live, err := c.OwnSecret(ctx, owner, name)
	if err != nil || (live == nil && want.RenewOnly) {
		return clustertls.Trust{}, err
	}
	if live == nil {
		t := clustertls.NewTrust(bundles(leafs.issued), bundles(leafs.used))
		return t, c.bringSecret(ctx, owner, nil, Secret{Name: name, Type: corev1.SecretTypeOpaque, Labels: want.Labels, Data: trustData(t)})
	}
	t := TrustOf(live)
	if want.RenewOnly || !leafs.complete {
		return t, nil
	}
	if err := c.Adopt(ctx, owner, live); err != nil {
		return t, err
	}
	facts, err := c.trustFacts(ctx, owner, want, t, leafs.issued)
	if err != nil {
		return t, err
	}
	next := t.Advance(bundles(leafs.issued), facts)
	if reflect.DeepEqual(trustData(t), trustData(next)) && labelled(live, want.Labels) {
		return next, nil
	}
	return next, c.replaceSecret(ctx, owner, want.Labels, live, trustData(next))
}

// bundles are the authorities in all of the Secrets.
func bundles(secrets map[string]*corev1.Secret) []byte {
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		out = append(append(out, secrets[name].Data[CAKey]...), '\n')
	}
	return out
}

// trustFacts reads what a change of authorities depends on.
func (c *Client) trustFacts(
	ctx context.Context, owner Owner, want Certificates, t clustertls.Trust, issued map[string]*corev1.Secret,
) (clustertls.Facts, error) {
	f := clustertls.Facts{Hold: want.Spec.RotationHold(), Now: c.Now()}
	if t.Phase() == clustertls.Settled {
		return f, nil
	}
	servers, err := want.Servers(ctx, clustertls.Fingerprint(t.Bundle()))
	if err != nil {
		return f, err
	}
	f.InForce, f.Calm = servers.InForce, servers.Calm
	ctx = Uncached(ctx)
	used, err := c.leafSecrets(ctx, owner, want.Leafs)
	if err != nil {
		return f, err
	}
	for name := range want.Leafs {
		if used[name] == nil || !DataHolds(used[name].Data, c.handed(t, issued[name], used[name])) {
			return f, nil
		}
	}
	clients := want.clientData(t.Bundle(), used)
	s, err := c.OwnSecret(ctx, owner, cluster.ConnectionSecret(owner.GetName()))
	if err != nil || (s != nil && !DataHolds(s.Data, clients)) {
		return f, err
	}
	f.HandedOut, err = c.followed(ctx, owner, want, clients)
	return f, err
}

// TrustOf reads which authorities are trusted, and which is to be.
func TrustOf(s *corev1.Secret) clustertls.Trust {
	t := clustertls.Trust{Proven: s.Data[provenKey], Next: s.Data[nextCertKey], Retired: s.Data[retiredKey]}
	// One that cannot be read costs no more than another wait.
	t.HandedOut, _ = time.Parse(time.RFC3339, string(s.Data[handedOutKey]))
	return t
}

func trustData(t clustertls.Trust) map[string][]byte {
	data := map[string][]byte{}
	for key, value := range map[string][]byte{provenKey: t.Proven, nextCertKey: t.Next, retiredKey: t.Retired} {
		if len(value) > 0 {
			data[key] = value
		}
	}
	if !t.HandedOut.IsZero() {
		data[handedOutKey] = []byte(t.HandedOut.UTC().Format(time.RFC3339))
	}
	return data
}

// issued returns the Secrets with what cert-manager has issued for the leafs, and what the first of the others waits for,
// or has wrong with it, as a Hold or a Refusal. It brings the Certificates into place if it may write.
func (c *Client) issued(ctx context.Context, owner Owner, want Certificates, write bool) (map[string]*corev1.Secret, error) {
	out := map[string]*corev1.Secret{}
	var pending error
	for _, name := range slices.Sorted(maps.Keys(want.Leafs)) {
		s, err := c.issue(ctx, owner, want, name, write)
		switch {
		case err == nil:
			out[name] = s
		case !WaitsForIssuer(err):
			return nil, err
		case pending == nil:
			pending = err
		}
	}
	return out, pending
}

func (c *Client) issue(ctx context.Context, owner Owner, want Certificates, name string, write bool) (*corev1.Secret, error) {
	s, err := c.issuedSecret(ctx, owner, want, name, write)
	if err != nil {
		return nil, err
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(CertificateKind)
	live.SetNamespace(owner.GetNamespace())
	live.SetName(cluster.Certificate(name))
	what := fmt.Sprintf("Certificate %s/%s", live.GetNamespace(), live.GetName())
	if write {
		request := clustertls.Request(want.Leafs[name], cluster.IssuedSecret(name), IssuerOf(want.Spec))
		err = c.applyCertificate(ctx, owner, live, request, want.Labels)
	} else {
		err = c.claim(ctx, owner, live, what)
	}
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, cluster.Refusal{Reason: v1alpha1.ReasonCertManager, Message: "cert-manager is not installed: its CRD " +
			"certificates.cert-manager.io is missing; install it or use spec.tls.mode Managed"}
	}
	if err != nil {
		return nil, err
	}
	return s, c.verdict(live, s, want, name)
}

// verdict says what is missing before a leaf can be used, nil when nothing is.
func (c *Client) verdict(live *unstructured.Unstructured, s *corev1.Secret, want Certificates, name string) error {
	var seen struct {
		Status clustertls.CertificateStatus `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &seen); err != nil {
		return fmt.Errorf("read Certificate %s: %w", live.GetName(), err)
	}
	waiting := seen.Status.Waiting(live.GetGeneration())
	if waiting == "" && s == nil {
		waiting = fmt.Sprintf("its Secret %s is not there", cluster.IssuedSecret(name))
	}
	if waiting != "" {
		return cluster.Hold{
			Reason: v1alpha1.ReasonCertManager, After: afterCertManager,
			Message: fmt.Sprintf("waiting for cert-manager: Certificate %s: %s", live.GetName(), waiting),
		}
	}
	if flaw := clustertls.Flaw(s.Data[CAKey], pairOf(s), want.Leafs[name], c.Now()); flaw != "" {
		i := IssuerOf(want.Spec)
		return cluster.Refusal{Reason: v1alpha1.ReasonCertManager, Message: fmt.Sprintf(
			"spec.tls.issuerRef: what %s %s has issued for Certificate %s cannot serve: %s: correct the issuer, or name another one",
			i.Kind, i.Name, live.GetName(), flaw)}
	}
	return nil
}

// IssuerOf returns the issuer that a specification names.
func IssuerOf(spec *v1alpha1.TLSSpec) clustertls.Issuer {
	i := clustertls.Issuer{Name: spec.IssuerRef.Name, Kind: "Issuer", Group: clustertls.CertManagerGroup}
	if spec.IssuerRef.Kind != nil {
		i.Kind = *spec.IssuerRef.Kind
	}
	if spec.IssuerRef.Group != nil {
		i.Group = *spec.IssuerRef.Group
	}
	return i
}

func (c *Client) applyCertificate(
	ctx context.Context, owner Owner, live *unstructured.Unstructured, spec clustertls.CertificateSpec, labels map[string]string,
) error {
	ref, err := c.OwnerReference(owner)
	if err != nil {
		return err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return fmt.Errorf("encode Certificate %s: %w", live.GetName(), err)
	}
	want := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	want.SetGroupVersionKind(CertificateKind)
	want.SetNamespace(live.GetNamespace())
	want.SetName(live.GetName())
	want.SetLabels(labels)
	want.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: *ref.APIVersion, Kind: *ref.Kind, Name: *ref.Name, UID: *ref.UID,
		Controller: ref.Controller, BlockOwnerDeletion: ref.BlockOwnerDeletion,
	}})
	return c.Apply(ctx, owner, live, client.ApplyConfigurationFromUnstructured(want))
}

// issuedSecret reads the Secret that cert-manager writes for a leaf, nil when there is none. It goes with the cluster:
// cert-manager itself leaves its Secrets behind.
func (c *Client) issuedSecret(
	ctx context.Context, owner Owner, want Certificates, name string, write bool,
) (*corev1.Secret, error) {
	var s corev1.Secret
	key := client.ObjectKey{Namespace: owner.GetNamespace(), Name: cluster.IssuedSecret(name)}
	if err := c.Direct.Get(ctx, key, &s); apierrors.IsNotFound(err) { // It is cert-manager's, and not remembered.
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key.Name, err)
	}
	ref := metav1.GetControllerOf(&s)
	switch {
	case s.Annotations[clustertls.AnnotationCertificate] != cluster.Certificate(name):
		return nil, cluster.Refusal{Reason: v1alpha1.ReasonForeignObject, Message: fmt.Sprintf(
			"cert-manager is to write Secret %s/%s, which belongs to somebody else: give the cluster another name", key.Namespace, key.Name)}
	case ref == nil && write:
		return &s, c.bringSecret(ctx, owner, &s, Secret{Name: key.Name, Type: s.Type, Labels: want.Labels})
	case ref != nil && ref.Kind != CertificateKind.Kind:
		return &s, CheckOwned(owner, &s, "Secret "+key.String())
	}
	return &s, nil
}

// reportIssued tells how far a change of authorities has come, and what cert-manager has not done.
func (c *Client) reportIssued(
	ctx context.Context, owner Owner, spec *v1alpha1.TLSSpec, leafs map[string]clustertls.Leaf, r *clustertls.Report,
) error {
	s, err := c.OwnSecret(ctx, owner, cluster.CASecret(owner.GetName()))
	if err != nil {
		return err
	}
	if s != nil {
		r.Phase = TrustOf(s).Phase()
	}
	_, err = c.issued(ctx, owner, Certificates{Spec: spec, Leafs: leafs}, false)
	if err != nil && !WaitsForIssuer(err) {
		return err
	}
	if err != nil {
		r.Pending = err.Error()
	}
	return nil
}
