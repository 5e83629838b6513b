// Package ttlmap is a map whose entries expire when they have not been used for an hour. The
// controllers keep in it what they remember of resources. It holds no clock: callers pass the time.
package ttlmap

import (
	"iter"
	"maps"
	"sync"
	"time"
)

const (
	// ttl is how long an entry is kept after its last use.
	ttl = time.Hour
	// sweepEvery is how often expired entries are searched for.
	sweepEvery = ttl / 4
)

// Map is a map from K to T, safe for concurrent use. The zero value is ready.
type Map[K comparable, T any] struct {
	// New returns the value of a new entry; nil: the zero T.
	New func() *T

	mu      sync.Mutex
	entries map[K]*entry[T]
	swept   time.Time
}

type entry[T any] struct {
	value *T
	used  time.Time
}

// Get returns the value for a key, a new one if there is none, and marks it as used at now. It
// removes the entries that have not been used for an hour.
func (m *Map[K, T]) Get(key K, now time.Time) *T {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.swept) >= sweepEvery {
		m.swept = now
		maps.DeleteFunc(m.entries, func(_ K, e *entry[T]) bool { return now.Sub(e.used) > ttl })
	}
	if m.entries == nil {
		m.entries = map[K]*entry[T]{}
	}
	e := m.entries[key]
	if e == nil {
		e = &entry[T]{value: new(T)}
		if m.New != nil {
			e.value = m.New()
		}
		m.entries[key] = e
	}
	e.used = now
	return e.value
}

// All iterates over a copy of the entries. It marks none as used.
func (m *Map[K, T]) All() iter.Seq2[K, *T] {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[K]*T, len(m.entries))
	for key, e := range m.entries {
		all[key] = e.value
	}
	return maps.All(all)
}
