package e2e

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/harness"
)

// movesWithin is how long the leader may stay on a node after it was cordoned.
const movesWithin = 10 * time.Second

// TestTheLeaderLeavesACordonedNode cordons the node of the leader while a writer runs, and then all nodes.
func TestTheLeaderLeavesACordonedNode(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	feature := features.New("cordon").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 3)
			createReady(ctx, t, s, c)
		})).
		Assess("the leader moves within seconds", step(func(ctx context.Context, t *testing.T, s *scope) {
			load := startLoad(ctx, t, s, c)
			was := leaderOf(ctx, t, s, c)
			began := time.Now()
			s.cordon(ctx, t, was.Spec.NodeName)
			must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: "another leader", Within: time.Minute}, func(c *v1alpha1.EtcdCluster) (bool, string) {
				return c.Status.Leader != was.Name && c.Status.Leader != "", c.Status.Activity
			}))
			moved := time.Since(began)
			_, err := load.WaitAcked(ctx, 200, time.Minute)
			must(t, err)
			summary := stopLoad(ctx, t, load, "node of the leader cordoned: another one leads after %.1f s; ", moved.Seconds())
			nothingLost(t, summary)
			noErrors(t, summary)
			if moved > movesWithin {
				t.Errorf("it took %s", moved)
			}
			if is := leaderOf(ctx, t, s, c); is.Spec.NodeName == was.Spec.NodeName {
				t.Errorf("%s leads on the node of %s", is.Name, was.Name)
			}
		})).
		Assess("it stays where all nodes are cordoned", step(func(ctx context.Context, t *testing.T, s *scope) {
			before := leaderOf(ctx, t, s, c)
			for _, p := range s.pods(ctx, t, c) {
				if p.Name != before.Name {
					s.cordon(ctx, t, p.Spec.NodeName)
				}
			}
			s.cordon(ctx, t, before.Spec.NodeName)
			rest(ctx, movesWithin)
			waitReady(ctx, t, s, c)
			if now := leaderOf(ctx, t, s, c).Name; now != before.Name {
				t.Errorf("%s led before all nodes were cordoned, and now %s", before.Name, now)
			}
		}))
	suite.Test(t, feature.Feature())
}

// cordon cordons a node until the end of the test, unless somebody else has.
func (s *scope) cordon(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	node := &corev1.Node{}
	node.Name = name
	if refresh(ctx, t, s, node).Spec.Unschedulable {
		return
	}
	_, err := s.Run(ctx, "cordon", name)
	t.Cleanup(func() {
		if _, err := s.Run(context.WithoutCancel(ctx), "uncordon", name); err != nil {
			t.Errorf("uncordon %s: %v", name, err)
		}
	})
	must(t, err)
}
