package e2e

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/e2e/load/ledger"
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
			summary := underLoad(ctx, t, s, c, "node of the leader drained", func() { drain(ctx, t, s, c, node) })
			nothingLost(t, summary)
			noErrors(t, summary)
		})).
		Assess("a node is lost for good", step(func(ctx context.Context, t *testing.T, s *scope) {
			victim := onWorker(ctx, t, s, c)
			was := memberID(refresh(ctx, t, s, c), podOrdinal(victim))
			summary := loseNode(ctx, t, s, c, victim, func() {}, func(c *v1alpha1.EtcdCluster) bool { return memberID(c, podOrdinal(victim)) != was })
			nothingLost(t, summary)
		}))
	suite.Test(t, feature.Feature())
}

// TestRedisOutlivesItsNodes drains the node of a primary, and then loses the node of most primaries for good, with the volumes that are
// local to it: the others cannot vote.
func TestRedisOutlivesItsNodes(t *testing.T) {
	var c *v1alpha1.RedisCluster
	feature := features.New("nodes").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.redisOf(t, "harbour", 1)
			createReady(ctx, t, s, c)
		})).
		Assess("the node of a primary is drained", step(func(ctx context.Context, t *testing.T, s *scope) {
			node := primaryOf(ctx, t, s, c, 0).Spec.NodeName
			summary := underLoad(ctx, t, s, c, "node of a primary drained", func() { drain(ctx, t, s, c, node) })
			nothingLost(t, summary)
			noErrors(t, summary)
			if n := s.events(ctx, t, string(steps.ReasonFailover)); n == 0 {
				t.Error("no shard was handed over before its primary was asked to go")
			}
		})).
		Assess("the node of most primaries is lost for good", step(func(ctx context.Context, t *testing.T, s *scope) {
			victim := onWorker(ctx, t, s, c)
			summary := loseNode(ctx, t, s, c, victim, func() { leadFrom(ctx, t, s, c, victim.Spec.NodeName) }, func(*v1alpha1.RedisCluster) bool {
				now := &corev1.Pod{}
				err := s.Get(ctx, client.ObjectKeyFromObject(&victim), now)
				return err == nil && now.UID != victim.UID && now.Spec.NodeName != "" && now.Spec.NodeName != victim.Spec.NodeName
			})
			boundedLoss(t, summary.Lost)
		}))
	suite.Test(t, feature.Feature())
}

// drain empties a node of the pods of a cluster, and lets others in again.
func drain[O target](ctx context.Context, t *testing.T, s *scope, o O, node string) {
	t.Helper()
	_, drained := s.Run(ctx, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data",
		"--pod-selector=app.kubernetes.io/instance="+o.GetName(), "--timeout=2m")
	_, err := s.Run(ctx, "uncordon", node)
	must(t, errors.Join(drained, err))
}

// leadFrom has all shards that have a server on a node be led from there.
func leadFrom(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.RedisCluster, node string) {
	t.Helper()
	leads := 0
	for _, p := range s.pods(ctx, t, c) {
		if p.Spec.NodeName != node {
			continue
		}
		if shard, err := strconv.Atoi(p.Labels[v1alpha1.LabelShard]); err != nil || primaryOf(ctx, t, s, c, shard).Name != p.Name {
			must(t, errors.Join(err, s.FailOver(ctx, c, p.Name)))
		}
		leads++
	}
	if 2*leads <= int(c.Spec.Shards) {
		t.Errorf("%d of %d shards are led from %s: the others can vote", leads, c.Spec.Shards, node)
	}
}

// loseNode stops the node of a pod, which runs nothing that the test or Kubernetes depend on, and sees the pod replaced. Something is done
// just before.
func loseNode[O target](ctx context.Context, t *testing.T, s *scope, c O, victim corev1.Pod, before func(), replaced func(O) bool) ledger.Summary {
	t.Helper()
	defer func() {
		ctx := context.WithoutCancel(ctx)
		must(t, s.StartNode(ctx, victim.Spec.NodeName))
		_, err := s.Run(ctx, "uncordon", victim.Spec.NodeName)
		must(t, err)
	}()
	must(t, s.Vacate(ctx, victim.Spec.NodeName))
	load := startLoad(ctx, t, s, c)
	before()
	must(t, s.StopNode(ctx, victim.Spec.NodeName))
	began := time.Now()
	must(t, harness.Until(ctx, s.Cluster, c, harness.Deadline{What: victim.Name + " elsewhere", Within: 3 * time.Minute}, func(c O) (bool, string) { return replaced(c), conditionText(c, v1alpha1.ConditionReconciling) }))
	waitReady(ctx, t, s, c)
	whole := time.Since(began)
	_, err := load.WaitAcked(ctx, 50, time.Minute)
	must(t, err)
	if whole > wholeAgain {
		t.Errorf("it took %s to replace the pod", whole.Round(time.Second))
	}
	return stopLoad(ctx, t, load, "node of %s lost: whole again after %.1f s; ", victim.Name, whole.Seconds())
}

// onWorker is a pod on a node without the API server: on that with the most.
func onWorker[O target](ctx context.Context, t *testing.T, s *scope, c O) (most corev1.Pod) {
	t.Helper()
	pods := map[string]int{}
	for _, p := range s.pods(ctx, t, c) {
		if p.Spec.NodeName == harness.ControlPlane {
			continue
		}
		if pods[p.Spec.NodeName]++; pods[p.Spec.NodeName] > pods[most.Spec.NodeName] {
			most = p
		}
	}
	if most.Name == "" {
		t.Fatal("all pods are on the node of the API server")
	}
	return most
}

func podOrdinal(p corev1.Pod) int { return int(p.Name[len(p.Name)-1] - '0') }
