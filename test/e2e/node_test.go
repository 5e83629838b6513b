package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/harness"
)

// TestEtcdOutlivesItsNodes drains the node of the leader, and then loses a node for good, with the volume that is local to it.
func TestEtcdOutlivesItsNodes(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	feature := features.New("nodes").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "shelter", 3) // Nobody else's pods are drained: kubectl tells them by their labels only.
			createReady(ctx, t, s, c)
		})).
		Assess("the node of the leader is drained", step(func(ctx context.Context, t *testing.T, s *scope) {
			node := leaderOf(ctx, t, s, c).Spec.NodeName
			summary := underLoad(ctx, t, s, c, "node of the leader drained", func() {
				_, drained := s.Run(ctx, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data",
					"--pod-selector=app.kubernetes.io/instance="+c.Name, "--timeout=2m")
				_, err := s.Run(ctx, "uncordon", node)
				must(t, errors.Join(drained, err))
			})
			nothingLost(t, summary)
			noErrors(t, summary)
		})).
		Assess("a node is lost for good", step(func(ctx context.Context, t *testing.T, s *scope) { loseNode(ctx, t, s, c) }))
	suite.Test(t, feature.Feature())
}

// loseNode stops a node that runs a member and nothing that the test or Kubernetes depend on, and sees the member replaced.
func loseNode(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster) {
	t.Helper()
	victim := onWorker(ctx, t, s, c)
	was := memberID(refresh(ctx, t, s, c), podOrdinal(victim))
	defer func() {
		ctx := context.WithoutCancel(ctx)
		must(t, s.StartNode(ctx, victim.Spec.NodeName))
		_, err := s.Run(ctx, "uncordon", victim.Spec.NodeName)
		must(t, err)
	}()
	vacate(ctx, t, s, victim.Spec.NodeName)
	load := startLoad(ctx, t, s, c)
	must(t, s.StopNode(ctx, victim.Spec.NodeName))
	began := time.Now()
	must(t, harness.Until(ctx, s.Cluster, c, "another member", 3*time.Minute, func(c *v1alpha1.EtcdCluster) (bool, string) {
		return memberID(c, podOrdinal(victim)) != was, c.Status.Activity
	}))
	waitReady(ctx, t, s, c)
	whole := time.Since(began)
	_, err := load.WaitAcked(ctx, 50, time.Minute)
	must(t, err)
	nothingLost(t, stopLoad(ctx, t, load, "node of %s lost: whole again after %.1f s; ", victim.Name, whole.Seconds()))
	if whole > wholeAgain {
		t.Errorf("it took %s to replace the member", whole.Round(time.Second))
	}
}

// vacate moves what Kubernetes and the test depend on to other nodes, and waits until it runs there.
func vacate(ctx context.Context, t *testing.T, s *scope, node string) {
	t.Helper()
	_, err := s.Run(ctx, "cordon", node)
	must(t, err)
	for _, ns := range []string{"kube-system", "local-path-storage", harness.SystemNamespace} {
		var pods corev1.PodList
		must(t, s.List(ctx, &pods, client.InNamespace(ns)))
		for i := range pods.Items {
			owner := metav1.GetControllerOf(&pods.Items[i])
			if owner != nil && owner.Kind == "ReplicaSet" && pods.Items[i].Spec.NodeName == node {
				must(t, client.IgnoreNotFound(s.Delete(ctx, &pods.Items[i])))
			}
		}
		_, err := s.Run(ctx, "--namespace", ns, "wait", "deployment", "--all", "--for=condition=Available", "--timeout=2m")
		must(t, err)
	}
}

// onWorker is the pod of a member on a node without the API server.
func onWorker(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster) corev1.Pod {
	t.Helper()
	for _, p := range s.pods(ctx, t, c) {
		if p.Spec.NodeName != harness.ControlPlane {
			return p
		}
	}
	t.Fatal("all members are on the node of the API server")
	return corev1.Pod{}
}

func podOrdinal(p corev1.Pod) int { return int(p.Name[len(p.Name)-1] - '0') }
