package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
	redishistory "github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

func TestWhoStoodForElectionIsNotElectedAgainForFourNodeTimeouts(t *testing.T) {
	stood := func(ago time.Duration) func(*fixture) {
		return func(f *fixture) {
			f.pod("c-1-0").Outdated = true
			f.pod("c-1-1").Stood = now.Add(-ago)
		}
	}
	for name, r := range map[string]row{
		"a rollout waits for the only replica and says so": {
			state: formed(), spoil: stood(15 * time.Second), reason: ReasonElection, message: "c-1-1 stood for election less than 21s ago (four node timeouts)",
		},
		"a rollout hands over once they have passed": {
			state: formed(), spoil: stood(21 * time.Second), step: steps.Failover{Shard: 1, From: "c-1-0", To: "c-1-1"},
		},
		"a shard whose primary is on a cordoned node waits": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-0").Cordoned = "is drained"; f.pod("c-1-1").Stood = now.Add(-time.Second) },
			reason: ReasonElection, message: "c-1-1 stood for election",
		},
	} {
		t.Run(name, r.Check)
	}
}

func TestAHandOverIsRememberedOfTheProcess(t *testing.T) {
	for name, step := range map[string]cluster.Step{
		"a planned hand-over": steps.Failover{Shard: 1, From: "c-1-0", To: "c-1-1"},
		"an election":         steps.Elect{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"},
	} {
		t.Run(name, func(t *testing.T) {
			f, seen := formed(), redishistory.Processes{}
			seen.Watch(&f.State)
			seen.Stand(step, now)
			seen.Watch(&f.State)
			got := []time.Time{f.pod("c-1-1").Stood, f.pod("c-1-0").Stood}
			if diff := cmp.Diff([]time.Time{now, {}}, got); diff != "" {
				t.Errorf("stood (-want +got):\n%s", diff)
			}
			f.pod("c-1-1").Started, f.pod("c-1-1").Stood = now.Add(time.Second), time.Time{}
			seen.Watch(&f.State)
			if got := f.pod("c-1-1").Stood; !got.IsZero() {
				t.Errorf("another process stood at %s", got)
			}
		})
	}
}

func TestAnElectionIsReadFromThePod(t *testing.T) {
	started := now.Add(-time.Hour)
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339Nano) }
	for name, tc := range map[string]struct {
		annotation string
		want       time.Time
	}{
		"none":                     {"", time.Time{}},
		"a moment ago":             {at(-time.Second), now.Add(-time.Second)},
		"of an earlier process":    {at(-2 * time.Hour), time.Time{}},
		"by a clock that is ahead": {at(time.Minute), time.Time{}},
		"what is no time":          {"yesterday", time.Time{}},
	} {
		if got := redishistory.LastElection(tc.annotation, started, now); !got.Equal(tc.want) {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	f, seen := formed(), redishistory.Processes{}
	f.pod("c-1-1").Stood = now.Add(-time.Second)
	seen.Watch(&f.State)
	if got := f.pod("c-1-1").Stood; !got.Equal(now.Add(-time.Second)) {
		t.Errorf("a restarted operator reads %s", got)
	}
}
