package redisclient_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// client connects to one server as somebody who may do anything.
func (w *world) client(p *process) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{
		Addr: p.ip + ":6379", Username: "default", Password: w.passwords[acl.PasswordDefault], TLSConfig: w.tlsFor(p.name),
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// followers are the shards of the primaries that the pods of a shard copy.
func (w *world) followers(shard int) []int {
	w.t.Helper()
	s := w.observe(w.t.Context())
	of := map[string]int{}
	for _, p := range s.Pods {
		if p.Node != nil {
			of[p.Node.ID] = p.Shard
		}
	}
	var out []int
	for _, p := range s.Pods {
		if p.Shard == shard && p.Node != nil && p.Node.Self().Replica {
			out = append(out, of[p.Node.Self().PrimaryID])
		}
	}
	return out
}

// TestNoReplicaLeavesItsShard: a server moves its replica to a shard that has lost its own, unless it is told not to
// (cluster-allow-replica-migration, Redis issue 13244). The shard that gave it would miss it at its own next failure.
func TestNoReplicaLeavesItsShard(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 2, 2, true)
			w.startAll()
			w.settle()
			primary := w.primary(t, 1)
			for _, name := range []string{"carts-1-0", "carts-1-1", "carts-1-2"} {
				if name != primary {
					w.crash(w.pods[name])
				}
			}
			leaves := func() bool { return slices.Contains(w.followers(0), 1) }
			for end := time.Now().Add(6 * nodeTimeout); time.Now().Before(end); pause(t.Context(), 100*time.Millisecond) {
				if leaves() {
					t.Fatal("a replica has left its shard")
				}
			}
			for _, p := range w.pods { // That it would otherwise is what the test is worth.
				if err := w.do(p, "CONFIG", "SET", "cluster-allow-replica-migration", "yes"); err != nil {
					t.Fatal(err)
				}
			}
			for end := time.Now().Add(time.Minute); !leaves(); pause(t.Context(), 100*time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("no replica leaves its shard although it may")
				}
			}
		})
	}
}

// TestIslandsAreLeftAlone makes two clusters of one, which hold data each. To join them again would throw one side's away.
func TestIslandsAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, true)
			w.startAll()
			w.settle()
			w.write(w.clients())
			before := w.sizes()
			ids := map[*process]string{}
			for _, p := range w.pods {
				ids[p] = w.nodeID(p)
			}
			for p := range ids {
				for other, id := range ids {
					if (p.shard == 2) != (other.shard == 2) {
						if err := w.do(p, "CLUSTER", "FORGET", id); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			w.settleUntil(planner.ReasonIslands)
			pause(t.Context(), 2*nodeTimeout)
			if after := w.sizes(); !slices.Equal(before, after) {
				t.Errorf("the servers had %v keys and have %v", before, after)
			}
		})
	}
}

// TestTheOperatorCannotThrowDataAway: where a reset failed, FLUSHALL has been the next thing that operators tried.
func TestTheOperatorCannotThrowDataAway(t *testing.T) {
	t.Parallel()
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 1, 0, true)
			w.startAll()
			w.settle()
			for user, password := range map[string]string{
				acl.UserOperator: w.passwords[acl.PasswordOperator], acl.UserMigration: w.passwords[acl.PasswordMigration],
			} {
				o := w.client(w.pods["carts-0-0"]).Options()
				o.Username, o.Password = user, password
				c := goredis.NewClient(o)
				for _, args := range [][]any{{"FLUSHALL"}, {"FLUSHDB"}, {"CLUSTER", "RESET"}, {"CLUSTER", "FLUSHSLOTS"}, {"SHUTDOWN"}} {
					if err := c.Do(t.Context(), args...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
						t.Errorf("%s: %v: %v, want it denied", user, args, err)
					}
				}
				_ = c.Close()
			}
		})
	}
}

// sizes are the numbers of keys of all servers, in the order of their names.
func (w *world) sizes() []int64 {
	w.t.Helper()
	var names []string
	for name := range w.pods {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []int64
	for _, name := range names {
		n, err := w.client(w.pods[name]).DBSize(w.t.Context()).Result()
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// wantShards checks that all servers tell clients of so many shards, with so many nodes each: since Redis 7.2 a shard has an id, and
// servers that were told different ones count as different shards.
func (w *world) wantShards(shards, nodes int) {
	w.t.Helper()
	for _, p := range w.pods {
		got, err := w.client(p).ClusterShards(w.t.Context()).Result()
		if err != nil {
			w.t.Fatal(err)
		}
		sizes := make([]int, 0, len(got))
		for _, s := range got {
			sizes = append(sizes, len(s.Nodes))
		}
		if want := slices.Repeat([]int{nodes}, shards); !slices.Equal(sizes, want) {
			w.t.Errorf("%s tells of shards with %v nodes instead of %v", p.name, sizes, want)
		}
	}
}

// TestAReplicaThatWasAwayFollowsItsShard: a replica follows whoever takes over all that its primary owned, and nothing else, because it may not
// leave its shard. One of Redis that was away while its primary got slots would look for the dead one for ever; Valkey finds the other primary
// of its shard.
func TestAReplicaThatWasAwayFollowsItsShard(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 2, true)
			w.startAll()
			w.settle()
			w.write(w.clients())
			lead, giver := w.pods[w.primary(t, 0)], w.pods[w.primary(t, 1)]
			var away *process
			for _, p := range w.pods {
				if p.shard == 0 && p != lead {
					away = p
				}
			}
			w.crash(away)
			w.moveOne(giver, lead)
			pause(t.Context(), 2*nodeTimeout) // The other replica hears of it.
			w.crash(lead)
			w.expectSuccessor(lead)
			w.revive(true, lead)
			w.revive(false, away)
			t.Logf("settled after %s\n%s", w.settle(), last(w.steps, 20))
			if told := w.said("its replicas have not followed them"); told != strings.HasPrefix(engine, "redis-") {
				t.Errorf("the replica was told to follow: %t", told)
			}
			w.expect(w.clients())
		})
	}
}

// oneSlot is the move of the first slot of a primary to another one.
func (w *world) oneSlot(from, to *process) steps.SlotMove {
	w.t.Helper()
	move := steps.SlotMove{From: from.name, To: to.name, ToAddr: model.Address{IP: to.ip, Port: model.ClientPort}, Patience: time.Second}
	for _, p := range w.observe(w.t.Context()).Pods {
		switch p.Name {
		case from.name:
			move.FromID, move.Process = p.Node.ID, p.Node.Process
			move.Slots = p.Node.Self().Slots.First(1)
		case to.name:
			move.ToID, move.ToProcess = p.Node.ID, p.Node.Process
		}
	}
	return move
}

// moveOne moves one slot from a primary to another one.
func (w *world) moveOne(from, to *process) {
	w.t.Helper()
	move := w.oneSlot(from, to)
	source, target := w.mover(from), w.mover(to)
	defer func() { _, _ = source.Close(), target.Close() }()
	if done, err := move.Run(w.t.Context(), source, target, func() bool { return true }); err != nil || done.Slots != 1 {
		w.t.Fatalf("%+v, %v", done, err)
	}
}
