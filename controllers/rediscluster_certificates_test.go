package controllers

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// timedRedis is a stage whose clock moves. A Secret takes some passes until it is in a pod, and a server runs with what it has
// read last.
type timedRedis struct {
	mu sync.Mutex
	*redisStage
	now time.Time
	// mounted is what the kubelet has brought to all pods, due when it brings what the Secret holds.
	mounted map[string][]byte
	due     time.Time
	running map[string]map[string][]byte
	phases  []string
}

func timedRedisFrom(base *redisStage) *timedRedis {
	s := &timedRedis{
		redisStage: base, now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC),
		running: map[string]map[string][]byte{},
	}
	s.net.Mounted = s.read
	s.equip = func(c *Children) { c.Now = func() time.Time { return s.now } }
	s.restart()
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

// read is a server that starts, or reads its files anew. A pod that is made anew gets what the Secret holds.
func (s *timedRedis) read(w *redisfake.Server) string {
	s.mu.Lock() // Servers are told at the same time.
	defer s.mu.Unlock()
	name, _, _ := strings.Cut(w.Host, ".")
	content := s.mounted
	if s.running[name] == nil {
		content = s.content("carts-server-tls")
	}
	s.running[name] = content
	return clustertls.LeafFingerprint(content[corev1.TLSCertKey])
}

