package e2e

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/quorate/quorate/api/v1alpha1"
)

// TestAnOperatorWithAWrongClock makes certificates, and connects by them, while the operator's time of day is wrong. Those that it issued by that would be
// valid an hour later, and those that there are would not be valid yet.
func TestAnOperatorWithAWrongClock(t *testing.T) {
	var c *v1alpha1.EtcdCluster
	feature := features.New("the clock of the operator's machine is wrong").
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

// skewManagers gives all managers another time of day, until what it returns is called.
func (s *scope) skewManagers(ctx context.Context, t *testing.T, by time.Duration) (end func()) {
	t.Helper()
	pods, err := s.ManagerPods(ctx)
	must(t, err)
	var ends []func(context.Context) error
	for i := range pods {
		end, err := s.Skew(ctx, &pods[i], "manager", by)
		must(t, err)
		ends = append(ends, end)
	}
	return func() {
		for _, end := range ends {
			if err := end(context.WithoutCancel(ctx)); err != nil {
				t.Errorf("put the clock right: %v", err)
			}
		}
	}
}

// wantAhead asks a manager how far its machine's clock is ahead.
func wantAhead(ctx context.Context, t *testing.T, s *scope, token string, want time.Duration) {
	t.Helper()
	_, text, err := s.metrics(ctx, token)
	must(t, err)
	got, err := metricValue(text, "quorate_clock_ahead_seconds")
	must(t, err)
	if off := time.Duration(got*float64(time.Second)) - want; off.Abs() > 2*time.Second {
		t.Errorf("quorate_clock_ahead_seconds is %g, and the clock is %s ahead", got, want)
	}
}
