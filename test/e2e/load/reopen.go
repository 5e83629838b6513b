package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/connection"
	"github.com/quorate/quorate/test/e2e/load/ledger"
)

// lookAgain is how often the mounted Secret is looked at for another scheme, or another password of etcd.
const lookAgain = time.Second

// reopening is a store that connects anew when its Secret says so: between TLS and plain text no connection can be moved, and a client of
// etcd keeps the password that it was made with.
// Writes that are under way finish where they began.
type reopening struct {
	mu sync.RWMutex
	store
	secure   bool
	password string
}

// reopen follows the Secret of an open store until the context ends.
func reopen(ctx context.Context, o options, s store, conn connection.Connection) *reopening {
	r := &reopening{store: s, secure: conn.TLS != nil, password: conn.Password}
	go func() {
		tick := time.NewTicker(lookAgain)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				r.look(ctx, o)
			}
		}
	}()
	return r
}

func (r *reopening) look(ctx context.Context, o options) {
	conn, err := connection.Read(o.secretDir)
	secure, password := conn.TLS != nil, conn.Password
	if err != nil || (secure == r.secure && (o.mode != "etcd" || password == r.password)) {
		return // The kubelet may be replacing the files; it is looked at again.
	}
	follow(o.secretDir, &conn)
	next, err := dial(ctx, o, conn)
	if err != nil {
		fmt.Fprintln(os.Stderr, "reopen:", err)
		return
	}
	fmt.Fprintf(os.Stderr, "%s: the Secret has changed (TLS: %t); connected anew\n", time.Now().UTC().Format(time.TimeOnly), secure)
	r.mu.Lock()
	former := r.store
	r.store, r.secure, r.password = next, secure, password
	r.mu.Unlock()
	time.AfterFunc(2*o.opTimeout, former.close)
}

func (r *reopening) now() store {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.store
}

func (r *reopening) rewriter() rewriter { return r.now().(rewriter) }

func (r *reopening) write(ctx context.Context, key, value string) (ledger.Receipt, error) {
	return r.now().write(ctx, key, value)
}

func (r *reopening) read(ctx context.Context, keys []string) (map[string]ledger.Found, int64, error) {
	return r.now().read(ctx, keys)
}

func (r *reopening) close() { r.now().close() }
