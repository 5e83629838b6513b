package controllersim

import (
	"bytes"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// TimedRedis is a stage whose clock moves. A Secret takes some passes until it is in a pod, and a server runs with what it has
// read last.
type TimedRedis struct {
	mu sync.Mutex
	*Redis
	Now time.Time
	// Mounted is what the kubelet has brought to all pods, due when it brings what the Secret holds.
	Mounted map[string][]byte
	due     time.Time
	Running map[string]map[string][]byte
	Phases  []string
}

// NewTimedRedis moves the clock of a simulated cluster.
func NewTimedRedis(base *Redis) *TimedRedis {
	s := &TimedRedis{
		Redis: base, Now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC),
		Running: map[string]map[string][]byte{},
	}
	s.Net.Mounted = s.read
	s.Equip = func(c *owned.Client) { c.Now = func() time.Time { return s.Now } }
	s.Restart()
	return s
}

// Content returns the data of a Secret.
func (s *TimedRedis) Content(name string) map[string][]byte {
	s.T.Helper()
	out := &corev1.Secret{}
	if err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: "default", Name: name}, out); err != nil {
		return nil
	}
	return out.Data
}

// read is a server that starts, or reads its files anew. A pod that is made anew gets what the Secret holds.
func (s *TimedRedis) read(w *redisfake.Server) string {
	s.mu.Lock() // Servers are told at the same time.
	defer s.mu.Unlock()
	name, _, _ := strings.Cut(w.Host, ".")
	content := s.Mounted
	if s.Running[name] == nil {
		content = s.Content("carts-server-tls")
	}
	s.Running[name] = content
	return clustertls.LeafFingerprint(content[corev1.TLSCertKey])
}

// Pass fails when a server meets one whose certificate it does not trust.
func (s *TimedRedis) Pass() {
	s.T.Helper()
	s.Redis.Pass()
	s.Now = s.Now.Add(20 * time.Second)
	secret := s.Content("carts-server-tls")
	switch same := bytes.Equal(s.Mounted[corev1.TLSCertKey], secret[corev1.TLSCertKey]); {
	case same:
		s.due = time.Time{}
	case s.due.IsZero():
		s.due = s.Now.Add(time.Minute)
	case s.Now.After(s.due):
		s.Mounted, s.due = secret, time.Time{}
	}
	if s.Mounted == nil {
		s.Mounted = secret
	}
	clients := s.Content("carts-connection")
	for name, own := range s.Running {
		for other, o := range s.Running {
			if e, _ := clustertls.ExpiryOf(own[owned.CAKey], o[corev1.TLSCertKey], s.Now); e.CA.IsZero() {
				s.T.Fatalf("%s rejects %s", name, other)
			}
		}
		if e, _ := clustertls.ExpiryOf(clients[owned.CAKey], own[corev1.TLSCertKey], s.Now); e.CA.IsZero() {
			s.T.Fatalf("a client rejects %s", name)
		}
	}
	c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionTLSReady)
	if c != nil && (len(s.Phases) == 0 || s.Phases[len(s.Phases)-1] != c.Reason) {
		s.Phases = append(s.Phases, c.Reason)
	}
}

// Settle runs until the cluster is Ready and its certificates are as they stay.
func (s *TimedRedis) Settle() {
	s.T.Helper()
	for range 300 {
		s.Pass()
		conditions := s.Cluster().Status.Conditions
		c := meta.FindStatusCondition(conditions, v1alpha1.ConditionTLSReady)
		if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) && c.Reason == v1alpha1.ReasonIssued {
			return
		}
	}
	s.T.Fatalf("not ready: %+v", s.Cluster().Status)
}

// Put replaces keys of a Secret, as the operator does.
func (s *TimedRedis) Put(name string, data map[string][]byte) {
	s.T.Helper()
	live := &corev1.Secret{}
	if err := s.API.Get(s.T.Context(), types.NamespacedName{Namespace: "default", Name: name}, live); err != nil {
		s.T.Fatal(err)
	}
	maps.Copy(live.Data, data)
	ac := corev1ac.Secret(name, "default").WithType(live.Type).WithLabels(live.Labels).WithData(live.Data)
	for _, ref := range live.OwnerReferences {
		ac = ac.WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(ref.APIVersion).WithKind(ref.Kind).WithName(ref.Name).
			WithUID(ref.UID).WithController(*ref.Controller).WithBlockOwnerDeletion(*ref.BlockOwnerDeletion))
	}
	if err := s.API.Apply(s.T.Context(), ac, client.FieldOwner(cluster.ManagedBy), client.ForceOwnership); err != nil {
		s.T.Fatal(err)
	}
}
