package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextEndsAReplacedPrimaryThatHangs(t *testing.T) {
	end := func(name string) steps.End { return steps.End{Pods: []steps.PodRef{{Name: name, UID: "uid-" + name}}} }
	rows.Run(t, map[string]row{
		"a primary that others have replaced is ended immediately": {
			state: formed(), spoil: func(f *fixture) { f.replaced(11 * time.Second) },
			step: end("c-0-0"), message: "c-0-0 hangs, and others own its slots by now",
		},
		"a replaced primary is not ended at the first reconcile": {
			state: formed(), spoil: func(f *fixture) { f.replaced(11 * time.Second); f.pod("c-0-0").HungFor = 0 }, reason: ReasonUnreachable,
		},
		"a replaced primary that has been restarted and loads its data is not ended": {
			state: formed(), spoil: func(f *fixture) { f.replaced(11 * time.Minute); f.pod("c-0-0").Started = now.Add(-10 * time.Minute) },
			reason: ReasonUnreachable,
		},
		"a replaced primary that no server has heard since they were started is not ended": {
			state: formed(), spoil: func(f *fixture) {
				f.replaced(11 * time.Second)
				for i := range f.Pods {
					if f.Pods[i].Node != nil {
						f.Pods[i].Started = now.Add(-11 * time.Second)
					}
				}
			},
			reason: ReasonUnreachable,
		},
		"a server of a shard that is gone is not ended": {
			state: formed(), spoil: func(f *fixture) {
				f.Pods = append(f.Pods, model.Pod{Name: "c-7-0", UID: "uid-c-7-0", Shard: 7, Ready: true, Started: now.Add(-time.Hour), Hangs: true, HungFor: time.Minute})
			},
			reason: ReasonUnreachable,
		},
		"a replaced primary is not ended before all have missed it": {
			state: formed(), spoil: func(f *fixture) {
				f.replaced(11 * time.Second)
				f.tableOf("c-2-1", "c-0-0", func(p *model.Peer) { p.Failed = false })
			},
			reason: ReasonUnreachable,
		},
		"a primary is not ended while it owns some slots": {
			state: formed(), spoil: func(f *fixture) {
				f.replaced(11 * time.Second)
				f.views(id("c-0-1"), func(p *model.Peer) { p.Slots = slots.Set{{From: 1, To: 5461}} })
				f.views(id("c-0-0"), func(p *model.Peer) { p.Slots = slots.Set{{From: 0, To: 0}} })
			},
			reason: ReasonUnreachable,
		},
		"a primary is not ended when no server has heard that the majority missed it": {
			state: formed(), spoil: func(f *fixture) {
				f.replaced(11 * time.Second)
				f.views(id("c-0-0"), func(p *model.Peer) { p.Failed, p.Failing = false, true })
			},
			reason: ReasonUnreachable,
		},
		"a replaced primary that cannot be reached is not ended": {
			state: formed(), spoil: func(f *fixture) { f.replaced(30 * time.Minute); f.pod("c-0-0").Hangs = false }, reason: ReasonUnreachable,
		},
		"a replaced primary on a node that does not report is not ended": {
			state: formed(), spoil: func(f *fixture) { f.replaced(30 * time.Minute); f.pod("c-0-0").NodeLost = true }, reason: ReasonUnreachable,
		},
		"a replaced primary that is ending is not ended again": {
			state: formed(), spoil: func(f *fixture) { f.replaced(30 * time.Minute); f.pod("c-0-0").Deleting = true }, reason: ReasonUnreachable,
		},
	})
}

func TestNextEndsAServerThatHangsForLong(t *testing.T) {
	end := func(name string) steps.End { return steps.End{Pods: []steps.PodRef{{Name: name, UID: "uid-" + name}}} }
	rows.Run(t, map[string]row{
		"a replica is ended after a while": {
			state: formed(), spoil: func(f *fixture) { f.standStill("c-1-1", facts.Hopeless) },
			step: end("c-1-1"), message: "c-1-1 takes connections and has answered none for 1m30s, and nobody else hears of it",
		},
		"a replica that hangs is not ended before its time": {state: formed(), spoil: func(f *fixture) { f.standStill("c-1-1", facts.Hopeless-time.Second) }, reason: ReasonUnreachable},
		"a replica that hangs is not ended while a server hears it": {
			state: formed(), spoil: func(f *fixture) {
				f.standStill("c-1-1", facts.Hopeless)
				f.tableOf("c-2-1", "c-1-1", func(p *model.Peer) { p.Failed = false })
			},
			reason: ReasonUnreachable,
		},
		"a replica that hangs is not ended while a node is heard that may be it": {
			state: formed(), spoil: func(f *fixture) {
				f.standStill("c-1-1", facts.Hopeless)
				f.views(id("c-1-1"), func(p *model.Peer) { p.Host, p.Failed = "", false })
			},
			reason: ReasonUnreachable,
		},
		"a replica that hangs is not ended when its primary is gone: it may have more": {
			state: formed(), spoil: func(f *fixture) {
				f.silence("c-1-0", time.Second, true)
				f.standStill("c-1-1", 30*time.Minute)
			},
			reason: ReasonUnreachable,
		},
		"a primary that has not been replaced is ended after a while": {
			state: single(), spoil: func(f *fixture) { f.standStill("c-0-0", facts.Hopeless) }, step: end("c-0-0"),
		},
		"a primary that was not copied is ended after a while": {
			state: single(), spoil: func(f *fixture) {
				f.standStill("c-0-0", facts.Hopeless)
				f.pod("c-0-1").Node.LinkDown = time.Hour
			},
			step: end("c-0-0"),
		},
		"a primary that hangs is not to be ended by hand before its time": {
			state: single(), spoil: func(f *fixture) { f.standStill("c-0-0", facts.Hopeless-time.Second) },
			reason: ReasonUnreachable, message: "it is ended when that has lasted for 1m30s",
		},
		"a primary without storage is not ended: its data would go with it": {
			state: single().ephemeral(), spoil: func(f *fixture) { f.standStill("c-0-0", facts.Hopeless) }, reason: ReasonNoMajority, stalled: true,
		},
		"no server is ended when none answers": {
			state: single(), spoil: func(f *fixture) { f.standStill("c-0-0", 30*time.Minute); f.standStill("c-0-1", 30*time.Minute) }, reason: ReasonStarting,
		},
	})
}
