package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// TestRedisOutlivesItsMajorityUnderLoad kills primaries, with all that they had, until no vote can be had on who replaces them: the only
// one, and two of three.
func TestRedisOutlivesItsMajorityUnderLoad(t *testing.T) {
	for name, tc := range map[string]struct {
		shards int32
		killed []int
	}{
		"the only primary":       {1, []int{0}},
		"two primaries of three": {3, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c *v1alpha1.RedisCluster
			// Each shard takes its part of the writes.
			most := 3 * maxRedisLoss * len(tc.killed) / int(tc.shards)
			feature := features.New(name).
				Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
					c = s.redisOf(t, "carts", 1, func(r *v1alpha1.RedisClusterSpec) { r.Shards, r.Storage = tc.shards, nil })
					createReady(ctx, t, s, c)
				})).
				Assess("a process is killed", step(func(ctx context.Context, t *testing.T, s *scope) {
					summary := underLoad(ctx, t, s, c, "process of a primary of "+name+" killed", func() {
						killProcess(ctx, t, s, primaryOf(ctx, t, s, c, 0), redisContainer)
					})
					bounded(t, summary.Lost, most)
				})).
				Assess("pods are killed", step(func(ctx context.Context, t *testing.T, s *scope) {
					var dead []*corev1.Pod
					for _, shard := range tc.killed {
						dead = append(dead, primaryOf(ctx, t, s, c, shard))
					}
					summary := underLoad(ctx, t, s, c, name+" killed", func() { killPods(ctx, t, s, dead...) })
					bounded(t, summary.Lost, most)
					wantTakeover(ctx, t, s)
				}))
			suite.Test(t, feature.Feature())
		})
	}
}

func bounded(t *testing.T, lost, most int) {
	t.Helper()
	if lost > most {
		t.Errorf("%d acknowledged writes are lost, more than the %d of one second", lost, most)
	}
}

// killPods deletes pods without letting their servers say goodbye, and waits until others have their names.
func killPods(ctx context.Context, t *testing.T, s *scope, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		must(t, s.KillProcess(ctx, p, redisContainer))
		must(t, s.Delete(ctx, p, client.GracePeriodSeconds(0)))
	}
	for _, p := range pods {
		_, err := s.WaitReborn(ctx, p, readyTimeout)
		must(t, err)
	}
}

// wantTakeover checks that a replica took over without a vote, and that it was said what may be lost.
func wantTakeover(ctx context.Context, t *testing.T, s *scope) {
	t.Helper()
	notes, err := s.notes(ctx, steps.ReasonElect)
	must(t, err)
	figure(t, "%s", strings.Join(notes, "; "))
	for _, note := range notes {
		if strings.Contains(note, "what was acknowledged later is lost") {
			return
		}
	}
	t.Error("no replica took over without a vote")
}
