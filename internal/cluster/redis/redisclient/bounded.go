package redisclient

import (
	"cmp"
	"context"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/redis/resp"
)

// dialTimeout is the default of go-redis.
const dialTimeout = 5 * time.Second

// NewBounded returns a go-redis client that refuses replies beyond the limits. go-redis itself
// allocates what a reply announces. The linter allows no other way to make a client.
func NewBounded(o goredis.Options, limits resp.Limits) *goredis.Client {
	dial := o.Dialer
	if dial == nil {
		o.DialTimeout = cmp.Or(o.DialTimeout, dialTimeout)
		dial = goredis.NewDialer(&o)
	}
	bounded := o
	bounded.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return resp.Bound(conn, limits), nil
	}
	return goredis.NewClient(&bounded)
}

// NewBoundedCluster returns a go-redis client of a cluster whose servers' replies are limited one by
// one.
func NewBoundedCluster(o goredis.ClusterOptions, limits resp.Limits) *goredis.ClusterClient {
	o.NewClient = func(node *goredis.Options) *goredis.Client { return NewBounded(*node, limits) }
	return goredis.NewClusterClient(&o)
}

// ForDatabase returns a client of another database of the same server, with the same limits: the
// dialer of a bounded client is bounded.
func ForDatabase(c *goredis.Client, number int) *goredis.Client {
	o := *c.Options()
	o.DB = number
	return goredis.NewClient(&o)
}
