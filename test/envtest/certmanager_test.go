package envtest

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/controllers/owned"

	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	"github.com/quorate/quorate/test/certmanager"
)

// The way of certificates through cert-manager on a real API server: before its CRD is there, while it is asked, and when
// it has answered. One client is used throughout, as by an operator that is not restarted.
func TestCertificatesOfCertManager(t *testing.T) {
	s, ctx := apiServer(t), testContext(t)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	mode := v1alpha1.TLSCertManager
	o := &v1alpha1.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "issued"},
		Spec: v1alpha1.EtcdClusterSpec{
			Size: 3, Version: "3.6.16", TLS: &v1alpha1.TLSSpec{Mode: &mode, IssuerRef: &v1alpha1.IssuerReference{Name: "ours"}},
		},
	}
	if err := c.Create(ctx, o); err != nil {
		t.Fatal(err)
	}
	defer c.Delete(ctx, o) //nolint:errcheck // The server goes away with the tests.
	children := &owned.Client{Client: c, Direct: c, Domain: "cluster.local", Now: time.Now}
	want := owned.Certificates{Spec: o.Spec.TLS, Labels: manifests.Labels(o.Name), Leafs: manifests.Leafs(o.Name, o.Namespace, "cluster.local")}
	ensure := func() error { return children.EnsureCertificates(ctx, o, want) }

	wantError(t, ensure(), "cert-manager is not installed: its CRD certificates.cert-manager.io is missing")
	if err := s.client.Create(ctx, certmanager.CRD()); err != nil {
		t.Fatal(err)
	}
	defer s.client.Delete(ctx, certmanager.CRD()) //nolint:errcheck // The server goes away with the tests.
	err = ensure()                                // The API server takes a moment to serve what a CRD defines.
	for until := time.Now().Add(30 * time.Second); err != nil && strings.Contains(err.Error(), "not installed") && time.Now().Before(until); {
		err = ensure()
	}
	wantError(t, err, "waiting for cert-manager: Certificate issued-client: cert-manager has not looked at it yet")

	player, err := certmanager.New(c, "theirs", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	pass(t, player)
	wantError(t, ensure(), `waiting for cert-manager: Certificate issued-client: Referenced "Issuer" not found: "ours"`)
	player.Issuer = "ours"
	pass(t, player)
	if err := ensure(); err != nil {
		t.Fatal(err)
	}
	before := versions(t, c, want)
	if err := ensure(); err != nil {
		t.Fatal(err)
	}
	if again := versions(t, c, want); !maps.Equal(before, again) {
		t.Errorf("nothing has changed, and yet it was written: %v, then %v", before, again)
	}
	for name := range want.Leafs {
		handed, made := secretOf(t, c, name), secretOf(t, c, cluster.IssuedSecret(name))
		if !maps.EqualFunc(made.Data, handed.Data, slices.Equal) {
			t.Errorf("%s does not hold what was issued", name)
		}
		if !metav1.IsControlledBy(made, o) {
			t.Errorf("%s would stay when the cluster goes", made.Name)
		}
	}
}

func wantError(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Fatalf("error %v, want %q", err, words)
	}
}

func pass(t *testing.T, p *certmanager.Player) {
	t.Helper()
	if err := p.Pass(testContext(t), "default"); err != nil {
		t.Fatal(err)
	}
}

func secretOf(t *testing.T, c client.Client, name string) *corev1.Secret {
	t.Helper()
	out := &corev1.Secret{}
	if err := c.Get(testContext(t), client.ObjectKey{Namespace: "default", Name: name}, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// versions are those of all objects that certificates are made of.
func versions(t *testing.T, c client.Client, want owned.Certificates) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name := range want.Leafs {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(certmanager.Kind)
		if err := c.Get(testContext(t), client.ObjectKey{Namespace: "default", Name: cluster.Certificate(name)}, u); err != nil {
			t.Fatal(err)
		}
		out[u.GetName()] = u.GetResourceVersion()
		out[name] = secretOf(t, c, name).ResourceVersion
		out[cluster.IssuedSecret(name)] = secretOf(t, c, cluster.IssuedSecret(name)).ResourceVersion
	}
	return out
}
