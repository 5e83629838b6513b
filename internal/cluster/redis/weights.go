package redis

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
)

// SlotStat is what a server tells of one slot.
type SlotStat struct {
	Keys int64
	// Bytes that its keys take; 0 or less: the server does not tell, or there are none.
	Bytes int64
	// CPU is what commands for it have taken since the slot came, or the server was started; negative: the server does not tell.
	CPU time.Duration
}

// Sample is what primaries told of their slots at one time, by Node.Teller and slot.
type Sample struct {
	At      time.Time
	Servers map[string]map[int]SlotStat
}

// Teller tells processes of servers apart: one that has restarted counts anew.
func (n *Node) Teller() string { return n.ID + "/" + n.Process }

// LoadWindow is over how long the load of a slot is measured.
const LoadWindow = 5 * time.Minute

// Weigh returns what all slots weigh, in bytes or in microseconds of CPU time a second; nil: unknown. former and latest are two samples,
// and untold is a server that does not tell what is asked for. Load is the difference of the two: a slot that has moved in between,
// or whose server has restarted, has none yet.
func Weigh(by v1alpha1.RebalanceBy, former, latest Sample, pods []Pod) (weights []int64, untold string) {
	weights = make([]int64, SlotCount)
	known, took := 0, latest.At.Sub(former.At)
	for _, p := range pods {
		if p.Node == nil || p.Deleting || !p.ownsSlots() {
			continue
		}
		now, then := latest.Servers[p.Node.Teller()], former.Servers[p.Node.Teller()]
		for slot := range p.Node.Self().Slots.All() {
			stat, told := now[slot]
			before, measured := then[slot]
			switch {
			case !told:
				continue
			case by == v1alpha1.RebalanceByMemory:
				weights[slot] = p.Node.bytesIn(stat)
			case stat.CPU < 0 && p.Node.Config[SlotStatsParameter] == "":
				return nil, p.Name
			case !measured || stat.CPU < max(0, before.CPU) || took <= 0:
				continue
			default:
				weights[slot] = int64((stat.CPU - before.CPU).Seconds() / took.Seconds() * 1e6)
			}
			known++
		}
	}
	if known < SlotCount {
		return nil, ""
	}
	return weights, ""
}

// bytesIn is what the keys of a slot take, or would if they were like all keys of the server.
func (n *Node) bytesIn(s SlotStat) int64 {
	if s.Bytes > 0 {
		return s.Bytes
	}
	return s.Keys * max(0, (n.Memory.Used-n.Memory.Empty)/max(1, n.Keys))
}

// loads are what shards weigh.
func loads(owned []Slots, weights []int64) []int64 {
	out := make([]int64, len(owned))
	for shard, slots := range owned {
		out[shard] = weightOf(slots, weights)
	}
	return out
}

func weightOf(slots Slots, weights []int64) int64 {
	sum := int64(0)
	for slot := range slots.All() {
		sum += weights[slot]
	}
	return sum
}

func meanOf(loads []int64) int64 {
	sum := int64(0)
	for _, l := range loads {
		sum += l
	}
	return sum / int64(len(loads))
}

const (
	// fewest is the part of an even share of the slots that every shard has at least, whatever they weigh.
	fewest = 4
	// levelPieces is how many pieces of ranges are moved at most to make shards weigh alike.
	levelPieces = 64
)

// Level returns moves after which no shard weighs more than slack above the mean, as far as that can be had. All shards are wanted ones.
//
// The heaviest shard gives the lightest one piece of a range at a time, at most what takes either of the two to the mean: who gives never
// gets, and no shard becomes too heavy by it. A piece that brings the neighbour of a slot, or ends where a range ends, is preferred to one
// that weighs a little more.
func Level(owned []Slots, weights []int64, slack int64) []Move {
	left, load := slices.Clone(owned), loads(owned, weights)
	mean, least := meanOf(load), SlotCount/len(owned)/fewest
	stuck := make([]bool, len(owned))
	var moves []Move
	for range levelPieces {
		from, to := -1, 0
		for i := range load {
			if !stuck[i] && load[i] > mean+slack && (from < 0 || load[i] > load[from]) {
				from = i
			}
			if load[i] < load[to] {
				to = i
			}
		}
		if from < 0 {
			break
		}
		want := min(load[from]-mean, mean-load[to])
		piece, weight := lightestCut(left[from], weights, want, left[from].Count()-least, left[to])
		if weight < want/8 || weight == 0 {
			stuck[from] = true
			continue
		}
		load[from], load[to] = load[from]-weight, load[to]+weight
		left[from], left[to] = left[from].Minus(piece), Union(left[to], piece)
		moves = add(moves, Move{from, to, piece})
	}
	return moves
}

