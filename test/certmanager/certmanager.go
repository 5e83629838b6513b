// Package certmanager plays cert-manager in tests: it signs what Certificates ask for, as the documentation of cert-manager
// says it does (https://cert-manager.io/docs/usage/certificate/). The real one is a deployment of three programs that the
// tests would have to fetch; what it does beyond this, above all with issuers that are services, is not tested here.
package certmanager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// Kind is that of what asks for a certificate.
var Kind = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}

// asked is the annotation with the request that a Secret was issued for. cert-manager compares with its own records.
const asked = "test.quorate.dev/request"

// CRD is a definition of Certificates that takes any specification and status.
func CRD() *unstructured.Unstructured {
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": "certificates.cert-manager.io"},
		"spec": map[string]any{
			"group": Kind.Group,
			"scope": "Namespaced",
			"names": map[string]any{"kind": Kind.Kind, "listKind": "CertificateList", "plural": "certificates", "singular": "certificate"},
			"versions": []any{map[string]any{
				"name": Kind.Version, "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": open, "status": open},
				}},
			}},
		},
	}}
	return u
}

// Player plays cert-manager with one issuer.
type Player struct {
	Client client.Client
	// Issuer is the name of the only Issuer that there is.
	Issuer string
	// Beside are the issuers that other players of the namespace play: their Certificates are left alone.
	Beside []string
	// Now is the clock.
	Now func() time.Time

	mu  sync.Mutex
	ca  clustertls.Pair
	due map[string]bool
	// damage is done to every Secret before it is written.
	damage func(map[string][]byte)
}

// New returns a player with an authority of its own.
func New(c client.Client, issuer string, now func() time.Time) (*Player, error) {
	p := &Player{Client: c, Issuer: issuer, Now: now}
	return p, p.ReplaceCA()
}

// ReplaceCA gives the issuer another authority. Like the real one it signs nothing anew for that.
func (p *Player) ReplaceCA() error {
	ca, err := clustertls.NewCA("an authority of a test", p.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ca = ca
	return err
}

// Renew lets Certificates be renewed in the next pass, as cmctl renew does.
func (p *Player) Renew(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = map[string]bool{}
	for _, name := range names {
		p.due[name] = true
	}
}

// Damage changes what is issued from now on.
func (p *Player) Damage(how func(map[string][]byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.damage = how
}

// Run plays in a namespace until the context is over.
func (p *Player) Run(ctx context.Context, namespace string) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = p.Pass(ctx, namespace) // What fails is tried again, and a test that waits for it says so.
		}
	}
}

// Pass looks at each Certificate of a namespace once.
func (p *Player) Pass(ctx context.Context, namespace string) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(Kind.GroupVersion().WithKind("CertificateList"))
	if err := p.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		errs = append(errs, p.look(ctx, &list.Items[i]))
	}
	return errors.Join(errs...)
}

func (p *Player) look(ctx context.Context, u *unstructured.Unstructured) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var spec clustertls.CertificateSpec
	fields, _, err := unstructured.NestedMap(u.Object, "spec")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &spec)
	}
	if err != nil {
		return err
	}
	if slices.Contains(p.Beside, spec.IssuerRef.Name) {
		return nil
	}
	if spec.IssuerRef != (clustertls.Issuer{Name: p.Issuer, Kind: "Issuer", Group: Kind.Group}) {
		return p.say(ctx, u, metav1.ConditionFalse, fmt.Sprintf("Referenced %q not found: %q", spec.IssuerRef.Kind, spec.IssuerRef.Name))
	}
	request, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: u.GetNamespace(), Name: spec.SecretName}}
	err = p.Client.Get(ctx, client.ObjectKeyFromObject(s), s)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil || s.Annotations[asked] != string(request) || p.due[u.GetName()] {
		if err := p.sign(ctx, u.GetName(), spec, s, string(request)); err != nil {
			return err
		}
		delete(p.due, u.GetName())
	}
	return p.say(ctx, u, metav1.ConditionTrue, "Certificate is up to date and has not expired")
}

// sign issues a certificate into its Secret, which has no resourceVersion while it does not exist.
func (p *Player) sign(ctx context.Context, name string, spec clustertls.CertificateSpec, s *corev1.Secret, request string) error {
	want := clustertls.PrivateKey{Algorithm: "ECDSA", Size: 256, Encoding: "PKCS8", RotationPolicy: "Always"}
	if !slices.Contains(spec.Usages, "server auth") || !slices.Contains(spec.Usages, "client auth") || spec.PrivateKey != want {
		return fmt.Errorf("keys and usages like those in %s are not played: %+v", name, spec)
	}
	leaf := clustertls.Leaf{CommonName: spec.CommonName, DNSNames: spec.DNSNames}
	for _, text := range spec.IPAddresses {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return err
		}
		leaf.IPs = append(leaf.IPs, ip)
	}
	pair, err := clustertls.Issue(p.ca, leaf, p.Now())
	if err != nil {
		return err
	}
	s.Type = corev1.SecretTypeTLS
	s.Data = map[string][]byte{"ca.crt": bytes.Clone(p.ca.Cert), corev1.TLSCertKey: pair.Cert, corev1.TLSPrivateKeyKey: pair.Key}
	if p.damage != nil {
		p.damage(s.Data)
	}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[clustertls.AnnotationCertificate], s.Annotations[asked] = name, request
	if s.ResourceVersion != "" {
		return p.Client.Update(ctx, s)
	}
	return p.Client.Create(ctx, s)
}

// say sets the condition Ready.
func (p *Player) say(ctx context.Context, u *unstructured.Unstructured, status metav1.ConditionStatus, message string) error {
	have, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	if len(have) == 1 {
		c, _ := have[0].(map[string]any)
		if c["status"] == string(status) && c["message"] == message && c["observedGeneration"] == u.GetGeneration() {
			return nil
		}
	}
	condition := map[string]any{
		"type": "Ready", "status": string(status), "reason": "Played", "message": message,
		"observedGeneration": u.GetGeneration(), "lastTransitionTime": p.Now().UTC().Format(time.RFC3339),
	}
	u.Object["status"] = map[string]any{"conditions": []any{condition}}
	return p.Client.Status().Update(ctx, u)
}

// CA is the authority that signs.
func (p *Player) CA() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ca.Cert
}
