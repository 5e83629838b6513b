// Package updates checks keys that are overwritten, deleted and incremented again and again. It
// does no I/O.
//
// Each key has one writer, which waits for each answer. Two states of a key are allowed: the one
// that was acknowledged last, and the one that an update without an answer would have left. Such an
// update is the last one of its key, because it may take effect at any time.
package updates

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// State is what a key holds.
type State struct {
	Value string
	There bool
}

// String is the state in a report.
func (s State) String() string {
	if !s.There {
		return "nothing"
	}
	return strconv.Quote(s.Value)
}

// The kinds of a Fault.
const (
	// RolledBack: an earlier state came back in place of an acknowledged overwrite or increment.
	RolledBack = "rolled back"
	// Resurrected: a deleted key is back.
	Resurrected = "resurrected"
	// Gone: a key that was not deleted holds nothing.
	Gone = "gone"
	// AppliedTwice: a counter is higher than its increments.
	AppliedTwice = "applied twice"
	// Foreign: a value that the writer never sent.
	Foreign = "foreign"
)

// Fault is a state that is not allowed. The times are in Unix milliseconds: AckedMs is when the
// expected state was acknowledged, SeenMs when an allowed state was read or acknowledged last,
// MissedMs when the fault was read.
type Fault struct {
	Kind     string `json:"kind"`
	Key      string `json:"key"`
	Want     string `json:"want"`
	Got      string `json:"got"`
	AckedMs  int64  `json:"ackedMs"`
	SeenMs   int64  `json:"seenMs"`
	MissedMs int64  `json:"missedMs"`
}

// Summary is the result of all updates.
type Summary struct {
	// Keys counts the keys, Acked and Unknown the updates with and without an answer, Reads the
	// states that were compared.
	Keys    int `json:"keys"`
	Acked   int `json:"acked"`
	Unknown int `json:"unknown"`
	Reads   int `json:"reads"`
	// Wrong counts the keys with a fault; Faults are the first of them.
	Wrong  int     `json:"wrong"`
	Faults []Fault `json:"faults,omitempty"`
}

// maxFaults bounds the length of a summary.
const maxFaults = 1000

// Book keeps the state of every key.
type Book struct {
	now func() time.Time

	mu   sync.Mutex
	keys map[string]*key
	s    Summary
}

type key struct {
	counter  bool
	acked    State
	pending  *State
	former   []State
	at, seen time.Time
	wrong    bool
}

// New opens a book.
func New(now func() time.Time) *Book { return &Book{now: now, keys: map[string]*key{}} }

// Open adds a key that does not exist. A counter is only incremented.
func (b *Book) Open(name string, counter bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.keys[name] = &key{counter: counter, at: now, seen: now}
	b.s.Keys++
}

// Ack notes that an update was acknowledged and leaves the key in this state.
func (b *Book) Ack(name string, to State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.keys[name]
	k.former = append(k.former, k.acked)
	k.acked, k.at = to, b.now()
	k.seen = k.at
	b.s.Acked++
}

// Miss notes that an update got no answer: it may or may not leave the key in this state. The key
// must not be updated again.
func (b *Book) Miss(name string, to State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys[name].pending = &to
	b.s.Unknown++
}

// Look compares what a key holds with what it may hold, and reports whether that is allowed. Each
// key has one fault at most.
func (b *Book) Look(name string, got State) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, now := b.keys[name], b.now()
	b.s.Reads++
	if k.allows(got) {
		k.seen = now
		return true
	}
	if !k.wrong {
		k.wrong = true
		b.s.Wrong++
		if len(b.s.Faults) < maxFaults {
			b.s.Faults = append(b.s.Faults, Fault{
				k.judge(got), name, k.acked.String(), got.String(), k.at.UnixMilli(), k.seen.UnixMilli(), now.UnixMilli(),
			})
		}
	}
	return false
}

// Names returns all keys in order.
func (b *Book) Names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := make([]string, 0, len(b.keys))
	for name := range b.keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Summary returns the result so far.
func (b *Book) Summary() Summary {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.s
	s.Faults = slices.Clone(s.Faults)
	return s
}

func (k *key) allows(got State) bool {
	return got == k.acked || k.pending != nil && got == *k.pending
}

// judge returns the kind of a state that is not allowed.
func (k *key) judge(got State) string {
	switch {
	case k.counter && got.There && got.count() > k.acked.count():
		return AppliedTwice
	case !got.There:
		return Gone
	case !slices.Contains(k.former, got):
		return Foreign
	case !k.acked.There:
		return Resurrected
	}
	return RolledBack
}

// count is the value of a counter; one that does not exist counts as zero, as it does for INCR.
func (s State) count() int {
	n, _ := strconv.Atoi(s.Value)
	return n
}
