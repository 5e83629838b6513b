package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/clock"
	"github.com/quorate/quorate/test/harness"
)

// TestAnOperatorWhoseClockIsPutWrong makes certificates, and connects by them, while the operator's time of day is wrong. Those that it issued by that would be
// valid an hour later, and those that there are would not be valid yet.
func TestAnOperatorWhoseClockIsPutWrong(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	feature := features.New("the clock of the operator's machine is put wrong").
		Setup(step(func(_ context.Context, t *testing.T, s *scope) { c = s.etcdOf(t, "orders", 1) })).
		Assess("an hour ahead, a cluster becomes Ready", step(func(ctx context.Context, t *testing.T, s *scope) {
			defer s.skewManagers(ctx, t, time.Hour)()
			createReady(ctx, t, s, c)
			writeMarks(ctx, t, s, c)
		})).
		Assess("an hour behind, it grows", step(func(ctx context.Context, t *testing.T, s *scope) {
			defer s.skewManagers(ctx, t, -time.Hour)()
			c.Spec.Size = 3
			must(t, s.Update(ctx, c))
			waitReady(ctx, t, s, c)
			wantSize(ctx, t, s, c, 3)
			checkMarks(ctx, t, s, c)
		})).
		Assess("and the metrics say how wrong it was", step(func(ctx context.Context, t *testing.T, s *scope) {
			reader := s.token(ctx, t, "reader", true)
			wantAhead(ctx, t, s, reader, 0)
			defer s.skewManagers(ctx, t, time.Hour)()
			wantAhead(ctx, t, s, reader, time.Hour)
		}))
	suite.Test(t, feature.Feature())
}

// skewManagers gives all managers another time of day, until what it returns is called. They are the same ones then.
func (s *scope) skewManagers(ctx context.Context, t *testing.T, by time.Duration) (end func()) {
	t.Helper()
	pods, err := s.ManagerPods(ctx)
	must(t, err)
	ends := func() {}
	t.Cleanup(func() { ends() })
	for i := range pods {
		end, err := s.Skew(ctx, &pods[i], "manager", by)
		if end != nil {
			others := ends
			ends = func() {
				others()
				if err := end(context.WithoutCancel(ctx)); err != nil {
					t.Errorf("put the clock of %s right: %v", pods[i].Name, err)
				}
			}
		}
		must(t, err)
	}
	return func() {
		ends()
		ends = func() {}
		after, err := s.ManagerPods(ctx)
		if err != nil {
			t.Error(err)
		}
		is := incarnations(after)
		for name, was := range incarnations(pods) {
			if is[name] != was {
				t.Errorf("%s has begun another life: %+v, then %+v", name, was, is[name])
			}
		}
	}
}

// wantAhead asks a manager how far its machine's clock is ahead.
func wantAhead(ctx context.Context, t *testing.T, s *scope, token string, want time.Duration) {
	t.Helper()
	must(t, harness.Eventually(ctx, "the manager to notice its clock", time.Minute, func(ctx context.Context) (bool, string, error) {
		_, page, err := s.metrics(ctx, token)
		if err != nil {
			return false, "", err
		}
		got, err := metricValue(page, "quorate_clock_ahead_seconds")
		text := fmt.Sprintf("quorate_clock_ahead_seconds is %g, and the clock is %s ahead", got, want)
		return err == nil && (time.Duration(got*float64(time.Second))-want).Abs() <= clock.Tolerance, text, err
	}))
}
