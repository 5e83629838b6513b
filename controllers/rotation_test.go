package controllers

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// timed is a stage whose clock moves.
type timed struct {
	*stage
	now    time.Time
	events *events.FakeRecorder
	// phases are the reasons of TLSReady in the order in which they appeared.
	phases []string
	// begun is how many writes there had been when a replacement was asked for.
	begun int
}

func timedFrom(base *stage) *timed {
	s := &timed{
		stage: base, now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), events: events.NewFakeRecorder(1000),
	}
	s.stage.events = s.events
	s.equip = func(c *Children) { c.Now = func() time.Time { return s.now } }
	s.restart()
	return s
}

// pass lets the operator make a pass, another one after a crash, and then the kubelet.
func (s *timed) pass() {
	s.t.Helper()
	s.turn()
	if gone := s.missing(); len(gone) > 1 && len(s.procs) == 3 {
		s.t.Fatalf("%v are down at the same time", gone)
	}
	s.kubelet()
	if c := s.tlsReady(); c != nil && (len(s.phases) == 0 || s.phases[len(s.phases)-1] != c.Reason) {
		s.phases = append(s.phases, c.Reason)
	}
	s.now = s.now.Add(20 * time.Second)
}

func (s *timed) passes(n int) {
	s.t.Helper()
	for range n {
		s.pass()
	}
}

func (s *timed) tlsReady() *metav1.Condition {
	s.t.Helper()
	return meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionTLSReady)
}

func (s *timed) secret(name string) *corev1.Secret {
	s.t.Helper()
	out := &corev1.Secret{}
	if err := s.api.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *timed) ready() bool {
	s.t.Helper()
	return meta.IsStatusConditionTrue(s.cluster().Status.Conditions, v1alpha1.ConditionReady)
}

// pods returns what pods are told to trust, by their UID.
func (s *timed) pods() map[types.UID]string {
	s.t.Helper()
	var list corev1.PodList
	if err := s.api.List(s.t.Context(), &list, client.InNamespace("default")); err != nil {
		s.t.Fatal(err)
	}
	out := map[types.UID]string{}
	for i := range list.Items {
		out[list.Items[i].UID] = list.Items[i].Annotations[etcd.AnnotationTrust]
	}
	return out
}

var leafSecrets = []string{"orders-client-tls", "orders-operator-tls", "orders-peer-tls", "orders-server-tls"}

// wellFounded fails when a leaf is out before every member trusts its authority, or an authority is gone before its leafs.
func (s *timed) wellFounded() {
	s.t.Helper()
	a, err := authorityOf(s.secret("orders-ca"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range append(leafSecrets, "orders-connection") {
		data := s.secret(name).Data
		if e, _ := clustertls.ExpiryOf(data[caKey], data[corev1.TLSCertKey], s.now); e.CA.IsZero() {
			s.t.Fatalf("%s holds a leaf that its own bundle does not cover", name)
		}
		signer := a.Signing.Cert
		if e, _ := clustertls.ExpiryOf(signer, data[corev1.TLSCertKey], s.now); e.CA.IsZero() && a.Phase() != clustertls.Replaced {
			s.t.Fatalf("%s holds a leaf of another authority in phase %s", name, a.Phase())
		}
	}
	if a.Phase() == clustertls.Settled {
		return
	}
	for _, sum := range s.pods() {
		if a.Phase() == clustertls.Replaced && sum != clustertls.Fingerprint(a.Bundle()) {
			s.t.Fatal("a member does not trust the authority that signs")
		}
	}
}

// rotate asks for a new authority and runs until it is in place.
func (s *timed) rotate() {
	s.t.Helper()
	s.passes(12)
	old := s.secret("orders-ca").Data[corev1.TLSCertKey]
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) {
		spec.TLS = &v1alpha1.TLSSpec{Rotation: &v1alpha1.RotationSpec{
			After: &metav1.Time{Time: s.now}, Hold: &metav1.Duration{Duration: 2 * time.Minute},
		}}
	})
	s.begun = s.writes
	for range 60 {
		before := s.writes
		s.pass()
		s.wellFounded()
		// An operator that was held up tells for one pass how things were, so that the last word is that of a pass that writes nothing.
		if n := len(s.phases); n >= 4 && s.phases[n-1] == v1alpha1.ReasonIssued && s.ready() && s.writes == before {
			break
		}
	}
	ca := s.secret("orders-ca").Data
	if bytes.Equal(ca[corev1.TLSCertKey], old) {
		s.t.Error("the old authority still signs")
	}
	if len(ca) != 2 {
		s.t.Errorf("%d keys are left in the Secret of the authority", len(ca))
	}
	if !s.ready() || s.tlsReady().Reason != v1alpha1.ReasonIssued {
		s.t.Errorf("not settled: %s, %+v", s.cluster().Status.Activity, s.tlsReady())
	}
	for _, sum := range s.pods() {
		if sum != clustertls.Fingerprint(ca[corev1.TLSCertKey]) {
			s.t.Error("a member trusts another authority")
		}
	}
}

