package controllers

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/ttlmap"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// TestClientsAreSentNowhereThatTheCertificateIsNotFor: neither when a host is taken back, nor when external access ends, also while
// the operator starts anew.
func TestClientsAreSentNowhereThatTheCertificateIsNotFor(t *testing.T) {
	t.Parallel()
	host, other := "redis.example.com", "198.51.100.7"
	for name, restarts := range map[string]bool{"an operator that runs on": false, "one that is started anew": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRedisStage(t, redisCluster())
			s.settle()
			kind := s.loop.Kind.(*RedisKind)
			now := kind.Now()
			kind.Now = func() time.Time { return now }
			certificates := map[string][]byte{}
			certificate := func() []byte { return s.secret(cluster.ServerTLSSecret("carts")).Data[corev1.TLSCertKey] }
			s.open(&v1alpha1.RedisExternalAccess{Type: v1alpha1.ExternalNodePort, Host: &host})
			for _, access := range []*v1alpha1.RedisExternalAccess{{Type: v1alpha1.ExternalNodePort, Host: &other}, nil} {
				o := s.cluster()
				o.Spec.ExternalAccess = access
				if err := s.api.Update(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				for range 25 {
					if restarts {
						kind.memories = ttlmap.Map[types.UID, memory]{New: newMemory}
					}
					certificates[clustertls.LeafFingerprint(certificate())] = certificate()
					s.pass()
					certificates[clustertls.LeafFingerprint(certificate())] = certificate()
					for pod, server := range s.servers {
						announced := (&redis.Node{Announces: server.Announces}).HostOutside()
						if announced != "" && !clustertls.Vouches(certificates[server.Certificate], announced) {
							t.Fatalf("%s sends clients to %s and shows another certificate", pod, announced)
						}
					}
					restarts = false
				}
				s.settle()
			}
			now = now.Add(2 * time.Minute)
			s.settle()
			for _, gone := range []string{host, other} {
				if clustertls.Vouches(certificate(), gone) {
					t.Errorf("the certificate is for %s for ever", gone)
				}
			}
			writes := s.api.writes.Load()
			for range 5 {
				s.pass()
			}
			if n := s.api.writes.Load() - writes; n != 0 {
				t.Errorf("%d writes to a settled cluster", n)
			}
		})
	}
}