// pass fails when a server meets one whose certificate it does not trust.
func (s *timedRedis) pass() {
	s.t.Helper()
	s.redisStage.pass()
	s.now = s.now.Add(20 * time.Second)
	secret := s.content("carts-server-tls")
	switch same := bytes.Equal(s.mounted[corev1.TLSCertKey], secret[corev1.TLSCertKey]); {
	case same:
		s.due = time.Time{}
	case s.due.IsZero():
		s.due = s.now.Add(time.Minute)
	case s.now.After(s.due):
		s.mounted, s.due = secret, time.Time{}
	}
	if s.mounted == nil {
		s.mounted = secret
	}
	clients := s.content("carts-connection")
	for name, own := range s.running {
		for other, o := range s.running {
			if e, _ := clustertls.ExpiryOf(own[caKey], o[corev1.TLSCertKey], s.now); e.CA.IsZero() {
				s.t.Fatalf("%s rejects %s", name, other)
			}
		}
		if e, _ := clustertls.ExpiryOf(clients[caKey], own[corev1.TLSCertKey], s.now); e.CA.IsZero() {
			s.t.Fatalf("a client rejects %s", name)
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

// Builds before the first release signed certificates of clients with the authority of the servers.
func TestAnAuthorityThatSignedForRedisClientsIsReplaced(t *testing.T) {
	s := newTimedRedis(t)
	s.settle()
	former, err := clustertls.NewCA("default/carts", s.now)
	if err != nil {
		t.Fatal(err)
	}
	leaf, ok := clustertls.LeafOf(clustertls.Pair{Cert: s.content("carts-server-tls")[corev1.TLSCertKey], Key: s.content("carts-server-tls")[corev1.TLSPrivateKeyKey]})
	if !ok {
		t.Fatal("no leaf")
	}
	server, err := clustertls.Issue(former, leaf, s.now)
	if err != nil {
		t.Fatal(err)
	}
	client, err := clustertls.Issue(former, clustertls.Leaf{CommonName: "carts-client"}, s.now)
	if err != nil {
		t.Fatal(err)
	}
	s.put("carts-ca", authorityData(clustertls.Authority{Signing: former}))
	s.put("carts-server-tls", leafData(former.Cert, server))
	s.put("carts-connection", leafData(former.Cert, client))
	s.mounted = nil
	for name := range s.running {
		s.running[name] = s.content("carts-server-tls")
	}
	before := s.uids()
	s.pass()
	s.settle()
	if own := s.content("carts-server-tls")[caKey]; bytes.Contains(own, former.Cert) {
		t.Error("servers still trust the authority that signed for clients")
	}
	connection := s.content("carts-connection")
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if _, found := connection[key]; found {
			t.Errorf("the connection Secret has %s", key)
		}
	}
	if diff := cmp.Diff(before, s.uids()); diff != "" {
		t.Errorf("pods were restarted (-before +after):\n%s", diff)
	}
	phases := len(s.phases)
	s.now = s.now.Add(24 * time.Hour)
	s.settle()
	if len(s.phases) != phases {
		t.Errorf("the authority is replaced again: %v", s.phases)
	}
}

// put replaces keys of a Secret, as the operator does.
func (s *timedRedis) put(name string, data map[string][]byte) {
	s.t.Helper()
	live := &corev1.Secret{}
	if err := s.api.Get(s.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, live); err != nil {
		s.t.Fatal(err)
	}
	maps.Copy(live.Data, data)
	ac := corev1ac.Secret(name, "default").WithType(live.Type).WithLabels(live.Labels).WithData(live.Data)
	for _, ref := range live.OwnerReferences {
		ac = ac.WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(ref.APIVersion).WithKind(ref.Kind).WithName(ref.Name).
			WithUID(ref.UID).WithController(*ref.Controller).WithBlockOwnerDeletion(*ref.BlockOwnerDeletion))
	}
	if err := s.api.Apply(s.t.Context(), ac, client.FieldOwner(cluster.ManagedBy), client.ForceOwnership); err != nil {
		s.t.Fatal(err)
	}
}

func TestRedisServersTakeARenewedCertificateWithoutARestart(t *testing.T) {
	s := newTimedRedis(t)
	s.settle()
	before, old := s.content("carts-server-tls")[corev1.TLSCertKey], s.uids()
	s.now = s.now.Add(clustertls.LeafValidity / 100 * 67)
	s.pass()
	if text := s.cluster().Status.Activity; !strings.Contains(text, "kubelet") {
		t.Errorf("it does not say what it waits for: %s", text)
	}
	s.settle()
	now := s.content("carts-server-tls")[corev1.TLSCertKey]
	if bytes.Equal(before, now) {
		t.Error("the certificate was not renewed")
	}
	for pod, uid := range s.uids() {
		if old[pod] != uid {
			t.Errorf("pod %s was restarted", pod)
		}
		if !bytes.Equal(s.running[pod][corev1.TLSCertKey], now) {
			t.Errorf("%s runs with the old certificate", pod)
		}
	}
}

func TestRedisServersTakeARenewedCertificateWhateverElseMayNotBe(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1alpha1.RedisClusterSpec){
		"paused":               func(spec *v1alpha1.RedisClusterSpec) { spec.Paused = new(true) },
		"without its password": func(spec *v1alpha1.RedisClusterSpec) { spec.Auth = &v1alpha1.AuthSpec{SecretName: new("gone")} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newTimedRedis(t)
			s.settle()
			before := s.content("carts-server-tls")[corev1.TLSCertKey]
			o := s.cluster()
			change(&o.Spec)
			if err := s.api.Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			s.pass()
			s.now = s.now.Add(clustertls.LeafValidity / 100 * 67)
			for range 15 {
				s.pass()
			}
			now := s.content("carts-server-tls")[corev1.TLSCertKey]
			if bytes.Equal(before, now) {
				t.Errorf("the certificate was not renewed: %s", s.cluster().Status.Activity)
			}
			for pod, own := range s.running {
				if !bytes.Equal(own[corev1.TLSCertKey], now) {
					t.Errorf("%s runs with the old certificate: %s", pod, s.cluster().Status.Activity)
				}
			}
		})
	}
}

func TestTheAuthorityOfARedisClusterIsReplacedWhileAllUnderstandEachOther(t *testing.T) {
	t.Parallel()
	s := newTimedRedis(t)
	s.settle()
	before, old := s.content("carts-ca")[corev1.TLSCertKey], s.uids()
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
		if !slices.Equal(s.running[pod][caKey], ca[corev1.TLSCertKey]) {
			t.Errorf("pod %s trusts another authority", pod)
		}
		if old[pod] != uid {
			t.Errorf("pod %s was restarted", pod)
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
