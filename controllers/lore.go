package controllers

import (
	"sync"
	"time"
)

const (
	// forgetAfter is how long it is remembered what is known of a resource that is not looked at any more.
	forgetAfter = time.Hour
	// forgetEvery is how often that is looked for.
	forgetEvery = forgetAfter / 4
)

// lore is what the operator remembers of resources, mostly by UID. With a restart it is lost, and read or measured anew.
type lore[K comparable, T any] struct {
	mu sync.Mutex
	// fresh is what is known of a resource at first; nil: the zero T.
	fresh func() *T
	byKey map[K]*known[T]
	swept time.Time
}

// known is what is remembered of one resource, and when it was last looked at.
type known[T any] struct {
	what *T
	seen time.Time
}

// of is what is remembered of a resource. Those that nobody has looked at for long are gone, and are forgotten.
func (l *lore[K, T]) of(key K, now time.Time) *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.swept) >= forgetEvery {
		l.swept = now
		for key, k := range l.byKey {
			if now.Sub(k.seen) > forgetAfter {
				delete(l.byKey, key)
			}
		}
	}
	if l.byKey == nil {
		l.byKey = map[K]*known[T]{}
	}
	k := l.byKey[key]
	if k == nil {
		k = &known[T]{what: new(T)}
		if l.fresh != nil {
			k.what = l.fresh()
		}
		l.byKey[key] = k
	}
	k.seen = now
	return k.what
}
