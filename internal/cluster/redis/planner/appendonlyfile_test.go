package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/anomaly"
	redishistory "github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

func TestAServerWhoseClockIsPutBackKeepsItsLog(t *testing.T) {
	s, seen := formed(), redishistory.Processes{}
	s.Spec.Live = map[string]string{model.AppendFsync: model.EverySecond}
	p := s.pod("c-1-1")
	p.Node.Config = map[string]string{model.AppendFsync: model.EverySecond}
	p.Node.Clock = s.Now
	look := func(what string, ahead time.Duration, size int64, want string) {
		t.Helper()
		p.Clock, p.Node.Log = anomaly.Clock{Server: p.Name, Least: ahead - 100*time.Millisecond, Most: ahead}, size
		seen.Watch(&s.State)
		plan := Next(s.State)
		got := ""
		switch c := plan.Step.(type) {
		case steps.Configure:
			got = c.Pods[0].Pod + " " + c.Pods[0].Values[model.AppendFsync]
			p.Node.Config[model.AppendFsync] = c.Pods[0].Values[model.AppendFsync]
		case steps.KeepLogs:
			got = c.Pods[0] + " " + model.FsyncAlways
			p.Node.Config[model.AppendFsync] = model.FsyncAlways
			if !strings.Contains(plan.Message, "the clock of c-1-1 was put back") {
				t.Errorf("%s: %s", what, plan.Message)
			}
			if !plan.Step.Meta().Repair {
				t.Errorf("%s: it is no repair", what)
			}
		}
		if got != want {
			t.Errorf("%s: %q is told, and not %q", what, got, want)
		}
	}
	look("at first", time.Hour, 100, "")
	look("as before", time.Hour, 100, "")
	look("slowly", time.Hour-time.Second, 100, "")
	look("put back", 0, 100, "c-1-1 always")
	look("nothing is written", 0, 100, "")
	look("and still not", 0, 100, "")
	look("the log is rewritten", 0, 20, "")
	look("it has written", 0, 21, "c-1-1 everysec")
	look("it goes on", 0, 30, "")
	look("put forward", time.Hour, 40, "")

	look("put back again", 0, 40, "c-1-1 always")
	p.Node.Config[model.AppendFsync] = model.EverySecond
	look("somebody tells it otherwise", 0, 50, "c-1-1 always")
	look("which begins anew", 0, 60, "")
	look("put back once more", -time.Hour, 65, "")
	look("which begins anew as well", -time.Hour, 65, "")
	look("it has written", -time.Hour, 70, "c-1-1 everysec")

	p.Node.Clock = time.Time{}
	look("it does not say what time it is", -10*time.Hour, 70, "")
	p.Node.Clock = s.Now
	look("put forward", time.Hour, 70, "")
	p.Started = p.Started.Add(time.Minute)
	look("another process counts anew", 0, 80, "")
	look("a log that cannot be written is left alone", -time.Hour, 0, "")
	look("until it can", -time.Hour, 10, "c-1-1 always")
	look("as is", -time.Hour, 10, "")
	look("one that cannot be written any more", -time.Hour, 0, "c-1-1 everysec")
	look("can be", -time.Hour, 10, "c-1-1 always")
	p.Node.Config[model.NoFsyncOnRewrite], p.Node.Forked = "yes", true
	look("a child writes as well", -time.Hour, 20, "")
	look("and still does", -time.Hour, 30, "")
	p.Node.Config[model.NoFsyncOnRewrite] = "no"
	look("which is nothing to it", -time.Hour, 30, "")
	look("now", -time.Hour, 40, "c-1-1 everysec")

	p.Node.Forked = false
	look("put back", -2*time.Hour, 40, "c-1-1 always")
	clear(seen)
	look("the next operator goes on", -2*time.Hour, 40, "")
	look("until it has written", -2*time.Hour, 50, "c-1-1 everysec")

	s.Spec.Live[model.AppendFsync], p.Node.Config[model.AppendFsync] = "no", "no"
	look("put back", -3*time.Hour, 90, "")
	s.Spec.Live[model.AppendFsync] = model.EverySecond
	look("it is not remembered", -3*time.Hour, 90, "c-1-1 everysec")
}
