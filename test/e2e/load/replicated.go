package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/connection"
)

// replicatedMode writes to the primary of a RedisCluster in the mode Replicated, with a client that knows nothing of clusters: only
// the host of the Secret.
const replicatedMode = "redis-replicated"

func openReplicated(ctx context.Context, conn connection.Connection, addr string, o options) (store, error) {
	open := func(retries int) *redis.Client {
		return redis.NewClient(&redis.Options{
			PoolSize: poolSize, Addr: addr, TLSConfig: conn.TLS, MaxRetries: retries,
			CredentialsProvider: func() (string, string) { return login(o.secretDir, conn) }, ConnMaxLifetime: connectionLife, ConnMaxLifetimeJitter: connectionSpread,
			DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second, ContextTimeoutEnabled: true,
		})
	}
	c := open(0) // The default.
	if err := c.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &redisStore{c: c, once: open(-1), replicas: o.replicas, shards: []lane{{name: "primary", owns: func(string) bool { return true }}}}, nil
}
