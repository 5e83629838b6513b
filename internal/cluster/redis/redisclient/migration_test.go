package redisclient_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// migrating is the engine whose servers move slots by themselves.
const migrating = "valkey-9.1"

// fill writes so many strings of 10 kB, so that a migration takes a while.
func (w *world) fill(c *goredis.ClusterClient, n int) {
	w.t.Helper()
	pipe := c.Pipeline()
	text := strings.Repeat("x", 10_000)
	for i := range n {
		pipe.Set(w.t.Context(), fmt.Sprintf("filler-%d", i), text, 0)
		if pipe.Len() == 1000 || i == n-1 {
			if _, err := pipe.Exec(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// untilMigrating runs the loop until servers have begun to move slots by themselves.
func (w *world) untilMigrating() steps.MigrateSlots {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		p := planner.Next(w.observe(ctx))
		if p.Step != nil {
			if err := w.act(ctx, p.Step); err != nil {
				w.steps = append(w.steps, err.Error())
			}
		}
		if step, ok := p.Step.(steps.MigrateSlots); ok {
			return step
		}
		pause(ctx, max(p.After, 20*time.Millisecond))
	}
	w.t.Fatalf("no migration began\n%s", strings.Join(w.steps, "\n"))
	return steps.MigrateSlots{}
}

// migrations are those that the servers have in their books.
func (w *world) migrations() []model.Migration {
	var out []model.Migration
	for _, p := range w.observe(w.t.Context()).Pods {
		if p.Node != nil {
			out = append(out, p.Node.Migrations...)
		}
	}
	return out
}

// kinds of values, each with a command that adds one element to it, and one that tells how many there are.
var kinds = map[string]struct{ add, size []any }{
	"string":    {[]any{"APPEND", "KEY", "x"}, []any{"STRLEN", "KEY"}},
	"list":      {[]any{"RPUSH", "KEY", "x"}, []any{"LLEN", "KEY"}},
	"set":       {[]any{"SADD", "KEY", "N"}, []any{"SCARD", "KEY"}},
	"hash":      {[]any{"HSET", "KEY", "N", "x"}, []any{"HLEN", "KEY"}},
	"zset":      {[]any{"ZADD", "KEY", "1", "N"}, []any{"ZCARD", "KEY"}},
	"stream":    {[]any{"XADD", "KEY", "*", "f", "x"}, []any{"XLEN", "KEY"}},
	"geo":       {[]any{"GEOADD", "KEY", "13.3", "38.1", "N"}, []any{"ZCARD", "KEY"}},
	"script":    {[]any{"EVAL", "redis.call('RPUSH', KEYS[1], 'x') return redis.call('EXPIRE', KEYS[1], 3600)", "1", "KEY"}, []any{"LLEN", "KEY"}},
	"bits":      {[]any{"SETBIT", "KEY", "N", "1"}, []any{"BITCOUNT", "KEY"}},
	"forgetful": {[]any{"HSETEX", "KEY", "EX", "3600", "FIELDS", "1", "N", "x"}, []any{"HLEN", "KEY"}},
}

func command(template []any, key string, n int) []any {
	out := slices.Clone(template)
	for i := range out {
		switch out[i] {
		case "KEY":
			out[i] = key
		case "N":
			out[i] = n
		}
	}
	return out
}

// TestAMigrationCarriesEveryKindOfValue has clients add to values of all kinds while their slots move: none may be short of an
// element, or have one twice.
func TestAMigrationCarriesEveryKindOfValue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, migrating, 3, 0, true)
	w.startAll()
	w.settle()
	c := w.clients()
	w.fill(c, 5000)
	const each = 40
	type tally struct{ acked atomic.Int64 }
	acked := map[string]*tally{}
	for kind := range kinds {
		for i := range each {
			acked[fmt.Sprintf("%s-%d", kind, i)] = &tally{}
		}
	}
	if err := c.XGroupCreateMkStream(t.Context(), "grouped", "group", "0").Err(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, len(kinds))
	for kind, k := range kinds {
		go func() {
			for n := 1; ctx.Err() == nil; n++ {
				for i := range each {
					key := fmt.Sprintf("%s-%d", kind, i)
					if err := c.Do(context.WithoutCancel(ctx), command(k.add, key, n)...).Err(); err != nil {
						done <- fmt.Errorf("%s: %w", kind, err)
						return
					}
					acked[key].acked.Add(1)
				}
			}
			done <- nil
		}()
	}
	for _, shards := range []int32{4, 3} {
		w.cluster.Spec.Shards = shards
		w.grow()
		w.settle()
	}
	stop()
	for range kinds {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	total := int64(0)
	for kind, k := range kinds {
		for i := range each {
			key := fmt.Sprintf("%s-%d", kind, i)
			want := acked[key].acked.Load()
			got, err := c.Do(t.Context(), command(k.size, key, 0)...).Int64()
			if err != nil || got != want {
				t.Errorf("%s has %d elements (%v), and %d were acknowledged", key, got, err, want)
			}
			total += want
		}
	}
	t.Logf("%d elements of %d kinds\n%s", total, len(kinds), last(w.steps, 12))
	if groups, err := c.XInfoGroups(t.Context(), "grouped").Result(); err != nil || len(groups) != 1 {
		t.Errorf("%v groups are left (%v)", groups, err)
	}
	if !slices.ContainsFunc(w.migrations(), model.Migration.Done) {
		t.Error("the servers moved nothing by themselves")
	}
}

// TestMigrationsSurviveTheirServers ends the source or the target of a migration, for good or for as long as a restart in place
// takes. No write that was acknowledged may be lost where the server comes back before its replica is elected.
func TestMigrationsSurviveTheirServers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		source, restarts bool
	}{
		"the source restarts": {true, true}, "the target restarts": {false, true},
		"the source is replaced by its replica": {true, false}, "the target is replaced by its replica": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, migrating, 3, 1, false)
			w.startAll()
			w.settle()
			c := w.clients()
			w.write(c)
			w.fill(c, 10_000)
			k := w.count()
			w.steps = nil
			w.cluster.Spec.Shards = 4
			w.grow()
			step := w.untilMigrating()
			victim := w.pods[step.Moves[0].To]
			if tc.source {
				victim = w.pods[step.Moves[0].From]
			}
			w.kill(victim)
			if tc.restarts {
				w.run(victim)
			} else {
				w.expectSuccessor(victim)
				w.recreate(victim, false)
			}
			w.settle()
			if tc.restarts {
				k.expectKept(t)
			} else {
				k.stop()
				k.done.Wait()
			}
			w.expect(w.clients())
			broken := 0
			for _, m := range w.migrations() {
				if m.Broken() {
					broken++
				}
			}
			t.Logf("%d migrations broke\n%s", broken, last(w.steps, 30))
		})
	}
}

