package cluster

import "testing"

func TestOnlyShardsThatTheAPIAllowsAreParsedFromNames(t *testing.T) {
	for name, want := range map[string]int{
		"carts-0": 0, "carts-12": 12, "carts-999": 999,
		"carts-1000": -1, "carts-2000000000": -1, "carts-99999999999999999999": -1, "carts--1": -1, "carts-+1": -1, "carts-01": -1, "carts-": -1,
		"carts-a": -1, "carts": -1, "other-1": -1,
	} {
		shard, ok := ShardOf("carts", name)
		if ok != (want >= 0) || (ok && shard != want) {
			t.Errorf("%s: shard %d, %t, want %d", name, shard, ok, want)
		}
	}
}