func TestTheAuthorityIsReplacedOneMemberAtATime(t *testing.T) {
	t.Parallel()
	s := newTimed(t, persistent())
	s.rotate()
	want := []string{
		v1alpha1.ReasonIssued, v1alpha1.ReasonIntroducingCA, v1alpha1.ReasonReplacingCertificates, v1alpha1.ReasonIssued,
	}
	if diff := cmp.Diff(want, s.phases); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if told := s.told(v1alpha1.ReasonIntroducingCA, v1alpha1.ReasonReplacingCertificates, v1alpha1.ReasonIssued); told != 3 {
		t.Errorf("%d of 3 phases were told", told)
	}
	before := s.writes
	s.passes(5)
	if s.writes != before {
		t.Errorf("a cluster with a new authority costs %d writes", s.writes-before)
	}
}

// told counts the events with one of the reasons.
func (s *timed) told(reasons ...string) int {
	n := 0
	for len(s.events.Events) > 0 {
		words := strings.Fields(<-s.events.Events)
		if slices.Contains(reasons, words[1]) {
			n++
		}
	}
	return n
}

// An operator that leads no more must not bring back an authority that was retired meanwhile.
func TestAnAuthorityThatChangedMeanwhileIsNotOverwritten(t *testing.T) {
	s := newTimed(t, persistent())
	s.passes(12)
	o := s.cluster()
	o.Spec.TLS = &v1alpha1.TLSSpec{Rotation: &v1alpha1.RotationSpec{After: &metav1.Time{Time: s.now}}}
	kind, ok := s.op.Kind.(*EtcdKind)
	if !ok {
		t.Fatal("it is another kind")
	}
	stale := s.secret("orders-ca")
	if _, err := kind.advance(t.Context(), o, Certificates{Spec: o.Spec.TLS}, stale, mustAuthority(t, stale)); err != nil {
		t.Fatal(err)
	}
	_, err := kind.advance(t.Context(), o, Certificates{Spec: o.Spec.TLS}, stale, mustAuthority(t, stale))
	if !apierrors.IsConflict(err) {
		t.Errorf("the second operator got %v", err)
	}
}

func mustAuthority(t *testing.T, s *corev1.Secret) clustertls.Authority {
	t.Helper()
	a, err := authorityOf(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestLeafsAreRenewedWithoutARestart(t *testing.T) {
	t.Parallel()
	for name, paused := range map[string]bool{"working": false, "paused": true} {
		t.Run(name, func(t *testing.T) {
			s := newTimed(t, persistent())
			s.passes(12)
			s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Paused = &paused })
			s.passes(2)
			pods, ca := s.pods(), s.secret("orders-ca").Data
			before := map[string][]byte{}
			for _, name := range append(leafSecrets, "orders-connection") {
				before[name] = s.secret(name).Data[corev1.TLSCertKey]
			}
			expiry := s.cluster().Status.Certificates.NotAfter
			s.now = s.now.Add(clustertls.LeafValidity / 100 * 67)
			s.passes(12) // As long as it takes to know again that nothing is slow: what was known is old.
			for name, cert := range before {
				if bytes.Equal(cert, s.secret(name).Data[corev1.TLSCertKey]) {
					t.Errorf("%s was not renewed", name)
				}
			}
			s.wellFounded()
			if !cmp.Equal(pods, s.pods()) || !s.ready() {
				t.Errorf("members were restarted or are to be: %s", s.cluster().Status.Activity)
			}
			if !cmp.Equal(ca, s.secret("orders-ca").Data) {
				t.Error("the authority changed")
			}
			if now := s.cluster().Status.Certificates.NotAfter; !now.After(expiry.Time) {
				t.Errorf("the status says %s, and %s before", now, expiry)
			}
			writes := s.writes
			s.passes(3)
			if s.writes != writes {
				t.Errorf("%d writes after the renewal", s.writes-writes)
			}
		})
	}
}

// What is refused may be so for longer than a certificate lasts.
func TestLeafsAreRenewedWhileThePasswordIsRefused(t *testing.T) {
	t.Parallel()
	s := newTimed(t, persistent())
	s.passes(12)
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Auth = &v1alpha1.AuthSpec{SecretName: new("gone")} })
	s.passes(2)
	before := map[string][]byte{}
	for _, name := range append(leafSecrets, "orders-connection") {
		before[name] = s.secret(name).Data[corev1.TLSCertKey]
	}
	s.now = s.now.Add(clustertls.LeafValidity / 100 * 67)
	s.passes(4)
	for name, cert := range before {
		if bytes.Equal(cert, s.secret(name).Data[corev1.TLSCertKey]) {
			t.Errorf("%s was not renewed", name)
		}
	}
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "spec.auth.secretName") {
		t.Errorf("%+v", c)
	}
}

