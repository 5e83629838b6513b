package etcdcluster

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
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/certmanager"
	"github.com/quorate/quorate/test/controllersim"
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
	*controllersim.TimedEtcd
	player *certmanager.Player
}

func newIssued(t *testing.T, more ...client.Object) *issued {
	t.Helper()
	o := controllersim.Persistent()
	o.Spec.TLS = byIssuer()
	s := &issued{TimedEtcd: newTimed(t, o, more...)}
	var err error
	if s.player, err = certmanager.New(s.Others, "ours", func() time.Time { return s.Now }); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *issued) passes(n int) {
	s.T.Helper()
	for range n {
		if err := s.player.Pass(s.T.Context(), "default"); err != nil {
			s.T.Fatal(err)
		}
		s.Pass()
		s.Sound()
	}
}

// Sound fails when a leaf is out that somebody does not trust.
func (s *issued) Sound() {
	s.T.Helper()
	ca := &corev1.Secret{}
	if err := s.API.Get(s.T.Context(), client.ObjectKey{Namespace: "default", Name: "orders-ca"}, ca); err != nil {
		return
	}
	trust := owned.TrustOf(ca)
	for _, name := range controllersim.LeafSecrets {
		data := s.Secret(name).Data
		if e, _ := clustertls.ExpiryOf(data[owned.CAKey], data[corev1.TLSCertKey], s.Now); e.CA.IsZero() {
			s.T.Fatalf("%s holds a leaf that its own bundle does not cover", name)
		}
		if e, _ := clustertls.ExpiryOf(trust.Bundle(), data[corev1.TLSCertKey], s.Now); e.CA.IsZero() {
			s.T.Fatalf("%s holds a leaf that nobody is told to trust", name)
		}
		if len(trust.Proven) > 0 && trust.Phase() == clustertls.Introduced && !trust.Accepts(data[corev1.TLSCertKey]) {
			s.T.Fatalf("%s holds a leaf of an authority that is being introduced", name)
		}
	}
}

func (s *issued) certificate(name string) *unstructured.Unstructured {
	s.T.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(owned.CertificateKind)
	if err := s.API.Get(s.T.Context(), client.ObjectKey{Namespace: "default", Name: name}, u); err != nil {
		s.T.Fatal(err)
	}
	return u
}

func (s *issued) stalled() string {
	s.T.Helper()
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue {
		return ""
	}
	return c.Message
}

var etcdCertificates = []string{"orders-client", "orders-operator", "orders-peer", "orders-server"}

func TestAClusterWithAnIssuerBecomesReadyAndThenCostsNoWrite(t *testing.T) {
	s := newIssued(t)
	s.Pass()
	want := "waiting for cert-manager: Certificate orders-client: cert-manager has not looked at it yet"
	if c := s.TLSReady(); c.Message != want || c.Reason != v1alpha1.ReasonCertManager || s.stalled() != "" {
		t.Errorf("TLSReady %+v, stalled %q", c, s.stalled())
	}
	s.passes(12)
	if !s.Ready() || s.TLSReady().Reason != v1alpha1.ReasonIssued {
		t.Fatalf("not ready: %s, %+v", s.Cluster().Status.Activity, s.TLSReady())
	}
	for _, name := range etcdCertificates {
		if u := s.certificate(name); !metav1.IsControlledBy(u, s.Cluster()) {
			t.Errorf("Certificate %s is not the cluster's", name)
		}
		if made := s.Secret(name + "-tls-issued"); !metav1.IsControlledBy(made, s.Cluster()) {
			t.Errorf("Secret %s stays when the cluster goes", made.Name)
		}
	}
	if !bytes.Equal(s.Secret("orders-connection").Data[corev1.TLSCertKey], s.Secret("orders-client-tls-issued").Data[corev1.TLSCertKey]) {
		t.Error("clients get another certificate")
	}
	before := s.Writes
	s.passes(5)
	if s.Writes != before {
		t.Errorf("a settled cluster costs %d writes: %v", s.Writes-before, s.Log[before:])
	}
}

func TestACertificateAsksForWhatItsLeafNeeds(t *testing.T) {
	s := newIssued(t)
	s.Pass()
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
	pods, before := s.Pods(), s.Secret("orders-server-tls").Data
	s.player.Renew(etcdCertificates...)
	s.passes(3)
	after := s.Secret("orders-server-tls").Data
	if bytes.Equal(before[corev1.TLSCertKey], after[corev1.TLSCertKey]) || !bytes.Equal(before[owned.CAKey], after[owned.CAKey]) {
		t.Error("the leaf is the same, or the authority is not")
	}
	if diff := cmp.Diff(pods, s.Pods()); diff != "" {
		t.Errorf("members were restarted:\n%s", diff)
	}
	if s.TLSReady().Reason != v1alpha1.ReasonIssued || !s.Ready() {
		t.Errorf("not settled: %+v", s.TLSReady())
	}
}

