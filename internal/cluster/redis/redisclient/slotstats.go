package redisclient

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
)

// SlotStats sends CLUSTER SLOT-STATS, or where there is no such command CLUSTER COUNTKEYSINSLOT for each slot.
// https://redis.io/docs/latest/commands/cluster-slot-stats/ https://valkey.io/commands/cluster-slot-stats/
func (c *Client) SlotStats(ctx context.Context, slots redisslots.Set) (map[int]model.SlotStat, error) {
	ctx, cancel := timeout(ctx, "CLUSTER SLOT-STATS", callTimeout)
	defer cancel()
	answer, err := c.rdb.Do(ctx, "CLUSTER", "SLOT-STATS", "SLOTSRANGE", 0, redisslots.Count-1).Slice()
	switch {
	case err != nil && (unknown(err) || denied(err)):
		return c.countKeys(ctx, slots)
	case err != nil:
		return nil, fmt.Errorf("CLUSTER SLOT-STATS: %w", err)
	}
	out := map[int]model.SlotStat{}
	for _, each := range answer {
		slot, stat, err := slotStat(each)
		if err != nil {
			return nil, fmt.Errorf("read answer to CLUSTER SLOT-STATS: %w", err)
		}
		out[slot] = stat
	}
	return out, nil
}

// slotStat reads the number of a slot and what is known of it, which depends on the version and on cluster-slot-stats-enabled.
func slotStat(answer any) (int, model.SlotStat, error) {
	pair, _ := answer.([]any)
	if len(pair) != 2 {
		return 0, model.SlotStat{}, fmt.Errorf("there is a %T of %d in it", answer, len(pair))
	}
	slot, isSlot := pair[0].(int64)
	told, isMap := pair[1].(map[any]any)
	if !isSlot || !isMap {
		return 0, model.SlotStat{}, fmt.Errorf("a slot is a %T and a %T", pair[0], pair[1])
	}
	number := func(name string, without int64) int64 {
		if n, ok := told[name].(int64); ok {
			return n
		}
		return without
	}
	return int(slot), model.SlotStat{
		Keys: number("key-count", 0), Bytes: number("memory-bytes", -1), CPU: time.Duration(number("cpu-usec", -1)) * time.Microsecond,
	}, nil
}

// CountLoad sends CONFIG SET. From some version of Redis 8 on a server that was started without counting memory refuses to begin with
// that, which "yes" would mean, and takes "cpu". https://github.com/redis/redis/pull/14719
func (c *Client) CountLoad(ctx context.Context, on bool) error {
	if !on {
		return c.do(ctx, "CONFIG", "SET", config.SlotStatsParameter, "no")
	}
	err := c.do(ctx, "CONFIG", "SET", config.SlotStatsParameter, "yes")
	if err != nil && c.do(ctx, "CONFIG", "SET", config.SlotStatsParameter, "cpu") == nil {
		return nil
	}
	return err
}

func (c *Client) countKeys(ctx context.Context, slots redisslots.Set) (map[int]model.SlotStat, error) {
	pipe := c.rdb.Pipeline()
	counts := map[int]*goredis.IntCmd{}
	for slot := range slots.All() {
		counts[slot] = pipe.ClusterCountKeysInSlot(ctx, slot)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("CLUSTER COUNTKEYSINSLOT: %w", err)
	}
	out := map[int]model.SlotStat{}
	for slot, n := range counts {
		out[slot] = model.SlotStat{Keys: n.Val(), Bytes: -1, CPU: -1}
	}
	return out, nil
}
