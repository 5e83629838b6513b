package planner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
	redishistory "github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// do makes of a fixture what a step makes of a cluster.
func (f *fixture) do(t *testing.T, step cluster.Step) {
	t.Helper()
	switch s := step.(type) {
	case steps.Appoint:
		f.Appointed, f.Candidate = s.Appointment, s.Candidate
	case steps.AssignRoles:
		for _, l := range s.Pods {
			f.pod(l.Pod.Name).Role = l.Role
		}
	case steps.GuardWrites:
		f.pod(s.Pod).Node.Config[model.WriteGuard] = fmt.Sprint(s.Replicas)
	case steps.Promote:
		f.leads(s.Pod)
		r := f.pod(s.Pod).Node.Replication
		f.pod(s.Pod).Node.Replication = &model.Replication{Primary: true, ID: "next", FormerID: r.ID}
		f.pod(s.Pod).Node.Config[model.WriteGuard] = "0"
	case steps.HandOver:
		was := f.pod(s.From).Node.Replication.ID
		f.leads(s.To)
		f.pod(s.To).Node.Replication = &model.Replication{Primary: true, ID: "next", FormerID: was}
		f.follows(s.From, s.To)
	case steps.End:
		f.pod(s.Pods[0].Name).Deleting, f.pod(s.Pods[0].Name).EndsSoon = true, true
	default:
		t.Fatalf("unexpected step %s", step)
	}
}

// steps are the next n steps, and how long is waited for in between: each is decided by what is seen of those before it.
func (f *fixture) steps(t *testing.T, n int) (out []string) {
	t.Helper()
	for len(out) < n {
		p := Next(f.State)
		if p.Step == nil {
			out = append(out, fmt.Sprintf("wait %s", p.After))
			f.Now = f.Now.Add(p.After)
			continue
		}
		out = append(out, p.Step.String())
		switch p.Step.(type) {
		case steps.Restart, steps.ScaleShards, steps.Follow:
			return out
		}
		f.do(t, p.Step)
	}
	return out
}

