package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/harness"
)

func TestRedisTakesARenewedCertificateUnderLoad(t *testing.T) {
	t.Parallel()
	var c *v1alpha1.RedisCluster
	feature := features.New("renewed certificate of redis").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "carts", 1)
			createReady(ctx, t, s, c)
		})).
		Assess("every server shows it, and none restarts", step(func(ctx context.Context, t *testing.T, s *scope) {
			pods := s.pods(ctx, t, c)
			name := cluster.ServerTLSSecret(c.Name)
			before := s.secretOf(ctx, t, name)[corev1.TLSCertKey]
			l := startLoad(ctx, t, s, c)
			began := time.Now()
			must(t, s.Delete(ctx, secret(s.ns, name, nil))) // It is issued anew.
			var leaf []byte
			must(t, harness.Eventually(ctx, "another certificate in the Secret", 2*time.Minute, func(ctx context.Context) (bool, string, error) {
				out := &corev1.Secret{}
				err := client.IgnoreNotFound(s.Get(ctx, types.NamespacedName{Namespace: s.ns, Name: name}, out))
				leaf = out.Data[corev1.TLSCertKey]
				return len(leaf) > 0 && !bytes.Equal(leaf, before), "it is the same, or there is none", err
			}))
			for _, p := range pods {
				must(t, harness.Eventually(ctx, p.Name+" to show it", 3*time.Minute, func(ctx context.Context) (bool, string, error) {
					shown, err := s.shownByRedis(ctx, p.Name, c)
					return err == nil && shown == clustertls.LeafFingerprint(leaf), refresh(ctx, t, s, c).Status.Activity, nil
				}))
			}
			figure(t, "every server shows a renewed certificate after %.0f s", time.Since(began).Seconds())
			waitReady(ctx, t, s, c)
			_, err := l.WaitAcked(ctx, 500, time.Minute)
			must(t, err)
			summary := stopLoad(ctx, t, l, "certificate renewed: ")
			nothingLost(t, summary)
			if summary.Failed > 0 {
				t.Errorf("%d writes failed, because of: %s", summary.Failed, summary.Misses)
			}
			for i, p := range s.pods(ctx, t, c) {
				if p.UID != pods[i].UID || p.Status.ContainerStatuses[0].RestartCount > 0 {
					t.Errorf("pod %s was restarted", p.Name)
				}
			}
		}))
	suite.Test(t, feature.Feature())
}

// shownByRedis is the fingerprint of the certificate that a server shows.
func (s *scope) shownByRedis(ctx context.Context, pod string, c *v1alpha1.RedisCluster) (string, error) {
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	if err != nil {
		return "", err
	}
	plain, err := s.Dial(ctx, types.NamespacedName{Namespace: s.ns, Name: pod}, "", model.ClientPort)
	if err != nil {
		return "", err
	}
	cfg := conn.TLS.Clone()
	cfg.ServerName = conn.Host
	secure := tls.Client(plain, cfg)
	defer func() { _ = secure.Close() }()
	if err := secure.HandshakeContext(ctx); err != nil {
		return "", err
	}
	return clustertls.FingerprintOf(secure.ConnectionState().PeerCertificates[0].Raw), nil
}
