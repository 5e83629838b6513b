package planner

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/balance"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

func TestWeigh(t *testing.T) {
	at := time.Unix(1e9, 0)
	const id, process, teller = "n", "p", "n/p"
	sample := func(after time.Duration, stat model.SlotStat) balance.Sample {
		s := balance.Sample{At: at.Add(after), Servers: map[string]map[int]model.SlotStat{teller: {}}}
		for slot := range slots.Count {
			s.Servers[teller][slot] = stat
		}
		return s
	}
	pod := func(config map[string]string) []model.Pod {
		return []model.Pod{{Name: "c-0-0", Node: &model.Node{
			ID: id, Process: process, Keys: 100, Memory: model.Memory{Used: 3000, Empty: 1000}, Config: config,
			Peers: []model.Peer{{Myself: true, Slots: slots.Set{{From: 0, To: slots.Count - 1}}}},
		}}}
	}
	on := map[string]string{config.SlotStatsParameter: "yes"}
	for name, tc := range map[string]struct {
		by             v1alpha1.RebalanceBy
		former, latest balance.Sample
		pods           []model.Pod
		// want is what each slot weighs; negative: unknown.
		want   int64
		untold string
	}{
		"memory that is told":             {v1alpha1.RebalanceByMemory, balance.Sample{}, sample(0, model.SlotStat{Keys: 3, Bytes: 77, CPU: -1}), pod(nil), 77, ""},
		"memory that is not told":         {v1alpha1.RebalanceByMemory, balance.Sample{}, sample(0, model.SlotStat{Keys: 3, Bytes: -1, CPU: -1}), pod(nil), 60, ""},
		"memory that is not counted":      {v1alpha1.RebalanceByMemory, balance.Sample{}, sample(0, model.SlotStat{Keys: 3}), pod(nil), 60, ""},
		"nothing was asked yet":           {v1alpha1.RebalanceByMemory, balance.Sample{}, balance.Sample{}, pod(nil), -1, ""},
		"load":                            {v1alpha1.RebalanceByLoad, sample(0, model.SlotStat{CPU: time.Second}), sample(10*time.Second, model.SlotStat{CPU: 2 * time.Second}), pod(on), 100_000, ""},
		"load of one sample":              {v1alpha1.RebalanceByLoad, sample(0, model.SlotStat{CPU: time.Second}), sample(0, model.SlotStat{CPU: time.Second}), pod(on), -1, ""},
		"load of a slot that was away":    {v1alpha1.RebalanceByLoad, sample(0, model.SlotStat{CPU: time.Second}), sample(time.Second, model.SlotStat{}), pod(on), -1, ""},
		"load of a server that restarted": {v1alpha1.RebalanceByLoad, balance.Sample{}, sample(time.Second, model.SlotStat{CPU: time.Second}), pod(on), -1, ""},
		"load that is not counted yet":    {v1alpha1.RebalanceByLoad, sample(0, model.SlotStat{CPU: -1}), sample(time.Second, model.SlotStat{CPU: -1}), pod(map[string]string{config.SlotStatsParameter: "no"}), -1, ""},
		"load that is never told":         {v1alpha1.RebalanceByLoad, sample(0, model.SlotStat{CPU: -1}), sample(time.Second, model.SlotStat{CPU: -1}), pod(map[string]string{"hz": "10"}), -1, "c-0-0"},
	} {
		t.Run(name, func(t *testing.T) {
			got, untold := balance.Weigh(tc.by, tc.former, tc.latest, tc.pods)
			if untold != tc.untold {
				t.Errorf("%q does not tell, want %q", untold, tc.untold)
			}
			switch {
			case (got == nil) != (tc.want < 0):
				t.Errorf("known: %t", got != nil)
			case got != nil && (got[0] != tc.want || got[slots.Count-1] != tc.want):
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
		f.Spec.Rebalance = model.Rebalance{By: v1alpha1.RebalanceByMemory, Threshold: 10 + rnd.IntN(60), CoolDown: time.Minute}
		f.Weights = randomWeights(rnd)
		for i := range f.Weights {
			f.Weights[i] <<= 10
		}
		rounds := 0
		for ; rounds < 20; rounds++ {
			p, _ := balance.Propose(f.State, nil)
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
		p, _ := balance.Propose(f.State, nil)
		if p != nil {
			continue // Too heavy, and no move helps.
		}
		for i := range f.Weights {
			f.Weights[i] = f.Weights[i] * (1000 + rnd.Int64N(20)) / 1000
		}
		if again, _ := balance.Propose(f.State, nil); again != nil && again.ID != "" && rounds > 0 {
			t.Errorf("seed %d: %v after 2 %% more", seed, again)
		}
	}
}

// carry has all servers know that a proposal has been carried out.
func (f *fixture) carry(p *model.Proposal) {
	v := model.NewView(f.State)
	after := slots.Carry(facts.Layout(v), p.Moves)
	for shard, slots := range after {
		f.views(v.Primary(shard).Node.ID, func(peer *model.Peer) { peer.Slots = slots })
	}
}

// flat are weights of one each, but for some.
func flat(heavy map[slots.Range]int64) []int64 {
	out := make([]int64, slots.Count)
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

// randomWeights are few or many, alike or very different.
func randomWeights(rnd *rand.Rand) []int64 {
	out := make([]int64, slots.Count)
	for i := range out {
		switch rnd.IntN(3) {
		case 0:
			out[i] = rnd.Int64N(1 << 14)
		case 1:
			out[i] = rnd.Int64N(1 << (1 + rnd.IntN(20)))
		}
	}
	for range rnd.IntN(4) {
		from := rnd.IntN(slots.Count)
		factor := 1 + rnd.Int64N(30)
		for i := from; i < min(slots.Count, from+1+rnd.IntN(4000)); i++ {
			out[i] *= factor
		}
	}
	if rnd.IntN(4) == 0 {
		out[rnd.IntN(slots.Count)] = 1 << (20 + rnd.IntN(14))
	}
	return out
}
