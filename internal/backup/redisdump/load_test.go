package redisdump_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/backup/redisdump"
)

// shards are RDBs of a cluster of three, with what it holds.
func shards(tb testing.TB, engine string) (rdbs [][]byte, keys []int64, whole redisdump.Digest) {
	tb.Helper()
	flat := start(tb, engine, nil)
	flat.fill(tb)
	s := startCluster(tb, engine, 3)
	if _, err := redisdump.Load(tb.Context(), []io.Reader{bytes.NewReader(flat.save(tb))}, redisdump.IntoCluster(s.ClusterClient), redisdump.LoadOptions{}); err != nil {
		tb.Fatal(err)
	}
	whole = digest(tb, flat.Client)
	if got := s.digest(tb); got != whole {
		tb.Fatalf("the shards hold %s, want %s", got, whole)
	}
	keys = make([]int64, redisdump.SlotCount)
	for _, p := range s.primaries {
		var rdb bytes.Buffer
		c := redisdump.NewCounter(&rdb)
		_, err := p.source().Copy(tb.Context(), c)
		summary, counted := c.Finish()
		if err := errors.Join(err, counted); err != nil {
			tb.Fatal(err)
		}
		rdbs = append(rdbs, rdb.Bytes())
		for slot, n := range summary.KeysPerSlot {
			keys[slot] += n
		}
		p.kill()
	}
	return rdbs, keys, whole
}

func readers(rdbs [][]byte) []io.Reader {
	out := make([]io.Reader, len(rdbs))
	for i, r := range rdbs {
		out[i] = bytes.NewReader(r)
	}
	return out
}

func TestThreeShardsAreLoadedIntoAnyNumber(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		rdbs, keys, whole := shards(t, engine)
		for _, primaries := range []int{1, 3, 5} {
			s := startCluster(t, engine, primaries)
			var bytes, told atomic.Int64
			summary, err := redisdump.Load(t.Context(), readers(rdbs), redisdump.IntoCluster(s.ClusterClient), redisdump.LoadOptions{
				Progress: func(b, k int64) { bytes.Store(b); told.Store(k) },
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := s.digest(t); got != whole {
				t.Errorf("%d primaries hold %s, want %s", primaries, got, whole)
			}
			if summary.Restored != whole.Keys || summary.Present != 0 || summary.Functions != 2 || told.Load() != whole.Keys || bytes.Load() != summary.Bytes {
				t.Errorf("%d primaries: %+v, told %d keys and %d bytes", primaries, brief(summary), told.Load(), bytes.Load())
			}
			if diff := cmp.Diff(keys, summary.KeysPerSlot); diff != "" {
				t.Errorf("keys per slot: %s", diff)
			}
			for _, p := range s.primaries {
				if libraries := p.FunctionList(t.Context(), goredis.FunctionListQuery{}).Val(); len(libraries) != 2 {
					t.Errorf("%s has the functions %v", p.ip, libraries)
				}
			}
			again, err := redisdump.Load(t.Context(), readers(rdbs), redisdump.IntoCluster(s.ClusterClient), redisdump.LoadOptions{})
			if err != nil || again.Restored != 0 || again.Present != whole.Keys || again.FunctionsPresent != 2 || again.Functions != 0 {
				t.Errorf("a second time: %+v %v", brief(again), err)
			}
			for _, p := range s.primaries {
				p.kill()
			}
		}
	})
}

func brief(s redisdump.LoadSummary) redisdump.LoadSummary {
	s.KeysPerSlot = nil
	return s
}