func TestChangesOfThePrimaryAreOneWriteAfterAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(f *fixture)
		want  []string
	}{
		"an outdated primary hands over": {func(f *fixture) { f.pod("c-0-0").Outdated = true }, []string{
			"have 1 replicas acknowledge the writes of c-0-1",
			"send clients to c-0-1, which c-0-0 is to hand over to",
			"wait 1s",
			"hand over from c-0-0 to c-0-1",
			"name c-0-1 the primary",
			`label c-0-0 "replica", c-0-1 "primary", c-0-2 ""`,
			"name c-0-1 the primary",
		}},
		"a primary that died is replaced": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(0, "c-0-1", "c-0-2")
		}, []string{
			"name c-0-1 the next primary",
			"promote c-0-1",
			"name c-0-1 the primary",
			`label c-0-0 "", c-0-1 "primary", c-0-2 ""`,
			"make c-0-2 copy c-0-1",
		}},
		"a former primary that hangs is ended before its label goes": {func(f *fixture) { f.replacedAfter(time.Hour) }, []string{
			"end c-0-0", `label c-0-0 "", c-0-1 "primary"`,
		}},
		"a former primary that hangs and has long to end is ended sooner": {func(f *fixture) {
			f.replacedAfter(time.Hour)
			f.pod("c-0-0").Deleting = true
		}, []string{"end c-0-0", `label c-0-0 "", c-0-1 "primary"`}},
		"the last replica restarts": {func(f *fixture) {
			f.Spec.Replicas, f.Sets[0].Replicas, f.Pods = 1, 2, f.Pods[:2]
			f.pod("c-0-1").Outdated = true
		}, []string{"name c-0-0 the primary", "have 0 replicas acknowledge the writes of c-0-0", "restart c-0-1"}},
		"all replicas leave": {func(f *fixture) { f.Spec.Replicas = 0 }, []string{
			"name c-0-0 the primary", "have 0 replicas acknowledge the writes of c-0-0", "scale shard 0 from 3 pods to 1",
		}},
		"a restart of the last replica is not wanted any more": {func(f *fixture) {
			f.Appointed.Guard, f.pod("c-0-0").Node.Config[model.WriteGuard] = 0, "0"
		}, []string{"have 1 replicas acknowledge the writes of c-0-0", "name c-0-0 the primary", "wait 5s"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := replicated()
			tc.spoil(f)
			if diff := cmp.Diff(tc.want, f.steps(t, len(tc.want))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAFormerPrimaryThatCannotBeEndedDoesNotKeepClientsWaiting(t *testing.T) {
	f := replicated()
	f.replacedAfter(time.Hour)
	p := Next(f.State)
	if want := cluster.Step(steps.AssignRoles{Pods: []steps.PodRole{{Pod: ref(f.pod("c-0-1")), Role: model.RolePrimary}}}); p.Fallback == nil || cmp.Diff(want, p.Fallback.Step) != "" {
		t.Errorf("%v: %+v", p.Step, p.Fallback)
	}
}

func TestWhatTheNextPrimaryNeedsIsWrittenDownBeforeItsClientsCome(t *testing.T) {
	f := replicated()
	f.pod("c-0-0").Outdated = true
	f.steps(t, 5)
	if want := (model.Appointment{Pod: "c-0-1", History: "next", Guard: 5 * time.Second}); f.Appointed != want || !f.Candidate.Planned() {
		t.Errorf("%+v is written down, and the Service leads to %+v", f.Appointed, f.Candidate)
	}
	if f.steps(t, 2); f.Candidate.Pod != "" {
		t.Errorf("the Service leads to %+v", f.Candidate)
	}
	f = replicated()
	f.Spec.Replicas = 0
	f.steps(t, 1)
	if want := (model.Appointment{Pod: "c-0-0", History: history, Guard: 0}); f.Appointed != want {
		t.Errorf("%+v", f.Appointed)
	}
}

// handingOver is a cluster whose primary is about to hand over to c-0-1 for a second.
func handingOver() *fixture {
	f := replicated()
	f.pod("c-0-0").Outdated = true
	f.pod("c-0-1").Node.Config[model.WriteGuard] = "1"
	f.Candidate = model.FailoverCandidate{Pod: "c-0-1", Since: f.Now.Add(-time.Second)}
	return f
}

func TestAHandOverThatWasBegunComesToAnEnd(t *testing.T) {
	const back = "name c-0-0 the primary|"
	for name, tc := range map[string]struct {
		spoil func(f *fixture)
		want  string
	}{
		"it goes on":                                {func(*fixture) {}, "hand over from c-0-0 to c-0-1|"},
		"it goes on when its cause is gone":         {func(f *fixture) { f.pod("c-0-0").Outdated = false }, "hand over from c-0-0 to c-0-1|"},
		"it goes on when another replica is better": {func(f *fixture) { f.pod("c-0-2").Node.Offset++ }, "hand over from c-0-0 to c-0-1|"},
		"it goes on long after the operator ended":  {func(f *fixture) { f.Candidate.Since = now.Add(-time.Hour) }, "hand over from c-0-0 to c-0-1|"},
		"it goes on after an earlier version":       {func(f *fixture) { f.Candidate.Since = time.Time{} }, "hand over from c-0-0 to c-0-1|"},
		"it goes on by a clock that is ahead":       {func(f *fixture) { f.Candidate.Since = now.Add(time.Hour) }, "hand over from c-0-0 to c-0-1|"},
		"some nodes may not know yet": {
			func(f *fixture) { f.Candidate.Since = now.Add(-400 * time.Millisecond) },
			"clients are sent to c-0-1 in a moment, and c-0-0 hands over to it then|",
		},
		"it failed":                      {func(f *fixture) { f.FailedHandOvers = model.FailedHandOvers{Count: 1, Last: now} }, back},
		"an earlier one failed":          {func(f *fixture) { f.FailedHandOvers = model.FailedHandOvers{Count: 1, Last: now.Add(-time.Minute)} }, "hand over from c-0-0 to c-0-1|"},
		"the candidate is gone":          {func(f *fixture) { f.Pods = slices.Delete(f.Pods, 1, 2) }, back},
		"the candidate does not answer":  {func(f *fixture) { f.hang("c-0-1") }, back},
		"the candidate is to end":        {func(f *fixture) { f.pod("c-0-1").Deleting = true }, back},
		"the candidate lost its primary": {func(f *fixture) { f.lose(0, "c-0-1") }, back},
		"the candidate started again":    {func(f *fixture) { f.starts("c-0-1", 10) }, back},
		"the primary died": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(0, "c-0-1", "c-0-2")
			f.pod("c-0-2").Node.Offset++
		}, "name c-0-2 the next primary|"},
		"the primary does not answer": {func(f *fixture) { f.hang("c-0-0") }, back},
		"neither of them answers":     {func(f *fixture) { f.hang("c-0-0"); f.hang("c-0-1") }, "c-0-0 does not answer, and may take writes until"},
		"it is over":                  {func(f *fixture) { f.do(t, steps.HandOver{From: "c-0-0", To: "c-0-1"}) }, "name c-0-1 the primary|"},
		"it is over and written down": {func(f *fixture) {
			f.do(t, steps.HandOver{From: "c-0-0", To: "c-0-1"})
			f.Appointed = model.Appointment{Pod: "c-0-1", History: "next", Guard: 5 * time.Second}
		}, `label c-0-0 "replica", c-0-1 "primary", c-0-2 ""|`},
		"it is over, written down, and the former primary cannot be read": {func(f *fixture) {
			f.do(t, steps.HandOver{From: "c-0-0", To: "c-0-1"})
			f.Appointed = model.Appointment{Pod: "c-0-1", History: "next", Guard: 0}
			f.hang("c-0-0")
		}, `label c-0-0 "", c-0-1 "primary", c-0-2 ""|`},
		"another server took over by hand, and the former primary hangs": {func(f *fixture) {
			f.leads("c-0-2")
			f.pod("c-0-2").Node.Replication = &model.Replication{Primary: true, ID: "next", FormerID: history}
			f.follows("c-0-1", "c-0-2")
			f.hang("c-0-0")
		}, "end c-0-0|"},
		"it is over and the candidate died": {func(f *fixture) {
			f.do(t, steps.HandOver{From: "c-0-0", To: "c-0-1"})
			f.die("c-0-1")
			f.lose(0, "c-0-0", "c-0-2")
			f.pod("c-0-0").Node.Replication = &model.Replication{ID: "next", FormerID: history}
		}, "name c-0-0 the next primary|"},
	} {
		t.Run(name, func(t *testing.T) {
			f := handingOver()
			tc.spoil(f)
			p := Next(f.State)
			got := p.Message
			if p.Step != nil {
				got = p.Step.String()
			}
			if !strings.HasPrefix(got+"|", tc.want) {
				t.Errorf("%s (%s)\nwant %s", got, p.Message, tc.want)
			}
		})
	}
}

func TestAServerThatIsToBePromotedMayNotHaveTo(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(f *fixture)
		want  string
	}{
		"the primary is back":                         {func(f *fixture) { f.pod("c-0-1").Node.LinkUp = true }, "name c-0-0 the primary|"},
		"the primary is back, and it does not answer": {func(f *fixture) { f.hang("c-0-1") }, "c-0-0 is gone, and c-0-1 may have the newest data"},
		"the primary is back, and it leads": {func(f *fixture) {
			f.do(t, steps.Promote{Pod: "c-0-1", History: history})
		}, "name c-0-1 the primary|"},
		"another one got further": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(0, "c-0-1", "c-0-2")
			f.pod("c-0-2").Node.Offset++
		}, "name c-0-2 the next primary|"},
		"it has another history": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(0, "c-0-1", "c-0-2")
			f.pod("c-0-1").Node.Replication = &model.Replication{ID: "other", FormerID: history}
		}, "name c-0-1 the next primary|"},
		"the primary hangs": {func(f *fixture) {
			f.hang("c-0-0")
			f.lose(9*time.Second, "c-0-1", "c-0-2")
			f.pod("c-0-2").Node.Asks = f.pod("c-0-1").Addr
		}, "promote c-0-1|"},
		"the primary hangs, and was heard of again": {func(f *fixture) {
			f.hang("c-0-0")
			f.lose(time.Second, "c-0-1", "c-0-2")
		}, "c-0-0 does not answer, and may take writes until"},
	} {
		t.Run(name, func(t *testing.T) {
			f := replicated()
			f.Candidate = model.FailoverCandidate{Pod: "c-0-1", History: history}
			tc.spoil(f)
			p := Next(f.State)
			got := p.Message
			if p.Step != nil {
				got = p.Step.String()
			}
			if !strings.HasPrefix(got+"|", tc.want) {
				t.Errorf("%s (%s)\nwant %s", got, p.Message, tc.want)
			}
		})
	}
}

func TestAHandOverThatFailsIsNotRepeatedImmediately(t *testing.T) {
	f := replicated()
	f.pod("c-0-0").Outdated = true
	step := steps.HandOver{From: "c-0-0", To: "c-0-1"}
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second} {
		redishistory.Note(&f.FailedHandOvers, steps.GuardWrites{}, nil, now)
		redishistory.Note(&f.FailedHandOvers, step, errors.New("it gave up"), now)
		if p := Next(f.State); p.Step != nil || p.After != want || p.Reason != steps.ReasonFailover {
			t.Errorf("%v after %s: %s", p.Step, p.After, p.Message)
		}
	}
	f.Now = now.Add(15 * time.Second)
	if p := Next(f.State); p.Step == nil {
		t.Errorf("%s after %s", p.Message, p.After)
	}
	if redishistory.Note(&f.FailedHandOvers, step, nil, now); f.FailedHandOvers.Count != 0 {
		t.Errorf("%+v", f.FailedHandOvers)
	}
}
