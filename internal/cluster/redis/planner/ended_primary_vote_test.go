package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextElectsNobodyWhileSlotsMove(t *testing.T) {
	rows.Run(t, map[string]row{
		"no replica is elected while slots are on their way": {
			state: replacing(formed()), spoil: func(f *fixture) { f.open("c-0-0", slots.Set{{From: 7, To: 7}}, "c-1-0", false); f.end("c-1-0") }, reason: ReasonUnreachable,
		},
		"no replica is elected while servers move slots without the operator": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.end("c-1-0")
				f.pod("c-0-0").Node.Migrations = []model.Migration{{Name: "m", Source: id("c-0-0"), Target: id("c-2-0"), Slots: slots.Set{{From: 7, To: 7}}}}
			},
			reason: ReasonUnreachable,
		},
		"no replica is elected while the servers do not agree on the owner of its slots": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.end("c-1-0")
				n := f.pod("c-0-0").Node
				for i := range n.Peers {
					if n.Peers[i].ID == id("c-1-0") {
						n.Peers[i].Slots = n.Peers[i].Slots.Minus(slots.Set{{From: 5462, To: 5462}})
					}
				}
			},
			reason: ReasonUnreachable,
		},
	})
}

func TestNextLeavesTheVoteToTheServers(t *testing.T) {
	elected := steps.Elect{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"}
	rows.Run(t, map[string]row{
		"the servers elect when they have agreed that the primary failed": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.end("c-1-0")
				f.views(id("c-1-0"), func(p *model.Peer) { p.Failed = true })
			},
			reason: ReasonUnreachable,
		},
		"the servers that elect in another shard have their votes for that": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.five()
				f.end("c-1-0")
				f.silence("c-2-0", 9*time.Second, true)
			},
			reason: ReasonUnreachable,
		},
		"a shard without a replica does not hold up the election of another": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.five()
				f.end("c-1-0")
				f.silence("c-2-0", 9*time.Second, true)
				f.drop("c-2-1")
			},
			step: elected,
		},
		"no server votes for a replica that it does not know": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.end("c-1-0")
				for _, name := range []string{"c-0-0", "c-2-0"} {
					n := f.pod(name).Node
					n.Peers = append(n.Peers[:3:3], n.Peers[4:]...)
				}
			},
			reason: ReasonUnreachable,
		},
		"of two primaries neither can be outvoted, and the operator decides": {
			state: replacing(formed()), spoil: func(f *fixture) { f.pair2(); f.end("c-1-0") },
			step: steps.TakeOver{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"}, message: "only 1 of 2 primaries can vote on that",
		},
		"the operator does not decide while others that cannot be read may vote": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-0-0").Node = nil },
			reason: ReasonElection, message: "the others have yet to find out",
		},
		"the operator decides where the others have ended as well": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-0-0"); f.end("c-1-0") },
			step: steps.TakeOver{Shard: 0, PrimaryID: id("c-0-0"), To: "c-0-1"}, message: "only 1 of 3 primaries can vote on that",
		},
		"the operator decides where there is one primary": {
			state: single(), spoil: func(f *fixture) { f.end("c-0-0"); f.held("c-0-0", 10*time.Second) },
			step: steps.TakeOver{Shard: 0, PrimaryID: id("c-0-0"), To: "c-0-1"}, message: "only 0 of 1 primaries can vote on that",
		},
		"the operator waits for the only primary whose pod is recreated": {
			state: single(), spoil: func(f *fixture) { f.end("c-0-0"); f.pod("c-0-0").HasRun = false; f.missed("c-0-0") },
			reason: ReasonElection, message: "is being started and may have data that no replica has",
		},
		"the operator does not wait for the only primary where replacing is asked for": {
			state: replacing(single()), spoil: func(f *fixture) { f.end("c-0-0"); f.pod("c-0-0").HasRun = false; f.missed("c-0-0") },
			step: steps.TakeOver{Shard: 0, PrimaryID: id("c-0-0"), To: "c-0-1"},
		},
		"the operator waits for the only primary that is started again": {
			state: single(), spoil: func(f *fixture) { f.end("c-0-0") }, reason: ReasonElection,
		},
	})
}
