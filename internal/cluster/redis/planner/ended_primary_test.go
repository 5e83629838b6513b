package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextWaitsForAPrimaryThatIsStartedAgain(t *testing.T) {
	elected := steps.Elect{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"}
	rows.Run(t, map[string]row{
		"a primary that has ended is waited for while Kubernetes is about to start it again": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0") }, reason: ReasonUnreachable,
		},
		"a primary that has ended is replaced where that is asked for": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0") }, step: elected,
			message: "the server of pod c-1-0 has ended, as Kubernetes says, and c-1-1 takes over slots 5462-10922 at once. It has everything up to byte 1000 of the replication stream and lost the connection 0s ago; what was acknowledged later is lost",
		},
		"a primary without storage that has ended is replaced where that is asked for": {state: replacing(formed().ephemeral()), spoil: func(f *fixture) { f.end("c-1-0") }, step: elected},
		"a primary that will not be back before the others elect is replaced immediately": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0"); f.held("c-1-0", 8600*time.Millisecond) }, step: elected,
		},
		"a primary that may be back before the others elect is waited for": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0"); f.held("c-1-0", 8500*time.Millisecond) }, reason: ReasonUnreachable,
		},
		"a primary is waited for longer where the node timeout is longer": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.NodeTimeout = time.Minute
				f.end("c-1-0")
				f.held("c-1-0", 10*time.Second)
			},
			reason: ReasonUnreachable,
		},
		"a primary that is back in a second is replaced where that is asked for": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.held("c-1-0", time.Second) }, step: elected,
		},
		"a primary whose pod ends is replaced": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-0").Deleting = true }, step: elected,
		},
		"a primary whose node is proven to be gone is replaced": {
			state: formed(), spoil: func(f *fixture) {
				f.end("c-1-0")
				p := f.pod("c-1-0")
				p.Started, p.Gone, p.NodeLost = now.Add(-time.Hour), true, true
			},
			step: elected,
		},
		"a primary that ended before its node ceased to report will not be back": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-0").NodeLost = true }, step: elected,
		},
		"a primary whose node does not report may run": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.end("c-1-0")
				p := f.pod("c-1-0")
				p.Started, p.NodeLost = now.Add(-time.Hour), true
			},
			reason: ReasonUnreachable,
		},
		"a primary that does not answer may run": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-0").Started = now.Add(-time.Hour) }, reason: ReasonUnreachable,
		},
		"a primary whose pod is gone may be cut off": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.drop("c-1-0") }, reason: ReasonStarting,
		},
		"a primary whose pod is gone is replaced when all others miss it": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0"); f.drop("c-1-0"); f.missed("c-1-0") }, step: elected,
		},
		"a primary that another pod is created for may be cut off": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-0").HasRun = false }, reason: ReasonUnreachable,
		},
		"a primary that another pod is created for is replaced when all others miss it": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-0").HasRun = false; f.missed("c-1-0") }, step: elected,
		},
		"the election of a replica comes before introductions": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.end("c-1-0")
				f.replaceDisk("c-2-1") // It is to be introduced to the others, and then to copy the primary of its shard.
			},
			step: elected,
		},
		"a primary whose pod failed is replaced": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-0").Stuck = "Failed: Evicted" }, step: elected,
		},
		"a replica that has ended is replaced by no other": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-1") }, reason: ReasonUnreachable,
		},
	})
}

func TestNextElectsWhoHasEverything(t *testing.T) {
	elected := steps.Elect{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"}
	rows.Run(t, map[string]row{
		"no replica is elected while one is connected to the primary": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-1").Node.LinkUp = true }, reason: ReasonUnreachable,
		},
		"no replica is elected where one of several is connected to the primary": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.second()
				f.end("c-0-0")
				f.pod("c-0-1").Node.LinkUp = true
			},
			reason: ReasonStarting,
		},
		"a replica that lost the connection before lacks more": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-1").Node.LinkDown = 2 * time.Second }, reason: ReasonUnreachable,
		},
		"a replica that had lost a primary which went on alone lacks more": {
			state: replacing(single()), spoil: func(f *fixture) {
				f.end("c-0-0")
				f.views(id("c-0-0"), func(p *model.Peer) { p.Answered = now.Add(-time.Hour) })
				f.pod("c-0-1").Node.LinkDown, f.pod("c-0-0").Unready = time.Hour, now.Add(-time.Second)
			},
			reason: ReasonElection,
		},
		"a replica that lost its primary seconds before Kubernetes noticed takes over": {
			state: replacing(single()), spoil: func(f *fixture) {
				f.end("c-0-0")
				f.views(id("c-0-0"), func(p *model.Peer) { p.Answered = now.Add(-4 * time.Second) })
				f.pod("c-0-1").Node.LinkDown, f.pod("c-0-0").Unready = 4*time.Second, now.Add(-time.Second)
			},
			step: steps.TakeOver{Shard: 0, PrimaryID: id("c-0-0"), To: "c-0-1"},
		},
		"a replica that lost the connection within a second is elected, as servers count whole seconds": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-1").Node.LinkDown = time.Second }, step: elected,
		},
		"a replica that was never connected may have anything": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-1").Node.EverLinked = false }, reason: ReasonUnreachable,
		},
		"a replica that loads its data is waited for": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-1").Node.Loading = true }, reason: ReasonUnreachable,
		},
		"the replica that has most is elected": {
			state: replacing(formed()), spoil: func(f *fixture) { f.second(); f.end("c-0-0"); f.pod("c-0-2").Node.Offset = 1001 },
			step: steps.Elect{Shard: 0, PrimaryID: id("c-0-0"), To: "c-0-2"},
		},
		"another replica that does not answer may have more": {
			state: replacing(formed()), spoil: func(f *fixture) { f.second(); f.end("c-0-0"); f.pod("c-0-2").Node = nil }, reason: ReasonStarting,
		},
		"another replica may be back with more": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.second()
				f.end("c-0-0")
				p := f.pod("c-0-2")
				p.Node, p.Started = nil, time.Time{}
			},
			reason: ReasonStarting,
		},
	})
}
