package reshard

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// BenchmarkBigKey moves one large hash and measures for how long its two servers serve nobody else.
func BenchmarkBigKey(b *testing.B) {
	for _, engine := range []string{"redis-7.0", "redis-8.0", "valkey-8.1", "valkey-9.1"} {
		if *only != "" && *only != engine {
			continue
		}
		b.Run(engine, func(b *testing.B) {
			w := newWorld(b, engine)
			w.form()
			engines := []mover{{"MIGRATE", byKey}}
			if w.migratesSlots() {
				engines = append(engines, mover{"MIGRATESLOTS", byThemselves})
			}
			for _, size := range []int{8 << 20, 32 << 20, min(200, *mib/4) << 20} {
				for _, field := range []int{16, 1000} {
					for _, m := range engines {
						w.moveBig(m, size, field)
					}
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

const bigKey = "big"

// moveBig fills a hash with so many bytes in values of one size, moves it to the fourth shard, and takes it away.
func (w *world) moveBig(m mover, size, field int) {
	w.b.Helper()
	ctx, cancel := context.WithTimeout(w.b.Context(), 5*time.Minute)
	defer cancel()
	before := w.slots(ctx)
	move := w.bigMove(ctx)
	from, to := w.server(move.From), w.servers[shards]
	for left, n := size, 0; left > 0; n++ {
		pipe := from.rdb.Pipeline()
		for i := range 1000 {
			pipe.HSet(ctx, bigKey, fmt.Sprintf("%d-%d", n, i), strings.Repeat("x", field))
			left -= field + 60
		}
		if _, err := pipe.Exec(ctx); err != nil {
			w.b.Fatal(err)
		}
	}
	takes, err := from.rdb.MemoryUsage(ctx, bigKey).Result()
	if err != nil {
		w.b.Fatal(err)
	}
	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	gaps := make([]time.Duration, 2)
	for i, s := range []*server{from, to} {
		wg.Go(func() { gaps[i] = s.longestSilence(watching) })
	}
	began := time.Now()
	err = m.run(ctx, w)
	took := time.Since(began)
	stop()
	wg.Wait()
	if err != nil {
		fmt.Printf("BIG %s, %s: %d MiB in values of %d B: %v\n", w.spec.Version, m.name, takes>>20, field, err)
	}
	fmt.Printf("BIG %s %s, %s: %d MiB in values of %d B took %.2f s; the source was silent for %.2f s, the target for %.2f s\n",
		w.spec.ServerEngine(), w.spec.Version, m.name, takes>>20, field, took.Seconds(), gaps[0].Seconds(), gaps[1].Seconds())
	for _, s := range []*server{from, to} {
		s.rdb.Unlink(ctx, bigKey)
	}
	w.restore(ctx, before)
}

// bigMove takes the slot of the key to the fourth shard.
func (w *world) bigMove(ctx context.Context) steps.SlotMove {
	slot := int(w.servers[0].rdb.ClusterKeySlot(ctx, bigKey).Val())
	to := w.servers[shards]
	for shard, slots := range w.slots(ctx) {
		if from := w.servers[shard]; slots.Has(slot) {
			return steps.SlotMove{
				From: from.name, To: to.name, FromID: from.id, ToID: to.id, ToAddr: to.addr, Slots: redisslots.Set{{From: slot, To: slot}},
				Process: from.process(ctx), ToProcess: to.process(ctx), Patience: time.Second,
			}
		}
	}
	w.b.Fatal("nobody owns the slot")
	return steps.SlotMove{}
}

func byKey(ctx context.Context, w *world) error {
	return w.move(ctx, []steps.SlotMove{w.bigMove(ctx)}, time.Hour)
}

func byThemselves(ctx context.Context, w *world) error {
	m := w.bigMove(ctx)
	from := w.server(m.From)
	c := redisclient.New(w.connect(from, acl.UserOperator, passwords[acl.PasswordOperator]))
	defer func() { _ = c.Close() }()
	if err := c.Migrate(ctx, m.Slots, m.ToID, passwords[acl.PasswordMigration], acl.ShardPassword(passwords[acl.PasswordReplication], m.From)); err != nil {
		return err
	}
	for ctx.Err() == nil {
		n, err := c.Read(ctx)
		if err == nil && n.Migrations[0].Broken() {
			return fmt.Errorf("%s", n.Migrations[0].Message)
		}
		if err == nil && n.Migrations[0].Done() {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ctx.Err()
}

// longestSilence is how long a server took for the answer that took longest.
func (s *server) longestSilence(ctx context.Context) (longest time.Duration) {
	for ctx.Err() == nil {
		began := time.Now()
		if s.rdb.Ping(context.WithoutCancel(ctx)).Err() == nil {
			longest = max(longest, time.Since(began))
		}
		time.Sleep(2 * time.Millisecond)
	}
	return longest
}
