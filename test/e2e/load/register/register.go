// Package register keeps the history of keys that several clients read, write, and compare and swap, and tells whether it is
// linearizable. It does no I/O.
package register

import (
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/quorate/quorate/test/e2e/load/ledger"
)

// Kind is what an operation does.
type Kind int

const (
	// Read returns the value.
	Read Kind = iota
	// Write sets the value.
	Write
	// Swap sets the value if it is the expected one.
	Swap
)

// Operation is what a client asked for, and what it was told. Values that are written are unique.
type Operation struct {
	Kind Kind
	Key  string
	// From is what a Swap expects, To what a Write or a Swap sets.
	From, To string
	// Got is what a Read returned, Swapped whether a Swap took place.
	Got     string
	Swapped bool
	// Unknown says that no answer came: it may have happened, or may yet happen.
	Unknown      bool
	Call, Return time.Time
}

// History collects what concurrent clients did.
type History struct {
	mu         sync.Mutex
	operations []Operation
	seen       map[string]time.Time
	blind      bool
}

// Add notes an operation that has ended. One that was refused never happened, and is not to be added.
func (h *History) Add(o Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, o)
}

// Seen notes that a watcher was told of a value: whoever wrote it had done so by then.
func (h *History) Seen(value string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil {
		h.seen = map[string]time.Time{}
	}
	h.seen[value] = at
}

// Blind notes that the watcher may have missed something: what it did not see may have happened all the same.
func (h *History) Blind() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blind = true
}

// Check tells whether the history is linearizable, within a time. The watcher must have caught up.
func (h *History) Check(timeout time.Duration) ledger.RegisterSummary {
	h.mu.Lock()
	defer h.mu.Unlock()
	var s ledger.RegisterSummary
	var history []porcupine.Operation
	for i, o := range h.operations {
		end, counts := h.end(o)
		if o.Unknown {
			s.Unknown++
		}
		if !counts {
			s.Unseen++
			continue
		}
		if _, seen := h.seen[o.To]; o.Unknown && seen {
			o.Swapped, o.Unknown = true, false
		}
		history = append(history, porcupine.Operation{ClientId: i, Input: o, Output: o, Call: o.Call.UnixNano(), Return: end})
	}
	s.Operations = len(history)
	s.Result = string(porcupine.CheckOperationsTimeout(model, history, timeout))
	return s
}

// end is when an operation had happened at the latest, and whether it is part of the history at all. A read without an answer says
// nothing. A write without an answer that a watcher saw had happened by then; one that it never saw, though it saw everything, did
// not happen.
func (h *History) end(o Operation) (int64, bool) {
	if !o.Unknown {
		return o.Return.UnixNano(), true
	}
	if o.Kind == Read {
		return 0, false
	}
	if at, ok := h.seen[o.To]; ok {
		return at.UnixNano(), true
	}
	return math.MaxInt64, h.blind
}

// model is a register for each key, empty at first.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(Operation).Key
			byKey[key] = append(byKey[key], o)
		}
		var out [][]porcupine.Operation
		for _, part := range byKey {
			out = append(out, part)
		}
		return out
	},
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		value, o := state.(string), input.(Operation)
		switch {
		case o.Kind == Read:
			return o.Got == value, value
		case o.Kind == Write:
			return true, o.To
		case o.Unknown && value != o.From:
			return true, value
		case o.Unknown || o.Swapped:
			return value == o.From, o.To
		}
		return value != o.From, value
	},
}
