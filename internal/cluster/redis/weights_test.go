package redis

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
)

// even is the layout of a fresh cluster.
func even(shards int) []Slots {
	out := make([]Slots, shards)
	for i := range out {
		out[i] = Share(i, shards)
	}
	return out
}

// flat are weights of one each, but for some.
func flat(heavy map[Range]int64) []int64 {
	out := make([]int64, SlotCount)
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
		owned   []Slots
		weights []int64
		want    []Move
		// after are the weights of the shards in percent of the mean.
		after []int
	}{
		"all slots weigh the same": {even(2), flat(nil), nil, []int{100, 100}},
		"the slots at an end weigh more": {
			even(2), flat(map[Range]int64{{0, 8191}: 3}), []Move{{0, 1, Slots{{5462, 8191}}}}, []int{100, 99},
		},
		"slots in the middle weigh more": {
			even(2), flat(map[Range]int64{{4000, 4999}: 9}), []Move{{0, 1, Slots{{4911, 8191}}}}, []int{100, 99},
		},
		"the neighbour does not need any": {
			even(3), flat(map[Range]int64{{0, 5461}: 9, {5462, 10922}: 5}), []Move{{0, 2, Slots{{0, 2426}}}}, []int{100, 99, 99},
		},
		"one slot weighs more than all others: these go": {
			even(2), flat(map[Range]int64{{100, 100}: 1 << 16}), []Move{{0, 1, Slots{{2048, 8191}}}}, []int{165, 35},
		},
		"a range stays whole rather than slots that weigh nothing": {
			[]Slots{{{0, 8191}}, {{8192, 16383}}}, func() []int64 {
				w := make([]int64, SlotCount)
				w[1000], w[2000], w[9000] = 5, 5, 0
				return w
			}(), []Move{{0, 1, Slots{{0, 1000}}}}, []int{100, 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			mean := meanOf(loads(tc.owned, tc.weights))
			got := Level(tc.owned, tc.weights, mean/50)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.after, percent(loads(carry(tc.owned, got), tc.weights), mean)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// randomWeights are few or many, alike or very different.
func randomWeights(rnd *rand.Rand) []int64 {
	out := make([]int64, SlotCount)
	for i := range out {
		switch rnd.IntN(3) {
		case 0:
			out[i] = rnd.Int64N(1 << 14)
		case 1:
			out[i] = rnd.Int64N(1 << (1 + rnd.IntN(20)))
		}
	}
	for range rnd.IntN(4) {
		from := rnd.IntN(SlotCount)
		factor := 1 + rnd.Int64N(30)
		for i := from; i < min(SlotCount, from+1+rnd.IntN(4000)); i++ {
			out[i] *= factor
		}
	}
	if rnd.IntN(4) == 0 {
		out[rnd.IntN(SlotCount)] = 1 << (20 + rnd.IntN(14))
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
		before := loads(owned, weights)
		mean := meanOf(before)
		moves := Level(owned, weights, mean/20)
		after := carry(owned, moves)
		got := loads(after, weights)
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
			if after[i].Count() < SlotCount/shards/fewest {
				t.Errorf("seed %d: shard %d is left with %d slots", seed, i, after[i].Count())
			}
		}
		if total != SlotCount || len(Union(after...).Missing()) > 0 {
			t.Errorf("seed %d: %d slots are owned", seed, total)
		}
		if ranges > shards+3*levelPieces {
			t.Errorf("seed %d: %d ranges", seed, ranges)
		}
	}
}

func TestFill(t *testing.T) {
	for name, tc := range map[string]struct {
		owned  []Slots
		shards int
		want   []int
	}{
		"nobody has too few":                  {[]Slots{{{0, 15000}}, {{15001, 16383}}}, 2, []int{14336, 2048}},
		"a layout by weight stays":            {[]Slots{{{0, 3000}}, {{3001, 16383}}}, 2, []int{3001, 13383}},
		"a shard is new":                      {[]Slots{{{0, 8191}}, {{8192, 16383}}, nil}, 3, []int{7509, 7510, 1365}},
		"a shard is to go":                    {[]Slots{{{0, 2999}}, {{3000, 8999}}, {{9000, 16383}}}, 2, []int{6692, 9692}},
		"a shard is to go, others are new":    {[]Slots{{{0, 8191}}, nil, {{8192, 16383}}}, 2, []int{11264, 5120}},
		"nothing is owned by those that stay": {[]Slots{nil, nil, {{0, 16383}}}, 2, []int{8192, 8192}},
	} {
		t.Run(name, func(t *testing.T) {
			after := carry(tc.owned, Fill(tc.owned, tc.shards))
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

func TestWeigh(t *testing.T) {
	at := time.Unix(1e9, 0)
	const id, process, teller = "n", "p", "n/p"
	sample := func(after time.Duration, stat SlotStat) Sample {
		s := Sample{At: at.Add(after), Servers: map[string]map[int]SlotStat{teller: {}}}
		for slot := range SlotCount {
			s.Servers[teller][slot] = stat
		}
		return s
	}
	pod := func(config map[string]string) []Pod {
		return []Pod{{Name: "c-0-0", Node: &Node{
			ID: id, Process: process, Keys: 100, Memory: Memory{Used: 3000, Empty: 1000}, Config: config,
			Peers: []Peer{{Myself: true, Slots: Slots{{0, SlotCount - 1}}}},
		}}}
	}
	on := map[string]string{SlotStatsParameter: "yes"}
	for name, tc := range map[string]struct {
		by             v1alpha1.RebalanceBy
		former, latest Sample
		pods           []Pod
		// want is what each slot weighs; negative: unknown.
		want   int64
		untold string
	}{
		"memory that is told":             {v1alpha1.RebalanceByMemory, Sample{}, sample(0, SlotStat{Keys: 3, Bytes: 77, CPU: -1}), pod(nil), 77, ""},
		"memory that is not told":         {v1alpha1.RebalanceByMemory, Sample{}, sample(0, SlotStat{Keys: 3, Bytes: -1, CPU: -1}), pod(nil), 60, ""},
		"memory that is not counted":      {v1alpha1.RebalanceByMemory, Sample{}, sample(0, SlotStat{Keys: 3}), pod(nil), 60, ""},
		"nothing was asked yet":           {v1alpha1.RebalanceByMemory, Sample{}, Sample{}, pod(nil), -1, ""},
		"load":                            {v1alpha1.RebalanceByLoad, sample(0, SlotStat{CPU: time.Second}), sample(10*time.Second, SlotStat{CPU: 2 * time.Second}), pod(on), 100_000, ""},
		"load of one sample":              {v1alpha1.RebalanceByLoad, sample(0, SlotStat{CPU: time.Second}), sample(0, SlotStat{CPU: time.Second}), pod(on), -1, ""},
		"load of a slot that was away":    {v1alpha1.RebalanceByLoad, sample(0, SlotStat{CPU: time.Second}), sample(time.Second, SlotStat{}), pod(on), -1, ""},
		"load of a server that restarted": {v1alpha1.RebalanceByLoad, Sample{}, sample(time.Second, SlotStat{CPU: time.Second}), pod(on), -1, ""},
		"load that is not counted yet":    {v1alpha1.RebalanceByLoad, sample(0, SlotStat{CPU: -1}), sample(time.Second, SlotStat{CPU: -1}), pod(map[string]string{SlotStatsParameter: "no"}), -1, ""},
		"load that is never told":         {v1alpha1.RebalanceByLoad, sample(0, SlotStat{CPU: -1}), sample(time.Second, SlotStat{CPU: -1}), pod(map[string]string{"hz": "10"}), -1, "c-0-0"},
	} {
		t.Run(name, func(t *testing.T) {
			got, untold := Weigh(tc.by, tc.former, tc.latest, tc.pods)
			if untold != tc.untold {
				t.Errorf("%q does not tell, want %q", untold, tc.untold)
			}
			switch {
			case (got == nil) != (tc.want < 0):
				t.Errorf("known: %t", got != nil)
			case got != nil && (got[0] != tc.want || got[SlotCount-1] != tc.want):
				t.Errorf("%d, want %d", got[0], tc.want)
			}
		})
	}
}

// TestRebalancingNeverOscillates: what was proposed and carried out is followed by no other proposal, also when weights change a little;
// and where no move helps, none is proposed again and again.
func TestRebalancingNeverOscillates(t *testing.T) {
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 8))
		f := formed()
		f.Spec.Rebalance = Rebalance{By: v1alpha1.RebalanceByMemory, Threshold: 10 + rnd.IntN(60), CoolDown: time.Minute}
		f.Weights = randomWeights(rnd)
		for i := range f.Weights {
			f.Weights[i] <<= 10
		}
		rounds := 0
		for ; rounds < 20; rounds++ {
			p, _ := Propose(f.State, nil)
			if p == nil || p.ID == "" {
				break
			}
			if slices.Max(p.After) >= slices.Max(p.Now) {
				t.Fatalf("seed %d: it proposes to go from %v to %v", seed, p.Now, p.After)
			}
			f.carry(p)
		}
		// A heavy slot may leave room for improvement, each time by a part of the threshold.
		if rounds > 4 {
			t.Errorf("seed %d: %d proposals in a row", seed, rounds)
		}
		p, _ := Propose(f.State, nil)
		if p != nil {
			continue // Too heavy, and no move helps.
		}
		for i := range f.Weights {
			f.Weights[i] = f.Weights[i] * (1000 + rnd.Int64N(20)) / 1000
		}
		if again, _ := Propose(f.State, nil); again != nil && again.ID != "" && rounds > 0 {
			t.Errorf("seed %d: %v after 2 %% more", seed, again)
		}
	}
}

// carry has all servers know that a proposal has been carried out.
func (f *fixture) carry(p *Proposal) {
	v := look(f.State)
	after := carry(v.layout(), p.Moves)
	for shard, slots := range after {
		f.views(v.primary(shard).Node.ID, func(peer *Peer) { peer.Slots = slots })
	}
}
