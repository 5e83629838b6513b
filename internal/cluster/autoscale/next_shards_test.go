package autoscale

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

func TestNextWaitsForAClusterThatCanBeMeasured(t *testing.T) {
	runRows(t, map[string]row{
		"all is well": {state: redis(), after: 3 * time.Hour, says: "has what it needs"},
		"no cluster":  {state: with(redis(), func(s *State) { s.Cluster = nil }), reason: ReasonNoCluster, says: "create it"},
		"a cluster that goes": {
			state: with(redis(), func(s *State) { s.Cluster.Leaving = true }), reason: ReasonNoCluster, says: "is being deleted",
		},
		"a rival": {
			state: with(redis(), func(s *State) { s.Rival = "older"; full(s.Shards, 95) }), after: time.Hour,
			reason: ReasonRival, says: "Autoscaler older is older", stalled: true,
		},
		"nothing to go by": {
			state: with(redis(), func(s *State) { s.Shards.Unfit = "it evicts keys" }), after: time.Hour, reason: ReasonUnfit, says: "it evicts keys", stalled: true,
		},
		"a paused cluster": {
			state: with(redis(), func(s *State) { s.Cluster.Paused = true; full(s.Shards, 95) }), after: time.Hour, reason: cluster.ReasonPaused,
		},
		"a hibernated cluster": {
			state: with(etcd(1024, 300), func(s *State) { s.Cluster.Hibernated = true }), reason: cluster.ReasonHibernated,
		},
		"a busy cluster": {
			state: with(redis(), func(s *State) { s.Cluster.Busy = "MovingSlots"; full(s.Shards, 95) }), after: time.Hour, reason: ReasonBusy, says: "MovingSlots",
		},
		"a primary that was not measured": {
			state: with(redis(), func(s *State) { full(s.Shards, 95); s.Shards.Loads = s.Shards.Loads[:2] }), after: time.Hour, reason: ReasonUnmeasured,
		},
		"no primary that was measured": {
			state: with(redis(), func(s *State) { s.Shards.Loads = nil }), after: 2 * time.Hour, reason: ReasonUnmeasured,
		},
		"a rate that is not known": {
			state: with(redis(), func(s *State) { s.Shards.Operations, s.Shards.Loads = 1000, loads(3, 10, -1) }), after: 2 * time.Hour, reason: ReasonUnmeasured,
		},
	})
}

func TestNextAddsShards(t *testing.T) {
	runRows(t, map[string]row{
		"more, for a moment":    {state: with(redis(), func(s *State) { full(s.Shards, 90) }), after: time.Minute, says: "4 shards are wanted"},
		"more, for long enough": {state: with(redis(), func(s *State) { full(s.Shards, 90) }), after: 2 * time.Minute, step: "change spec.shards from 3 to 4", says: "about 90 %"},
		"within the tolerance":  {state: with(redis(), func(s *State) { full(s.Shards, 76) }), after: 3 * time.Hour},
		"twice as many at most": {state: with(redis(), func(s *State) { s.Shards.MemoryPercent = 10; full(s.Shards, 95) }), after: time.Hour, step: "change spec.shards from 3 to 6"},
		"the largest number":    {state: with(redis(), func(s *State) { s.Shards.Max = 4; full(s.Shards, 140) }), after: time.Hour, step: "change spec.shards from 3 to 4"},
		"no more than that":     {state: with(redis(), func(s *State) { s.Shards.Max = 3; full(s.Shards, 140) }), after: time.Hour},
		"the least number":      {state: with(redis(), func(s *State) { s.Shards.Min = 5 }), after: time.Hour, step: "change spec.shards from 3 to 5"},
		"many commands": {
			state: with(redis(), func(s *State) { s.Shards.Operations, s.Shards.Loads = 1000, loads(3, 10, 1234) }), after: time.Hour,
			step: "change spec.shards from 3 to 4", says: "about 1200 commands a second",
		},
		"many commands to a cache": {
			state: with(redis(), func(s *State) {
				s.Shards.Operations, s.Shards.Loads = 1000, loads(3, 100, 1500)
				for i := range s.Shards.Loads {
					s.Shards.Loads[i].Room = 0
				}
			}), after: time.Hour, step: "change spec.shards from 3 to 5",
		},
		"few commands and much memory": {
			state: with(redis(), func(s *State) { s.Shards.Operations, s.Shards.Loads = 1000, loads(3, 60, 1) }), after: 3 * time.Hour,
		},
	})
}

