package slots

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// flat are weights of one each, but for some.
func flat(heavy map[Range]int64) []int64 {
	out := make([]int64, Count)
	for i := range out {
		out[i] = 1
	}
	for r, w := range heavy {
		for slot := r.From; slot <= r.To; slot++ {
			out[slot] = w
		}
	}
	return out
}

func TestLevel(t *testing.T) {
	for name, tc := range map[string]struct {
		owned   []Set
		weights []int64
		want    []Move
		// after are the weights of the shards in percent of the mean.
		after []int
	}{
		"all slots weigh the same": {even(2), flat(nil), nil, []int{100, 100}},
		"the slots at an end weigh more": {
			even(2), flat(map[Range]int64{{0, 8191}: 3}), []Move{{0, 1, Set{{5462, 8191}}}}, []int{100, 99},
		},
		"slots in the middle weigh more": {
			even(2), flat(map[Range]int64{{4000, 4999}: 9}), []Move{{0, 1, Set{{4911, 8191}}}}, []int{100, 99},
		},
		"the neighbour does not need any": {
			even(3), flat(map[Range]int64{{0, 5461}: 9, {5462, 10922}: 5}), []Move{{0, 2, Set{{0, 2426}}}}, []int{100, 99, 99},
		},
		"one slot weighs more than all others: these go": {
			even(2), flat(map[Range]int64{{100, 100}: 1 << 16}), []Move{{0, 1, Set{{2048, 8191}}}}, []int{165, 35},
		},
		"a range stays whole rather than slots that weigh nothing": {
			[]Set{{{0, 8191}}, {{8192, 16383}}}, func() []int64 {
				w := make([]int64, Count)
				w[1000], w[2000], w[9000] = 5, 5, 0
				return w
			}(), []Move{{0, 1, Set{{0, 1000}}}}, []int{100, 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			mean := MeanOf(Loads(tc.owned, tc.weights))
			got := Level(tc.owned, tc.weights, mean/50)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.after, Percent(Loads(Carry(tc.owned, got), tc.weights), mean)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// randomWeights are few or many, alike or very different.
func randomWeights(rnd *rand.Rand) []int64 {
	out := make([]int64, Count)
	for i := range out {
		switch rnd.IntN(3) {
		case 0:
			out[i] = rnd.Int64N(1 << 14)
		case 1:
			out[i] = rnd.Int64N(1 << (1 + rnd.IntN(20)))
		}
	}
	for range rnd.IntN(4) {
		from := rnd.IntN(Count)
		factor := 1 + rnd.Int64N(30)
		for i := from; i < min(Count, from+1+rnd.IntN(4000)); i++ {
			out[i] *= factor
		}
	}
	if rnd.IntN(4) == 0 {
		out[rnd.IntN(Count)] = 1 << (20 + rnd.IntN(14))
	}
	return out
}

// TestLevelNeverMakesAShardTooHeavy: the heaviest gets no heavier, nobody who gives gets, nothing is lost or owned twice, every shard
// keeps the slots that it is to have, and ranges stay few.
func TestLevelNeverMakesAShardTooHeavy(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		shards := 2 + rnd.IntN(12)
		owned, weights := even(shards), randomWeights(rnd)
		before := Loads(owned, weights)
		mean := MeanOf(before)
		moves := Level(owned, weights, mean/20)
		after := Carry(owned, moves)
		got := Loads(after, weights)
		gives, gets := map[int]bool{}, map[int]bool{}
		for _, m := range moves {
			gives[m.From], gets[m.To] = true, true
			if len(m.Slots.Minus(owned[m.From])) > 0 {
				t.Fatalf("seed %d: %v moves slots that its shard does not own", seed, m)
			}
		}
		total, ranges := 0, 0
		for i := range shards {
			total, ranges = total+after[i].Count(), ranges+len(after[i])
			if gives[i] && (gets[i] || got[i] < mean) {
				t.Errorf("seed %d: shard %d gives, and has %d of %d", seed, i, got[i], mean)
			}
			if gets[i] && got[i] > mean {
				t.Errorf("seed %d: shard %d gets, and has %d of %d", seed, i, got[i], mean)
			}
			if after[i].Count() < Count/shards/fewest {
				t.Errorf("seed %d: shard %d is left with %d slots", seed, i, after[i].Count())
			}
		}
		if total != Count || len(Union(after...).Missing()) > 0 {
			t.Errorf("seed %d: %d slots are owned", seed, total)
		}
		if ranges > shards+3*levelPieces {
			t.Errorf("seed %d: %d ranges", seed, ranges)
		}
	}
}

func TestFill(t *testing.T) {
	for name, tc := range map[string]struct {
		owned  []Set
		shards int
		want   []int
	}{
		"nobody has too few":                  {[]Set{{{0, 15000}}, {{15001, 16383}}}, 2, []int{14336, 2048}},
		"a layout by weight stays":            {[]Set{{{0, 3000}}, {{3001, 16383}}}, 2, []int{3001, 13383}},
		"a shard is new":                      {[]Set{{{0, 8191}}, {{8192, 16383}}, nil}, 3, []int{7509, 7510, 1365}},
		"a shard is to go":                    {[]Set{{{0, 2999}}, {{3000, 8999}}, {{9000, 16383}}}, 2, []int{6692, 9692}},
		"a shard is to go, others are new":    {[]Set{{{0, 8191}}, nil, {{8192, 16383}}}, 2, []int{11264, 5120}},
		"nothing is owned by those that stay": {[]Set{nil, nil, {{0, 16383}}}, 2, []int{8192, 8192}},
	} {
		t.Run(name, func(t *testing.T) {
			after := Carry(tc.owned, Fill(tc.owned, tc.shards))
			var got []int
			for _, s := range after[:tc.shards] {
				got = append(got, s.Count())
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%v, want %v", got, tc.want)
			}
			for _, s := range after[tc.shards:] {
				if s.Count() > 0 {
					t.Errorf("a shard that is to go keeps %s", s)
				}
			}
			if more := Fill(after, tc.shards); len(more) > 0 {
				t.Errorf("and then %v", more)
			}
		})
	}
}
