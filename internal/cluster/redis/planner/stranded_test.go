package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

func TestReplaceStranded(t *testing.T) {
	const why = "volume v is on node a, where c-1-0 runs, and the topology spread asks for another node"
	strand := func(name string) func(*fixture) {
		return func(f *fixture) {
			p := f.pod(name)
			p.Node, p.Ready, p.Started, p.Stuck, p.Made = nil, false, time.Time{}, "Unschedulable: 0/3 nodes; "+why, now.Add(-time.Hour)
			f.Claims = append(f.Claims, model.Claim{
				Name: "data-" + name, UID: "claim", ResourceVersion: "7", Shard: p.Shard, Ordinal: p.Ordinal, Made: now.Add(-time.Hour), Stranded: why,
			})
		}
	}
	and := func(spoils ...func(*fixture)) func(*fixture) {
		return func(f *fixture) {
			for _, spoil := range spoils {
				spoil(f)
			}
		}
	}
	replaced := func(name string) steps.ReplaceDisk {
		return steps.ReplaceDisk{Claim: steps.DeleteClaim{Name: "data-" + name, UID: "claim", ResourceVersion: "7"}, Pod: steps.PodRef{Name: name, UID: "uid-" + name}, Gone: false}
	}
	for name, r := range map[string]row{
		"a replica moves to another node with another volume": {
			state: formed(), spoil: strand("c-1-1"), step: replaced("c-1-1"), message: "pod c-1-1 cannot be scheduled: " + why + "; c-1-0 has all of its data",
		},
		"a former primary moves, too": {
			state: formed(), spoil: and(func(f *fixture) { f.handOver(1) }, strand("c-1-0")), step: replaced("c-1-0"),
		},
		"the only replica of the only shard moves": {
			state: single(), spoil: strand("c-0-1"), step: replaced("c-0-1"),
		},
		"a replica of the mode Replicated moves": {
			state: replicated(), spoil: strand("c-0-1"), step: replaced("c-0-1"),
		},
		"a pod that has just been made is left to the scheduler": {
			state: formed(), spoil: and(strand("c-1-1"), func(f *fixture) { f.pod("c-1-1").Made = now.Add(-facts.Stranding + time.Second) }),
			reason: ReasonUnreachable, message: why,
		},
		"a replica keeps its volume while its primary has not saved its data": {
			state: formed(), spoil: and(strand("c-1-1"), func(f *fixture) { f.pod("c-1-0").Node.OnDisk = false }), reason: ReasonUnreachable, message: why,
		},
		"a server keeps its volume that the only primary has not heard of since it started": {
			state: single(), spoil: and(strand("c-0-1"), func(f *fixture) { f.pod("c-0-0").Started = now.Add(time.Second) }), reason: ReasonUnreachable, message: why,
		},
		"a server keeps its volume that others know as the owner": {
			state: formed(), spoil: and(strand("c-1-1"), func(f *fixture) {
				f.tableOf("c-2-1", "c-1-1", func(p *model.Peer) { p.Replica, p.Slots, p.Epoch = false, slots.Share(1, 3), 4000 })
			}), reason: ReasonUnreachable, message: why,
		},
		"a volume that has just been replaced is not replaced again": {
			state: formed(), spoil: and(strand("c-1-1"), func(f *fixture) { f.Claims[0].Made = now.Add(-4 * time.Minute); f.Sets[1].Made = now.Add(-time.Hour) }),
			reason: ReasonUnreachable,
		},
		"a primary that no replica has taken over from keeps its volume": {
			state: formed(), spoil: and(strand("c-1-0"), func(f *fixture) {
				f.views(id("c-1-0"), func(p *model.Peer) { p.Failed, p.Answered = true, now.Add(-time.Second) })
			}), reason: ReasonUnreachable, message: why,
		},
	} {
		t.Run(name, r.Check)
	}
}
