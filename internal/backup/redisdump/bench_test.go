package redisdump_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/test/stores"
)

// payload fills a server with values of so many bytes, half of them random, and returns its RDB.
func payload(b *testing.B, p *process, keys, size int) []byte {
	b.Helper()
	value := make([]byte, size)
	for base := 0; base < keys; base += 1000 {
		pipe := p.Pipeline()
		for i := base; i < min(base+1000, keys); i++ {
			for j := range size / 2 {
				value[j] = byte(rand.Uint32())
			}
			pipe.Set(b.Context(), fmt.Sprint("key:", i), bytes.Clone(value), 0)
		}
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	return p.save(b)
}

// Sizes of values, with as many as make up 64 MiB.
var sizes = []int{100, 1000, 16000}

const total = 64 << 20

func BenchmarkScan(b *testing.B) {
	for _, size := range sizes {
		rdb := payload(b, start(b, "valkey-9.1", nil, "--rdbcompression", "no"), total/(size+20), size)
		b.Run(fmt.Sprintf("values/%d", size), func(b *testing.B) {
			b.SetBytes(int64(len(rdb)))
			for b.Loop() {
				if _, err := redisdump.Scan(bytes.NewReader(rdb), func(redisdump.Entry) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("count/%d", size), func(b *testing.B) {
			b.SetBytes(int64(len(rdb)))
			for b.Loop() {
				if _, err := redisdump.Count(bytes.NewReader(rdb)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCopy compares a transfer that is counted with one that is not, and with redis-cli --rdb.
func BenchmarkCopy(b *testing.B) {
	p := start(b, "valkey-9.1", nil, "--rdbcompression", "no", "--repl-diskless-sync", "yes")
	rdb := payload(b, p, 4*total/1020, 1000)
	p.must(b, "CONFIG", "SET", "repl-diskless-sync-delay", 0)
	cli := stores.Newest(b, "valkey-9.1").Tool("valkey-cli")
	for name, run := range map[string]func() error{
		"counted": func() error {
			c := redisdump.NewCounter(io.Discard)
			_, err := p.source().Copy(b.Context(), c)
			if _, counted := c.Finish(); err == nil {
				err = counted
			}
			return err
		},
		"copied": func() error {
			_, err := p.source().Copy(b.Context(), io.Discard)
			return err
		},
		"cli": func() error {
			return exec.CommandContext(b.Context(), cli, "-h", p.ip, "--rdb", "-").Run() // Its output is thrown away.
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(rdb)))
			for b.Loop() {
				if err := run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLoad loads into three primaries, and compares with one goroutine that loads into one server.
func BenchmarkLoad(b *testing.B) {
	for _, size := range sizes {
		rdb := payload(b, start(b, "valkey-9.1", nil, "--rdbcompression", "no"), total/(size+20), size)
		s := startCluster(b, "valkey-9.1", 3)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(len(rdb)))
			for b.Loop() {
				b.StopTimer()
				for _, p := range s.primaries {
					p.must(b, "FLUSHALL")
				}
				b.StartTimer()
				began := time.Now()
				summary, err := redisdump.Load(b.Context(), []io.Reader{bytes.NewReader(rdb)}, redisdump.IntoCluster(s.ClusterClient), redisdump.LoadOptions{})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(summary.Restored)/time.Since(began).Seconds(), "keys/s")
			}
		})
		b.Run(fmt.Sprintf("plain/%d", size), func(b *testing.B) {
			one := start(b, "valkey-9.1", nil)
			b.SetBytes(int64(len(rdb)))
			for b.Loop() {
				pipeAll(b, one.Client, rdb)
			}
		})
	}
}

// pipeAll restores from one goroutine into one server, in pipelines of 1000.
func pipeAll(b *testing.B, c *goredis.Client, rdb []byte) {
	b.Helper()
	pipe := c.Pipeline()
	if _, err := redisdump.Scan(bytes.NewReader(rdb), func(e redisdump.Entry) error {
		pipe.RestoreReplace(b.Context(), string(e.Key), 0, string(e.AppendPayload(nil)))
		if pipe.Len() < 1000 {
			return nil
		}
		_, err := pipe.Exec(b.Context())
		return err
	}); err != nil {
		b.Fatal(err)
	}
	if _, err := pipe.Exec(b.Context()); err != nil {
		b.Fatal(err)
	}
}
