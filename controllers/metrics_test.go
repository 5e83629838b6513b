package controllers

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/metrics"
	"github.com/quorate/quorate/test/controllersim"
	"github.com/quorate/quorate/test/controllersim/kinds"
)

// A cluster that was brought up from nothing has left its traces in the metrics, and a scrape reads what the cache has.
func TestTheLoopCountsWhatItDoes(t *testing.T) {
	s := kinds.NewEtcd(t, controllersim.Persistent())
	m := metrics.New(metrics.Options{
		Version: "test", Leads: func() bool { return true }, Now: time.Now, Ahead: func() (time.Duration, bool) { return 0, false },
		List: func(ctx context.Context) (metrics.Objects, error) { return objects(ctx, s.Cache) },
	})
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(m); err != nil {
		t.Fatal(err)
	}
	op := s.NewOperator()
	op.Name, op.Metrics = string(v1alpha1.KindEtcdCluster), m
	for passes := 0; !meta.IsStatusConditionTrue(s.Cluster().Status.Conditions, v1alpha1.ConditionReady); passes++ {
		if _, err := op.Reconcile(t.Context(), s.Cluster()); err != nil || passes > 60 {
			t.Fatalf("not ready after %d passes: %v", passes, err)
		}
		s.Kubelet()
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	steps, values := map[string]float64{}, map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range one.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "quorate_steps_total" && labels["result"] == "Done" {
				steps[labels["step"]] = one.GetCounter().GetValue()
			}
			values[strings.Join(append([]string{f.GetName()}, slices.Sorted(maps.Values(labels))...), " ")] = one.GetGauge().GetValue()
		}
	}
	if steps["Bootstrapping"] != 1 || steps["EnablingAuth"] != 1 || steps["LettingClientsIn"] != 1 {
		t.Errorf("steps that were counted: %v", steps)
	}
	want := map[string]float64{
		"quorate_condition EtcdCluster Ready default orders": 1, "quorate_plan_reason EtcdCluster Settled default orders": 1,
		"quorate_etcd_quorum_margin EtcdCluster default orders": 1, "quorate_members_ready EtcdCluster Follower default orders": 2,
	}
	got := map[string]float64{}
	for k := range want {
		got[k] = values[k]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A manager that serves no metrics would remember every cluster that ever was.
func TestWithoutMetricsNothingIsRemembered(t *testing.T) {
	if m, err := measure(nil, Options{}); m != nil || err != nil {
		t.Errorf("%v, %v", m, err)
	}
}
