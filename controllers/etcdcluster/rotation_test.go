package etcdcluster

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/fakeapi"
)

func TestTheAuthorityIsReplacedOneMemberAtATime(t *testing.T) {
	t.Parallel()
	s := newTimed(t, controllersim.Persistent())
	s.Rotate()
	want := []string{
		v1alpha1.ReasonIssued, v1alpha1.ReasonIntroducingCA, v1alpha1.ReasonReplacingCertificates, v1alpha1.ReasonIssued,
	}
	if diff := cmp.Diff(want, s.Phases); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if told := s.Told(v1alpha1.ReasonIntroducingCA, v1alpha1.ReasonReplacingCertificates, v1alpha1.ReasonIssued); told != 3 {
		t.Errorf("%d of 3 phases were told", told)
	}
	before := s.Writes
	s.Passes(5)
	if s.Writes != before {
		t.Errorf("a cluster with a new authority costs %d writes", s.Writes-before)
	}
}

// An operator that leads no more must not bring back an authority that was retired meanwhile.
func TestAnAuthorityThatChangedMeanwhileIsNotOverwritten(t *testing.T) {
	s := newTimed(t, controllersim.Persistent())
	s.Passes(12)
	o := s.Cluster()
	o.Spec.TLS = &v1alpha1.TLSSpec{Rotation: &v1alpha1.RotationSpec{After: &metav1.Time{Time: s.Now}}}
	kind, ok := s.Op.Kind.(*Reconciler)
	if !ok {
		t.Fatal("it is another kind")
	}
	stale := s.Secret("orders-ca")
	if _, err := kind.Advance(t.Context(), o, owned.Certificates{Spec: o.Spec.TLS}, stale, mustAuthority(t, stale)); err != nil {
		t.Fatal(err)
	}
	_, err := kind.Advance(t.Context(), o, owned.Certificates{Spec: o.Spec.TLS}, stale, mustAuthority(t, stale))
	if !apierrors.IsConflict(err) {
		t.Errorf("the second operator got %v", err)
	}
}

func mustAuthority(t *testing.T, s *corev1.Secret) clustertls.Authority {
	t.Helper()
	a, err := owned.AuthorityOf(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestLeafsAreRenewedWithoutARestart(t *testing.T) {
	t.Parallel()
	for name, paused := range map[string]bool{"working": false, "paused": true} {
		t.Run(name, func(t *testing.T) {
			s := newTimed(t, controllersim.Persistent())
			s.Passes(12)
			s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Paused = &paused })
			s.Passes(2)
			pods, ca := s.Pods(), s.Secret("orders-ca").Data
			before := map[string][]byte{}
			for _, name := range append(controllersim.LeafSecrets, "orders-connection") {
				before[name] = s.Secret(name).Data[corev1.TLSCertKey]
			}
			expiry := s.Cluster().Status.Certificates.NotAfter
			s.Now = s.Now.Add(clustertls.LeafValidity / 100 * 67)
			s.Passes(12) // As long as it takes to know again that nothing is slow: what was known is old.
			for name, cert := range before {
				if bytes.Equal(cert, s.Secret(name).Data[corev1.TLSCertKey]) {
					t.Errorf("%s was not renewed", name)
				}
			}
			s.WellFounded()
			if !cmp.Equal(pods, s.Pods()) || !s.Ready() {
				t.Errorf("members were restarted or are to be: %s", s.Cluster().Status.Activity)
			}
			if !cmp.Equal(ca, s.Secret("orders-ca").Data) {
				t.Error("the authority changed")
			}
			if now := s.Cluster().Status.Certificates.NotAfter; !now.After(expiry.Time) {
				t.Errorf("the status says %s, and %s before", now, expiry)
			}
			writes := s.Writes
			s.Passes(3)
			if s.Writes != writes {
				t.Errorf("%d writes after the renewal", s.Writes-writes)
			}
		})
	}
}

// What is refused may be so for longer than a certificate lasts.
func TestLeafsAreRenewedWhileThePasswordIsRefused(t *testing.T) {
	t.Parallel()
	s := newTimed(t, controllersim.Persistent())
	s.Passes(12)
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Auth = &v1alpha1.AuthSpec{SecretName: new("gone")} })
	s.Passes(2)
	before := map[string][]byte{}
	for _, name := range append(controllersim.LeafSecrets, "orders-connection") {
		before[name] = s.Secret(name).Data[corev1.TLSCertKey]
	}
	s.Now = s.Now.Add(clustertls.LeafValidity / 100 * 67)
	s.Passes(4)
	for name, cert := range before {
		if bytes.Equal(cert, s.Secret(name).Data[corev1.TLSCertKey]) {
			t.Errorf("%s was not renewed", name)
		}
	}
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionStalled)
	if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "spec.auth.secretName") {
		t.Errorf("%+v", c)
	}
}

