package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/facts"
	redishistory "github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// standStill has a server take connections and answer none for so long. The others have missed it if it was for long enough.
func (f *fixture) standStill(name string, d time.Duration) {
	started := f.pod(name).Started
	f.silence(name, d, d > 10*time.Second)
	p := f.pod(name)
	p.Ready, p.Started, p.Hangs, p.HungFor = true, started, true, d
	if d <= f.Spec.NodeTimeout {
		f.views(id(name), func(peer *model.Peer) { peer.Failing = false })
	}
}

// replaced has the second copy of the first shard elected in the place of the first, which hangs.
func (f *fixture) replaced(d time.Duration) {
	f.handOver(0)
	f.standStill("c-0-0", d)
	f.views(id("c-0-0"), func(p *model.Peer) { p.Replica, p.PrimaryID, p.Slots = false, "", nil })
}

func TestNextWhenAServerOfTheModeReplicatedHangs(t *testing.T) {
	hangs := func(f *fixture, name string, d time.Duration) {
		f.hang(name)
		f.pod(name).Hangs, f.pod(name).HungFor, f.pod(name).Answered = true, d, true
	}
	for name, tc := range map[string]struct {
		spoil func(f *fixture)
		want  string
	}{
		"a replica":                             {func(f *fixture) { hangs(f, "c-0-2", facts.Hopeless); f.pod("c-0-0").Node.Connected = 1 }, "end c-0-2"},
		"a replica that its primary hears from": {func(f *fixture) { hangs(f, "c-0-2", facts.Hopeless); f.pod("c-0-0").Node.Connected = 2 }, "2 of 3 servers answer"},
		"one that has not answered yet":         {func(f *fixture) { hangs(f, "c-0-2", facts.Hopeless); f.pod("c-0-2").Answered = false }, "2 of 3 servers answer"},
		"a replica, for a moment":               {func(f *fixture) { hangs(f, "c-0-2", facts.Hopeless-1) }, "2 of 3 servers answer"},
		"the primary": {func(f *fixture) {
			hangs(f, "c-0-0", facts.Hopeless)
			f.lose(facts.Hopeless, "c-0-1", "c-0-2")
		}, "make c-0-2 copy c-0-1"},
		"the primary, which needed no replica": {func(f *fixture) {
			f.alone()
			hangs(f, "c-0-0", facts.Hopeless)
		}, "end c-0-0"},
		"the primary, which needed no replica, and one hears from it": {func(f *fixture) {
			f.alone()
			hangs(f, "c-0-0", facts.Hopeless)
			f.lose(time.Second, "c-0-1")
		}, "c-0-0 does not answer and had no replica in sync"},
		"the primary, and who answers was out of sync": {func(f *fixture) {
			hangs(f, "c-0-0", facts.Hopeless)
			f.lose(time.Hour, "c-0-1")
			f.pod("c-0-1").Role = ""
			f.die("c-0-2")
		}, "end c-0-0"},
		"the same, before": {func(f *fixture) {
			hangs(f, "c-0-0", time.Minute)
			f.lose(time.Hour, "c-0-1")
			f.pod("c-0-1").Role = ""
			f.die("c-0-2")
		}, "c-0-0 does not answer, and nobody else is known to have all that it has: it is waited for as long as it runs; to have it started anew, delete its pod, and keep its claim; it is ended when"},
		"the primary, and all others were started anew": {func(f *fixture) {
			hangs(f, "c-0-0", facts.Hopeless)
			f.starts("c-0-1", 7)
			f.starts("c-0-2", 7)
		}, "end c-0-0"},
		"the primary, without storage": {func(f *fixture) {
			f.Spec.Persistent = false
			f.alone()
			hangs(f, "c-0-0", facts.Hopeless)
		}, "c-0-0 does not answer and had no replica in sync"},
		"the primary, and nobody answers": {func(f *fixture) {
			f.alone()
			hangs(f, "c-0-0", facts.Hopeless)
			f.hang("c-0-1")
			f.hang("c-0-2")
		}, "c-0-0 does not answer and had no replica in sync"},
		"the primary, and another one that may have the newest data": {func(f *fixture) {
			hangs(f, "c-0-0", facts.Hopeless)
			f.starts("c-0-1", 7)
			hangs(f, "c-0-2", facts.Hopeless)
		}, "c-0-0 is gone, and c-0-2 may have the newest data but does not answer"},
		"a replica of a primary that is waited for": {func(f *fixture) {
			f.alone()
			f.die("c-0-0")
			hangs(f, "c-0-2", facts.Hopeless)
		}, "c-0-0 was the primary and does not run"},
		"one that may have the newest data": {func(f *fixture) {
			f.die("c-0-0")
			f.lose(time.Second, "c-0-1")
			hangs(f, "c-0-2", time.Hour)
		}, "c-0-0 is gone, and c-0-2 may have the newest data but does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			f := replicated()
			tc.spoil(f)
			plan := Next(f.State)
			got := plan.Message
			if plan.Step != nil {
				got = plan.Step.String()
			}
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("%s (%s)\nwant %s", got, plan.Message, tc.want)
			}
		})
	}
}

