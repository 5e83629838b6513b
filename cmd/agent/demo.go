package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/resp"
	"github.com/quorate/quorate/internal/connection"
)

// demoKeys is how many keys the demonstration writes and reads back in each data store.
const demoKeys = 300

// runDemo writes to and reads from an etcd and a Redis cluster with nothing but their connection Secrets.
func runDemo(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	etcdDir := fs.String("etcd-secret-dir", "/etcd", "directory that the connection Secret of the etcd cluster is mounted at")
	redisDir := fs.String("redis-secret-dir", "/redis", "directory that the connection Secret of the Redis cluster is mounted at")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return errors.Join(demoEtcd(ctx, *etcdDir), demoRedis(ctx, *redisDir))
}

func demoEtcd(ctx context.Context, dir string) error {
	conn, err := connection.Read(dir)
	if err != nil {
		return err
	}
	c, err := etcdclient.NewBounded(clientv3.Config{
		Endpoints: []string{conn.Scheme("https") + "://" + conn.Addr()}, TLS: conn.TLS,
		Username: conn.Username, Password: conn.Password, DialTimeout: 10 * time.Second, Context: ctx,
	})
	if err != nil {
		return fmt.Errorf("connect to etcd: %w", err)
	}
	defer func() { _ = c.Close() }()
	started := time.Now()
	for i := range demoKeys {
		if _, err := c.Put(ctx, demoKey(i), demoValue(i)); err != nil {
			return fmt.Errorf("write to etcd: %w", err)
		}
	}
	for i := range demoKeys {
		got, err := c.Get(ctx, demoKey(i))
		if err != nil {
			return fmt.Errorf("read from etcd: %w", err)
		}
		if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != demoValue(i) {
			return fmt.Errorf("etcd: key %s does not hold what was written", demoKey(i))
		}
	}
	fmt.Printf("etcd  %s: %d keys written and read back in %s\n", conn.Addr(), demoKeys, time.Since(started).Round(time.Millisecond))
	return nil
}

func demoRedis(ctx context.Context, dir string) error {
	conn, err := connection.Read(dir)
	if err != nil {
		return err
	}
	c := redisclient.NewBoundedCluster(redis.ClusterOptions{
		Addrs: []string{conn.Addr()}, Username: conn.Username, Password: conn.Password, TLSConfig: conn.TLS,
	}, resp.Agent())
	defer func() { _ = c.Close() }()
	started := time.Now()
	for i := range demoKeys {
		if err := c.Set(ctx, demoKey(i), demoValue(i), 0).Err(); err != nil {
			return fmt.Errorf("write to Redis: %w", err)
		}
	}
	for i := range demoKeys {
		got, err := c.Get(ctx, demoKey(i)).Result()
		if err != nil {
			return fmt.Errorf("read from Redis: %w", err)
		}
		if got != demoValue(i) {
			return fmt.Errorf("redis: key %s does not hold what was written", demoKey(i))
		}
	}
	fmt.Printf("redis %s: %d keys written and read back in %s\n", conn.Addr(), demoKeys, time.Since(started).Round(time.Millisecond))
	return nil
}

func demoKey(i int) string   { return fmt.Sprintf("demo/%04d", i) }
func demoValue(i int) string { return fmt.Sprintf("value of %04d", i) }
