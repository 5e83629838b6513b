package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

func TestWhatFollowsFromTheLimitOfMemory(t *testing.T) {
	for _, tc := range []struct{ limit, backlog, most int64 }{
		{64 << 20, 2 << 20, 48758784},
		{1 << 30, 10737418, 797253303},
		{4 << 30, 42949672, 3189013218},
		{64 << 30, 256 << 20, 51338280960},
		{0, 0, 0},
	} {
		backlog := config.DerivedBacklog(tc.limit)
		if got := config.DerivedMaxMemory(tc.limit, backlog); backlog != tc.backlog || got != tc.most {
			t.Errorf("a limit of %d leaves a backlog of %d and %d for data, want %d and %d", tc.limit, backlog, got, tc.backlog, tc.most)
		}
	}
	for used := int64(1 << 20); used < 1<<40; used = used*5/4 + 7 {
		limit := facts.LimitFor(used)
		if room := config.DerivedMaxMemory(limit, config.DerivedBacklog(limit)); float64(used) > float64(room)*facts.Headroom || limit > 2*used+(2<<20) {
			t.Fatalf("for %d the limit of %d is suggested, which leaves %d for data", used, limit, room)
		}
	}
}

// limited1Gi is a settled cluster whose servers have a limit of 1 GiB, and what follows from it.
func limited1Gi() *fixture {
	f := formed()
	f.Spec.MemoryLimit = 1 << 30
	f.Spec.Live = map[string]string{"maxmemory-policy": "noeviction"}
	for i := range f.Pods {
		p := &f.Pods[i]
		p.MemoryLimit = 1 << 30
		p.Node.Config = map[string]string{model.MaxMemory: "797253303", model.BacklogSize: "10737418", "maxmemory-policy": "noeviction"}
		p.Node.Memory = model.Memory{Used: 100 << 20, Resident: 120 << 20, Empty: 1 << 20, Max: 797253303}
	}
	return f
}

// has is what a server has set.
func (f *fixture) has(pod, most, backlog string) {
	n := f.pod(pod).Node
	n.Config[model.MaxMemory], n.Config[model.BacklogSize], n.Memory.Max = most, backlog, model.ParseNumber(most)
}

func told(pod string, values ...string) cluster.Step {
	m := map[string]string{}
	for i := 0; i < len(values); i += 2 {
		m[values[i]] = values[i+1]
	}
	return steps.Configure{Pods: []steps.PodSettings{{Pod: pod, Values: m}}}
}

func TestMemoryHealthySaysWhoHasTooMuch(t *testing.T) {
	condition := func(f *fixture) metav1.Condition {
		return *meta.FindStatusCondition(Conditions(f.State, Next(f.State), nil), v1alpha1.ConditionMemoryHealthy)
	}
	f := limited1Gi()
	if c := condition(f); c.Status != metav1.ConditionTrue || c.Reason != ReasonMemoryFits {
		t.Errorf("with room: %v", c)
	}
	f.has("c-0-0", "0", "10737418")
	f.pod("c-0-0").Node.Memory.Used = 800 << 20
	c := condition(f)
	want := "c-0-0 use more than the maxmemory of 760 MiB that they are to have, and keep what they have: raise spec.resources.limits.memory to 1280 MiB, or spec.config.maxMemory"
	if c.Status != metav1.ConditionFalse || c.Reason != ReasonOverfull || c.Message != want {
		t.Errorf("without: %v", c)
	}
	f.pod("c-0-0").Node.Memory.Used += 100 << 10
	if again := condition(f); fmt.Sprint(again) != fmt.Sprint(c) {
		t.Errorf("a few keys more change the message: %v", again)
	}
	if p := Next(f.State); !p.Settled() {
		t.Errorf("an overfull server alone leaves the cluster as it is: %v", p)
	}
	f = formed()
	f.Spec.Live = map[string]string{model.MaxMemory: "0"}
	if c := condition(f); c.Reason != ReasonNoMemoryLimit {
		t.Errorf("without a limit: %v", c)
	}
}

func TestTimeoutHealthyWarnsOfLongForks(t *testing.T) {
	for name, tc := range map[string]struct {
		state  *fixture
		fork   time.Duration
		status metav1.ConditionStatus
		says   string
	}{
		"short": {formed(), 2400 * time.Millisecond, metav1.ConditionTrue, "forks of servers are short"},
		"long": {
			formed(), 2618 * time.Millisecond, metav1.ConditionFalse,
			"the last fork of c-0-1 took 2.62s, during which it answers nobody, and the others call it failed after 5s: set spec.config.nodeTimeout to 8s or more, or divide the data among more shards",
		},
		"long, where there are no shards": {
			replicated(), 2618 * time.Millisecond, metav1.ConditionFalse,
			"the last fork of c-0-1 took 2.62s, during which it answers nobody, and a primary that is silent for 5s takes no writes and is replaced: set spec.config.nodeTimeout to 8s or more, or keep less data",
		},
	} {
		f := tc.state
		f.pod("c-0-1").Node.Fork = tc.fork
		c := *meta.FindStatusCondition(Conditions(f.State, Next(f.State), nil), v1alpha1.ConditionTimeoutHealthy)
		if c.Status != tc.status || !strings.HasPrefix(c.Message, tc.says) {
			t.Errorf("%s: %v", name, c)
		}
	}
}