func TestNextRemovesShards(t *testing.T) {
	runRows(t, map[string]row{
		"fewer, for a while":       {state: with(redis(), func(s *State) { full(s.Shards, 20) }), after: 50 * time.Minute, says: "2 shards would be enough"},
		"fewer, for long enough":   {state: with(redis(), func(s *State) { full(s.Shards, 20) }), after: time.Hour, step: "change spec.shards from 3 to 2", says: "no more than 2 shards"},
		"fewer would be too full":  {state: with(redis(), func(s *State) { full(s.Shards, 47) }), after: 3 * time.Hour},
		"no fewer than the least":  {state: with(redis(), func(s *State) { s.Shards.Min = 3; full(s.Shards, 1) }), after: 3 * time.Hour},
		"half as many at least":    {state: with(redis(), func(s *State) { s.Shards.Current, s.Shards.Min = 8, 1; full(s.Shards, 1) }), after: time.Hour, step: "change spec.shards from 8 to 4"},
		"more than allowed, empty": {state: with(redis(), func(s *State) { s.Shards.Max = 2; full(s.Shards, 20) }), after: time.Hour, step: "change spec.shards from 3 to 2"},
		"more than allowed, full":  {state: with(redis(), func(s *State) { s.Shards.Max = 2; full(s.Shards, 69) }), after: 3 * time.Hour},
		"one shard is full": {
			state: with(redis(), func(s *State) { full(s.Shards, 10); s.Shards.Loads[0].Used = 690 * mib }), after: 3 * time.Hour,
		},
		"those that stay are too full": {
			state: with(redis(), func(s *State) {
				s.Cluster.Busy, s.Cluster.NoRoom, s.Shards.Former, s.Shards.Loads = "NotEnoughMemory", true, 6, nil
			}),
			step: "change spec.shards from 3 to 6", says: "NotEnoughMemory",
		},
		"as many as may be come back": {
			state: with(redis(), func(s *State) { s.Cluster.Busy, s.Cluster.NoRoom, s.Shards.Former = "NotEnoughMemory", true, 12 }), step: "change spec.shards from 3 to 8",
		},
		"too full, and nobody took any away": {
			state: with(redis(), func(s *State) { s.Cluster.Busy, s.Cluster.NoRoom = "NotEnoughMemory", true }), after: time.Hour, reason: ReasonBusy,
		},
		"on their way out": {
			state: with(redis(), func(s *State) { s.Cluster.Busy, s.Shards.Former = "MovingSlots", 6 }), reason: ReasonBusy,
		},
		"what stays is not filled to the brim": {
			state: with(redis(), func(s *State) { s.Shards.MemoryPercent = 90; full(s.Shards, 58) }), after: 3 * time.Hour,
		},
	})
}

func TestNextChangesNothingInAnotherMode(t *testing.T) {
	runRows(t, map[string]row{
		"a dry run": {
			state: with(redis(), func(s *State) { s.Mode = DryRun; full(s.Shards, 90) }), after: time.Hour,
			says: "spec.mode is DryRun: it would change spec.shards from 3 to 4",
		},
		"a dry run of nothing": {state: with(redis(), func(s *State) { s.Mode = DryRun }), after: time.Hour, says: "spec.mode is DryRun; RedisCluster carts has what it needs"},
		"frozen": {
			state: with(redis(), func(s *State) { s.Mode = Frozen; full(s.Shards, 90) }), after: time.Hour,
			says: "spec.mode is Frozen, so nothing is changed; otherwise it would change spec.shards from 3 to 4",
		},
	})
}
