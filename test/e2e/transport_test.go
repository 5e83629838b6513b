package e2e

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/steps"
	"github.com/quorate/quorate/test/harness"
)

// A writer that follows its Secret does not notice that TLS is switched off and on again, but for the restarts.
func TestTLSIsSwitchedOffAndOnUnderLoad(t *testing.T) {
	t.Parallel()
	var c *v1alpha1.EtcdCluster
	var l *harness.Load
	// A kubelet takes up to a minute and a half to bring a Secret into a pod, and the members restart soon after the hold.
	managed := &v1alpha1.TLSSpec{
		Mode: ptr.To(v1alpha1.TLSManaged), Rotation: &v1alpha1.RotationSpec{Hold: &metav1.Duration{Duration: 120 * time.Second}},
	}
	feature := features.New("transport").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 3, func(e *v1alpha1.EtcdClusterSpec) { e.TLS = managed.DeepCopy() })
			createReady(ctx, t, s, c)
			l = startLoad(ctx, t, s, c)
		})).
		Assess("off", step(func(ctx context.Context, t *testing.T, s *scope) {
			switchTLS(ctx, t, s, c, &v1alpha1.TLSSpec{Mode: ptr.To(v1alpha1.TLSDisabled)})
			_, err := l.WaitAcked(ctx, 50, time.Minute)
			must(t, err)
		})).
		Assess("and on", step(func(ctx context.Context, t *testing.T, s *scope) {
			switchTLS(ctx, t, s, c, managed.DeepCopy())
			_, err := l.WaitAcked(ctx, 50, time.Minute)
			must(t, err)
			summary := stopLoad(ctx, t, l, "off and on again: ")
			nothingLost(t, summary)
			noErrors(t, summary)
			wantCurrent(ctx, t, s, c)
		}))
	suite.Test(t, feature.Feature())
}

// switchTLS changes spec.tls and waits until the cluster is as specified and clients are told so. No more than one member is ever
// missing on the way.
func switchTLS(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, tls *v1alpha1.TLSSpec) {
	t.Helper()
	began := time.Now()
	old := refresh(ctx, t, s, c).DeepCopyObject().(*v1alpha1.EtcdCluster)
	c.Spec.TLS = tls
	must(t, s.Patch(ctx, c, client.MergeFrom(old)))
	generation := c.Generation
	said := false
	must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "TLS mode " + string(tls.TLSMode()), Within: 10 * time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
		if c.Status.Ready != "2/3" && c.Status.Ready != "3/3" {
			t.Errorf("%s members are ready: %s", c.Status.Ready, c.Status.Activity)
		}
		ready, secured := conditionOf(c, v1alpha1.ConditionReady), conditionOf(c, v1alpha1.ConditionTLSReady)
		said = said || secured.Reason == steps.ReasonTransport
		return c.Status.ObservedGeneration >= generation && ready.Status == metav1.ConditionTrue && secured.Reason != steps.ReasonTransport && said,
			c.Status.Activity
	}))
	figure(t, "TLS %s after %.0f s", tls.TLSMode(), time.Since(began).Seconds())
	conn, _, err := s.Connection(ctx, s.ns, c.Name)
	must(t, err)
	if (conn.TLS != nil) != (tls.TLSMode() != v1alpha1.TLSDisabled) {
		t.Errorf("clients are told to use TLS: %t", conn.TLS != nil)
	}
	roundTrip(ctx, t, s, c, conn)
}

func conditionOf(c *v1alpha1.EtcdCluster, typ string) metav1.Condition {
	for _, cond := range c.Status.Conditions {
		if cond.Type == typ {
			return cond
		}
	}
	return metav1.Condition{}
}
