package planner

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextIsSettledWhenAllServersAgree(t *testing.T) {
	rows.Run(t, map[string]row{
		"a settled cluster is left alone": {state: formed()},
		"a cluster is not settled while a server does not agree": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-2-1").Node.Peers[0].Slots = nil }, reason: ReasonGossip,
		},
		"a cluster is not settled before its replicas are in sync": {
			state: formed(), spoil: func(f *fixture) { f.unlink("c-2-1") }, reason: ReasonSync,
		},
		"a cluster is not settled before its pods are ready": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-2-1").Ready = false }, reason: ReasonStarting,
		},
		"a cluster is settled while copies are written to disk": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-1").Node.OnDisk = false },
		},
		"a replica that is far behind is not in sync": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-0").Node.Offset = 1000 + facts.FarBehind + 1 }, reason: ReasonSync,
		},
		"a replica that is behind by what a busy primary writes in a moment is in sync": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-0").Node.Offset = 1000 + facts.FarBehind },
		},
		"a shard that is wanted and not made yet is waited for": {
			state: formed(), spoil: func(f *fixture) { f.Spec.Shards = 4 }, reason: ReasonStarting, message: "6 of 8 pods exist",
		},
		"a StatefulSet that was deleted without its pods is waited for": {
			state: formed(), spoil: func(f *fixture) { f.Sets = f.Sets[:2] }, reason: ReasonStarting, message: "2 of 3 StatefulSets exist",
		},
		"a pod that is being deleted is named": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-1").Deleting = true }, reason: ReasonUnreachable, message: "c-1-1 is being deleted",
		},
		"a shard whose slots only others know of is waited for": {
			state: formed(), spoil: func(f *fixture) {
				n := f.pod("c-1-0").Node
				for i := range n.Peers {
					if n.Peers[i].Myself {
						n.Peers[i].Slots = nil
					}
				}
			},
			reason: ReasonGossip,
		},
		"another storage is refused": {
			state: formed(), spoil: func(f *fixture) { f.Spec.StorageChanged = true }, reason: ReasonStorage, stalled: true,
		},
	})
}

func TestNextBlocksEvictionsWhileReplicasSync(t *testing.T) {
	rows.Run(t, map[string]row{
		"evictions are kept from shards with ready replicas that are not in sync, all at once": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-1").Node.LinkUp, f.pod("c-2-1").Node.LinkUp = false, false
			},
			step: steps.Guard{Protect: []int{1, 2}},
		},
		"an empty shard need not be guarded": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Node.Keys, f.pod("c-1-1").Node.Keys, f.pod("c-1-1").Node.LinkUp = 0, 0, false
			},
			reason: ReasonSync,
		},
		"a budget counts a replica that is not ready by itself": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-1").Node.LinkUp, f.pod("c-1-1").Ready = false, false }, reason: ReasonSync,
		},
		"evictions are allowed again when all replicas are in sync": {
			state: formed(), spoil: func(f *fixture) { f.Sets[1].Guarded = true }, step: steps.Guard{Release: []int{1}},
		},
		"evictions are not allowed while a replica is unknown": {
			state: formed(), spoil: func(f *fixture) { f.Sets[1].Guarded, f.pod("c-1-1").Node = true, nil }, reason: ReasonUnreachable,
		},
	})
}
