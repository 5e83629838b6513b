package controllers

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/certmanager"
)

// byIssuer is how a cluster gets its certificates from cert-manager.
func byIssuer() *v1alpha1.TLSSpec {
	return &v1alpha1.TLSSpec{
		Mode: new(v1alpha1.TLSCertManager), IssuerRef: &v1alpha1.IssuerReference{Name: "ours"},
		Rotation: &v1alpha1.RotationSpec{Hold: &metav1.Duration{Duration: 2 * time.Minute}},
	}
}

// issued is a stage with cert-manager.
type issued struct {
	*timed
	player *certmanager.Player
}

func newIssued(t *testing.T, more ...client.Object) *issued {
	t.Helper()
	o := persistent()
	o.Spec.TLS = byIssuer()
	s := &issued{timed: newTimed(t, o, more...)}
	var err error
	if s.player, err = certmanager.New(s.others, "ours", func() time.Time { return s.now }); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *issued) passes(n int) {
	s.t.Helper()
	for range n {
		if err := s.player.Pass(s.t.Context(), "default"); err != nil {
			s.t.Fatal(err)
		}
		s.pass()
		s.sound()
	}
}

// sound fails when a leaf is out that somebody does not trust.
func (s *issued) sound() {
	s.t.Helper()
	ca := &corev1.Secret{}
	if err := s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "default", Name: "orders-ca"}, ca); err != nil {
		return
	}
	trust := trustOf(ca)
	for _, name := range leafSecrets {
		data := s.secret(name).Data
		if e, _ := clustertls.ExpiryOf(data[caKey], data[corev1.TLSCertKey], s.now); e.CA.IsZero() {
			s.t.Fatalf("%s holds a leaf that its own bundle does not cover", name)
		}
		if e, _ := clustertls.ExpiryOf(trust.Bundle(), data[corev1.TLSCertKey], s.now); e.CA.IsZero() {
			s.t.Fatalf("%s holds a leaf that nobody is told to trust", name)
		}
		if len(trust.Proven) > 0 && trust.Phase() == clustertls.Introduced && !trust.Accepts(data[corev1.TLSCertKey]) {
			s.t.Fatalf("%s holds a leaf of an authority that is being introduced", name)
		}
	}
}

func (s *issued) certificate(name string) *unstructured.Unstructured {
	s.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(certificateKind)
	if err := s.api.Get(s.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, u); err != nil {
		s.t.Fatal(err)
	}
	return u
}

func (s *issued) stalled() string {
	s.t.Helper()
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	return c.Message
}

var etcdCertificates = []string{"orders-client", "orders-operator", "orders-peer", "orders-server"}

func TestAClusterWithAnIssuerBecomesReadyAndThenCostsNoWrite(t *testing.T) {
	s := newIssued(t)
	s.pass()
	want := "waiting for cert-manager: Certificate orders-client: cert-manager has not looked at it yet"
	if c := s.tlsReady(); c.Message != want || c.Reason != v1alpha1.ReasonCertManager || s.stalled() != "" {
		t.Errorf("TLSReady %+v, stalled %q", c, s.stalled())
	}
	s.passes(12)
	if !s.ready() || s.tlsReady().Reason != v1alpha1.ReasonIssued {
		t.Fatalf("not ready: %s, %+v", s.cluster().Status.Activity, s.tlsReady())
	}
	for _, name := range etcdCertificates {
		if u := s.certificate(name); !metav1.IsControlledBy(u, s.cluster()) {
			t.Errorf("Certificate %s is not the cluster's", name)
		}
		if made := s.secret(name + "-tls-issued"); !metav1.IsControlledBy(made, s.cluster()) {
			t.Errorf("Secret %s stays when the cluster goes", made.Name)
		}
	}
	if !bytes.Equal(s.secret("orders-connection").Data[corev1.TLSCertKey], s.secret("orders-client-tls-issued").Data[corev1.TLSCertKey]) {
		t.Error("clients get another certificate")
	}
	before := s.writes
	s.passes(5)
	if s.writes != before {
		t.Errorf("a settled cluster costs %d writes: %v", s.writes-before, s.log[before:])
	}
}

