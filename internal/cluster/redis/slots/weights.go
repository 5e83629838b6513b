package slots

import (
	"cmp"
	"iter"
	"slices"
)

// Percent returns the loads as percentages of their mean.
func Percent(load []int64, mean int64) []int {
	out := make([]int, len(load))
	for i, l := range load {
		out[i] = int(l * 100 / max(1, mean))
	}
	return out
}

// Carry is what shards own after moves.
func Carry(owned []Set, moves []Move) []Set {
	out := slices.Clone(owned)
	for _, m := range moves {
		out[m.From], out[m.To] = out[m.From].Minus(m.Slots), Union(out[m.To], m.Slots)
	}
	return out
}

// Loads are what shards weigh.
func Loads(owned []Set, weights []int64) []int64 {
	out := make([]int64, len(owned))
	for shard, slots := range owned {
		out[shard] = WeightOf(slots, weights)
	}
	return out
}

// WeightOf returns the sum of the weights of slots.
func WeightOf(slots Set, weights []int64) int64 {
	sum := int64(0)
	for slot := range slots.All() {
		sum += weights[slot]
	}
	return sum
}

// MeanOf returns the mean of loads, rounded down. There must be one.
func MeanOf(loads []int64) int64 {
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
func Level(owned []Set, weights []int64, slack int64) []Move {
	left, load := slices.Clone(owned), Loads(owned, weights)
	mean, least := MeanOf(load), Count/len(owned)/fewest
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
func lightestCut(slots Set, weights []int64, want int64, most int, taker Set) (Set, int64) {
	type cut struct {
		piece  Range
		weight int64
		fit    int
	}
	var cuts []cut
	for _, r := range slots {
		for _, piece := range pieces(r, weights, want, most) {
			c := cut{piece, WeightOf(Set{piece}, weights), 0}
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
	return Set{best.piece}, best.weight
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
func Fill(owned []Set, shards int) []Move {
	least := Count / shards / fewest
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
