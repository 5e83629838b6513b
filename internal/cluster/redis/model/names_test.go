package model

import (
	"testing"
)

func TestParseClaim(t *testing.T) {
	type claim struct {
		shard, ordinal int
		ok             bool
	}
	for name, want := range map[string]claim{
		"data-carts-2-10":   {2, 10, true},
		"data-carts-2":      {2, 0, false},
		"data-carts-x-1":    {0, 1, false},
		"data-carts-1-2-3":  {1, 0, false},
		"data-carts-old-12": {0, 12, false},
		"logs-carts-0-0":    {0, 0, false},
	} {
		if shard, ordinal, ok := ParseClaim("carts", name); ok != want.ok || ok && (claim{shard, ordinal, ok}) != want {
			t.Errorf("%s: %d, %d, %v", name, shard, ordinal, ok)
		}
	}
}