// A paused cluster gets its renewed leafs, but none of another authority.
func TestAPausedClusterGetsRenewedLeafs(t *testing.T) {
	s := newIssued(t)
	s.passes(12)
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Paused = new(true) })
	before := s.Secret("orders-server-tls").Data[corev1.TLSCertKey]
	s.player.Renew(etcdCertificates...)
	s.passes(3)
	renewed := s.Secret("orders-server-tls").Data[corev1.TLSCertKey]
	if bytes.Equal(renewed, before) {
		t.Error("the leaf was not renewed")
	}
	s.replace(etcdCertificates...)
	s.passes(3)
	if !bytes.Equal(s.Secret("orders-server-tls").Data[corev1.TLSCertKey], renewed) {
		t.Error("a leaf of another authority is shown")
	}
}

// replace gives the issuer another authority and renews some leafs.
func (s *issued) replace(names ...string) {
	s.T.Helper()
	if err := s.player.ReplaceCA(); err != nil {
		s.T.Fatal(err)
	}
	s.player.Renew(names...)
}

// follow lets the cluster follow the issuer's new authority to the end.
func (s *issued) follow() {
	s.T.Helper()
	s.passes(12)
	s.Phases = s.Phases[len(s.Phases)-1:]
	s.Begun = s.Writes
	s.replace(etcdCertificates...)
	for range 60 {
		s.passes(1)
		if n := len(s.Phases); n >= 4 && s.Phases[n-1] == v1alpha1.ReasonIssued && s.Ready() {
			break
		}
	}
	if !s.Ready() || s.TLSReady().Reason != v1alpha1.ReasonIssued {
		s.T.Fatalf("not settled: %s, %+v", s.Cluster().Status.Activity, s.TLSReady())
	}
	want := clustertls.Fingerprint(s.player.CA())
	if got := clustertls.Fingerprint(s.Secret("orders-connection").Data[owned.CAKey]); got != want {
		s.T.Error("clients trust another authority")
	}
	for _, sum := range s.Pods() {
		if sum != want {
			s.T.Error("a member trusts another authority")
		}
	}
	if n := len(s.Secret("orders-ca").Data); n != 1 {
		s.T.Errorf("%d keys are left in the Secret that says whom to trust", n)
	}
}

func TestAnotherAuthorityOfTheIssuerIsTrustedBeforeItsLeafsAreShown(t *testing.T) {
	s := newIssued(t)
	s.follow()
	want := []string{
		v1alpha1.ReasonIssued, v1alpha1.ReasonIntroducingCA, v1alpha1.ReasonReplacingCertificates, v1alpha1.ReasonIssued,
	}
	if diff := cmp.Diff(want, s.Phases); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
}

func TestAnOperatorThatCrashesWhileTheIssuerHasAnotherAuthorityGoesOn(t *testing.T) {
	t.Parallel()
	reference := newIssued(t)
	reference.follow()
	want := reference.Objects()
	for k := reference.Begun + 1; k <= reference.Writes; k += controllersim.Stride(t) {
		s := newIssued(t)
		s.CrashAt = k
		s.follow()
		if diff := cmp.Diff(want, s.Objects()); diff != "" {
			t.Errorf("at write %d of %d (-want +got):\n%s", k, reference.Writes, diff)
		}
	}
	t.Logf("%d writes", reference.Writes-reference.Begun)
}

// Leafs follow one by one, and all that while both authorities are trusted.
func TestTheOldAuthorityIsTrustedUntilItsLastLeafIsGone(t *testing.T) {
	t.Parallel()
	s := newIssued(t)
	s.passes(12)
	old := s.player.CA()
	s.replace("orders-server")
	s.passes(40)
	if s.TLSReady().Reason != v1alpha1.ReasonIssued || !s.Ready() {
		t.Fatalf("not settled: %+v", s.TLSReady())
	}
	both := clustertls.Fingerprint(slices.Concat(old, s.player.CA()))
	if got := clustertls.Fingerprint(s.Secret("orders-connection").Data[owned.CAKey]); got != both {
		t.Error("clients do not trust both")
	}
	s.player.Renew(etcdCertificates...)
	s.passes(40)
	if got := clustertls.Fingerprint(s.Secret("orders-connection").Data[owned.CAKey]); got != clustertls.Fingerprint(s.player.CA()) {
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
		if got := clustertls.Fingerprint(s.Secret("orders-connection").Data[owned.CAKey]); got != clustertls.Fingerprint(s.player.CA()) || !s.Ready() {
			t.Errorf("after %d passes: clients trust more than the last authority: %+v", 2*passes, s.TLSReady())
		}
	}
}