// An authority that users still go by is not given up.
func TestARotationWaitsForWhatUsersConnectWith(t *testing.T) {
	o := etcdCluster()
	c := newChildren(newWorld(t, o))
	want := Certificates{
		Leafs:     map[string]clustertls.Leaf{cluster.ClientTLSSecret(o.Name): {CommonName: "client"}},
		Clients:   cluster.ClientTLSSecret(o.Name),
		Followers: func(context.Context) ([]string, error) { return []string{"app-etcd-user"}, nil },
		Servers:   func(context.Context, string) (Servers, error) { return Servers{}, nil },
	}
	if err := c.EnsureCertificates(t.Context(), o, want); err != nil {
		t.Fatal(err)
	}
	ca, err := c.ownSecret(t.Context(), o, cluster.CASecret(o.Name))
	if err != nil {
		t.Fatal(err)
	}
	a, err := authorityOf(ca)
	if err != nil {
		t.Fatal(err)
	}
	_, pair, err := c.Keypair(t.Context(), o, nil, cluster.ClientTLSSecret(o.Name))
	if err != nil {
		t.Fatal(err)
	}
	user := &v1alpha1.EtcdUser{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: "app", UID: "user-1"}}
	for _, tc := range []struct {
		name string
		data map[string][]byte
		want bool
	}{
		{"there is none yet", nil, true},
		{"an earlier authority", map[string][]byte{caKey: []byte("former"), corev1.TLSCertKey: pair.Cert, corev1.TLSPrivateKeyKey: pair.Key}, false},
		{"an earlier certificate", map[string][]byte{caKey: a.Bundle(), corev1.TLSCertKey: []byte("former"), corev1.TLSPrivateKeyKey: pair.Key}, false},
		{"what it is to have", leafData(a.Bundle(), pair), true},
	} {
		if tc.data != nil {
			if err := c.EnsureSecret(t.Context(), user, "app-etcd-user", corev1.SecretTypeOpaque, etcd.Labels(o.Name), tc.data); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := c.handedOut(t.Context(), o, want, a); err != nil || got != tc.want {
			t.Errorf("%s: %t, %v", tc.name, got, err)
		}
		if got, err := c.trustFacts(t.Context(), o, want, clustertls.Trust{Next: a.Bundle()}, nil); err != nil || got.HandedOut != tc.want {
			t.Errorf("%s: with an issuer %t, %v", tc.name, got.HandedOut, err)
		}
	}
}

func TestAPausedClusterIsNotGivenWhatItNeverHad(t *testing.T) {
	o := persistent()
	o.Spec.Paused = new(true)
	s := newTimed(t, o)
	s.passes(3)
	var list corev1.SecretList
	if err := s.api.List(t.Context(), &list); err != nil || len(list.Items) != 0 {
		t.Errorf("%d Secrets, %v", len(list.Items), err)
	}
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Paused = nil })
	s.passes(12)
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) {
		spec.Paused = new(true)
		spec.TLS = &v1alpha1.TLSSpec{Rotation: &v1alpha1.RotationSpec{After: &metav1.Time{Time: s.now}}}
	})
	ca, writes := s.secret("orders-ca").Data, s.writes
	s.passes(1)
	writes = s.writes - writes // The status.
	s.passes(3)
	if !cmp.Equal(ca, s.secret("orders-ca").Data) || writes > 1 {
		t.Errorf("the authority is replaced while the cluster is paused, after %d writes", writes)
	}
}

// provided is a cluster with certificates of the user, in Secret mine.
func provided(t *testing.T, ca clustertls.Pair, at time.Time) (*v1alpha1.EtcdCluster, *corev1.Secret) {
	t.Helper()
	o := persistent()
	o.Spec.TLS = &v1alpha1.TLSSpec{Mode: new(v1alpha1.TLSProvided), SecretName: new("mine")}
	leaf := etcd.Leafs("orders", "default", "cluster.local")[cluster.ServerTLSSecret("orders")]
	pair, err := clustertls.Issue(ca, leaf, at)
	if err != nil {
		t.Fatal(err)
	}
	return o, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}, Data: map[string][]byte{
		caKey: ca.Cert, corev1.TLSCertKey: pair.Cert, corev1.TLSPrivateKeyKey: pair.Key,
	}}
}

