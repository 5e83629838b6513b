package e2e

import (
	"bytes"
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/connection"
	"github.com/quorate/quorate/test/harness"
)

func TestEtcdAuthorityIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	authorityIsReplaced(t, func(t *testing.T, s *scope) *v1alpha1.EtcdCluster {
		t.Helper()
		return s.etcdOf(t, "orders", 3)
	}, func(c *v1alpha1.EtcdCluster, tls *v1alpha1.TLSSpec) { c.Spec.TLS = tls })
}

func TestRedisAuthorityIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	authorityIsReplaced(t, func(t *testing.T, s *scope) *v1alpha1.RedisCluster {
		t.Helper()
		return s.redisOf(t, "carts", 1)
	}, func(c *v1alpha1.RedisCluster, tls *v1alpha1.TLSSpec) { c.Spec.TLS = tls })
}

// authorityIsReplaced replaces the authority of a cluster while a writer runs that follows its Secret. The writer does not
// notice it, but for the restarts.
func authorityIsReplaced[O target](t *testing.T, fresh func(*testing.T, *scope) O, set func(O, *v1alpha1.TLSSpec)) {
	t.Helper()
	var c O
	var before []byte
	feature := features.New("rotation").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = fresh(t, s)
			createReady(ctx, t, s, c)
			before = s.secretOf(ctx, t, cluster.CASecret(c.GetName()))[corev1.TLSCertKey]
		})).
		Assess("the authority is replaced under a writer", step(func(ctx context.Context, t *testing.T, s *scope) {
			l := startLoad(ctx, t, s, c)
			began := time.Now()
			old := refresh(ctx, t, s, c).DeepCopyObject().(O)
			set(c, &v1alpha1.TLSSpec{Mode: ptr.To(v1alpha1.TLSManaged), Rotation: &v1alpha1.RotationSpec{
				After: ptr.To(metav1.Now()), Hold: &metav1.Duration{Duration: 90 * time.Second},
			}})
			must(t, s.Patch(ctx, c, client.MergeFrom(old)))
			for _, reason := range []string{
				v1alpha1.ReasonIntroducingCA, v1alpha1.ReasonReplacingCertificates, v1alpha1.ReasonIssued,
			} {
				waitCertificates(ctx, t, s, c, reason)
				figure(t, "%s after %.0f s", reason, time.Since(began).Seconds())
			}
			waitReady(ctx, t, s, c)
			_, err := l.WaitAcked(ctx, 50, time.Minute)
			must(t, err)
			summary := stopLoad(ctx, t, l, "authority replaced in %.0f s: ", time.Since(began).Seconds())
			nothingLost(t, summary)
			if summary.Failed > 0 {
				t.Errorf("%d writes failed, because of: %s", summary.Failed, summary.Misses)
			}
		})).
		Assess("nothing of the old authority is left", step(func(ctx context.Context, t *testing.T, s *scope) {
			ca := s.secretOf(ctx, t, cluster.CASecret(c.GetName()))
			if bytes.Equal(ca[corev1.TLSCertKey], before) || len(ca) != 2 {
				t.Errorf("the Secret of the authority holds %d keys, or the old one", len(ca))
			}
			handed := s.secretOf(ctx, t, cluster.ConnectionSecret(c.GetName()))
			if !bytes.Equal(handed[connection.KeyCA], ca[corev1.TLSCertKey]) {
				t.Error("clients are handed another authority")
			}
			conn, _, err := s.Connection(ctx, s.ns, c.GetName())
			must(t, err)
			roundTrip(ctx, t, s, c, conn)
			wantCurrent(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}

// waitCertificates waits until TLSReady gives a reason. On the way no more than one etcd member is ever missing.
func waitCertificates[O target](ctx context.Context, t *testing.T, s *scope, c O, reason string) {
	t.Helper()
	must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "TLSReady with reason " + reason, Within: 10 * time.Minute}, func(c O) (bool, string) {
		if e, ok := any(c).(*v1alpha1.EtcdCluster); ok && e.Status.Ready != "2/3" && e.Status.Ready != "3/3" {
			t.Errorf("%s members are ready: %s", e.Status.Ready, e.Status.Activity)
		}
		for _, cond := range c.GetConditions() {
			if cond.Type == v1alpha1.ConditionTLSReady {
				return cond.Reason == reason, cond.Reason
			}
		}
		return false, "there is no such condition"
	}))
}

// secretOf returns the data of a Secret.
func (s *scope) secretOf(ctx context.Context, t *testing.T, name string) map[string][]byte {
	t.Helper()
	out := &corev1.Secret{}
	must(t, s.Get(ctx, types.NamespacedName{Namespace: s.ns, Name: name}, out))
	return out.Data
}

// Without a certificate that makes the operator root it has to know the old password to set the new one.
func TestEtcdPasswordIsChanged(t *testing.T) {
	t.Parallel()
	const changed = "another horse, another staple"
	var c *v1alpha1.EtcdCluster
	feature := features.New("password").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			s.create(ctx, t, secret(s.ns, "my-password", map[string][]byte{"password": []byte(myPassword)}))
			c = s.etcdOf(t, "orders", 1, func(e *v1alpha1.EtcdClusterSpec) {
				e.TLS = &v1alpha1.TLSSpec{Mode: ptr.To(v1alpha1.TLSDisabled)}
				e.Auth = &v1alpha1.AuthSpec{SecretName: ptr.To("my-password")}
			})
			createReady(ctx, t, s, c)
		})).
		Assess("etcd and clients get it", step(func(ctx context.Context, t *testing.T, s *scope) {
			began := time.Now()
			live := secret(s.ns, "my-password", nil)
			must(t, s.Get(ctx, client.ObjectKeyFromObject(live), live))
			live.Data = map[string][]byte{"password": []byte(changed)}
			must(t, s.Update(ctx, live))
			must(t, harness.Eventually(ctx, "clients to be handed the new password", time.Minute, func(ctx context.Context) (bool, string, error) {
				conn, _, err := s.Connection(ctx, s.ns, c.Name)
				return err == nil && conn.Password == changed, c.Status.Activity, err
			}))
			figure(t, "a new password is in force after %.1f s", time.Since(began).Seconds())
			conn, _, err := s.Connection(ctx, s.ns, c.Name)
			must(t, err)
			roundTrip(ctx, t, s, c, conn)
			waitReady(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}
