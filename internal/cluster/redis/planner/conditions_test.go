package planner

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/test/rows"
)

// conditionsRow is a state, or an error, and the conditions that tell it.
type conditionsRow struct {
	state *fixture
	spoil func(f *fixture)
	err   error
	want  result
}

// result has the status and the reason of each condition.
type result map[string]string

func (r conditionsRow) Check(t *testing.T) {
	t.Helper()
	if r.spoil != nil {
		r.spoil(r.state)
	}
	got := result{}
	for _, c := range Conditions(r.state.State, Next(r.state.State), r.err) {
		got[c.Type] = string(c.Status) + "/" + c.Reason
		if c.Message == "" {
			t.Errorf("%s has no message", c.Type)
		}
	}
	if diff := cmp.Diff(r.want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConditionsOfRunningServers(t *testing.T) {
	rows.Run(t, map[string]conditionsRow{
		"settled": {
			state: formed(),
			want: result{
				"Ready": "True/Settled", "Available": "True/Serving", "SlotsCovered": "True/AllSlotsCovered",
				"Reconciling": "False/Settled", "Stalled": "False/NotStalled",
				"MemoryHealthy": "True/NoLimit", "TimeoutHealthy": "True/ForksAreShort",
				"PerformanceHealthy": "Unknown/Unknown",
			},
		},
		"a replica out of sync does not stop anybody from writing": {
			state: formed(), spoil: func(f *fixture) { f.unlink("c-2-1") },
			want: result{
				"Ready": "False/WaitingForReplicas", "Available": "True/Serving", "SlotsCovered": "True/AllSlotsCovered",
				"Reconciling": "True/WaitingForReplicas", "Stalled": "False/NotStalled",
				"MemoryHealthy": "True/NoLimit", "TimeoutHealthy": "True/ForksAreShort",
				"PerformanceHealthy": "Unknown/Unknown",
			},
		},
		"a primary that does not answer": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-0").Node = nil },
			want: result{
				"Ready": "False/PodsUnreachable", "Available": "False/NotServing", "SlotsCovered": "True/AllSlotsCovered",
				"Reconciling": "True/PodsUnreachable", "Stalled": "False/NotStalled",
				"MemoryHealthy": "True/NoLimit", "TimeoutHealthy": "True/ForksAreShort",
				"PerformanceHealthy": "Unknown/Unknown",
			},
		},
		"nothing known": {
			state: formed(), spoil: func(f *fixture) {
				for i := range f.Pods {
					f.Pods[i].Node = nil
				}
			},
			want: result{
				"Ready": "False/StartingPods", "Available": "False/NotServing", "SlotsCovered": "Unknown/Unknown",
				"Reconciling": "True/StartingPods", "Stalled": "False/NotStalled",
				"MemoryHealthy": "Unknown/Unknown", "TimeoutHealthy": "Unknown/Unknown",
				"PerformanceHealthy": "Unknown/Unknown",
			},
		},
	})
}

func TestConditionsOfAPlan(t *testing.T) {
	rows.Run(t, map[string]conditionsRow{
		"not formed yet": {
			state: fresh(),
			want: result{
				"Ready": "False/SettingConfigEpochs", "Available": "False/NotServing", "SlotsCovered": "False/NotFormed",
				"Reconciling": "True/SettingConfigEpochs", "Stalled": "False/NotStalled",
				"MemoryHealthy": "True/NoLimit", "TimeoutHealthy": "True/ForksAreShort",
				"PerformanceHealthy": "Unknown/Unknown",
			},
		},
		"a human is needed": {
			state: formed(), spoil: func(f *fixture) { f.Spec.StorageChanged = true },
			want: result{
				"Ready": "False/StorageChangeUnsupported", "Available": "True/Serving", "SlotsCovered": "True/AllSlotsCovered",
				"Reconciling": "False/StorageChangeUnsupported", "Stalled": "True/StorageChangeUnsupported",
				"MemoryHealthy": "True/NoLimit", "TimeoutHealthy": "True/ForksAreShort",
				"PerformanceHealthy": "Unknown/Unknown",
			},
		},
		"an error": {
			state: formed(), err: errors.New("boom"),
			want: result{
				"Ready": "False/ReconcileError", "Available": "True/Serving", "SlotsCovered": "True/AllSlotsCovered",
				"Reconciling": "True/ReconcileError", "Stalled": "False/NotStalled",
				"MemoryHealthy": "True/NoLimit", "TimeoutHealthy": "True/ForksAreShort",
				"PerformanceHealthy": "Unknown/Unknown",
			},
		},
		"a refusal": {
			state: formed(), err: cluster.Refusal{Reason: "InvalidSpec", Message: "spec.config.extra: no"},
			want: result{
				"Ready": "False/InvalidSpec", "Available": "True/Serving", "SlotsCovered": "True/AllSlotsCovered",
				"Reconciling": "False/InvalidSpec", "Stalled": "True/InvalidSpec",
				"MemoryHealthy": "True/NoLimit", "TimeoutHealthy": "True/ForksAreShort",
				"PerformanceHealthy": "Unknown/Unknown",
			},
		},
	})
}

// TestStatusHoldsNothingThatMoves pins that traffic alone never changes the status.
func TestStatusHoldsNothingThatMoves(t *testing.T) {
	var before, after v1alpha1.RedisClusterStatus
	f := formed()
	Status(f.State, &before)
	for i := range f.Pods {
		f.Pods[i].Node.Offset += 1000
		f.Pods[i].Node.Keys++
	}
	Status(f.State, &after)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	want := v1alpha1.RedisShardStatus{
		Name: "c-0", Slots: "0-5461", Primary: "c-0-0", Nodes: []v1alpha1.RedisNodeStatus{
			{Name: "c-0-0", ID: id("c-0-0"), Role: v1alpha1.RedisPrimary, Ready: true, Version: "8.0.2"},
			{Name: "c-0-1", ID: id("c-0-1"), Role: v1alpha1.RedisReplica, Ready: true, Version: "8.0.2"},
		},
	}
	if diff := cmp.Diff(want, after.Shards[0]); diff != "" {
		t.Errorf("shard (-want +got):\n%s", diff)
	}
	if after.Ready != "6/6" || after.Slots != "16384/16384" || after.ShardCount != 3 || after.CurrentVersion != "8.0.2" {
		t.Errorf("status %+v", after)
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]software.Version{"8.0.2": {Major: 8, Patch: 2}, "7.2": {Major: 7, Minor: 2}, "8.0.2-bookworm": {Major: 8, Patch: 2}} {
		if got, err := software.ParseVersion(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "8", "latest", "8.x.1", "1.2.3.4", "8.-1.0"} {
		if v, err := software.ParseVersion(text); err == nil {
			t.Errorf("%q was read as %v", text, v)
		}
	}
}
