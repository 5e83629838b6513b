package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/harness"
)

// noVersion is a release of etcd that there is no image of.
const noVersion = "3.7.99"

// TestEtcdIsUpgradedUnderLoad takes a cluster through three minor versions with one edit, while a writer runs.
func TestEtcdIsUpgradedUnderLoad(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	feature := features.New("versions").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 3, func(e *v1alpha1.EtcdClusterSpec) { e.Version = s.version(t, "ETCD_3_5") })
			createReady(ctx, t, s, c)
		})).
		Assess("from 3.5 to 3.7 in one edit", step(func(ctx context.Context, t *testing.T, s *scope) {
			from, began := c.Spec.Version, time.Now()
			moves(ctx, t, s, c, s.version(t, "ETCD_3_7"))
			savedFirst(ctx, t, s, c, from, began)
		}))
	suite.Test(t, feature.Feature())
}

// TestAnEtcdUpgradeIsSetBackUnderLoad asks for a version that cannot be had, and then for the minor version before.
func TestAnEtcdUpgradeIsSetBackUnderLoad(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	feature := features.New("versions").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 3, func(e *v1alpha1.EtcdClusterSpec) { e.Version = s.version(t, "ETCD_3_7") })
			createReady(ctx, t, s, c)
		})).
		Assess("a version that cannot be had is set back", step(func(ctx context.Context, t *testing.T, s *scope) {
			summary := underLoad(ctx, t, s, c, "version that cannot be had", func() { rejected(ctx, t, s, c) })
			nothingLost(t, summary)
			noErrors(t, summary)
			wantCurrent(ctx, t, s, c)
		})).
		Assess("from 3.7 back to 3.6", step(func(ctx context.Context, t *testing.T, s *scope) {
			moves(ctx, t, s, c, s.version(t, "ETCD_3_6"))
		}))
	suite.Test(t, feature.Feature())
}

// TestAnUpgradeOfTheOnlyEtcdMemberIsSetBackUnderLoad asks a cluster of one member for a minor version that cannot be had. While nobody can be
// asked, what the start gate finds on the disk tells that the former version can go on with it.
func TestAnUpgradeOfTheOnlyEtcdMemberIsSetBackUnderLoad(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	feature := features.New("versions").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 1, func(e *v1alpha1.EtcdClusterSpec) { e.Version = s.version(t, "ETCD_3_6") })
			createReady(ctx, t, s, c)
		})).
		Assess("by itself", step(func(ctx context.Context, t *testing.T, s *scope) {
			nothingLost(t, underLoad(ctx, t, s, c, "minor version that cannot be had", func() { rejected(ctx, t, s, c) }))
			wantCurrent(ctx, t, s, c)
		})).
		Assess("by whoever asked for it", step(func(ctx context.Context, t *testing.T, s *scope) {
			was := c.Spec.Version
			nothingLost(t, underLoad(ctx, t, s, c, "minor version that is taken back", func() {
				change(ctx, t, s, c, func() { c.Spec.Version = noVersion })
				must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "the image to be missed", Within: 5 * time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
					text := conditionText(c, v1alpha1.ConditionReady)
					return strings.Contains(text, "ImagePull"), text
				}))
				before := refresh(ctx, t, s, c).DeepCopy()
				c.Spec.Version = was
				must(t, s.Patch(ctx, c, client.MergeFrom(before)))
			}))
			wantCurrent(ctx, t, s, c)
		})).
		Assess("and goes on to one that can be had", step(func(ctx context.Context, t *testing.T, s *scope) {
			next := s.version(t, "ETCD_3_7")
			nothingLost(t, underLoad(ctx, t, s, c, "to "+next, func() { change(ctx, t, s, c, func() { c.Spec.Version = next }) }))
			if refresh(ctx, t, s, c).Status.CurrentVersion != next {
				t.Errorf("the cluster runs %s instead of %s", c.Status.CurrentVersion, next)
			}
		}))
	suite.Test(t, feature.Feature())
}

// moves changes the version under load, and expects no client to notice.
func moves(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, version string) {
	t.Helper()
	from := c.Spec.Version
	summary := underLoad(ctx, t, s, c, "from "+from+" to "+version, func() {
		change(ctx, t, s, c, func() { c.Spec.Version = version })
	})
	nothingLost(t, summary)
	noErrors(t, summary)
	if refresh(ctx, t, s, c).Status.CurrentVersion != version {
		t.Errorf("the cluster runs %s instead of %s", c.Status.CurrentVersion, version)
	}
	wantCurrent(ctx, t, s, c)
}

// rejected asks for a version whose first member cannot start, sees it set back, and takes it back.
func rejected(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster) {
	t.Helper()
	was := c.Spec.Version
	began := time.Now()
	change(ctx, t, s, c, func() { c.Spec.Version = noVersion })
	must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "the version to be set back", Within: 5 * time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
		text := conditionText(c, v1alpha1.ConditionStalled)
		return strings.Contains(text, "CanaryFailed"), text
	}))
	figure(t, "set back after %.0f s: %s", time.Since(began).Seconds(), conditionText(c, v1alpha1.ConditionStalled))
	if c.Status.CurrentVersion != was {
		t.Errorf("the cluster runs %s instead of %s", c.Status.CurrentVersion, was)
	}
	before := c.DeepCopy()
	c.Spec.Version = was
	must(t, s.Patch(ctx, c, client.MergeFrom(before)))
}