func TestAPausedClusterIsNotGivenWhatItNeverHad(t *testing.T) {
	o := controllersim.Persistent()
	o.Spec.Paused = new(true)
	s := newTimed(t, o)
	s.Passes(3)
	var list corev1.SecretList
	if err := s.API.List(t.Context(), &list); err != nil || len(list.Items) != 0 {
		t.Errorf("%d Secrets, %v", len(list.Items), err)
	}
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Paused = nil })
	s.Passes(12)
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) {
		spec.Paused = new(true)
		spec.TLS = &v1alpha1.TLSSpec{Rotation: &v1alpha1.RotationSpec{After: &metav1.Time{Time: s.Now}}}
	})
	ca, writes := s.Secret("orders-ca").Data, s.Writes
	s.Passes(1)
	writes = s.Writes - writes // The status.
	s.Passes(3)
	if !cmp.Equal(ca, s.Secret("orders-ca").Data) || writes > 1 {
		t.Errorf("the authority is replaced while the cluster is paused, after %d writes", writes)
	}
}

// provided is a cluster with certificates of the user, in Secret mine.
func provided(t *testing.T, ca clustertls.Pair, at time.Time) (*v1alpha1.EtcdCluster, *corev1.Secret) {
	t.Helper()
	o := controllersim.Persistent()
	o.Spec.TLS = &v1alpha1.TLSSpec{Mode: new(v1alpha1.TLSProvided), SecretName: new("mine")}
	leaf := manifests.Leafs("orders", "default", "cluster.local")[cluster.ServerTLSSecret("orders")]
	pair, err := clustertls.Issue(ca, leaf, at)
	if err != nil {
		t.Fatal(err)
	}
	return o, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}, Data: map[string][]byte{
		owned.CAKey: ca.Cert, corev1.TLSCertKey: pair.Cert, corev1.TLSPrivateKeyKey: pair.Key,
	}}
}

func TestAnotherAuthorityOfTheUserRestartsMembersAndAnotherLeafDoesNot(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	ca, next := fakeapi.NewCA(t, at), fakeapi.NewCA(t, at)
	o, mine := provided(t, ca, at)
	s := newTimed(t, o, mine)
	s.Passes(12)
	if !s.Ready() {
		t.Fatal(s.Cluster().Status.Activity)
	}
	change := func(edit func(data map[string][]byte)) {
		t.Helper()
		live := s.Secret("mine")
		edit(live.Data)
		if err := s.API.Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
		s.Passes(12)
		if !s.Ready() {
			t.Fatal(s.Cluster().Status.Activity)
		}
	}
	pods := s.Pods()
	change(func(data map[string][]byte) {
		_, renewed := provided(t, ca, s.Now)
		data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey] = renewed.Data[corev1.TLSCertKey], renewed.Data[corev1.TLSPrivateKeyKey]
	})
	if !cmp.Equal(pods, s.Pods()) {
		t.Error("another leaf of the same authority restarts members")
	}
	change(func(data map[string][]byte) { data[owned.CAKey] = slices.Concat(ca.Cert, next.Cert) })
	want := clustertls.Fingerprint(slices.Concat(next.Cert, ca.Cert))
	for uid, sum := range s.Pods() {
		if _, old := pods[uid]; old || sum != want {
			t.Errorf("%s was started with %s, want %s", uid, sum, want)
		}
	}
}

func TestCertificatesOfTheUserThatNobodyRenewsAreToldOnce(t *testing.T) {
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	o, mine := provided(t, fakeapi.NewCA(t, at), at)
	s := newTimed(t, o, mine)
	s.Passes(12)
	if c := s.TLSReady(); c.Reason != v1alpha1.ReasonIssued {
		t.Fatalf("%+v", c)
	}
	s.Now = at.Add(clustertls.LeafValidity / 100 * 85)
	s.Passes(3)
	c := s.TLSReady()
	if c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonExpiring || !strings.Contains(c.Message, "Secret mine") {
		t.Errorf("%+v", c)
	}
	if n := s.Told(v1alpha1.ReasonExpiring); n != 1 || !s.Ready() {
		t.Errorf("told %d times; ready %t", n, s.Ready())
	}
	s.Now = at.Add(clustertls.LeafValidity + time.Minute)
	s.Passes(2)
	if c := s.TLSReady(); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonInvalidSpec {
		t.Errorf("%+v", c)
	}
}

// A Secret that somebody deletes under the members is written anew, and restarts nobody.
func TestALostLeafRestartsNobody(t *testing.T) {
	s := newTimed(t, controllersim.Persistent())
	s.Passes(12)
	pods := s.Pods()
	for _, name := range controllersim.LeafSecrets {
		if err := s.API.Delete(t.Context(), s.Secret(name)); err != nil {
			t.Fatal(err)
		}
		s.Passes(3)
		s.WellFounded()
	}
	if !cmp.Equal(pods, s.Pods()) || !s.Ready() {
		t.Errorf("members were restarted: %s", s.Cluster().Status.Activity)
	}
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) { spec.Paused = new(true) })
	if err := s.API.Delete(t.Context(), s.Secret("orders-peer-tls")); err != nil {
		t.Fatal(err)
	}
	s.Passes(2)
	if c := s.TLSReady(); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "orders-peer-tls is gone") {
		t.Errorf("%+v", c)
	}
}
