package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextWithoutAMajorityTakesNoOldCopy(t *testing.T) {
	succeeds := steps.TakeOver{Shard: 0, PrimaryID: id("c-0-0"), To: "c-0-1"}
	rows.Run(t, map[string]row{
		"a replica that was not connected lately does not replace one that may come back": {
			state: single(), spoil: func(f *fixture) {
				f.silence("c-0-0", time.Minute, false)
				f.pod("c-0-1").Node.EverLinked = false
			},
			reason: ReasonNoMajority, stalled: true, message: "no replica has been connected to it lately",
		},
		"a replica that had lost its primary before it died does not replace it": {
			state: single(), spoil: func(f *fixture) {
				f.silence("c-0-0", time.Minute, false)
				f.pod("c-0-1").Node.LinkDown = time.Minute + config.Validity(5*time.Second) + time.Second
			},
			reason: ReasonNoMajority, stalled: true, message: "no replica has been connected to it lately",
		},
		"a replica that followed its primary to the end replaces it, however long ago that is": {
			state: single(), spoil: func(f *fixture) { f.silence("c-0-0", time.Hour, false) }, step: succeeds,
		},
		"a replica that could not reach its primary while that lived does not replace it": {
			state: single(), spoil: func(f *fixture) {
				f.silence("c-0-0", 2*time.Hour, false)
				f.pod("c-0-0").Unready = now.Add(-time.Minute)
			},
			reason: ReasonNoMajority, stalled: true, message: "no replica has been connected to it lately",
		},
		"a primary that reached no majority took no writes, however late its pod was recreated": {
			state: formed(), spoil: func(f *fixture) {
				f.silence("c-1-0", 90*time.Second, true)
				f.pod("c-1-0").Unready = now.Add(-30 * time.Second)
			},
			step: steps.TakeOver{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"},
		},
		"one of two primaries has no majority alone, so it took no writes since": {
			state: formed(), spoil: func(f *fixture) {
				f.pair2()
				f.silence("c-1-0", 30*time.Minute, true)
				f.pod("c-1-0").Unready = now.Add(-time.Minute)
			},
			step: steps.TakeOver{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"}, message: "only 1 of 2 primaries can vote on that",
		},
		"a majority that has been restarted since may have been with the lost primary": {
			state: formed(), spoil: func(f *fixture) {
				f.silence("c-1-0", time.Hour, true)
				f.pod("c-1-0").Unready = now.Add(-30 * time.Second)
				f.pod("c-1-1").Started = now.Add(-2 * time.Hour)
				for _, owner := range []string{"c-0-0", "c-2-0"} {
					f.pod(owner).Started = now.Add(-time.Minute)
				}
			},
			reason: ReasonNotElected, stalled: true,
		},
		"two of three may have gone on for a while": {
			state: formed(), spoil: func(f *fixture) {
				f.silence("c-1-0", 90*time.Second, true)
				f.silence("c-2-0", 90*time.Second, true)
				f.pod("c-1-0").Unready = now.Add(-30 * time.Second)
				f.views(id("c-2-0"), func(p *model.Peer) { p.Slots = nil })
				f.views(id("c-2-1"), func(p *model.Peer) { p.Replica, p.PrimaryID, p.Slots, p.Epoch = false, "", slots.Share(2, 3), 9 })
			},
			reason: ReasonNotElected, stalled: true,
		},
		"a server that has been restarted since does not report when the primary died": {
			state: formed(), spoil: func(f *fixture) {
				f.silence("c-1-0", 30*time.Minute, true)
				p := f.pod("c-2-1")
				p.Started = now.Add(-time.Minute)
				for i := range p.Node.Peers {
					if p.Node.Peers[i].ID == id("c-1-0") {
						p.Node.Peers[i].Answered = p.Started.Add(time.Second)
					}
				}
			},
			step: steps.TakeOver{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"}, message: "lost the connection 30m0s ago",
		},
		"a replica that was not connected lately replaces a primary that cannot come back": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.vanish("c-0-0")
				f.pod("c-0-1").Node.EverLinked = false
			},
			step: succeeds, message: "has not been connected since it started",
		},
		"a replica without a copy never replaces its primary": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.vanish("c-0-0")
				f.pod("c-0-1").Node.EverLinked, f.pod("c-0-1").Node.Keys = false, 0
			},
			reason: ReasonStarting,
		},
	})
}

func TestNextWithoutAMajorityComparesReplicas(t *testing.T) {
	succeeds := steps.TakeOver{Shard: 0, PrimaryID: id("c-0-0"), To: "c-0-1"}
	rivals := func(heldUntil time.Time) func(*fixture) {
		return func(f *fixture) {
			f.silence("c-0-0", 8*time.Second, false)
			for _, name := range []string{"c-0-0", "c-0-2"} {
				p := f.pod(name)
				p.Ready, p.Node, p.Started, p.Stuck, p.HeldUntil = false, nil, time.Time{}, "CrashLoopBackOff", heldUntil
			}
		}
	}
	rows.Run(t, map[string]row{
		"a replica that is started again in a moment may have taken over before": {
			state: three(), spoil: rivals(now.Add(10 * time.Second)), reason: ReasonElection,
			message: "c-0-2 is started again in a moment and may have taken over from the server of pod c-0-0, unknown to c-0-1",
		},
		"a replica that is not started again soon is not waited for": {
			state: three(), spoil: rivals(now.Add(time.Minute)), step: succeeds,
		},
		"the claims of an earlier cluster may hold newer data": {
			state: single(), spoil: func(f *fixture) {
				f.loseDisk("c-0-0")
				f.pod("c-0-1").Node.LinkUp = false
				f.Claims = []model.Claim{{Name: "data-c-0-2", Shard: 0, Ordinal: 2}}
			},
			reason: ReasonRetained, stalled: true,
		},
		"another replica that does not answer may have more": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.second()
				f.vanish("c-0-0")
				f.pod("c-0-2").Node = nil
			},
			reason: ReasonStarting, message: "2 of 3 pods exist",
		},
		"another replica that is missing may be back in a moment with more": {
			state: single(), spoil: func(f *fixture) {
				f.second()
				f.silence("c-0-0", 6*time.Second, false)
				f.pod("c-0-0").Stuck = "Unschedulable"
				f.drop("c-0-2")
			},
			reason: ReasonUnreachable, message: "c-0-0 cannot start",
		},
		"another replica that is gone has nothing": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.second()
				f.vanish("c-0-0")
				f.drop("c-0-2")
			},
			step: succeeds,
		},
		"the replica that has most takes over": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.second()
				f.vanish("c-0-0")
				f.pod("c-0-2").Node.Offset = 1001
			},
			step: steps.TakeOver{Shard: 0, PrimaryID: id("c-0-0"), To: "c-0-2"},
		},
	})
}