func newCA(t *testing.T, at time.Time) clustertls.Pair {
	t.Helper()
	ca, err := clustertls.NewCA("a user's authority", at)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestAnotherAuthorityOfTheUserRestartsMembersAndAnotherLeafDoesNot(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	ca, next := newCA(t, at), newCA(t, at)
	o, mine := provided(t, ca, at)
	s := newTimed(t, o, mine)
	s.passes(12)
	if !s.ready() {
		t.Fatal(s.cluster().Status.Activity)
	}
	change := func(edit func(data map[string][]byte)) {
		t.Helper()
		live := s.secret("mine")
		edit(live.Data)
		if err := s.api.Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
		s.passes(12)
		if !s.ready() {
			t.Fatal(s.cluster().Status.Activity)
		}
	}
	pods := s.pods()
	change(func(data map[string][]byte) {
		_, renewed := provided(t, ca, s.now)
		data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey] = renewed.Data[corev1.TLSCertKey], renewed.Data[corev1.TLSPrivateKeyKey]
	})
	if !cmp.Equal(pods, s.pods()) {
		t.Error("another leaf of the same authority restarts members")
	}
	change(func(data map[string][]byte) { data[caKey] = slices.Concat(ca.Cert, next.Cert) })
	want := clustertls.Fingerprint(slices.Concat(next.Cert, ca.Cert))
	for uid, sum := range s.pods() {
		if _, old := pods[uid]; old || sum != want {
			t.Errorf("%s was started with %s, want %s", uid, sum, want)
		}
	}
}

func TestCertificatesOfTheUserThatNobodyRenewsAreToldOnce(t *testing.T) {
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	o, mine := provided(t, newCA(t, at), at)
	s := newTimed(t, o, mine)
	s.passes(12)
	if c := s.tlsReady(); c.Reason != v1alpha1.ReasonIssued {
		t.Fatalf("%+v", c)
	}
	s.now = at.Add(clustertls.LeafValidity / 100 * 85)
	s.passes(3)
	c := s.tlsReady()
	if c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonExpiring || !strings.Contains(c.Message, "Secret mine") {
		t.Errorf("%+v", c)
	}
	if n := s.told(v1alpha1.ReasonExpiring); n != 1 || !s.ready() {
		t.Errorf("told %d times; ready %t", n, s.ready())
	}
	s.now = at.Add(clustertls.LeafValidity + time.Minute)
	s.passes(2)
	if c := s.tlsReady(); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonInvalidSpec {
		t.Errorf("%+v", c)
	}
}

// A Secret that somebody deletes under the members is written anew, and restarts nobody.
func TestALostLeafRestartsNobody(t *testing.T) {
	s := newTimed(t, persistent())
	s.passes(12)
	pods := s.pods()
	for _, name := range leafSecrets {
		if err := s.api.Delete(t.Context(), s.secret(name)); err != nil {
			t.Fatal(err)
		}
		s.passes(3)
		s.wellFounded()
	}
	if !cmp.Equal(pods, s.pods()) || !s.ready() {
		t.Errorf("members were restarted: %s", s.cluster().Status.Activity)
	}
	s.edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Paused = new(true) })
	if err := s.api.Delete(t.Context(), s.secret("orders-peer-tls")); err != nil {
		t.Fatal(err)
	}
	s.passes(2)
	if c := s.tlsReady(); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "orders-peer-tls is gone") {
		t.Errorf("%+v", c)
	}
}

func TestAnUnreadableAuthorityIsRefused(t *testing.T) {
	good := newCA(t, time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	whole := authorityData(clustertls.Authority{Signing: good, Next: good, HandedOut: time.Unix(100, 0)})
	tests := map[string]struct {
		key, value string
		refused    bool
	}{
		"whole":                          {},
		"no certificate":                 {corev1.TLSCertKey, "x", true},
		"no key":                         {corev1.TLSPrivateKeyKey, "", true},
		"no key of the next one":         {nextKeyKey, "x", true},
		"a time that cannot be read":     {handedOutKey, "tomorrow", false},
		"no time":                        {handedOutKey, "", false},
		"a next one that is not there":   {nextCertKey, "", false},
		"a retired one of no importance": {retiredKey, "x", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "orders-ca"}, Data: map[string][]byte{}}
			for k, v := range whole {
				s.Data[k] = v
			}
			if tc.key != "" {
				s.Data[tc.key] = []byte(tc.value)
			}
			a, err := authorityOf(s)
			var refusal cluster.Refusal
			if errors.As(err, &refusal) != tc.refused {
				t.Fatalf("%v", err)
			}
			if name == "whole" && !cmp.Equal(authorityData(a), whole) {
				t.Error("it is not written as it was read")
			}
		})
	}
}
