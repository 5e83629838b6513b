package register

import (
	"testing"
	"time"

	"github.com/quorate/quorate/test/e2e/load/ledger"
)

// at is a moment of a history, in seconds.
func at(s int) time.Time { return time.Unix(int64(s), 0) }

func TestHistoriesAreTold(t *testing.T) {
	write := func(to string, call, end int) Operation {
		return Operation{Kind: Write, Key: "k", To: to, Call: at(call), Return: at(end)}
	}
	read := func(got string, call, end int) Operation {
		return Operation{Kind: Read, Key: "k", Got: got, Call: at(call), Return: at(end)}
	}
	swap := func(from, to string, swapped bool, call, end int) Operation {
		return Operation{Kind: Swap, Key: "k", From: from, To: to, Swapped: swapped, Call: at(call), Return: at(end)}
	}
	unknown := func(o Operation) Operation {
		o.Unknown = true
		return o
	}
	elsewhere := func(o Operation) Operation {
		o.Key = "other"
		return o
	}
	tests := map[string]struct {
		history []Operation
		seen    map[string]int
		blind   bool
		want    ledger.RegisterSummary
	}{
		"a read returns the last write": {history: []Operation{write("a", 0, 1), read("a", 2, 3)}, want: ledger.RegisterSummary{Operations: 2, Result: "Ok"}},
		"a read returns an old value": {
			history: []Operation{write("a", 0, 1), write("b", 2, 3), read("a", 4, 5)}, want: ledger.RegisterSummary{Operations: 3, Result: "Illegal"},
		},
		"a write is lost": {history: []Operation{write("a", 0, 1), read("", 2, 3)}, want: ledger.RegisterSummary{Operations: 2, Result: "Illegal"}},
		"keys are apart":  {history: []Operation{write("a", 0, 1), elsewhere(read("", 2, 3))}, want: ledger.RegisterSummary{Operations: 2, Result: "Ok"}},
		"two swaps of one value take place": {
			history: []Operation{write("a", 0, 1), swap("a", "b", true, 2, 3), swap("a", "c", true, 4, 5)}, want: ledger.RegisterSummary{Operations: 3, Result: "Illegal"},
		},
		"the second of two swaps does not": {
			history: []Operation{write("a", 0, 1), swap("a", "b", true, 2, 3), swap("a", "c", false, 4, 5)}, want: ledger.RegisterSummary{Operations: 3, Result: "Ok"},
		},
		"a swap that should have taken place does not": {
			history: []Operation{write("a", 0, 1), swap("a", "b", false, 2, 3)}, want: ledger.RegisterSummary{Operations: 2, Result: "Illegal"},
		},
		"a write without an answer is read": {
			history: []Operation{unknown(write("a", 0, 1)), read("a", 5, 6)}, seen: map[string]int{"a": 4},
			want: ledger.RegisterSummary{Operations: 2, Unknown: 1, Result: "Ok"},
		},
		"a write without an answer is read before it and not after it": {
			history: []Operation{unknown(write("a", 0, 1)), read("a", 2, 3), read("", 5, 6)}, seen: map[string]int{"a": 4},
			want: ledger.RegisterSummary{Operations: 3, Unknown: 1, Result: "Illegal"},
		},
		"a write without an answer takes effect after it was seen": {
			history: []Operation{unknown(write("a", 0, 1)), read("", 5, 6), read("a", 7, 8)}, seen: map[string]int{"a": 4},
			want: ledger.RegisterSummary{Operations: 3, Unknown: 1, Result: "Illegal"},
		},
		"a write without an answer that nobody saw is read": {
			history: []Operation{unknown(write("a", 0, 1)), read("a", 5, 6)}, want: ledger.RegisterSummary{Operations: 1, Unknown: 1, Unseen: 1, Result: "Illegal"},
		},
		"a blind watcher proves nothing": {
			history: []Operation{unknown(write("a", 0, 1)), read("a", 5, 6)}, blind: true, want: ledger.RegisterSummary{Operations: 2, Unknown: 1, Result: "Ok"},
		},
		"a swap without an answer takes place late": {
			history: []Operation{write("a", 0, 1), unknown(swap("a", "b", false, 2, 3)), read("a", 4, 5), read("b", 9, 10)}, seen: map[string]int{"b": 7},
			want: ledger.RegisterSummary{Operations: 4, Unknown: 1, Result: "Ok"},
		},
		"a swap without an answer that was seen cannot have taken place": {
			history: []Operation{write("a", 0, 1), write("c", 2, 3), unknown(swap("a", "b", false, 4, 5))}, seen: map[string]int{"b": 7},
			want: ledger.RegisterSummary{Operations: 3, Unknown: 1, Result: "Illegal"},
		},
		"a read without an answer says nothing": {
			history: []Operation{write("a", 0, 1), unknown(read("", 2, 3))}, want: ledger.RegisterSummary{Operations: 1, Unknown: 1, Unseen: 1, Result: "Ok"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var h History
			for _, o := range tc.history {
				h.Add(o)
			}
			for value, when := range tc.seen {
				h.Seen(value, at(when))
			}
			if tc.blind {
				h.Blind()
			}
			if got := h.Check(time.Minute); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
