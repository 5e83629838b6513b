package rediscluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/internal/ttlmap"
	"github.com/quorate/quorate/test/fakeapi"
)

// TestClientsAreSentNowhereThatTheCertificateIsNotFor: neither when a host is taken back, nor when external access ends, also while
// the operator starts anew.
func TestClientsAreSentNowhereThatTheCertificateIsNotFor(t *testing.T) {
	t.Parallel()
	host, other := "redis.example.com", "198.51.100.7"
	for name, restarts := range map[string]bool{"an operator that runs on": false, "one that is started anew": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRedisStage(t, fakeapi.RedisCluster())
			s.Settle()
			kind := s.Loop.Kind.(*Reconciler)
			now := kind.Now()
			kind.Now = func() time.Time { return now }
			certificates := map[string][]byte{}
			certificate := func() []byte { return s.Secret(cluster.ServerTLSSecret("carts")).Data[corev1.TLSCertKey] }
			s.Open(&v1alpha1.RedisExternalAccess{Type: v1alpha1.ExternalNodePort, Host: &host})
			for _, access := range []*v1alpha1.RedisExternalAccess{{Type: v1alpha1.ExternalNodePort, Host: &other}, nil} {
				o := s.Cluster()
				o.Spec.ExternalAccess = access
				if err := s.API.Update(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				for range 25 {
					if restarts {
						kind.memories = ttlmap.Map[types.UID, memory]{New: newMemory}
					}
					certificates[clustertls.LeafFingerprint(certificate())] = certificate()
					s.Pass()
					certificates[clustertls.LeafFingerprint(certificate())] = certificate()
					for pod, server := range s.Servers {
						announced := (&model.Node{Announces: server.Announces}).HostOutside()
						if announced != "" && !clustertls.Vouches(certificates[server.Certificate], announced) {
							t.Fatalf("%s sends clients to %s and shows another certificate", pod, announced)
						}
					}
					restarts = false
				}
				s.Settle()
			}
			now = now.Add(2 * time.Minute)
			s.Settle()
			for _, gone := range []string{host, other} {
				if clustertls.Vouches(certificate(), gone) {
					t.Errorf("the certificate is for %s for ever", gone)
				}
			}
			writes := s.API.Writes.Load()
			for range 5 {
				s.Pass()
			}
			if n := s.API.Writes.Load() - writes; n != 0 {
				t.Errorf("%d writes to a settled cluster", n)
			}
		})
	}
}