// lightestCut is the piece of one of the ranges that weighs up to want, has up to most slots, and cuts least.
func lightestCut(slots Slots, weights []int64, want int64, most int, taker Slots) (Slots, int64) {
	type cut struct {
		piece  Range
		weight int64
		fit    int
	}
	var cuts []cut
	for _, r := range slots {
		for _, piece := range pieces(r, weights, want, most) {
			c := cut{piece, weightOf(Slots{piece}, weights), 0}
			for _, end := range []struct{ at, beyond int }{{piece.From, r.From}, {piece.To, r.To}} {
				if end.at == end.beyond {
					c.fit++
				}
			}
			if taker.Has(piece.From-1) || taker.Has(piece.To+1) {
				c.fit += 2
			}
			cuts = append(cuts, c)
		}
	}
	if len(cuts) == 0 {
		return nil, 0
	}
	heaviest := slices.MaxFunc(cuts, func(a, b cut) int { return cmp.Compare(a.weight, b.weight) }).weight
	cuts = slices.DeleteFunc(cuts, func(c cut) bool { return c.weight < heaviest*4/5 })
	best := slices.MaxFunc(cuts, func(a, b cut) int { return cmp.Or(cmp.Compare(a.fit, b.fit), cmp.Compare(a.weight, b.weight)) })
	return Slots{best.piece}, best.weight
}

// pieces are the heaviest of a range that weigh up to want and have up to most slots: one from its beginning, one to its end, and one
// from anywhere. None begins inside of the range with a slot that weighs nothing.
func pieces(r Range, weights []int64, want int64, most int) []Range {
	var head, tail, best span
	for s := range spans(r, weights, want, most) {
		if s.weight > best.weight {
			best = s
		}
		if s.From == r.From && s.weight > head.weight {
			head = s
		}
		tail = s // The last one that there is.
	}
	var out []Range
	for _, s := range []span{head, tail, best} {
		for s.From > r.From && s.From < s.To && weights[s.From] == 0 {
			s.From++
		}
		if s.weight > 0 {
			out = append(out, s.Range)
		}
	}
	return out
}

// span is a run of slots and what they weigh.
type span struct {
	Range
	weight int64
}

// spans yields, for each slot of a range that can be its end, the longest run that weighs up to want and has up to most slots.
func spans(r Range, weights []int64, want int64, most int) iter.Seq[span] {
	return func(yield func(span) bool) {
		from, sum := r.From, int64(0)
		for to := r.From; to <= r.To; to++ {
			sum += weights[to]
			for from <= to && (sum > want || to-from+1 > most) {
				sum -= weights[from]
				from++
			}
			if from <= to && !yield(span{Range{from, to}, sum}) {
				return
			}
		}
	}
}

// Fill returns the moves after which shards that are to go own nothing, and every wanted one has the fewest slots that it is to have. How
// many more each of them has is for their weights to say.
func Fill(owned []Slots, shards int) []Move {
	least := SlotCount / shards / fewest
	spare, sum := make([]int, len(owned)), 0
	for i, s := range owned {
		switch {
		case i >= shards:
			spare[i] = s.Count()
		case s.Count() < least:
			spare[i] = s.Count() - least
		}
		sum += spare[i]
	}
	for i := range spare[:shards] { // Those that go give more than is lacked: all others take alike.
		part := max(0, sum) / (shards - i)
		spare[i] -= part
		sum -= part
	}
	for sum < 0 { // They give less: those with most give, too.
		most := 0
		for i := range shards {
			if owned[i].Count()-spare[i] > owned[most].Count()-spare[most] {
				most = i
			}
		}
		spare[most]++
		sum++
	}
	return divide(owned, spare)
}
