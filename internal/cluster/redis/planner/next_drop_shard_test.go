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

func TestNextDropsShardsWithoutSlots(t *testing.T) {
	rows.Run(t, map[string]row{
		"a shard that has given everything away goes": {
			state: formed(), spoil: func(f *fixture) { f.shardToDrop(); f.idleFor(facts.Courtesy) },
			step: steps.DropShard{Shard: 3, UID: "set-3"}, reason: steps.ReasonDropShard,
		},
		"a shard that has begun to leave goes all the way when it becomes wanted again too late for its disks": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.pair()
				f.Claims = []model.Claim{{Name: "data-c-3-1", Shard: 3, Ordinal: 1, Leaving: true}}
			},
			step: steps.DropShard{Shard: 3, UID: "set-3"}, reason: steps.ReasonDropShard, message: "starts anew",
		},
		"a shard stays in its time of grace although its disks are already being deleted": {
			state: formed(), spoil: func(f *fixture) {
				f.shardToDrop()
				f.idleFor(facts.Courtesy - time.Second)
				f.Claims = []model.Claim{{Name: "data-c-3-1", Shard: 3, Ordinal: 1, Leaving: true}}
			},
			reason: ReasonLeaving, message: "shard 3 owns nothing any more",
		},
		"a shard that has given everything away goes when some of its servers could not be started": {
			state: formed(), spoil: func(f *fixture) { f.grow(); f.Spec.Shards = 3; f.neverRan("c-3-1") },
			step: steps.DropShard{Shard: 3, UID: "set-3"}, reason: steps.ReasonDropShard, message: "1 of its 2 servers have not been started",
		},
		"a shard stays when an earlier pod of a server that was not started may have got keys": {
			state: formed(), spoil: func(f *fixture) { f.grow(); f.Spec.Shards = 3; f.pod("c-3-1").Node, f.pod("c-3-1").HasRun = nil, false },
			reason: ReasonUnreachable,
		},
		"a shard stays while a pod that is too many may hold some keys": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.Spec.Shards = 3
				f.neverRan("c-3-1")
				third := *f.pod("c-3-0")
				node := *third.Node
				node.ID = "third"
				third.Name, third.Ordinal, third.Node = "c-3-2", 2, &node
				f.Pods = append(f.Pods, third)
			},
			reason: ReasonUnreachable,
		},
		"a shard stays while a slot is on its way to it": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.Spec.Shards = 3
				f.neverRan("c-3-1")
				f.open("c-0-0", slots.Set{{From: 7, To: 8}}, "c-3-0", false)
			},
			reason: ReasonUnreachable,
		},
		"a shard that has given everything away goes when its first server could not be started": {
			state: formed(), spoil: func(f *fixture) { f.grow(); f.Spec.Shards = 3; f.neverRan("c-3-0") },
			step: steps.DropShard{Shard: 3, UID: "set-3"}, reason: steps.ReasonDropShard,
		},
		"a shard stays when a server that has run does not answer": {
			state: formed(), spoil: func(f *fixture) { f.grow(); f.Spec.Shards = 3; f.pod("c-3-1").Node = nil },
			reason: ReasonUnreachable,
		},
		"a shard stays while an owner of slots cannot be read": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.Spec.Shards = 3
				f.neverRan("c-3-1")
				f.pod("c-1-0").Node = nil
			},
			reason: ReasonUnreachable,
		},
		"a shard stays for a moment for clients that have not heard of its end": {
			state: formed(), spoil: func(f *fixture) { f.shardToDrop(); f.idleFor(facts.Courtesy - time.Second) },
			reason: ReasonLeaving, message: "shard 3 owns nothing any more",
		},
		"a shard stays as long as it is not known for how long it has owned nothing": {
			state: formed(), spoil: func(f *fixture) { f.shardToDrop() },
			reason: ReasonLeaving, message: "shard 3 owns nothing any more",
		},
		"a shard that goes does not restart before": {
			state: formed(), spoil: func(f *fixture) {
				f.shardToDrop()
				f.idleFor(facts.Courtesy)
				f.pod("c-3-1").Outdated = true
			},
			step: steps.DropShard{Shard: 3, UID: "set-3"}, reason: steps.ReasonDropShard,
		},
	})
}