func TestWhatAClientHasWrittenMeanwhileWins(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		from, to := start(t, engine, nil), startCluster(t, engine, 2)
		for i := range 100 {
			from.must(t, "SET", i, "old")
		}
		from.must(t, "SET", "soon", "x", "PX", time.Hour.Milliseconds())
		for i := range 10 {
			if err := to.Set(t.Context(), strconv.Itoa(i), "new", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		half := func(slot int) bool { return slot < redisdump.SlotCount/2 }
		skipped := int64(0)
		rdb := from.save(t)
		if _, err := redisdump.Scan(bytes.NewReader(rdb), func(e redisdump.Entry) error {
			if !half(e.Slot) {
				skipped++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		load := func(o redisdump.LoadOptions) redisdump.LoadSummary {
			s, err := redisdump.Load(t.Context(), []io.Reader{bytes.NewReader(rdb)}, redisdump.IntoCluster(to.ClusterClient), o)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		later := func() time.Time { return time.Now().Add(2 * time.Hour) }
		if s := load(redisdump.LoadOptions{Slots: half, Now: later}); s.Skipped != skipped || s.Restored+s.Present+s.Expired != 101-skipped {
			t.Errorf("half of the slots: %+v, %d are not in them", brief(s), skipped)
		}
		if s := load(redisdump.LoadOptions{Now: later}); s.Expired != 1 || s.Restored+s.Present != 100 {
			t.Errorf("two hours later: %+v", brief(s))
		}
		load(redisdump.LoadOptions{})
		for i := range 100 {
			want := "old"
			if i < 10 {
				want = "new"
			}
			if got := to.Get(t.Context(), strconv.Itoa(i)).Val(); got != want {
				t.Errorf("%d is %q, want %q", i, got, want)
			}
		}
		if ttl := to.PTTL(t.Context(), "soon").Val(); ttl < 50*time.Minute || ttl > time.Hour {
			t.Errorf("it expires in %s", ttl)
		}
	})
}

func TestALoadThatIsInterruptedCanBeRepeated(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		rdbs, _, whole := shards(t, engine)
		s := startCluster(t, engine, 3)
		for round := range 3 {
			ctx, cancel := context.WithCancelCause(t.Context())
			reason := fmt.Errorf("eviction %d", round)
			o := redisdump.LoadOptions{InFlight: 20_000, Progress: func(_, keys int64) {
				if keys > int64(round+1)*whole.Keys/4 {
					cancel(reason)
				}
			}}
			summary, err := redisdump.Load(ctx, readers(rdbs), redisdump.IntoCluster(s.ClusterClient), o)
			cancel(nil)
			if !errors.Is(err, reason) || summary.Restored+summary.Present >= whole.Keys {
				t.Errorf("round %d: %+v %v", round, brief(summary), err)
			}
		}
		summary, err := redisdump.Load(t.Context(), readers(rdbs), redisdump.IntoCluster(s.ClusterClient), redisdump.LoadOptions{})
		if got := s.digest(t); err != nil || got != whole || summary.Restored+summary.Present != whole.Keys {
			t.Errorf("%+v %v, the digest is %s, want %s", brief(summary), err, got, whole)
		}
		damaged := bytes.Clone(rdbs[0])
		damaged[len(damaged)-5] ^= 1
		if _, err := redisdump.Load(t.Context(), []io.Reader{bytes.NewReader(damaged)}, redisdump.IntoCluster(s.ClusterClient), redisdump.LoadOptions{}); !errors.Is(err, redisdump.ErrDamaged) {
			t.Errorf("a damaged RDB: %v", err)
		}
	})
}

func TestALoadGoesOnWhenSlotsMoveAndServersRestart(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		from := start(t, engine, nil)
		zero := 0
		for redisdump.Slot([]byte(strconv.Itoa(zero))) != 0 {
			zero++
		}
		pipe := from.Pipeline()
		const n = 20000
		for i := range n {
			key := fmt.Sprint("key:", i)
			if i%200 == 0 {
				key = fmt.Sprintf("{%d}:%d", zero, i)
			}
			pipe.Set(t.Context(), key, strings.Repeat("v", 200), 0)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		rdb := from.save(t)
		s := startCluster(t, engine, 2, "--appendonly", "yes", "--appendfsync", "always")
		a, b := s.primaries[0], s.primaries[1]
		idA, idB := a.ClusterMyID(t.Context()).Val(), b.ClusterMyID(t.Context()).Val()
		// Slot 0 is on its way from a to b, and 1 to 100 will move at once.
		b.must(t, "CLUSTER", "SETSLOT", 0, "IMPORTING", idA)
		a.must(t, "CLUSTER", "SETSLOT", 0, "MIGRATING", idB)
		moved := false
		summary, err := redisdump.Load(t.Context(), []io.Reader{bytes.NewReader(rdb)}, redisdump.IntoCluster(s.ClusterClient), redisdump.LoadOptions{
			InFlight: 200_000,
			Progress: func(_, keys int64) {
				if keys < n/3 || moved {
					return
				}
				moved = true
				for slot := 1; slot <= 100; slot++ {
					give(t, a, b, slot, idB)
				}
				b.kill()
				b.run(t)
			},
		})
		if err != nil || summary.Restored+summary.Present != n || !moved {
			t.Fatalf("%+v %v", brief(summary), err)
		}
		size := a.DBSize(t.Context()).Val() + b.DBSize(t.Context()).Val()
		if size != n {
			t.Errorf("there are %d keys", size)
		}
		in0 := b.ClusterCountKeysInSlot(t.Context(), 0).Val()
		if want := summary.KeysPerSlot[0]; in0 != want || want == 0 {
			t.Errorf("%d keys were sent on to the server that imports slot 0, want %d", in0, want)
		}
	})
}

// give moves a slot with its keys. What arrives meanwhile is sent on, so that the slot is empty when it goes.
func give(t *testing.T, from, to *process, slot int, id string) {
	t.Helper()
	to.must(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.ClusterMyID(t.Context()).Val())
	from.must(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", id)
	for {
		keys, err := from.ClusterGetKeysInSlot(t.Context(), slot, 100).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		args := []any{"MIGRATE", to.ip, 6379, "", 0, 5000, "REPLACE", "KEYS"}
		for _, k := range keys {
			args = append(args, k)
		}
		from.must(t, args...)
	}
	to.must(t, "CLUSTER", "SETSLOT", slot, "NODE", id)
	from.must(t, "CLUSTER", "SETSLOT", slot, "NODE", id)
}

func TestSlotsThatAServerImportsAreLoadedByAsking(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		from := start(t, engine, nil)
		for i := range 50 {
			from.must(t, "SET", fmt.Sprintf("{a}%d", i), i)
			from.must(t, "SET", fmt.Sprintf("{b}%d", i), i)
		}
		slot := redisdump.Slot([]byte("a"))
		s := startCluster(t, engine, 2)
		owner, other := s.primaries[slot/(redisdump.SlotCount/2)], s.primaries[1-slot/(redisdump.SlotCount/2)]
		other.must(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", owner.ClusterMyID(t.Context()).Val())
		o := redisdump.LoadOptions{Slots: func(s int) bool { return s == slot }, Patience: 100 * time.Millisecond}
		rdb := from.save(t)
		if _, err := redisdump.Load(t.Context(), []io.Reader{bytes.NewReader(rdb)}, redisdump.IntoServer(other.Client), o); !errors.Is(err, redisdump.ErrNoProgress) {
			t.Errorf("without asking: %v", err)
		}
		o.Asking = true
		summary, err := redisdump.Load(t.Context(), []io.Reader{bytes.NewReader(rdb)}, redisdump.IntoServer(other.Client), o)
		if n := other.ClusterCountKeysInSlot(t.Context(), slot).Val(); err != nil || summary.Restored != 50 || n != 50 || summary.Skipped != 50 {
			t.Errorf("%+v %v, %d keys are there", brief(summary), err, n)
		}
	})
}

func TestDatabasesStayApart(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		from, to := start(t, engine, nil), start(t, engine, nil, "--maxmemory-policy", "allkeys-lru")
		for db := range 4 {
			options := from.options()
			options.DB = db * 3
			c := goredis.NewClient(options)
			defer func() { _ = c.Close() }()
			for i := range 100 {
				if err := c.Set(t.Context(), strconv.Itoa(i), db, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
		summary, err := redisdump.Load(t.Context(), []io.Reader{bytes.NewReader(from.save(t))}, redisdump.IntoServer(to.Client), redisdump.LoadOptions{})
		if err != nil || summary.Restored != 400 {
			t.Fatalf("%+v %v", brief(summary), err)
		}
		for db := range 4 {
			options := to.options()
			options.DB = db * 3
			c := goredis.NewClient(options)
			defer func() { _ = c.Close() }()
			if got := c.Get(t.Context(), "42").Val(); got != strconv.Itoa(db) || c.DBSize(t.Context()).Val() != 100 {
				t.Errorf("in database %d it is %q", 3*db, got)
			}
		}
	})
}

func TestAServerThatIsFullOrForbidsSaysSo(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		from, to := start(t, engine, nil), start(t, engine, nil)
		from.must(t, "SET", "a", strings.Repeat("x", 1<<20))
		rdb := from.save(t)
		load := func(c *goredis.Client, o redisdump.LoadOptions) error {
			_, err := redisdump.Load(t.Context(), []io.Reader{bytes.NewReader(rdb)}, redisdump.IntoServer(c), o)
			return err
		}
		to.must(t, "CONFIG", "SET", "maxmemory", 100_000)
		if err := load(to.Client, redisdump.LoadOptions{}); !errors.Is(err, redisdump.ErrNoMemory) {
			t.Errorf("without memory: %v", err)
		}
		to.must(t, "CONFIG", "SET", "maxmemory", 0)
		if err := load(to.Client, redisdump.LoadOptions{MaxValue: 1000}); !errors.Is(err, redisdump.ErrTooLarge) {
			t.Errorf("with a limit: %v", err)
		}
		to.must(t, "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+info")
		options := to.options()
		options.Username, options.Password = "reader", "secret"
		reader := goredis.NewClient(options)
		defer func() { _ = reader.Close() }()
		if err := load(reader, redisdump.LoadOptions{}); !errors.Is(err, redisdump.ErrNoPermission) {
			t.Errorf("without permission: %v", err)
		}
		to.must(t, "ACL", "SETUSER", "loader", "on", ">secret", "~*", "-@all", "+restore", "+restore-asking", "+info", "+function|load")
		options = to.options()
		options.Username, options.Password = "loader", "secret"
		loader := goredis.NewClient(options)
		defer func() { _ = loader.Close() }()
		if err := load(loader, redisdump.LoadOptions{}); err != nil {
			t.Errorf("with what it takes: %v", err)
		}
	})
}

