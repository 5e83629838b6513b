package etcdcluster

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/controllers/reconcile"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/controllersim"
)

// A new operator looks at a settled cluster every 15 seconds: it reads metrics once a minute, and writes the status once it knows enough.
func TestMetricsOfMembersAreReadSeldomAndCostNoWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		silent bool
		want   metav1.ConditionStatus
	}{
		"read":   {false, metav1.ConditionTrue},
		"silent": {true, metav1.ConditionUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, controllersim.Persistent())
			s.UntilReady()
			s.Silent = tc.silent
			pass := func(op *reconcile.Loop[*v1alpha1.EtcdCluster, model.State], from, to int) {
				kind, ok := op.Kind.(*Reconciler)
				if !ok {
					t.Fatalf("%T", op.Kind)
				}
				for i := from; i < to; i++ {
					kind.Now = func() time.Time {
						return time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * 15 * time.Second)
					}
					if _, err := op.Reconcile(t.Context(), s.Cluster()); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.Vitals.Store(0)
			op := s.NewOperator()
			pass(op, 0, 41) // Ten minutes.
			if got := s.Vitals.Load(); got != 3*11 {
				t.Errorf("the metrics of three members were read %d times in ten minutes", got)
			}
			c := meta.FindStatusCondition(s.Cluster().Status.Conditions, v1alpha1.ConditionPerformanceHealthy)
			if c == nil || c.Status != tc.want {
				t.Errorf("%+v", c)
			}
			if !meta.IsStatusConditionTrue(s.Cluster().Status.Conditions, v1alpha1.ConditionReady) {
				t.Error("the cluster is not Ready")
			}
			before := s.Writes
			pass(op, 41, 120)
			if s.Writes != before {
				t.Errorf("%d writes in 20 minutes of rest: %v", s.Writes-before, s.Log[len(s.Log)-(s.Writes-before):])
			}
			told := s.Kinds["status"]
			if pass(s.NewOperator(), 120, 160); s.Kinds["status"] != told {
				t.Error("an operator that begins takes back what the one before it said")
			}
		})
	}
}

func TestWhatWasSaidOfMembersThatSleptDoesNotHold(t *testing.T) {
	t.Parallel()
	s := newStage(t, controllersim.Persistent())
	s.Silent = true
	s.UntilReady()
	for _, reason := range []string{cluster.ReasonNothingFound, cluster.ReasonHibernated} {
		kind := s.NewOperator().Kind.(*Reconciler) //nolint:forcetypeassert // The stage has no other.
		o := s.Cluster()
		meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionPerformanceHealthy, Status: metav1.ConditionUnknown, Reason: reason})
		state, err := kind.Observe(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if held := state.Anomalies.Begins; held != (reason != cluster.ReasonHibernated) {
			t.Errorf("an operator that begins lets %s stand: %t", reason, held)
		}
	}
}
