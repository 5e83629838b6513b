package slots

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Count is the number of hash slots of every cluster.
const Count = 16384

// Range is a run of slots, both ends included.
type Range struct{ From, To int }

// Set is a set of slots: ranges in ascending order that neither touch nor overlap.
type Set []Range

// New makes a set of ranges in any order.
func New(ranges ...Range) Set {
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b Range) int { return cmp.Compare(a.From, b.From) })
	var out Set
	for _, r := range sorted {
		if n := len(out); n > 0 && r.From <= out[n-1].To+1 {
			out[n-1].To = max(out[n-1].To, r.To)
			continue
		}
		out = append(out, r)
	}
	return out
}

// Count is the number of slots in the set.
func (s Set) Count() int {
	n := 0
	for _, r := range s {
		n += r.To - r.From + 1
	}
	return n
}

// Equal reports whether two sets hold the same slots.
func (s Set) Equal(o Set) bool { return slices.Equal(s, o) }

// Overlaps reports whether two sets have a slot in common.
func (s Set) Overlaps(o Set) bool {
	return slices.ContainsFunc(s, func(a Range) bool {
		return slices.ContainsFunc(o, func(b Range) bool { return a.From <= b.To && b.From <= a.To })
	})
}

// Union is the set of the slots of all sets.
func Union(sets ...Set) Set { return New(slices.Concat(sets...)...) }

// Missing is the set of the slots that are not in s.
func (s Set) Missing() Set {
	var out Set
	next := 0
	for _, r := range s {
		if r.From > next {
			out = append(out, Range{next, r.From - 1})
		}
		next = r.To + 1
	}
	if next < Count {
		out = append(out, Range{next, Count - 1})
	}
	return out
}

// String is the form that CLUSTER NODES has: "0-5460 10923".
func (s Set) String() string {
	parts := make([]string, len(s))
	for i, r := range s {
		parts[i] = r.String()
	}
	return strings.Join(parts, " ")
}

// String is "from-to", or one number for a single slot.
func (r Range) String() string {
	if r.From == r.To {
		return strconv.Itoa(r.From)
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}

// ParseRange reads what Range.String writes.
func ParseRange(text string) (Range, error) {
	from, to, found := strings.Cut(text, "-")
	if !found {
		to = from
	}
	a, errA := strconv.Atoi(from)
	b, errB := strconv.Atoi(to)
	if errA != nil || errB != nil || a < 0 || b < a || b >= Count {
		return Range{}, fmt.Errorf("%q is no range of slots", text)
	}
	return Range{a, b}, nil
}

// Parse reads what Set.String writes.
func Parse(text string) (Set, error) {
	var ranges []Range
	for part := range strings.FieldsSeq(text) {
		r, err := ParseRange(part)
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, r)
	}
	return New(ranges...), nil
}

// MarshalText is String.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is Parse.
func (s *Set) UnmarshalText(text []byte) (err error) {
	*s, err = Parse(string(text))
	return err
}

// Share is the range of slots that a shard of a fresh cluster gets: all shards alike, the remainder over the first.
func Share(shard, shards int) Set {
	size, rest := Count/shards, Count%shards
	from := shard*size + min(shard, rest)
	to := from + size - 1
	if shard < rest {
		to++
	}
	return Set{{from, to}}
}

// Has reports whether a slot is in the set.
func (s Set) Has(slot int) bool {
	return slices.ContainsFunc(s, func(r Range) bool { return r.From <= slot && slot <= r.To })
}

// Minus is the set of the slots of s that are not in o.
func (s Set) Minus(o Set) Set {
	var out Set
	for _, r := range s {
		next := r.From
		for _, gone := range o {
			if gone.To < next || gone.From > r.To {
				continue
			}
			if gone.From > next {
				out = append(out, Range{next, gone.From - 1})
			}
			next = gone.To + 1
		}
		if next <= r.To {
			out = append(out, Range{next, r.To})
		}
	}
	return out
}

// And is the set of the slots that are in both.
func (s Set) And(o Set) Set { return s.Minus(s.Minus(o)) }

// First is the set of the first n slots, or of all when there are fewer.
func (s Set) First(n int) Set {
	var out Set
	for _, r := range s {
		if n <= 0 {
			break
		}
		r.To = min(r.To, r.From+n-1)
		n -= r.To - r.From + 1
		out = append(out, r)
	}
	return out
}

// Last is the set of the last n slots, or of all when there are fewer.
func (s Set) Last(n int) Set { return s.Minus(s.First(s.Count() - n)) }

// All yields every slot of the set in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, r := range s {
			for slot := r.From; slot <= r.To; slot++ {
				if !yield(slot) {
					return
				}
			}
		}
	}
}
