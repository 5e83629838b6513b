package e2e

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/harness"
)

const (
	// killEvery is how often the operator's pod is deleted. That is time to take over the lease and for a few steps.
	killEvery = 3 * time.Second
	// killFor bounds the killing: a cluster must become as specified in spite of it, or soon afterwards.
	killFor = 45 * time.Second
)

func TestAScaleOutlivesItsOperators(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	feature := features.New("the operator is killed all the time").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c = s.etcdOf(t, "orders", 1)
			createReady(ctx, t, s, c)
		})).
		Assess("while one member becomes three", step(func(ctx context.Context, t *testing.T, s *scope) {
			kills := 0
			summary := underLoad(ctx, t, s, c, "scale 1 to 3 while the operator is killed", func() {
				_, err := s.Run(ctx, "--namespace", s.ns, "scale", "etcdcluster", c.Name, "--replicas=3")
				must(t, err)
				for end := time.Now().Add(killFor); time.Now().Before(end) && refresh(ctx, t, s, c).Status.Size < 3; kills++ {
					endManagers(ctx, t, s)
					rest(ctx, killEvery)
				}
			})
			figure(t, "the operator was killed %d times, and etcd then had %d members", kills, c.Status.Size)
			nothingLost(t, summary)
			noErrors(t, summary)
			wantSize(ctx, t, s, c, 3)
		}))
	suite.Test(t, feature.Feature())
}

// endManagers deletes the operator's pods. They let go of the lease: one that is killed without a word holds it for 15 s.
func endManagers(ctx context.Context, t *testing.T, s *scope) {
	t.Helper()
	pods, err := s.ManagerPods(ctx)
	must(t, err)
	for i := range pods {
		must(t, client.IgnoreNotFound(s.Delete(ctx, &pods[i])))
	}
}

// TestAnUpdateOfTheOperatorRestartsNoPod replaces the operator, by itself and by one of another image, under clusters with load.
func TestAnUpdateOfTheOperatorRestartsNoPod(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	var r *v1alpha1.RedisCluster
	feature := features.New("an update of the operator").
		Setup(step(func(ctx context.Context, t *testing.T, s *scope) {
			c, r = s.etcdOf(t, "orders", 3), s.redisOf(t, "carts", 0)
			s.create(ctx, t, c)
			s.create(ctx, t, r)
			waitReady(ctx, t, s, c)
			waitReady(ctx, t, s, r)
		})).
		Assess("to the same image", step(func(ctx context.Context, t *testing.T, s *scope) {
			untouched(ctx, t, s, c, r, "rolling update of the operator", func() { must(t, s.RestartOperator(ctx)) })
		})).
		Assess("to another image", step(func(ctx context.Context, t *testing.T, s *scope) {
			was, err := s.OperatorImage(ctx)
			must(t, err)
			defer func() { must(t, s.InstallOperator(context.WithoutCancel(ctx), was)) }()
			other := was + "-renamed"
			must(t, s.Rename(ctx, was, other))
			untouched(ctx, t, s, c, r, "update of the operator to another image", func() { must(t, s.InstallOperator(ctx, other)) })
		}))
	suite.Test(t, feature.Feature())
}

// untouched replaces the operator while a writer runs, and sees every pod live on and no write fail.
func untouched(ctx context.Context, t *testing.T, s *scope, c *v1alpha1.EtcdCluster, r *v1alpha1.RedisCluster, what string, replace func()) {
	t.Helper()
	before := incarnations(s.pods(ctx, t, c), s.pods(ctx, t, r))
	summary := underLoad(ctx, t, s, c, what, func() {
		replace()
		rest(ctx, settleTime) // The new operator leads, and has looked at everything.
	})
	nothingLost(t, summary)
	if summary.Failed > 0 || summary.Unknown > 0 {
		t.Errorf("%d writes failed and %d got no answer: %s", summary.Failed, summary.Unknown, summary.Misses)
	}
	waitReady(ctx, t, s, r)
	after := incarnations(s.pods(ctx, t, c), s.pods(ctx, t, r))
	for name, was := range before {
		if is, there := after[name]; !there || is != was {
			t.Errorf("%s has begun another life: %+v, then %+v", name, was, is)
		}
	}
	if len(before) == 0 || len(before) != len(after) {
		t.Errorf("there were %d pods, and are %d", len(before), len(after))
	}
}

// incarnations are the present lives of pods, by name.
func incarnations(lists ...[]corev1.Pod) map[string]harness.Incarnation {
	out := map[string]harness.Incarnation{}
	for _, pods := range lists {
		for i := range pods {
			out[pods[i].Name] = harness.IncarnationOf(&pods[i])
		}
	}
	return out
}
