package slots

import (
	"cmp"
	"slices"
)

// Move is slots that are to go from one shard to another.
type Move struct {
	From, To int
	Slots    Set
}

// Balance returns the moves after which the first so many shards own all slots between them, none more than one slot more than
// another, and the others own nothing. owned is what each shard has, by number.
//
// It moves as few slots as there can be, and cuts as few ranges as it can: every range costs memory and messages in servers
// and clients. Who has most keeps the slot that is left over.
func Balance(owned []Set, shards int) []Move { return divide(owned, surplus(owned, shards)) }

// divide returns moves after which no shard has spare slots, and none lacks any.
func divide(owned []Set, spare []int) []Move {
	left := slices.Clone(owned)
	var moves []Move
	for {
		from, to, piece := nextPiece(left, spare)
		if len(piece) == 0 {
			return moves
		}
		spare[from] -= piece.Count()
		spare[to] += piece.Count()
		left[from] = left[from].Minus(piece)
		left[to] = Union(left[to], piece)
		moves = add(moves, Move{from, to, piece})
	}
}

// add joins a move with another between the same shards.
func add(moves []Move, m Move) []Move {
	if i := slices.IndexFunc(moves, func(o Move) bool { return o.From == m.From && o.To == m.To }); i >= 0 {
		moves[i].Slots = Union(moves[i].Slots, m.Slots)
		return moves
	}
	return append(moves, m)
}

// surplus is how many slots each shard has too many, negative when it has too few.
func surplus(owned []Set, shards int) []int {
	total := 0
	order := make([]int, len(owned))
	for i, s := range owned {
		total += s.Count()
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(owned[b].Count(), owned[a].Count()) })
	rest := total % shards
	spare := make([]int, len(owned))
	for _, i := range order {
		spare[i] = owned[i].Count()
		if i >= shards {
			continue
		}
		spare[i] -= total / shards
		if rest > 0 {
			spare[i]--
			rest--
		}
	}
	return spare
}

// nextPiece is what to move next: a piece of a range of a shard with too much, at the end at which the one that gets it already
// has the neighbouring slot, if there is such a pair.
func nextPiece(owned []Set, spare []int) (from, to int, piece Set) {
	best := -1
	for i := range owned {
		for j := range owned {
			if spare[i] <= 0 || spare[j] >= 0 {
				continue
			}
			n := min(spare[i], -spare[j])
			for _, r := range owned[i] {
				if score := fit(r, n, owned[j]); score > best {
					best, from, to, piece = score, i, j, cut(r, n, owned[j])
				}
			}
		}
	}
	return from, to, piece
}

// fit says how good it is to take up to n slots off a range for a shard: a neighbour counts more than a whole range, and that more
// than none.
func fit(r Range, n int, taker Set) int {
	score := 0
	if r.To-r.From < n {
		score = 1
	}
	if taker.Has(r.From-1) || taker.Has(r.To+1) {
		score += 2
	}
	return score
}

// cut takes up to n slots off an end of a range, the one at which the taker has the neighbouring slot.
func cut(r Range, n int, taker Set) Set {
	if taker.Has(r.From - 1) {
		return Set{r}.First(n)
	}
	return Set{r}.Last(n)
}
