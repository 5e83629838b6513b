package controllers

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// timedRedis is a stage whose clock moves, and that remembers what each pod was started with.
type timedRedis struct {
	*redisStage
	now     time.Time
	started map[types.UID]map[string][]byte
	phases  []string
}

func newTimedRedis(t *testing.T) *timedRedis {
	t.Helper()
	s := &timedRedis{
		redisStage: newRedisStage(t, redisCluster()), now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC),
		started: map[types.UID]map[string][]byte{},
	}
	kind, ok := s.loop.Kind.(*RedisKind)
	if !ok {
		t.Fatalf("%T", s.loop.Kind)
	}
	kind.Now = func() time.Time { return s.now }
	return s
}

func (s *timedRedis) content(name string) map[string][]byte {
	s.t.Helper()
	out := &corev1.Secret{}
	if err := s.api.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, out); err != nil {
		return nil
	}
	return out.Data
}

// pass fails when a server meets one whose certificate it does not trust: both are those of its start.
func (s *timedRedis) pass() {
	s.t.Helper()
	mounted := s.content("carts-server-tls")
	s.redisStage.pass()
	s.now = s.now.Add(20 * time.Second)
	uids := s.uids()
	for _, uid := range uids {
		if s.started[uid] == nil {
			s.started[uid] = mounted
		}
	}
	clients := s.content("carts-connection")
	for name, uid := range uids {
		for other, id := range uids {
			if e, _ := clustertls.ExpiryOf(s.started[uid][caKey], s.started[id][corev1.TLSCertKey], s.now); e.CA.IsZero() {
				s.t.Fatalf("%s rejects %s", name, other)
			}
		}
		shown := s.started[uid][corev1.TLSCertKey]
		if e, _ := clustertls.ExpiryOf(clients[caKey], shown, s.now); e.CA.IsZero() {
			s.t.Fatalf("a client rejects %s", name)
		}
		if e, _ := clustertls.ExpiryOf(s.started[uid][caKey], clients[corev1.TLSCertKey], s.now); e.CA.IsZero() {
			s.t.Fatalf("%s rejects a client", name)
		}
	}
	c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionTLSReady)
	if c != nil && (len(s.phases) == 0 || s.phases[len(s.phases)-1] != c.Reason) {
		s.phases = append(s.phases, c.Reason)
	}
}

// settle runs until the cluster is Ready and its certificates are as they stay.
func (s *timedRedis) settle() {
	s.t.Helper()
	for range 300 {
		s.pass()
		conditions := s.cluster().Status.Conditions
		c := meta.FindStatusCondition(conditions, v1alpha1.ConditionTLSReady)
		if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) && c.Reason == v1alpha1.ReasonIssued {
			return
		}
	}
	s.t.Fatalf("not ready: %+v", s.cluster().Status)
}

func TestRedisServersRestartForARenewedCertificateOneAfterTheOther(t *testing.T) {
	s := newTimedRedis(t)
	s.settle()
	before, old := s.content("carts-server-tls")[corev1.TLSCertKey], s.uids()
	s.now = s.now.Add(clustertls.LeafValidity / 100 * 67)
	s.pass()
	s.settle()
	if bytes.Equal(before, s.content("carts-server-tls")[corev1.TLSCertKey]) {
		t.Error("the certificate was not renewed")
	}
	for pod, uid := range s.uids() {
		if old[pod] == uid || !bytes.Equal(s.started[uid][corev1.TLSCertKey], s.content("carts-server-tls")[corev1.TLSCertKey]) {
			t.Errorf("pod %s runs with the old certificate", pod)
		}
	}
	for pod, role := range s.deleted {
		if role != v1alpha1.RedisReplica {
			t.Errorf("pod %s was deleted while it was a %s", pod, role)
		}
	}
}

func TestTheAuthorityOfARedisClusterIsReplacedWhileAllUnderstandEachOther(t *testing.T) {
	s := newTimedRedis(t)
	s.settle()
	before := s.content("carts-ca")[corev1.TLSCertKey]
	o := s.cluster()
	o.Spec.TLS = &v1alpha1.TLSSpec{Rotation: &v1alpha1.RotationSpec{
		After: &metav1.Time{Time: s.now}, Hold: &metav1.Duration{Duration: 2 * time.Minute},
	}}
	if err := s.api.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s.pass()
	s.settle()
	ca := s.content("carts-ca")
	if bytes.Equal(before, ca[corev1.TLSCertKey]) || len(ca) != 2 {
		t.Errorf("the Secret of the authority holds %d keys, or the old one", len(ca))
	}
	want := []string{v1alpha1.ReasonIntroducingCA, v1alpha1.ReasonReplacingCertificates, v1alpha1.ReasonIssued}
	if diff := cmp.Diff(want, s.phases[max(0, len(s.phases)-3):]); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	for pod, uid := range s.uids() {
		if !slices.Equal(s.started[uid][caKey], ca[corev1.TLSCertKey]) {
			t.Errorf("pod %s trusts another authority", pod)
		}
	}
	writes := s.api.writes.Load()
	for range 10 {
		s.pass()
	}
	if n := s.api.writes.Load() - writes; n != 0 {
		t.Errorf("%d writes to a settled cluster", n)
	}
}
