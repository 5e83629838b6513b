package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/connection"
	"github.com/quorate/quorate/test/e2e/load/ledger"
	"github.com/quorate/quorate/test/e2e/load/updates"
)

// batch is how many keys are read back in one pipeline.
const batch = 500

// poolSize is the number of connections to each server. A moment in which a server is slow makes the client open as many at once, and the
// handshakes of a hundred hold a server on a busy machine up for longer than a connection is waited for: they are made in vain, again and again.
// Those of 32 did so now and then, where two clusters were tested at a time. A write takes about a millisecond, so that few are enough.
const poolSize = 8

const (
	// connectionLife is how long a connection is used: a client that never connects again would not notice whether its password
	// still works.
	connectionLife = 30 * time.Second
	// connectionSpread keeps connections that were opened at once from ending at once.
	connectionSpread = 10 * time.Second
)

// redisStore writes through a client of either kind.
type redisStore struct {
	c redis.UniversalClient
	// once sends each command one time: an increment that is sent again would be applied twice.
	once   redis.UniversalClient
	shards []lane
	// replicas is how many of them must have a write before it counts as acknowledged.
	replicas int
}

func openRedis(ctx context.Context, conn connection.Connection, addrs []string, o options) (store, error) {
	options := func(redirects int) *redis.ClusterOptions {
		return &redis.ClusterOptions{
			PoolSize: poolSize, Addrs: addrs, TLSConfig: conn.TLS, MaxRedirects: redirects,
			CredentialsProvider: func() (string, string) { return login(o.secretDir, conn) }, ConnMaxLifetime: connectionLife, ConnMaxLifetimeJitter: connectionSpread,
			DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second, ContextTimeoutEnabled: true,
		}
	}
	c := redis.NewClusterClient(options(0)) // The default.
	shards, err := c.ClusterShards(ctx).Result()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	lanes := lanesOf(shards)
	if len(lanes) == 0 {
		return nil, errors.Join(errors.New("no slot has an owner"), c.Close())
	}
	return &redisStore{c: c, once: redis.NewClusterClient(options(-1)), shards: lanes, replicas: o.replicas}, nil
}

// lanesOf makes a lane of every shard that has slots, in the order of their slots. A shard keeps its slots when another
// node takes over, so the lanes stay what they are.
func lanesOf(shards []redis.ClusterShard) []lane {
	shards = slices.DeleteFunc(slices.Clone(shards), func(s redis.ClusterShard) bool { return len(s.Slots) == 0 })
	first := func(s redis.ClusterShard) int64 {
		return slices.MinFunc(s.Slots, func(a, b redis.SlotRange) int { return cmp.Compare(a.Start, b.Start) }).Start
	}
	slices.SortFunc(shards, func(a, b redis.ClusterShard) int { return cmp.Compare(first(a), first(b)) })
	lanes := make([]lane, len(shards))
	for n, s := range shards {
		lanes[n] = lane{name: fmt.Sprintf("shard-%d", n), owns: func(key string) bool {
			slot := int64(slotOf(key))
			return slices.ContainsFunc(s.Slots, func(r redis.SlotRange) bool { return r.Start <= slot && slot <= r.End })
		}}
	}
	return lanes
}

func (s *redisStore) close() {
	_ = s.c.Close()
	_ = s.once.Close()
}

func (s *redisStore) lanes() []lane { return s.shards }

func (s *redisStore) write(ctx context.Context, key, value string) (ledger.Receipt, error) {
	return ledger.Receipt{}, s.send(ctx, s.c, key, func(c redis.Cmdable) error { return c.Set(ctx, key, value, 0).Err() })
}

// send sends a command for a key, and waits for replicas where a write needs them.
func (s *redisStore) send(ctx context.Context, through redis.UniversalClient, key string, command func(redis.Cmdable) error) error {
	var err error
	if s.replicas > 0 {
		err = s.replicated(ctx, through, key, command)
	} else {
		err = command(through)
	}
	if c, ok := through.(*redis.ClusterClient); ok && err != nil {
		c.ReloadState(ctx) // By itself it asks every ten seconds only who has taken over from a server that is gone.
	}
	return err
}

func (s *redisStore) put(ctx context.Context, key, value string) error {
	return s.send(ctx, s.once, key, func(c redis.Cmdable) error { return c.Set(ctx, key, value, 0).Err() })
}

func (s *redisStore) remove(ctx context.Context, key string) error {
	return s.send(ctx, s.once, key, func(c redis.Cmdable) error { return c.Del(ctx, key).Err() })
}

func (s *redisStore) add(ctx context.Context, key string, _ int) (n int, err error) {
	err = s.send(ctx, s.once, key, func(c redis.Cmdable) error {
		got, err := c.Incr(ctx, key).Result()
		n = int(got)
		return err
	})
	return n, err
}

func (s *redisStore) look(ctx context.Context, key string) (updates.State, error) {
	value, err := s.c.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return updates.State{}, nil
	}
	return updates.State{Value: value, There: err == nil}, err
}

// patienceOfWait is how long WAIT waits for replicas.
const patienceOfWait = 500 * time.Millisecond

// errNotReplicated says that a write was made, and that WAIT counted too few replicas: it may be lost, and is not acknowledged.
var errNotReplicated = errors.New("too few replicas have the write")

// errNotWritten says that no server was found that took a write.
var errNotWritten = errors.New("sent from server to server, until the client gave up")

// replicated writes a key and waits for replicas. WAIT is about what its own connection has written, which only a transaction keeps.
// Watch returns nil as well where its last attempt was sent elsewhere, and it has written nothing (go-redis up to 9.23.0, ClusterClient.Watch).
func (s *redisStore) replicated(ctx context.Context, through redis.UniversalClient, key string, command func(redis.Cmdable) error) error {
	written := errNotWritten
	err := through.Watch(ctx, func(tx *redis.Tx) error {
		if written = command(tx); written != nil {
			return written
		}
		n, err := tx.Wait(ctx, s.replicas, patienceOfWait).Result()
		if err == nil && n < int64(s.replicas) {
			err = errNotReplicated
		}
		return err
	}, key)
	return cmp.Or(err, written)
}

// outcome: an error reply, or a connection that could not be made, means that nothing was written. The client tries
// several times and reports the last error only, so a refused write may in truth have happened: it is never counted
// as acknowledged, which is what the check depends on.
func (s *redisStore) outcome(err error) ledger.Outcome {
	var reply redis.Error
	var op *net.OpError
	if errors.Is(err, errNotWritten) || errors.As(err, &reply) || (errors.As(err, &op) && op.Op == "dial") {
		return ledger.Failed
	}
	return ledger.Unknown
}

// read asks the primaries for every key.
func (s *redisStore) read(ctx context.Context, keys []string) (map[string]ledger.Found, int64, error) {
	found := map[string]ledger.Found{}
	for part := range slices.Chunk(keys, batch) {
		answers := make([]*redis.StringCmd, len(part))
		_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range part {
				answers[i] = p.Get(ctx, key)
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, 0, err
		}
		for i, answer := range answers {
			value, err := answer.Result()
			if errors.Is(err, redis.Nil) {
				continue
			}
			if err != nil {
				return nil, 0, fmt.Errorf("read %s: %w", part[i], err)
			}
			found[part[i]] = ledger.Found{Value: value}
		}
	}
	return found, 0, nil
}

// slotCount is the number of hash slots of every cluster.
const slotCount = 16384

// slotOf is the hash slot of a key: CRC-16/XMODEM of what stands between the first braces, else of the whole key.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
func slotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % slotCount
}