func TestACertificateAsksForWhatItsLeafNeeds(t *testing.T) {
	s := newIssued(t)
	s.pass()
	got, _, err := unstructured.NestedMap(s.certificate("orders-server").Object, "spec")
	if err != nil {
		t.Fatal(err)
	}
	names := []any{}
	for _, n := range []string{
		"*.orders-peers", "*.orders-peers.default", "*.orders-peers.default.svc", "*.orders-peers.default.svc.cluster.local",
		"orders-peers", "orders-peers.default", "orders-peers.default.svc", "orders-peers.default.svc.cluster.local",
		"orders-client", "orders-client.default", "orders-client.default.svc", "orders-client.default.svc.cluster.local", "localhost",
	} {
		names = append(names, n)
	}
	want := map[string]any{
		"commonName": "quorate-server", "dnsNames": names, "ipAddresses": []any{"127.0.0.1", "::1"},
		"duration": "8760h0m0s", "usages": []any{"digital signature", "server auth", "client auth"},
		"secretName": "orders-server-tls-issued",
		"issuerRef":  map[string]any{"name": "ours", "kind": "Issuer", "group": "cert-manager.io"},
		"privateKey": map[string]any{"algorithm": "ECDSA", "size": int64(256), "encoding": "PKCS8", "rotationPolicy": "Always"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Certificate (-want +got):\n%s", diff)
	}
	// etcd takes the common name of a client for its user.
	if cn, _, _ := unstructured.NestedString(s.certificate("orders-operator").Object, "spec", "commonName"); cn != "root" {
		t.Errorf("the operator is %q", cn)
	}
}

func TestARenewedCertificateIsHandedOutWithoutARestart(t *testing.T) {
	s := newIssued(t)
	s.passes(12)
	pods, before := s.pods(), s.secret("orders-server-tls").Data
	s.player.Renew(etcdCertificates...)
	s.passes(3)
	after := s.secret("orders-server-tls").Data
	if bytes.Equal(before[corev1.TLSCertKey], after[corev1.TLSCertKey]) || !bytes.Equal(before[caKey], after[caKey]) {
		t.Error("the leaf is the same, or the authority is not")
	}
	if diff := cmp.Diff(pods, s.pods()); diff != "" {
		t.Errorf("members were restarted:\n%s", diff)
	}
	if s.tlsReady().Reason != v1alpha1.ReasonIssued || !s.ready() {
		t.Errorf("not settled: %+v", s.tlsReady())
	}
}

// A paused cluster gets its renewed leafs, but none of another authority.
func TestAPausedClusterGetsRenewedLeafs(t *testing.T) {
	s := newIssued(t)
	s.passes(12)
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Paused = new(true) })
	before := s.secret("orders-server-tls").Data[corev1.TLSCertKey]
	s.player.Renew(etcdCertificates...)
	s.passes(3)
	renewed := s.secret("orders-server-tls").Data[corev1.TLSCertKey]
	if bytes.Equal(renewed, before) {
		t.Error("the leaf was not renewed")
	}
	s.replace(etcdCertificates...)
	s.passes(3)
	if !bytes.Equal(s.secret("orders-server-tls").Data[corev1.TLSCertKey], renewed) {
		t.Error("a leaf of another authority is shown")
	}
}

// replace gives the issuer another authority and renews some leafs.
func (s *issued) replace(names ...string) {
	s.t.Helper()
	if err := s.player.ReplaceCA(); err != nil {
		s.t.Fatal(err)
	}
	s.player.Renew(names...)
}

// follow lets the cluster follow the issuer's new authority to the end.
func (s *issued) follow() {
	s.t.Helper()
	s.passes(12)
	s.phases = s.phases[len(s.phases)-1:]
	s.begun = s.writes
	s.replace(etcdCertificates...)
	for range 60 {
		s.passes(1)
		if n := len(s.phases); n >= 4 && s.phases[n-1] == v1alpha1.ReasonIssued && s.ready() {
			break
		}
	}
	if !s.ready() || s.tlsReady().Reason != v1alpha1.ReasonIssued {
		s.t.Fatalf("not settled: %s, %+v", s.cluster().Status.Activity, s.tlsReady())
	}
	want := clustertls.Fingerprint(s.player.CA())
	if got := clustertls.Fingerprint(s.secret("orders-connection").Data[caKey]); got != want {
		s.t.Error("clients trust another authority")
	}
	for _, sum := range s.pods() {
		if sum != want {
			s.t.Error("a member trusts another authority")
		}
	}
	if n := len(s.secret("orders-ca").Data); n != 1 {
		s.t.Errorf("%d keys are left in the Secret that says whom to trust", n)
	}
}

