package redisdump_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/test/stores"
)

// engines are tested all: what they write is what this package is about.
var engines = []string{"redis-7.0", "redis-8.0", "valkey-8.1", "valkey-9.1"}

func eachEngine(t *testing.T, run func(t *testing.T, engine string)) {
	t.Helper()
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			run(t, engine)
		})
	}
}

// process is a server with a loopback address of its own.
type process struct {
	*goredis.Client
	engine, ip, dir string
	args            []string
	cmd             *exec.Cmd
}

func (p *process) addr() string { return p.ip + ":6379" }

func (p *process) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", p.addr())
}

func (p *process) source() redisdump.Source { return redisdump.Source{Dial: p.dial} }

// start runs a server, with an RDB to begin with if there is one.
func start(tb testing.TB, engine string, rdb []byte, args ...string) *process {
	tb.Helper()
	p := &process{
		engine: engine, dir: tb.TempDir(), ip: fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)),
	}
	if rdb != nil {
		if err := os.WriteFile(filepath.Join(p.dir, "dump.rdb"), rdb, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	p.args = append([]string{
		"--port", "6379", "--bind", p.ip, "--bind-source-addr", p.ip, "--dir", p.dir, "--save", "", "--repl-diskless-sync-delay", "0",
		"--protected-mode", "no", "--cluster-announce-ip", p.ip,
		"--proto-max-bulk-len", "1gb",
	}, args...)
	p.Client = goredis.NewClient(p.options())
	tb.Cleanup(func() {
		_ = p.Close()
		p.kill()
		if tb.Failed() {
			raw, _ := os.ReadFile(filepath.Join(p.dir, "log"))
			tb.Logf("%s at %s: ...%s", engine, p.ip, raw[max(0, len(raw)-1500):])
		}
	})
	p.run(tb)
	return p
}

func (p *process) options() *goredis.Options {
	return &goredis.Options{
		Addr: p.addr(), ReadTimeout: time.Minute, WriteTimeout: time.Minute, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func (p *process) run(tb testing.TB) {
	tb.Helper()
	p.runUnready(tb)
	eventually(tb, p.engine+" answers", func() error {
		err := p.Ping(tb.Context()).Err()
		if err != nil && strings.Contains(err.Error(), "NOAUTH") {
			return nil
		}
		return err
	})
}

func (p *process) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

func (p *process) signal(tb testing.TB, s syscall.Signal) {
	tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		tb.Fatal(err)
	}
}

func (p *process) must(tb testing.TB, args ...any) {
	tb.Helper()
	if err := p.Do(tb.Context(), args...).Err(); err != nil && !errors.Is(err, goredis.Nil) {
		tb.Fatalf("%s: %.200q: %v", p.engine, fmt.Sprint(args...), err)
	}
}

// follow makes the server a replica, and waits until it has caught up.
func (p *process) follow(tb testing.TB, primary *process) {
	tb.Helper()
	p.must(tb, "REPLICAOF", primary.ip, "6379")
	eventually(tb, "the replica follows", func() error {
		info, err := p.Info(tb.Context(), "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = errors.New("the link is down")
		}
		return err
	})
}

func eventually(tb testing.TB, what string, done func() error) {
	tb.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%s: not within 30 s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// servers are a cluster.
type servers struct {
	*goredis.ClusterClient
	primaries []*process
}

// startCluster runs a cluster of primaries.
func startCluster(tb testing.TB, engine string, primaries int, args ...string) *servers {
	tb.Helper()
	s := &servers{}
	var addrs []string
	for i := range primaries {
		p := start(tb, engine, nil, append([]string{"--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"}, args...)...)
		s.primaries = append(s.primaries, p)
		addrs = append(addrs, p.addr())
		p.must(tb, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		p.must(tb, "CLUSTER", "ADDSLOTSRANGE", i*redisdump.SlotCount/primaries, (i+1)*redisdump.SlotCount/primaries-1)
		if i > 0 {
			p.must(tb, "CLUSTER", "MEET", s.primaries[0].ip, "6379")
		}
	}
	for _, p := range s.primaries {
		eventually(tb, "the cluster agrees", func() error {
			info, err := p.ClusterInfo(tb.Context()).Result()
			if err == nil && (!strings.Contains(info, "cluster_slots_assigned:16384") || !strings.Contains(info, "cluster_state:ok")) {
				err = errors.New(info)
			}
			return err
		})
	}
	s.ClusterClient = goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: addrs, ReadTimeout: time.Minute, WriteTimeout: time.Minute, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// digest is that of all primaries.
func (s *servers) digest(tb testing.TB) redisdump.Digest {
	tb.Helper()
	var all redisdump.Digest
	for _, p := range s.primaries {
		all.Add(digest(tb, p.Client))
	}
	return all
}

func digest(tb testing.TB, c *goredis.Client) redisdump.Digest {
	tb.Helper()
	d, err := redisdump.DigestOf(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// fill writes values of every type and encoding.
func (p *process) fill(tb testing.TB) {
	tb.Helper()
	long, far := strings.Repeat("lzf compresses this ", 50), time.Now().Add(24*time.Hour).UnixMilli()
	random := make([]byte, 3000)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	do := func(args ...any) { tb.Helper(); p.must(tb, args...) }
	for i, v := range []any{"", "x", 0, 12, -13, 12345, -12346, 1234567890, -1234567890, "12345678901234", "0012", "1.5", long, random} {
		do("SET", fmt.Sprint("string:", i), v)
	}
	do("SET", "", "the empty key")
	do("SET", "42", "a key that is a number")
	do("SET", "-30000", "another one")
	do("SET", "key "+long, "a key that is compressed")
	do("SET", "\x00\xff\r\n{\x80}bin", random[:100])
	do("SET", "expires", "x", "PXAT", far)
	do("SET", "gone", "x", "PX", 1)
	do("SETBIT", "bits", 100000, 1)
	do("PFADD", "hyperloglog", 1, 2, 3)
	for i := range 2000 {
		do("SET", fmt.Sprintf("{tag%d}:%d", i%7, i), i)
	}
	for _, n := range []int{1, 5, 600} {
		for i := range n {
			item := fmt.Sprintf("item %d %s", i, long[:i%300])
			do("RPUSH", fmt.Sprint("list:", n), item)
			do("SADD", fmt.Sprint("set:", n), item)
			do("SADD", fmt.Sprint("intset:", n), i*100000)
			do("HSET", fmt.Sprint("hash:", n), item, i, fmt.Sprint("number ", i), item)
			do("ZADD", fmt.Sprint("zset:", n), float64(i)/3, item)
		}
	}
	do("RPUSH", "list:plain", strings.Repeat("p", 20000), random, strings.Repeat("q", 9000))
	do("ZADD", "zset:special", "inf", "a", "-inf", "b", "0", "c", "1e300", "d", "-1.5", "e")
	do("PEXPIREAT", "hash:600", far+5)
	if !strings.HasSuffix(p.engine, "7.0") && !strings.HasSuffix(p.engine, "8.1") {
		for _, n := range []int{5, 600} {
			do("HPEXPIREAT", fmt.Sprint("hash:", n), far, "FIELDS", 2, "number 1", "number 2")
			do("HPEXPIREAT", fmt.Sprint("hash:", n), far+77777, "FIELDS", 1, "number 3")
		}
	}
	p.fillStreams(tb)
	do("FUNCTION", "LOAD", "#!lua name=first\nredis.register_function('one', function(keys, args) return 1 end)\n-- "+long)
	do("FUNCTION", "LOAD", "#!lua name=second\nredis.register_function('two', function(keys, args) return 2 end)")
}

func (p *process) fillStreams(tb testing.TB) {
	tb.Helper()
	do := func(args ...any) { tb.Helper(); p.must(tb, args...) }
	for i := range 500 {
		do("XADD", "stream:big", fmt.Sprintf("%d-%d", 1000+i/3, 1+i), "field", i, "other", strings.Repeat("v", i%50))
	}
	do("XADD", "stream:empty", "5-5", "a", "b")
	do("XDEL", "stream:empty", "5-5")
	do("XGROUP", "CREATE", "stream:none", "g", "$", "MKSTREAM")
	do("XGROUP", "CREATE", "stream:big", "idle", "0")
	do("XGROUP", "CREATE", "stream:big", "g", "0")
	do("XGROUP", "CREATECONSUMER", "stream:big", "g", "never")
	do("XREADGROUP", "GROUP", "g", "alice", "COUNT", 60, "STREAMS", "stream:big", ">")
	do("XREADGROUP", "GROUP", "g", "bob", "COUNT", 5, "STREAMS", "stream:big", ">")
	do("XACK", "stream:big", "g", "1000-1", "1000-2")
	do("XDEL", "stream:big", "1000-3", "1100-301")
	do("XTRIM", "stream:big", "MAXLEN", "=", 480)
}

// save writes the RDB on the server's disk and reads it.
func (p *process) save(tb testing.TB) []byte {
	tb.Helper()
	p.must(tb, "SAVE")
	raw, err := os.ReadFile(filepath.Join(p.dir, "dump.rdb"))
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// runUnready starts the server without waiting for it.
func (p *process) runUnready(tb testing.TB) {
	tb.Helper()
	p.cmd = exec.Command(stores.Newest(tb, p.engine).Program(), p.args...) //nolint:noctx // It ends with the test.
	stores.Start(tb, p.cmd, filepath.Join(p.dir, "log"))
}

// children signals the processes that a server has forked.
func children(tb testing.TB, p *process, s syscall.Signal) {
	tb.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.cmd.Process.Pid, p.cmd.Process.Pid))
	if err != nil {
		tb.Fatal(err)
	}
	for _, word := range strings.Fields(string(raw)) {
		var pid int
		if _, err := fmt.Sscan(word, &pid); err == nil {
			_ = syscall.Kill(pid, s) // It may have ended.
		}
	}
}
