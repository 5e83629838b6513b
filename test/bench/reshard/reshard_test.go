// Package reshard measures how fast keys move when a cluster of three shards gets a fourth: the operator's own rules and engines
// against what the servers bring with them, on the same servers and the same data, in turns.
//
// It needs no Kubernetes. The servers run on loopback, with the configuration and the users that pods have, and without replicas.
package reshard

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/test/bench/figures"
)

var (
	mib    = flag.Int("mib", 1024, "how much data the cluster holds, in MiB")
	rounds = flag.Int("rounds", 3, "how often every mover is measured")
	only   = flag.String("engine", "", "measure this engine only, such as valkey-9.1")
)

// goal is how many times the keys per second of redis-cli we aim at. It is printed and never asserted.
const goal = 3

// mover is a way to give the fourth shard its slots.
type mover struct {
	name string
	run  func(ctx context.Context, w *world) error
}

// sample is what one round has shown.
type sample struct {
	took  time.Duration
	keys  int64
	bytes int64
}

func (s sample) keysPerSecond() float64  { return float64(s.keys) / s.took.Seconds() }
func (s sample) bytesPerSecond() float64 { return float64(s.bytes) / s.took.Seconds() }

// BenchmarkReshard goes from three shards to four and back, with every mover in turn. Only the way there is measured.
func BenchmarkReshard(b *testing.B) {
	for _, engine := range []string{"redis-7.0", "redis-8.0", "valkey-8.1", "valkey-9.1"} {
		if *only != "" && *only != engine {
			continue
		}
		b.Run(engine, func(b *testing.B) { measure(b, engine) })
	}
}

func measure(b *testing.B, engine string) {
	b.Helper()
	w := newWorld(b, engine)
	w.form()
	keys := w.fill(int64(*mib) << 20)
	fmt.Printf("%s: %d keys, %d MiB\n", engine, keys, w.used()>>20)
	movers := []mover{{cli(w.binary), rebalance}, {"quorate", operate}}
	if w.migratesSlots() {
		movers = append(movers, mover{"MIGRATESLOTS", migrateSlots})
	}
	w.rest(b.Context())
	w.measure(movers[1]) // The first round pays for memory and files that the servers do not have yet.
	file, err := figures.Create("../../../bin/bench", "Reshard-"+engine)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }() // Every figure is written at once.
	samples := map[string][]sample{}
	for range *rounds {
		for _, m := range movers {
			s := w.measure(m)
			samples[m.name] = append(samples[m.name], s)
			what := fmt.Sprintf("%s with %d MiB, from three shards to four", strings.ReplaceAll(engine, "-", " "), *mib)
			if err := file.Add(figures.Figure{What: what, Side: m.name, Unit: "keys/s", Value: s.keysPerSecond()}); err != nil {
				b.Fatal(err)
			}
		}
	}
	report(b, engine, movers, samples)
}

// measure lets a mover fill the fourth shard, and takes everything back.
func (w *world) measure(m mover) sample {
	w.b.Helper()
	ctx, cancel := context.WithTimeout(w.b.Context(), time.Hour)
	defer cancel()
	before, total := w.slots(ctx), w.keys()
	newest := w.servers[shards]
	empty := newest.info("used_memory")
	began := time.Now()
	if err := m.run(ctx, w); err != nil {
		w.b.Fatalf("%s: %v", m.name, err)
	}
	s := sample{took: time.Since(began), keys: newest.keys(), bytes: newest.info("used_memory") - empty}
	if got := w.keys(); got != total {
		w.b.Fatalf("%s: %d keys of %d are left", m.name, got, total)
	}
	if got := w.slots(ctx)[shards].Count(); got != slots.Count/(shards+1) {
		w.b.Fatalf("%s: the new shard has %d slots", m.name, got)
	}
	w.restore(ctx, before)
	return s
}

// report prints the medians, and how many times the keys per second of the servers' own command that is.
func report(b *testing.B, engine string, movers []mover, samples map[string][]sample) {
	b.Helper()
	floor, ours := movers[0].name, movers[1].name
	base := median(samples[floor])
	fmt.Printf("%-12s %-14s %9s %12s %12s %10s\n", "engine", "mover", "seconds", "keys/s", "MiB/s", "times "+floor)
	for _, m := range movers {
		s := median(samples[m.name])
		times := s.keysPerSecond() / base.keysPerSecond()
		fmt.Printf("%-12s %-14s %9.2f %12.0f %12.1f %10.2f\n", engine, m.name, s.took.Seconds(), s.keysPerSecond(), s.bytesPerSecond()/(1<<20), times)
		b.ReportMetric(s.keysPerSecond(), m.name+"-keys/s")
	}
	times := median(samples[ours]).keysPerSecond() / base.keysPerSecond()
	fmt.Printf("FIGURE %s: %.1f times the keys/s of %s (goal %d), median of %d rounds\n", engine, times, floor, goal, *rounds)
	b.ReportMetric(0, "ns/op")
}

// median is the round of medium speed.
func median(samples []sample) sample {
	sorted := slices.Clone(samples)
	slices.SortFunc(sorted, func(x, y sample) int { return cmp.Compare(x.keysPerSecond(), y.keysPerSecond()) })
	return sorted[len(sorted)/2]
}

// cli is the name of the command that comes with a server.
func cli(server string) string { return strings.TrimSuffix(filepath.Base(server), "-server") + "-cli" }

// rebalance is what the documentation of the servers says to do, with what it does by default.
func rebalance(ctx context.Context, w *world) error {
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(w.binary), cli(w.binary)), "--cluster", "rebalance", w.servers[0].addr.String(),
		"--cluster-use-empty-masters", "--cluster-threshold", "1", "--user", acl.UserDefault, "-a", password, "--no-auth-warning")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out[max(0, len(out)-500):])
	}
	return nil
}

// migrateSlots asks all sources at once for everything, and does nothing but look whether it is done.
func migrateSlots(ctx context.Context, w *world) error {
	moves := slots.Balance(w.slots(ctx), shards+1)
	for _, m := range moves {
		args := []any{"CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"}
		for _, r := range m.Slots {
			args = append(args, r.From, r.To)
		}
		from := w.servers[m.From]
		if err := from.rdb.ConfigSet(ctx, "masteruser", acl.UserDefault).Err(); err != nil {
			return err
		}
		if err := from.rdb.ConfigSet(ctx, "masterauth", password).Err(); err != nil {
			return err
		}
		if err := from.rdb.Do(ctx, append(args, "NODE", w.servers[m.To].id)...).Err(); err != nil {
			return err
		}
	}
	for _, m := range moves {
		for {
			jobs, err := w.servers[m.From].rdb.Do(ctx, "CLUSTER", "GETSLOTMIGRATIONS").Slice()
			if err != nil {
				return err
			}
			state := jobs[0].(map[any]any)
			if state["state"] == "success" {
				break
			}
			if state["state"] == "failed" {
				return fmt.Errorf("%v", state["message"])
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}