func TestAnotherAuthorityOfTheIssuerIsTrustedBeforeItsLeafsAreShown(t *testing.T) {
	s := newIssued(t)
	s.follow()
	want := []string{
		v1alpha1.ReasonIssued, v1alpha1.ReasonIntroducingCA, v1alpha1.ReasonReplacingCertificates, v1alpha1.ReasonIssued,
	}
	if diff := cmp.Diff(want, s.phases); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
}

func TestAnOperatorThatCrashesWhileTheIssuerHasAnotherAuthorityGoesOn(t *testing.T) {
	t.Parallel()
	reference := newIssued(t)
	reference.follow()
	want := reference.objects()
	for k := reference.begun + 1; k <= reference.writes; k += stride(t) {
		s := newIssued(t)
		s.crashAt = k
		s.follow()
		if diff := cmp.Diff(want, s.objects()); diff != "" {
			t.Errorf("at write %d of %d (-want +got):\n%s", k, reference.writes, diff)
		}
	}
	t.Logf("%d writes", reference.writes-reference.begun)
}

// Leafs follow one by one, and all that while both authorities are trusted.
func TestTheOldAuthorityIsTrustedUntilItsLastLeafIsGone(t *testing.T) {
	t.Parallel()
	s := newIssued(t)
	s.passes(12)
	old := s.player.CA()
	s.replace("orders-server")
	s.passes(40)
	if s.tlsReady().Reason != v1alpha1.ReasonIssued || !s.ready() {
		t.Fatalf("not settled: %+v", s.tlsReady())
	}
	both := clustertls.Fingerprint(slices.Concat(old, s.player.CA()))
	if got := clustertls.Fingerprint(s.secret("orders-connection").Data[caKey]); got != both {
		t.Error("clients do not trust both")
	}
	s.player.Renew(etcdCertificates...)
	s.passes(40)
	if got := clustertls.Fingerprint(s.secret("orders-connection").Data[caKey]); got != clustertls.Fingerprint(s.player.CA()) {
		t.Error("clients trust more than the new one")
	}
}

// A third authority while the second one is being introduced, or while the first one is on its way out.
func TestAnIssuerMayChangeItsAuthorityAgainAtAnyTime(t *testing.T) {
	t.Parallel()
	for _, passes := range []int{2, 5, 9} {
		s := newIssued(t)
		s.passes(12)
		s.replace(etcdCertificates...)
		s.passes(2 * passes)
		s.replace(etcdCertificates...)
		s.passes(60)
		if got := clustertls.Fingerprint(s.secret("orders-connection").Data[caKey]); got != clustertls.Fingerprint(s.player.CA()) || !s.ready() {
			t.Errorf("after %d passes: clients trust more than the last authority: %+v", 2*passes, s.tlsReady())
		}
	}
}

func TestAnotherIssuerIsFollowedLikeAnotherAuthority(t *testing.T) {
	t.Parallel()
	s := newIssued(t)
	s.passes(12)
	pods, before := s.pods(), s.secret("orders-server-tls").Data
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.TLS.IssuerRef.Name = "theirs" })
	s.passes(3)
	c := s.tlsReady()
	if c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonCertManager || !strings.Contains(c.Message, `Certificate orders-client: Referenced "Issuer" not found: "theirs"`) {
		t.Errorf("TLSReady %+v", c)
	}
	if diff := cmp.Diff(before, s.secret("orders-server-tls").Data); diff != "" || !cmp.Equal(pods, s.pods()) || !s.ready() {
		t.Errorf("an issuer that does not exist changes what runs: %s", s.cluster().Status.Activity)
	}
	var err error
	if s.player, err = certmanager.New(s.others, "theirs", s.player.Now); err != nil {
		t.Fatal(err)
	}
	s.passes(60)
	if got := clustertls.Fingerprint(s.secret("orders-connection").Data[caKey]); got != clustertls.Fingerprint(s.player.CA()) || !s.ready() {
		t.Errorf("clients trust more than the other issuer: %+v", s.tlsReady())
	}
}

