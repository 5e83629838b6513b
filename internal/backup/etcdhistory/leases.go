package etcdhistory

import (
	"context"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/goroutine"
)

const (
	// maxSeen bounds what is remembered of leases. Beyond it, they are asked for, and recorded, again.
	maxSeen = 100_000
	// asking is how many leases are asked for at a time, and leaseTimeout how long an answer may take: recording waits for it.
	asking       = 8
	leaseTimeout = 2 * time.Second
)

// leases finds out with which TTL the leases of changes were granted. etcd tells that in no event.
type leases struct {
	client *clientv3.Client
	seen   map[int64]bool
	fresh  []int64
}

// met takes down the lease of a change, 0 if it has none.
func (l *leases) met(id int64) {
	if id == 0 || l.seen[id] {
		return
	}
	if len(l.seen) >= maxSeen {
		clear(l.seen)
	}
	l.seen[id] = true
	l.fresh = append(l.fresh, id)
}

// resolve asks for the leases that were met since the last call.
func (l *leases) resolve(ctx context.Context) []Lease {
	out := make([]Lease, len(l.fresh))
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	for i, id := range l.fresh {
		out[i].ID = id
	}
	var next atomic.Int64
	_ = goroutine.Each(min(asking, len(out)), func(int) error { // A lease whose question fails has the TTL 0.
		for i := next.Add(1) - 1; i < int64(len(out)); i = next.Add(1) - 1 {
			out[i].TTL = l.ttl(ctx, out[i].ID)
		}
		return nil
	})
	l.fresh = nil
	return out
}

// ttl is 0 for a lease that is gone, or that nobody tells of in time: the change is recorded all the same.
func (l *leases) ttl(ctx context.Context, id int64) int64 {
	response, err := l.client.TimeToLive(ctx, clientv3.LeaseID(id))
	if err != nil {
		return 0
	}
	return max(0, response.GrantedTTL)
}