func TestHangsAreTimed(t *testing.T) {
	h, s := redishistory.Processes{}, formed()
	p := s.pod("c-1-1")
	look := func(after time.Duration, hangs, timedOut bool, want time.Duration) {
		t.Helper()
		s.Now = s.Now.Add(after)
		p.Hangs, p.TimedOut, p.HungFor, s.Ended = hangs, timedOut, 0, nil
		h.Watch(&s.State)
		if p.HungFor != want || p.Hangs != (hangs || want > 0 || (timedOut && !p.Ready)) {
			t.Errorf("it has hung for %s (%t), want %s", p.HungFor, p.Hangs, want)
		}
	}
	node := p.Node
	p.Node = nil
	look(0, true, true, 0)
	if p.Answered {
		t.Error("it has answered")
	}
	look(3*time.Second, true, true, 3*time.Second)
	p.Node = node
	look(0, false, false, 0)
	p.Node = nil
	look(0, true, true, 0)
	look(3*time.Second, true, true, 3*time.Second)
	if !p.Answered {
		t.Error("it has not answered")
	}
	look(redishistory.Inattention, true, true, 63*time.Second)
	look(time.Second, false, true, 64*time.Second)  // Its queue is full.
	look(redishistory.Inattention+1, true, true, 0) // Nobody has looked for a while.
	look(3*time.Second, true, true, 3*time.Second)
	look(3*time.Second, false, false, 0)
	look(3*time.Second, false, true, 0) // Nobody could connect.
	p.Ready = false
	look(3*time.Second, false, true, 0) // Nor could the kubelet.
	look(3*time.Second, false, true, 3*time.Second)
	p.Ready = true
	look(3*time.Second, false, false, 0)
	look(3*time.Second, true, true, 0)
	p.Started = s.Now // Another process.
	look(3*time.Second, true, true, 0)
	if p.Answered {
		t.Error("it has answered, too")
	}
	look(3*time.Second, true, true, 3*time.Second)
	p.UID = "another"
	look(3*time.Second, true, true, 0)
	if want := (model.Ending{Pod: "c-1-1", For: 3 * time.Second}); len(s.Ended) != 1 || s.Ended[0] != want {
		t.Errorf("ended: %v", s.Ended)
	}
	look(redishistory.Inattention, true, true, redishistory.Inattention)
	if len(s.Ended) != 0 || len(h) != len(s.Pods) {
		t.Errorf("ended: %v, %d remembered", s.Ended, len(h))
	}
}

// TestAServerThatHungAndEndedIsAwaited: it was silent for long before it ended, and its disk has what no replica has.
func TestAServerThatHungAndEndedIsAwaited(t *testing.T) {
	succeeds := steps.TakeOver{Shard: 0, PrimaryID: id("c-0-0"), To: "c-0-1"}
	ended := func(f *fixture, ago time.Duration) {
		f.silence("c-0-0", 92*time.Second, false)
		f.pod("c-0-0").Unready = now.Add(-ago)
	}
	gone := func(f *fixture, ago time.Duration) {
		f.silence("c-0-0", 92*time.Second, false)
		f.drop("c-0-0")
		f.Ended = []model.Ending{{Pod: "c-0-0", For: ago}}
	}
	for name, tc := range map[string]row{
		"its pod has been made anew": {state: single(), spoil: func(f *fixture) { ended(f, 29*time.Second) }, reason: ReasonElection, message: "c-0-1 takes over when that has lasted for 30s"},
		"for too long": {
			state: single(), spoil: func(f *fixture) { ended(f, 30*time.Second); f.pod("c-0-1").Node.LinkDown = time.Minute }, step: succeeds,
		},
		"its pod is about to be":  {state: single(), spoil: func(f *fixture) { gone(f, time.Second) }, reason: ReasonElection},
		"and is not":              {state: single(), spoil: func(f *fixture) { gone(f, 30*time.Second) }, step: succeeds},
		"a pod that did not hang": {state: single(), spoil: func(f *fixture) { gone(f, time.Second); f.Ended = nil }, step: succeeds},
	} {
		t.Run(name, tc.Check)
	}
}
