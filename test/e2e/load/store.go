package main

import (
	"context"

	"github.com/quorate/quorate/test/e2e/load/ledger"
)

// store is a data store under load.
type store interface {
	// lanes are the parts that can stand still on their own.
	lanes() []lane
	// write stores a value under a key that nobody else writes.
	write(ctx context.Context, key, value string) (ledger.Receipt, error)
	// outcome tells a refused write from one whose answer never came.
	outcome(err error) ledger.Outcome
	// read returns those of the keys that exist, and the data store's revision.
	read(ctx context.Context, keys []string) (map[string]ledger.Found, int64, error)
	close()
}

// lane is one part of a store.
type lane struct {
	name string
	// owns tells whether a key belongs to this lane.
	owns func(key string) bool
}
