package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextMovesSlotsBetweenShards(t *testing.T) {
	rows.Run(t, map[string]row{
		"slots of a shard that is to leave move to the others": {
			state: formed(), spoil: func(f *fixture) { f.Spec.Shards = 2 },
			step: steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{{
				From: "c-2-0", To: "c-1-0", FromID: id("c-2-0"), ToID: id("c-1-0"), ToAddr: model.Address{IP: "10.0.1.0", Port: model.ClientPort}, Slots: slots.Set{{From: 10923, To: 13653}}, Limit: 10 << 20, Patience: 5 * time.Second / 6,
			}}},
			reason: steps.ReasonMoveSlots,
		},
		"a source waits less for its target where it is taken for dead sooner": {
			state: formed(), spoil: func(f *fixture) { f.Spec.Shards, f.Spec.NodeTimeout = 2, 2*time.Second },
			step: steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{{
				From: "c-2-0", To: "c-1-0", FromID: id("c-2-0"), ToID: id("c-1-0"), ToAddr: model.Address{IP: "10.0.1.0", Port: model.ClientPort}, Slots: slots.Set{{From: 10923, To: 13653}}, Limit: 4 << 20,
				Patience: time.Second / 3,
			}}},
			reason: steps.ReasonMoveSlots,
		},
		"a server of a new shard copies its first": {
			state: formed(), spoil: func(f *fixture) { f.grow() },
			step: steps.Replicate{Replicas: []steps.Following{{Pod: "c-3-1", Primary: "c-3-0", PrimaryID: id("c-3-0")}}}, reason: steps.ReasonReplicate,
		},
		"a new shard gets slots when it has its copies, whatever becomes of disks that are not its own": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.pair()
				f.Claims = []model.Claim{
					{Name: "data-c-3-2", Shard: 3, Ordinal: 2, Leaving: true}, {Name: "data-c-3-1", Shard: 3, Ordinal: 1}, {Name: "data-c-2-2", Shard: 2, Ordinal: 2, Leaving: true},
				}
			},
			step: steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{
				{From: "c-0-0", To: "c-3-0", FromID: id("c-0-0"), ToID: id("c-3-0"), ToAddr: model.Address{IP: "10.0.3.0", Port: model.ClientPort}, Slots: slots.Set{{From: 4096, To: 5461}}, Limit: 10 << 20, Patience: 5 * time.Second / 6},
				{From: "c-1-0", To: "c-3-0", FromID: id("c-1-0"), ToID: id("c-3-0"), ToAddr: model.Address{IP: "10.0.3.0", Port: model.ClientPort}, Slots: slots.Set{{From: 5462, To: 6826}}, Limit: 10 << 20, Patience: 5 * time.Second / 6},
				{From: "c-2-0", To: "c-3-0", FromID: id("c-2-0"), ToID: id("c-3-0"), ToAddr: model.Address{IP: "10.0.3.0", Port: model.ClientPort}, Slots: slots.Set{{From: 15019, To: 16383}}, Limit: 10 << 20, Patience: 5 * time.Second / 6},
			}},
			reason: steps.ReasonMoveSlots, message: "4096 slots are to move so that 4 shards share them evenly",
		},
		"a new shard gets no slots before it has its copies": {
			state: formed(), spoil: func(f *fixture) { f.grow(); f.pair(); f.unlink("c-3-1"); f.Sets[3].Guarded = false },
			reason: ReasonSync, message: "c-3-1 receives the data of c-3-0",
		},
		"slots do not move to where there is no room for their keys": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Shards = 2
				for i := range f.Pods {
					f.Pods[i].Node.Memory = model.Memory{Used: 601 << 20, Empty: 1 << 20, Max: 800 << 20}
				}
			},
			reason: ReasonNoRoom, stalled: true,
			message: "2 shards would need about 900 MiB of memory on c-0-0, which may use 800 MiB: raise spec.config.maxMemory",
		},
		"slots move to a cache that evicts keys, where there is no room for them": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Shards, f.Spec.MemoryLimit = 2, 800<<20
				for i := range f.Pods {
					f.Pods[i].Node.Memory = model.Memory{Used: 601 << 20, Empty: 1 << 20, Evicts: true}
				}
			},
			step: steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{limited(formed().moveOf("c-2-0", "c-1-0", slots.Set{{From: 10923, To: 13653}}))}}, reason: steps.ReasonMoveSlots,
		},
		"slots do not move beyond the limit of the container where there is no other": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Shards, f.Spec.MemoryLimit = 2, 800<<20
				for i := range f.Pods {
					f.Pods[i].Node.Memory = model.Memory{Used: 601 << 20, Empty: 1 << 20}
				}
			},
			reason: ReasonNoRoom, stalled: true,
		},
	})
}