// without takes the CRD of cert-manager away.
func (s *issued) without(missing *bool) {
	s.t.Helper()
	gone := &meta.NoKindMatchError{GroupKind: certificateKind.GroupKind(), SearchedVersions: []string{"v1"}}
	s.cache = interceptor.NewClient(s.cache, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if o.GetObjectKind().GroupVersionKind() == certificateKind && *missing {
				return gone
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	s.restart()
}

func TestWithoutCertManagerAClusterSaysSoAndGoesOnOnceItIsThere(t *testing.T) {
	missing := true
	s := newIssued(t)
	s.without(&missing)
	s.pass()
	want := "cert-manager is not installed: its CRD certificates.cert-manager.io is missing; install it or use spec.tls.mode Managed"
	if s.stalled() != want || s.tlsReady().Message != want {
		t.Errorf("stalled %q, TLSReady %+v", s.stalled(), s.tlsReady())
	}
	missing = false
	s.passes(12)
	if !s.ready() {
		t.Fatalf("not ready: %s", s.cluster().Status.Activity)
	}
	missing = true
	s.passes(3)
	if c := s.tlsReady(); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, want) || !s.ready() {
		t.Errorf("a cluster that runs: %s, TLSReady %+v", s.cluster().Status.Activity, c)
	}
}

func TestWhatAnIssuerGivesIsChecked(t *testing.T) {
	other, err := clustertls.NewCA("another", time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		damage func(map[string][]byte)
		want   string
	}{
		"no authority":      {func(d map[string][]byte) { delete(d, caKey) }, "without the certificate authority (ca.crt)"},
		"another authority": {func(d map[string][]byte) { d[caKey] = other.Cert }, "not signed by the certificate authority"},
		"rubbish":           {func(d map[string][]byte) { d[corev1.TLSPrivateKeyKey] = []byte("x") }, "cannot be read"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newIssued(t)
			s.player.Damage(tc.damage)
			s.passes(3)
			for _, words := range []string{"spec.tls.issuerRef: what Issuer ours has issued for Certificate orders-client cannot serve", tc.want} {
				if !strings.Contains(s.stalled(), words) {
					t.Errorf("stalled %q, want %q", s.stalled(), words)
				}
			}
			s.player.Damage(nil)
			s.player.Renew(etcdCertificates...)
			s.passes(12)
			if !s.ready() {
				t.Fatalf("not ready: %s", s.cluster().Status.Activity)
			}
			before := s.secret("orders-server-tls").Data
			s.player.Damage(tc.damage)
			s.player.Renew(etcdCertificates...)
			s.passes(3)
			if !cmp.Equal(before, s.secret("orders-server-tls").Data) || !strings.Contains(s.tlsReady().Message, tc.want) || !s.ready() {
				t.Errorf("a cluster that runs: %+v", s.tlsReady())
			}
		})
	}
}

func TestWhatBelongsToOthersIsNotTaken(t *testing.T) {
	theirs := &unstructured.Unstructured{}
	theirs.SetGroupVersionKind(certificateKind)
	theirs.SetNamespace("default")
	theirs.SetName("orders-server")
	for name, o := range map[string]client.Object{
		"a Secret":      &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-server-tls-issued"}},
		"a Certificate": theirs,
	} {
		t.Run(name, func(t *testing.T) {
			s := newIssued(t, o)
			for range 3 {
				s.pass()
			}
			if c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionTLSReady); c.Status != metav1.ConditionFalse {
				t.Errorf("TLSReady %+v", c)
			}
			live := o.DeepCopyObject().(client.Object)
			if err := s.api.Get(t.Context(), client.ObjectKeyFromObject(o), live); err != nil {
				t.Fatal(err)
			}
			if len(live.GetOwnerReferences()) > 0 {
				t.Error("it was taken over")
			}
		})
	}
}

// Who has heard of whom is not known any more when the Secret that says so is gone.
func TestWhomToTrustIsFoundAgain(t *testing.T) {
	s := newIssued(t)
	s.passes(12)
	before, pods := s.secret("orders-connection").Data[caKey], s.pods()
	if err := s.api.Delete(t.Context(), s.secret(cluster.CASecret("orders"))); err != nil {
		t.Fatal(err)
	}
	s.passes(30)
	if !cmp.Equal(before, s.secret("orders-connection").Data[caKey]) || !cmp.Equal(pods, s.pods()) {
		t.Error("the cluster trusts others, or was restarted")
	}
	if !s.ready() || s.tlsReady().Reason != v1alpha1.ReasonIssued {
		t.Errorf("not settled: %+v", s.tlsReady())
	}
}
