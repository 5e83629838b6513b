package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/harness"
)

// TestEtcdIsScaledUnderLoad takes a cluster from one member to five and back while a writer runs.
func TestEtcdIsScaledUnderLoad(t *testing.T) {
	c, feature := scaledUnderLoad("scale", []int32{1, 3, 5, 3, 1})
	feature.Assess("a size that is taken back midway", step(func(ctx context.Context, t *testing.T, s *scope) {
		summary := underLoad(ctx, t, s, c, "scale 1 to 3 to 1 midway", func() {
			scale(ctx, t, s, c, 3)
			must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "a second member", Within: time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
				return len(c.Status.Members) > 1, c.Status.Activity
			}))
			scale(ctx, t, s, c, 1)
		})
		nothingLost(t, summary)
		wantSize(ctx, t, s, c, 1)
	}))
	suite.Test(t, feature.Feature())
}

// TestEtcdIsScaledByPasswordAlone does so where the operator has no certificate that makes it root, and a learner lets nobody log in.
func TestEtcdIsScaledByPasswordAlone(t *testing.T) {
	_, feature := scaledUnderLoad("scale without TLS", []int32{1, 3, 1}, func(e *v1alpha1.EtcdClusterSpec) {
		e.TLS = &v1alpha1.TLSSpec{Mode: ptr.To(v1alpha1.TLSDisabled)}
	})
	suite.Test(t, feature.Feature())
}

// scaledUnderLoad makes a cluster of the first size and takes it to the others while a writer runs. The cluster is there once the feature is set up.
func scaledUnderLoad(name string, sizes []int32, change ...func(*v1alpha1.EtcdClusterSpec)) (*v1alpha1.EtcdCluster, *features.FeatureBuilder) {
	c := &v1alpha1.EtcdCluster{}
	feature := features.New(name).Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
		*c = *s.etcdOf(t, "orders", sizes[0], change...)
		createReady(ctx, t, s, c)
	}))
	for i, to := range sizes[1:] {
		from := sizes[i]
		feature.Assess(fmt.Sprintf("%d to %d", from, to), step(func(ctx context.Context, t *testing.T, s *scope) {
			what := fmt.Sprintf("%s %d to %d", name, from, to)
			summary := underLoad(ctx, t, s, c, what, func() { scale(ctx, t, s, c, to) })
			nothingLost(t, summary)
			noErrors(t, summary)
			wantSize(ctx, t, s, c, to)
		}))
	}
	return c, feature
}

// scale sets the size through the scale subresource, as kubectl scale does, and waits until the operator is at it.
func scale(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, size int32) {
	t.Helper()
	_, err := s.Run(ctx, "--namespace", s.ns, "scale", "etcdcluster", c.Name, fmt.Sprintf("--replicas=%d", size))
	must(t, err)
	must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "the operator to notice", Within: time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
		return c.Spec.Size == size && c.Status.ObservedGeneration == c.Generation, c.Status.Activity
	}))
}

// wantSize checks that the cluster has so many voters, pods and claims, and no more.
func wantSize(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, size int32) {
	t.Helper()
	waitReady(ctx, t, s, c)
	if len(c.Status.Members) != int(size) || c.Status.Size != size {
		t.Errorf("the status has %d members and size %d instead of %d", len(c.Status.Members), c.Status.Size, size)
	}
	if pods := s.pods(ctx, t, c); len(pods) != int(size) {
		t.Errorf("there are %d pods instead of %d", len(pods), size)
	}
	budget := refresh(ctx, t, s, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: c.Name}})
	if got, want := budget.Spec.MinAvailable.IntValue(), model.Quorum(int(size)); got != want {
		t.Errorf("the disruption budget keeps %d pods instead of %d", got, want)
	}
	var claims corev1.PersistentVolumeClaimList
	must(t, s.List(ctx, &claims, client.InNamespace(s.ns), client.MatchingLabels{cluster.LabelInstance: c.Name}))
	if len(claims.Items) != int(size) {
		t.Errorf("there are %d claims instead of %d", len(claims.Items), size)
	}
}
