// Package backup measures how long the agent takes for a backup and for a restore, and how much memory, next to the data stores' own tools,
// and what clients of the data store notice of it. Everything runs on this machine, one after the other, in rounds.
//
//	make bench-backup TEST_FLAGS="-mib 1024 -rounds 3"
package backup

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/test/bench/figures"
	"github.com/quorate/quorate/test/loopback"
)

var (
	mib    = flag.Int("mib", 256, "size of the data in MiB")
	rounds = flag.Int("rounds", 3, "rounds, of which the median is told")
)

// valueBytes is the size of a value. Half of each is noise, so that it can be compressed to about that half.
const valueBytes = 16 << 10

func value(r *rand.ChaCha8) []byte {
	v := make([]byte, valueBytes)
	_, _ = r.Read(v[:valueBytes/2]) // It never fails.
	return v
}

// keys is how many values make up the data.
func keys() int { return *mib << 20 / valueBytes }

func key(i int) string { return fmt.Sprintf("bench/%08d", i) }

// agent builds the program under test.
func agent(b *testing.B) string {
	b.Helper()
	out := filepath.Join(b.TempDir(), "agent")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "github.com/quorate/quorate/cmd/agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, text)
	}
	return out
}

// scratch makes a directory for one round, whose data goes before the next.
func scratch(b *testing.B) (dir string, remove func()) {
	b.Helper()
	dir = b.TempDir()
	return dir, func() {
		if err := os.RemoveAll(dir); err != nil {
			b.Fatal(err)
		}
	}
}

// run is one run of a program.
type run struct {
	took time.Duration
	// memory is the most of its own that it had, in MiB, files that it has mapped left out, and latency what clients of the data store
	// waited for meanwhile.
	memory  float64
	latency latencies
}

// measure runs a program to its end, with the limit of memory that a Job has.
func measure(b *testing.B, clients *clients, name string, args ...string) run {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), name, args...)
	cmd.Env = append(os.Environ(), "GOMEMLIMIT=128MiB", "ETCDCTL_API=3")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	clients.reset()
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	ended, peak := make(chan struct{}), make(chan float64)
	go func() { peak <- watchMemory(cmd.Process.Pid, ended) }()
	err := cmd.Wait()
	r := run{took: time.Since(began), latency: clients.reset()}
	close(ended)
	r.memory = <-peak
	if err != nil {
		b.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, said.String())
	}
	return r
}

// watchMemory returns the most anonymous memory in MiB that a process had while it ran: what a limit of Kubernetes cannot take back.
func watchMemory(pid int, ended <-chan struct{}) (most float64) {
	for {
		select {
		case <-ended:
			return most
		case <-time.After(10 * time.Millisecond):
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // It has ended.
		}
		var kib float64
		if i := bytes.Index(text, []byte("RssAnon:")); i >= 0 {
			_, _ = fmt.Sscan(string(text[i+len("RssAnon:"):]), &kib) // Zero where there is no number.
		}
		most = max(most, kib/1024)
	}
}

// agentArgs are what all Jobs are given: a place, where to put the word that is left, and a free port.
func agentArgs(b *testing.B, url, directory string) []string {
	b.Helper()
	return []string{
		"--url=" + url, "--directory=" + directory, "--termination-log=" + filepath.Join(b.TempDir(), "word"), "--progress-address=127.0.0.1:0",
	}
}

// table keeps what was measured: speeds in bin/bench at once, and everything for its report.
type table struct {
	b     *testing.B
	file  *figures.File
	sides []side
}

// side is one way to do what is measured. The first one of the same thing is what the others are compared with.
type side struct {
	what, name string
	runs       []run
}

func newTable(b *testing.B, name string) *table {
	b.Helper()
	file, err := figures.Create("../../../bin/bench", name)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = file.Close() }) // Every figure is written at once.
	return &table{b: b, file: file}
}

func (t *table) add(what, name string, r run) {
	t.b.Helper()
	if err := t.file.Add(figures.Figure{What: what, Side: name, Unit: "MiB/s", Value: r.speed()}); err != nil {
		t.b.Fatal(err)
	}
	i := slices.IndexFunc(t.sides, func(s side) bool { return s.what == what && s.name == name })
	if i < 0 {
		i, t.sides = len(t.sides), append(t.sides, side{what: what, name: name})
	}
	t.sides[i].runs = append(t.sides[i].runs, r)
}

func (r run) speed() float64 { return float64(*mib) / r.took.Seconds() }

// report prints medians, and how many times the floor's they are.
func (t *table) report() {
	t.b.Helper()
	var floor side
	for _, s := range t.sides {
		var speed, memory, p99, worst []float64
		for _, r := range s.runs {
			speed, memory = append(speed, r.speed()), append(memory, r.memory)
			p99, worst = append(p99, r.latency.quantile(0.99)), append(worst, r.latency.quantile(1))
		}
		times := ""
		if s.what == floor.what {
			var floors []float64
			for _, r := range floor.runs {
				floors = append(floors, r.speed())
			}
			times = fmt.Sprintf(", %.2f times %s", median(speed)/median(floors), floor.name)
		} else {
			floor = s
		}
		fmt.Printf("FIGURE %s: %s: %.0f MiB/s (%.0f to %.0f)%s; at most %.0f MiB of memory; clients waited %.1f ms (p99), %.0f ms at most\n",
			s.what, s.name, median(speed), slices.Min(speed), slices.Max(speed), times, slices.Max(memory), median(p99), slices.Max(worst))
	}
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// latencies are what single writes took, in milliseconds.
type latencies []float64

func (l latencies) quantile(q float64) float64 {
	if len(l) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(l))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// clients write a little all the time, and note how long each write takes.
type clients struct {
	mu   sync.Mutex
	seen latencies
}

// start writes a hundred times a second until the benchmark ends.
func (c *clients) start(ctx context.Context, write func(ctx context.Context, i int) error) {
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			began := time.Now()
			if write(ctx, i) == nil {
				c.mu.Lock()
				c.seen = append(c.seen, float64(time.Since(began).Microseconds())/1000)
				c.mu.Unlock()
			}
		}
	}()
}

// reset returns what was seen since the last call.
func (c *clients) reset() latencies {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = nil
	return seen
}

// startS3 starts a server that keeps its data in a directory, and returns the URL of a bucket and the directory of its credentials.
func startS3(b *testing.B) (url, credentials string) {
	b.Helper()
	data, address := b.TempDir(), loopback.Address(b)
	if err := os.Mkdir(filepath.Join(data, "bench"), 0o700); err != nil {
		b.Fatal(err)
	}
	server := exec.CommandContext(b.Context(), os.Getenv("QUORATE_S3"), "--port", address, "posix", "--sidecar", b.TempDir(), data)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY=bench", "ROOT_SECRET_KEY=only-for-benchmarks")
	if err := server.Start(); err != nil {
		b.Fatalf("start the S3 server that QUORATE_S3 names: %v", err)
	}
	b.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", address) //nolint:noctx // It is on this machine.
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
	}
	credentials = b.TempDir()
	for name, text := range map[string]string{"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "only-for-benchmarks"} {
		if err := os.WriteFile(filepath.Join(credentials, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return "s3://bench/backups?region=us-east-1&path-style=true&endpoint=http://" + address, credentials
}

func header(what string) {
	fmt.Printf("FIGURE %s: %d MiB in values of %d KiB, of which half is noise; %d rounds; %d processors, %s\n",
		what, *mib, valueBytes>>10, *rounds, runtime.NumCPU(), runtime.Version())
}
