package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

// Vitals counts how often it is asked for them, and fails while it is told to.
func (l *lazyClient) Vitals(ctx context.Context) (etcd.Vitals, error) {
	l.s.vitals.Add(1)
	if l.s.silent {
		return etcd.Vitals{}, errors.New("no metrics are served")
	}
	return l.c().Vitals(ctx)
}

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
			s := newStage(t, persistent())
			s.untilReady()
			s.silent = tc.silent
			op := s.newOperator()
			kind, ok := op.Kind.(*EtcdKind)
			if !ok {
				t.Fatalf("%T", op.Kind)
			}
			began := kind.Now()
			s.vitals.Store(0)
			pass := func(from, to int) {
				for i := from; i < to; i++ {
					kind.Now = func() time.Time { return began.Add(time.Duration(i) * 15 * time.Second) }
					if _, err := op.Reconcile(t.Context(), s.cluster()); err != nil {
						t.Fatal(err)
					}
				}
			}
			pass(0, 41) // Ten minutes.
			if got := s.vitals.Load(); got != 3*11 {
				t.Errorf("the metrics of three members were read %d times in ten minutes", got)
			}
			c := meta.FindStatusCondition(s.cluster().Status.Conditions, v1alpha1.ConditionPerformanceHealthy)
			if c == nil || c.Status != tc.want {
				t.Errorf("%+v", c)
			}
			if !meta.IsStatusConditionTrue(s.cluster().Status.Conditions, v1alpha1.ConditionReady) {
				t.Error("the cluster is not Ready")
			}
			before := s.writes
			pass(41, 120)
			if s.writes != before {
				t.Errorf("%d writes in 20 minutes of rest: %v", s.writes-before, s.log[len(s.log)-(s.writes-before):])
			}
		})
	}
}
