package redisfake

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// slotMap says something about slots: who owns them, or with whom they are open. A slot that it does not speak of has "".
type slotMap []run

// run is neighbouring slots with the same value.
type run struct {
	of    slots.Range
	value string
}

// get returns what is said of a slot.
func (m slotMap) get(slot int) string {
	for _, r := range m {
		if r.of.From <= slot && slot <= r.of.To {
			return r.value
		}
	}
	return ""
}

// within cuts the map down to a range, gaps included.
func (m slotMap) within(of slots.Range) slotMap {
	var out slotMap
	next := of.From
	for _, r := range m {
		if r.of.To < of.From || r.of.From > of.To {
			continue
		}
		from, to := max(r.of.From, of.From), min(r.of.To, of.To)
		if from > next {
			out = append(out, run{slots.Range{From: next, To: from - 1}, ""})
		}
		out = append(out, run{slots.Range{From: from, To: to}, r.value})
		next = to + 1
	}
	if next <= of.To {
		out = append(out, run{slots.Range{From: next, To: of.To}, ""})
	}
	return out
}

// set says something of a range; "" clears it.
func (m *slotMap) set(of slots.Range, value string) {
	var out slotMap
	for _, r := range *m {
		for _, rest := range (slots.Set{r.of}).Minus(slots.Set{of}) {
			out = append(out, run{rest, r.value})
		}
	}
	if value != "" {
		out = append(out, run{of, value})
	}
	slices.SortFunc(out, func(a, b run) int { return cmp.Compare(a.of.From, b.of.From) })
	*m = out
	m.join()
}

// join makes one run of neighbours with the same value.
func (m *slotMap) join() {
	var out slotMap
	for _, r := range *m {
		if n := len(out); n > 0 && out[n-1].value == r.value && out[n-1].of.To+1 == r.of.From {
			out[n-1].of.To = r.of.To
			continue
		}
		out = append(out, r)
	}
	*m = out
}

// with are the slots of which something is said.
func (m slotMap) with(value string) slots.Set {
	var out slots.Set
	for _, r := range m {
		if r.value == value {
			out = append(out, r.of)
		}
	}
	return out
}

// has tells whether it is said of any slot.
func (m slotMap) has(value string) bool {
	return slices.ContainsFunc(m, func(r run) bool { return r.value == value })
}