// expectSuccessor waits until another server owns the slots of a dead one, or until the others have found that it is dead where it
// owned none.
func (w *world) expectSuccessor(dead *process) {
	w.t.Helper()
	w.awaitState(func(s model.State) bool {
		for _, p := range s.Pods {
			if p.Shard == dead.shard && p.Name != dead.name && p.Node != nil && len(p.Node.Self().Slots) > 0 {
				return true
			}
			if p.Node == nil {
				continue
			}
			for peer := range p.Node.All() {
				if strings.HasPrefix(peer.Host, dead.name+".") && peer.Failed && len(peer.Slots) == 0 {
					return true
				}
			}
		}
		return false
	})
}

// awaitState waits, and does nothing, until the cluster is seen in such a state.
// awaitState waits, and does nothing, until the cluster is seen in such a state.
func (w *world) awaitState(says func(model.State) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if says(w.observe(ctx)) {
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
	w.t.Fatal(context.Cause(ctx))
}

// expectKept is expect for a writer that may have met a server that was gone.
func (k *counter) expectKept(t *testing.T) {
	t.Helper()
	k.stop()
	k.done.Wait()
	t.Logf("%d writes failed around the fault (%v)", k.errors.Swap(0), k.last.Load())
	k.expect(t)
}

// TestAServerGetsItsOwnPasswordBack finishes what an operator that died has begun: a source was given the password of the user that
// moves keys, and nobody took it back.
func TestAServerGetsItsOwnPasswordBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, migrating, 3, 1, true)
	w.startAll()
	w.settle()
	p := w.pods[cluster.Pod(cluster.ShardSet("carts", 0), 0)]
	if err := w.do(p, "CONFIG", "SET", "masteruser", acl.UserMigration, "masterauth", w.passwords[acl.PasswordMigration]); err != nil {
		t.Fatal(err)
	}
	w.settle()
	c := w.connect(p)
	defer func() { _ = c.Close() }()
	n, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	own := acl.Hash(acl.ShardPassword(w.passwords[acl.PasswordReplication], p.name))
	if n.ReplicationUser != acl.UserReplication || n.ReplicationPassword != own {
		t.Errorf("it replicates as %s", n.ReplicationUser)
	}
}

// TestWhoMovesKeysMayNotReplicate tries what a server might that was lent the password of the user that moves keys.
func TestWhoMovesKeysMayNotReplicate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, migrating, 3, 0, false)
	w.startAll()
	w.settle()
	p := w.pods[cluster.Pod(cluster.ShardSet("carts", 0), 0)]
	c := goredis.NewClient(&goredis.Options{Addr: p.ip + ":6379", Username: acl.UserMigration, Password: w.passwords[acl.PasswordMigration]})
	defer func() { _ = c.Close() }()
	for _, args := range [][]any{
		{"PSYNC", "?", "-1"},
		{"SYNC"},
		{"REPLCONF", "capa", "eof"},
		{"GET", "x"},
		{"KEYS", "*"},
		{"CONFIG", "GET", "*"},
		{"ACL", "LIST"},
		{"CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 1, "NODE", "x"},
		{"CLUSTER", "FAILOVER"},
		{"SHUTDOWN"},
	} {
		err := c.Do(t.Context(), args...).Err()
		var reply goredis.Error
		if !errors.As(err, &reply) || !strings.HasPrefix(reply.Error(), "NOPERM") {
			t.Errorf("%v: %v", args, err)
		}
	}
}
