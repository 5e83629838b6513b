package redis_test

import (
	"math/rand/v2"
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis"
)

// even is what so many shards own after a bootstrap.
func even(shards int) []redis.Slots {
	out := make([]redis.Slots, shards)
	for i := range out {
		out[i] = redis.Share(i, shards)
	}
	return out
}

// apply carries moves out.
func apply(t *testing.T, owned []redis.Slots, moves []redis.Move) []redis.Slots {
	t.Helper()
	out := append([]redis.Slots(nil), owned...)
	for _, m := range moves {
		if len(m.Slots.Minus(out[m.From])) > 0 {
			t.Fatalf("%v: shard %d does not have all of that", m, m.From)
		}
		out[m.From], out[m.To] = out[m.From].Minus(m.Slots), redis.Union(out[m.To], m.Slots)
	}
	return out
}

func TestBalance(t *testing.T) {
	for _, c := range []struct {
		name             string
		owned            []redis.Slots
		shards           int
		moved, maxRanges int
	}{
		{"nothing to do", even(3), 3, 0, 3},
		{"nothing to do for 500", even(500), 500, 0, 500},
		{"3 to 4", append(even(3), nil), 4, 4096, 6},
		{"3 to 5", append(even(3), nil, nil), 5, 6553, 8},
		{"5 to 3", even(5), 3, 6553, 6},
		{"4 to 3", even(4), 3, 4096, 5},
		{"one slot too many", []redis.Slots{{{0, 5462}}, {{5463, 10922}}, {{10923, 16383}}}, 3, 1, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			moves := redis.Balance(c.owned, c.shards)
			after := apply(t, c.owned, moves)
			moved, ranges := 0, 0
			for _, m := range moves {
				moved += m.Slots.Count()
			}
			for _, s := range after {
				ranges += len(s)
			}
			if moved != c.moved || ranges > c.maxRanges {
				t.Errorf("%d slots moved, want %d; %d ranges, want %d at most: %v", moved, c.moved, ranges, c.maxRanges, after)
			}
		})
	}
}

// Whatever the shards own, all slots end up evenly divided, with no move that could be spared.
func TestBalanceOfAnything(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		n := 1 + rnd.IntN(8)
		owned := make([]redis.Slots, n)
		for at := 0; at < redis.SlotCount; {
			to := min(redis.SlotCount-1, at+rnd.IntN(4000))
			i := rnd.IntN(n)
			owned[i] = redis.Union(owned[i], redis.Slots{{From: at, To: to}})
			at = to + 1
		}
		shards := 1 + rnd.IntN(n)
		moves := redis.Balance(owned, shards)
		after := apply(t, owned, moves)
		moved, needed := 0, 0
		for _, m := range moves {
			moved += m.Slots.Count()
		}
		for i, s := range after {
			if want := redis.SlotCount / shards; i < shards && s.Count() != want && s.Count() != want+1 || i >= shards && len(s) > 0 {
				t.Fatalf("shard %d of %d has %d slots: %v", i, shards, s.Count(), owned)
			}
			needed += max(0, s.Count()-owned[i].Count())
		}
		if moved != needed {
			t.Errorf("%d slots moved, %d would do", moved, needed)
		}
		if len(redis.Balance(after, shards)) > 0 {
			t.Errorf("what is balanced is balanced again: %v", after)
		}
	}
}

func BenchmarkBalanceOfManyShards(b *testing.B) {
	for b.Loop() {
		redis.Balance(even(500), 400)
	}
}
