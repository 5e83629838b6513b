package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/gate"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

func TestWhatAStartGateRefusesIsSaid(t *testing.T) {
	const refusal = gate.HeldBack + "its data was written by valkey 9.1.2, which redis 8.0.2 cannot read"
	hold := func(f *fixture, names ...string) {
		for _, name := range names {
			p := f.pod(name)
			p.Node, p.Ready, p.Started, p.Error, p.Stuck = nil, false, time.Time{}, "the server cannot be reached: connection refused", refusal
		}
	}
	for name, r := range map[string]row{
		"no server of a new cluster may start": {
			state: fresh(), spoil: func(f *fixture) { hold(f, "c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0", "c-2-1") }, reason: ReasonUnreachable,
		},
		"a replica may not start": {
			state: formed(), spoil: func(f *fixture) { hold(f, "c-1-1") }, reason: ReasonUnreachable,
		},
		"a primary without a replica may not start": {
			state: formed(), spoil: func(f *fixture) {
				hold(f, "c-1-0", "c-1-1")
				f.views(id("c-1-0"), func(p *model.Peer) { p.Failed, p.Answered = true, now.Add(-mourning*2) })
				f.views(id("c-1-1"), func(p *model.Peer) { p.Failed, p.Answered = true, now.Add(-mourning*2) })
			},
			reason: ReasonUnreachable,
		},
		"no server of a new cluster with one primary may start": {
			state: replicated(), spoil: func(f *fixture) { f.Appointed = model.Appointment{}; hold(f, "c-0-0", "c-0-1", "c-0-2") }, reason: ReasonUnreachable,
		},
		"the appointed primary may not start, and no replica answers": {
			state: replicated(), spoil: func(f *fixture) {
				hold(f, "c-0-0")
				for _, name := range []string{"c-0-1", "c-0-2"} {
					f.pod(name).Node, f.pod(name).Error = nil, "the server does not answer"
				}
			},
			reason: ReasonUnreachable,
		},
	} {
		r.message = " cannot start: " + refusal
		t.Run(name, r.Check)
	}
}