func TestAnotherIssuerIsFollowedLikeAnotherAuthority(t *testing.T) {
	t.Parallel()
	s := newIssued(t)
	s.passes(12)
	pods, before := s.Pods(), s.Secret("orders-server-tls").Data
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.TLS.IssuerRef.Name = "theirs" })
	s.passes(3)
	c := s.TLSReady()
	if c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonCertManager || !strings.Contains(c.Message, `Certificate orders-client: Referenced "Issuer" not found: "theirs"`) {
		t.Errorf("TLSReady %+v", c)
	}
	if diff := cmp.Diff(before, s.Secret("orders-server-tls").Data); diff != "" || !cmp.Equal(pods, s.Pods()) || !s.Ready() {
		t.Errorf("an issuer that does not exist changes what runs: %s", s.Cluster().Status.Activity)
	}
	var err error
	if s.player, err = certmanager.New(s.Others, "theirs", s.player.Now); err != nil {
		t.Fatal(err)
	}
	s.passes(60)
	if got := clustertls.Fingerprint(s.Secret("orders-connection").Data[owned.CAKey]); got != clustertls.Fingerprint(s.player.CA()) || !s.Ready() {
		t.Errorf("clients trust more than the other issuer: %+v", s.TLSReady())
	}
}

// without takes the CRD of cert-manager away.
func (s *issued) without(missing *bool) {
	s.T.Helper()
	gone := &meta.NoKindMatchError{GroupKind: owned.CertificateKind.GroupKind(), SearchedVersions: []string{"v1"}}
	s.Cache = interceptor.NewClient(s.Cache, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if o.GetObjectKind().GroupVersionKind() == owned.CertificateKind && *missing {
				return gone
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	s.Restart()
}

func TestWithoutCertManagerAClusterSaysSoAndGoesOnOnceItIsThere(t *testing.T) {
	missing := true
	s := newIssued(t)
	s.without(&missing)
	s.Pass()
	want := "cert-manager is not installed: its CRD certificates.cert-manager.io is missing; install it or use spec.tls.mode Managed"
	if s.stalled() != want || s.TLSReady().Message != want {
		t.Errorf("stalled %q, TLSReady %+v", s.stalled(), s.TLSReady())
	}
	missing = false
	s.passes(12)
	if !s.Ready() {
		t.Fatalf("not ready: %s", s.Cluster().Status.Activity)
	}
	missing = true
	s.passes(3)
	if c := s.TLSReady(); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, want) || !s.Ready() {
		t.Errorf("a cluster that runs: %s, TLSReady %+v", s.Cluster().Status.Activity, c)
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
		"no authority":      {func(d map[string][]byte) { delete(d, owned.CAKey) }, "without the certificate authority (ca.crt)"},
		"another authority": {func(d map[string][]byte) { d[owned.CAKey] = other.Cert }, "not signed by the certificate authority"},
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
			if !s.Ready() {
				t.Fatalf("not ready: %s", s.Cluster().Status.Activity)
			}
			before := s.Secret("orders-server-tls").Data
			s.player.Damage(tc.damage)
			s.player.Renew(etcdCertificates...)
			s.passes(3)
			if !cmp.Equal(before, s.Secret("orders-server-tls").Data) || !strings.Contains(s.TLSReady().Message, tc.want) || !s.Ready() {
				t.Errorf("a cluster that runs: %+v", s.TLSReady())
			}
		})
	}
}

func TestWhatBelongsToOthersIsNotTaken(t *testing.T) {
	theirs := &unstructured.Unstructured{}
	theirs.SetGroupVersionKind(owned.CertificateKind)
	theirs.SetNamespace("default")
	theirs.SetName("orders-server")
	for name, o := range map[string]client.Object{
		"a Secret":      &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orders-server-tls-issued"}},
		"a Certificate": theirs,
	} {
		t.Run(name, func(t *testing.T) {
			s := newIssued(t, o)
			for range 3 {
				s.Pass()
			}
			if c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionTLSReady); c.Status != metav1.ConditionFalse {
				t.Errorf("TLSReady %+v", c)
			}
			live := o.DeepCopyObject().(client.Object)
			if err := s.API.Get(t.Context(), client.ObjectKeyFromObject(o), live); err != nil {
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
	before, pods := s.Secret("orders-connection").Data[owned.CAKey], s.Pods()
	if err := s.API.Delete(t.Context(), s.Secret(cluster.CASecret("orders"))); err != nil {
		t.Fatal(err)
	}
	s.passes(30)
	if !cmp.Equal(before, s.Secret("orders-connection").Data[owned.CAKey]) || !cmp.Equal(pods, s.Pods()) {
		t.Error("the cluster trusts others, or was restarted")
	}
	if !s.Ready() || s.TLSReady().Reason != v1alpha1.ReasonIssued {
		t.Errorf("not settled: %+v", s.TLSReady())
	}
}