func TestALargeValueIsInMemoryOnce(t *testing.T) {
	const size = 100 << 20
	from, to := start(t, "valkey-9.1", nil, "--rdbcompression", "no"), start(t, "valkey-9.1", nil)
	element := strings.Repeat("0123456789abcdef", 4096)
	pipe := from.Pipeline()
	for range size / len(element) {
		pipe.RPush(t.Context(), "large", element)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	from.must(t, "COPY", "large", "second")
	rdb, w := io.Pipe()
	go func() {
		_, err := from.source().Copy(t.Context(), w)
		_ = w.CloseWithError(err)
	}()
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	peak, stop := watch(t)
	_, err := redisdump.Load(t.Context(), []io.Reader{rdb}, redisdump.IntoServer(to.Client), redisdump.LoadOptions{})
	stop()
	if err != nil || to.LLen(t.Context(), "second").Val() != int64(size/len(element)) {
		t.Fatalf("%v", err)
	}
	used := int64(peak.Load()) - int64(before.HeapInuse)
	t.Logf("two values of %d MiB took %d MiB at most", size>>20, used>>20)
	if used > 3*size {
		t.Errorf("%d MiB of memory", used>>20)
	}
}

// watch tells the highest use of memory.
func watch(t *testing.T) (peak *atomic.Uint64, stop func()) {
	t.Helper()
	peak, done := &atomic.Uint64{}, make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapInuse))
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return peak, func() { close(done); <-ended }
}
