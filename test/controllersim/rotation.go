package controllersim

import (
	"bytes"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster/etcd/manifests"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// TimedEtcd is a stage whose clock moves.
type TimedEtcd struct {
	*Etcd
	Now    time.Time
	events *events.FakeRecorder
	// Phases are the reasons of TLSReady in the order in which they appeared.
	Phases []string
	// Begun is how many writes there had been when a replacement was asked for.
	Begun int
}

// NewTimedEtcd moves the clock of a simulated cluster.
func NewTimedEtcd(base *Etcd) *TimedEtcd {
	s := &TimedEtcd{
		Etcd: base, Now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), events: events.NewFakeRecorder(1000),
	}
	s.Etcd.events = s.events
	s.equip = func(c *owned.Client) { c.Now = func() time.Time { return s.Now } }
	s.Restart()
	return s
}

// Pass lets the operator make a pass, another one after a crash, and then the kubelet.
func (s *TimedEtcd) Pass() {
	s.T.Helper()
	s.Turn()
	if gone := s.Missing(); len(gone) > 1 && len(s.Procs) == 3 {
		s.T.Fatalf("%v are down at the same time", gone)
	}
	s.Kubelet()
	if c := s.TLSReady(); c != nil && (len(s.Phases) == 0 || s.Phases[len(s.Phases)-1] != c.Reason) {
		s.Phases = append(s.Phases, c.Reason)
	}
	s.Now = s.Now.Add(20 * time.Second)
}

// Passes makes n passes.
func (s *TimedEtcd) Passes(n int) {
	s.T.Helper()
	for range n {
		s.Pass()
	}
}

// TLSReady returns the condition of that type.
func (s *TimedEtcd) TLSReady() *metav1.Condition {
	s.T.Helper()
	return meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionTLSReady)
}

// Secret reads a Secret.
func (s *TimedEtcd) Secret(name string) *corev1.Secret {
	s.T.Helper()
	out := &corev1.Secret{}
	if err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: "default", Name: name}, out); err != nil {
		s.T.Fatal(err)
	}
	return out
}

// Ready reports whether the cluster is Ready.
func (s *TimedEtcd) Ready() bool {
	s.T.Helper()
	return meta.IsStatusConditionTrue(s.Cluster().Status.Conditions, v1alpha1.ConditionReady)
}

// Pods returns what pods are told to trust, by their UID.
func (s *TimedEtcd) Pods() map[types.UID]string {
	s.T.Helper()
	var list corev1.PodList
	if err := s.API.List(s.T.Context(), &list, client.InNamespace("default")); err != nil {
		s.T.Fatal(err)
	}
	out := map[types.UID]string{}
	for i := range list.Items {
		out[list.Items[i].UID] = list.Items[i].Annotations[manifests.AnnotationTrust]
	}
	return out
}

// LeafSecrets are the Secrets with the leaf certificates of the cluster orders.
var LeafSecrets = []string{"orders-client-tls", "orders-operator-tls", "orders-peer-tls", "orders-server-tls"}

// WellFounded fails when a leaf is out before every member trusts its authority, or an authority is gone before its leafs.
func (s *TimedEtcd) WellFounded() {
	s.T.Helper()
	a, err := owned.AuthorityOf(s.Secret("orders-ca"))
	if err != nil {
		s.T.Fatal(err)
	}
	for _, name := range append(LeafSecrets, "orders-connection") {
		data := s.Secret(name).Data
		if e, _ := clustertls.ExpiryOf(data[owned.CAKey], data[corev1.TLSCertKey], s.Now); e.CA.IsZero() {
			s.T.Fatalf("%s holds a leaf that its own bundle does not cover", name)
		}
		signer := a.Signing.Cert
		if e, _ := clustertls.ExpiryOf(signer, data[corev1.TLSCertKey], s.Now); e.CA.IsZero() && a.Phase() != clustertls.Replaced {
			s.T.Fatalf("%s holds a leaf of another authority in phase %s", name, a.Phase())
		}
	}
	if a.Phase() == clustertls.Settled {
		return
	}
	for _, sum := range s.Pods() {
		if a.Phase() == clustertls.Replaced && sum != clustertls.Fingerprint(a.Bundle()) {
			s.T.Fatal("a member does not trust the authority that signs")
		}
	}
}

// Rotate asks for a new authority and runs until it is in place.
func (s *TimedEtcd) Rotate() {
	s.T.Helper()
	s.Passes(12)
	old := s.Secret("orders-ca").Data[corev1.TLSCertKey]
	s.Edit(func(spec *v1alpha1.EtcdClusterSpec) {
		spec.TLS = &v1alpha1.TLSSpec{Rotation: &v1alpha1.RotationSpec{
			After: &metav1.Time{Time: s.Now}, Hold: &metav1.Duration{Duration: 2 * time.Minute},
		}}
	})
	s.Begun = s.Writes
	for range 60 {
		before := s.Writes
		s.Pass()
		s.WellFounded()
		// An operator that was held up tells for one pass how things were, so that the last word is that of a pass that writes nothing.
		if n := len(s.Phases); n >= 4 && s.Phases[n-1] == v1alpha1.ReasonIssued && s.Ready() && s.Writes == before {
			break
		}
	}
	ca := s.Secret("orders-ca").Data
	if bytes.Equal(ca[corev1.TLSCertKey], old) {
		s.T.Error("the old authority still signs")
	}
	if len(ca) != 2 {
		s.T.Errorf("%d keys are left in the Secret of the authority", len(ca))
	}
	if !s.Ready() || s.TLSReady().Reason != v1alpha1.ReasonIssued {
		s.T.Errorf("not settled: %s, %+v", s.Cluster().Status.Activity, s.TLSReady())
	}
	for _, sum := range s.Pods() {
		if sum != clustertls.Fingerprint(ca[corev1.TLSCertKey]) {
			s.T.Error("a member trusts another authority")
		}
	}
}

// Told counts the events with one of the reasons.
func (s *TimedEtcd) Told(reasons ...string) int {
	n := 0
	for len(s.events.Events) > 0 {
		words := strings.Fields(<-s.events.Events)
		if slices.Contains(reasons, words[1]) {
			n++
		}
	}
	return n
}
