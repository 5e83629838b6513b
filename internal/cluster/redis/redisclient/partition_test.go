package redisclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/stores"
)

// partitioned is a cluster of three primaries, of which the first has a replica: the servers 0 to 3.
type partitioned interface {
	// cut keeps some servers and the others from reaching each other; heal ends that.
	cut(apart ...int)
	heal()
	// write reports whether a server takes a write of a key that it owned at first.
	write(server int, value string) bool
	// holds reports whether the value is that of the key.
	holds(server int, value string) bool
	// leads reports whether a server is a primary with slots, in its own eyes.
	leads(server int) bool
	// handOver reports whether a replica was told to take over from its primary. It does not wait
	// for that.
	handOver(replica int) bool
	// until waits until something is so, for as long as it may take.
	until(what string, so func() bool)
	// pass waits.
	pass(d time.Duration)
}

// partitionTimeout is the node timeout.
const partitionTimeout = 4 * time.Second

// TestAPartitionOfServers plays the same on real servers and in memory.
func TestAPartitionOfServers(t *testing.T) {
	t.Parallel()
	start := map[string]func(*testing.T) partitioned{"in memory": newFakePartition}
	for _, minor := range []string{"redis-7.0", "valkey-9.1"} {
		start[minor] = func(t *testing.T) partitioned {
			t.Helper()
			return newServerPartition(t, stores.Newest(t, minor).Program())
		}
	}
	for name, of := range start {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("a primary in a minority is replaced and loses what it took", func(t *testing.T) {
				t.Parallel()
				replaces(t, of(t))
			})
			t.Run("a primary that takes its replica into the minority is not replaced", func(t *testing.T) {
				t.Parallel()
				waits(t, of(t))
			})
			t.Run("a primary in a minority does not hand over", func(t *testing.T) {
				t.Parallel()
				keeps(t, of(t))
			})
		})
	}
}

// replaces has a primary cut off from all others.
func replaces(t *testing.T, p partitioned) {
	t.Helper()
	p.cut(0)
	if !p.write(0, "in the minority") {
		t.Error("the minority takes no write within the node timeout")
	}
	p.until("the minority takes no more writes", func() bool { return !p.write(0, "in the minority") })
	p.until("its replica is elected", func() bool { return p.leads(3) && p.write(3, "in the majority") })
	if !p.write(1, "in the majority") || !p.leads(0) {
		t.Error("another shard takes no writes, or the primary has heard of its successor")
	}
	p.heal()
	p.until("the former primary follows its successor", func() bool { return !p.leads(0) && p.holds(0, "in the majority") })
}

// waits has a primary cut off together with its replica.
func waits(t *testing.T, p partitioned) {
	t.Helper()
	p.cut(0, 3)
	taken := ""
	for i := 0; ; i++ {
		value := fmt.Sprint("in the minority ", i)
		if !p.write(0, value) {
			break
		}
		taken = value
		p.pass(100 * time.Millisecond)
	}
	if taken == "" {
		t.Error("the minority takes no write within the node timeout")
	}
	p.pass(3 * partitionTimeout)
	if p.leads(3) || !p.leads(0) || p.write(0, "later") {
		t.Error("the replica was elected by a minority, or the primary took writes again")
	}
	p.heal()
	p.until("the primary has what it took", func() bool { return p.holds(0, taken) })
	p.until("it takes writes again", func() bool { return p.write(0, "healed") })
	p.until("its replica follows it", func() bool { return p.holds(3, "healed") && !p.leads(3) })
}

// keeps cuts off a primary together with its replica and starts a failover there: it gets one vote
// of three.
func keeps(t *testing.T, p partitioned) {
	t.Helper()
	p.cut(0, 3)
	p.until("the replica accepts CLUSTER FAILOVER", func() bool { return p.handOver(3) }) // The client reconnects first.
	p.pass(2 * partitionTimeout)
	if p.leads(3) || !p.leads(0) {
		t.Error("a replica has taken over without a majority of votes")
	}
	p.heal()
	p.until("the primary takes writes again", func() bool { return p.write(0, "healed") })
	p.until("its replica follows it", func() bool { return p.holds(3, "healed") && !p.leads(3) })
}

// fakePartition is the one in memory.
type fakePartition struct {
	t       *testing.T
	net     *redisfake.Network
	servers []*redisfake.Server
	values  map[string]int
}

func newFakePartition(t *testing.T) partitioned {
	t.Helper()
	p := &fakePartition{t: t, net: redisfake.NewNetwork(partitionTimeout, rand.New(rand.NewPCG(1, 2))), values: map[string]int{}}
	for i := range partitionServers {
		p.servers = append(p.servers, p.net.Add(model.Address{IP: fmt.Sprint("10.0.0.", i), Port: model.ClientPort}, i%3, fmt.Sprint("c-", i)))
	}
	for i, s := range p.servers {
		err := errors.Join(s.SetConfigEpoch(t.Context(), uint64(i+1)), s.AdmitReplicas(t.Context(), model.AdmitsForGood))
		if i < 3 {
			err = errors.Join(err, s.AddSlots(t.Context(), slots.Share(i, 3)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range p.servers {
		for _, o := range p.servers[i+1:] {
			p.until("the servers meet", func() bool { return !s.Misses(o.ID) || s.Meet(t.Context(), o.Addr, 0) != nil })
		}
	}
	p.until("the cluster forms", func() bool { return p.write(0, "first") && p.write(1, "first") })
	p.until("the replica follows", func() bool { return p.servers[3].Replicate(t.Context(), p.servers[0].ID) == nil })
	p.until("it has a copy", func() bool { return p.holds(3, "first") })
	return p
}

func (p *fakePartition) cut(apart ...int) {
	var servers []*redisfake.Server
	for _, i := range apart {
		servers = append(servers, p.servers[i])
	}
	p.net.Partition(servers...)
}

func (p *fakePartition) heal() { p.net.Heal() }

// key is the one of a server; it counts the writes.
func (p *fakePartition) key(server int) redisfake.Key {
	return redisfake.Key{Slot: slots.Share(server%3, 3)[0].From}
}

func (p *fakePartition) write(server int, value string) bool {
	ok := p.servers[server].Write(p.key(server))
	if ok {
		p.values[fmt.Sprint(server%3, value)] = p.servers[server].Data[p.key(server)]
	}
	return ok
}

func (p *fakePartition) holds(server int, value string) bool {
	n, ok := p.values[fmt.Sprint(server%3, value)]
	return ok && p.servers[server].Data[p.key(server)] == n
}

func (p *fakePartition) leads(server int) bool { return len(p.servers[server].Slots()) > 0 }

func (p *fakePartition) handOver(replica int) bool {
	_ = p.servers[replica].Failover(p.t.Context(), steps.FailoverPlanned) // This is the outcome already.
	return true
}

func (p *fakePartition) pass(d time.Duration) {
	for end := p.net.Now().Add(d); p.net.Now().Before(end); {
		p.net.Tick()
	}
}

func (p *fakePartition) until(what string, so func() bool) {
	p.t.Helper()
	for range int(time.Minute / redisfake.Cron) {
		if so() {
			return
		}
		p.net.Tick()
	}
	p.t.Fatalf("%s: not within a minute", what)
}

// serverPartition is the one of real servers. Each connects from an address of its own, to a proxy in
// front of each other one.
type serverPartition struct {
	t       *testing.T
	clients []*goredis.Client
	keys    []string

	mu    sync.Mutex
	apart map[int]bool
	links map[*link]bool
}

// link is a connection between two servers.
type link struct{ client, server net.Conn }

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// partitionServers are three primaries and a replica of the first.
const partitionServers = 4

// sourceOf is where a server connects from.
func sourceOf(server int) string { return fmt.Sprint("127.0.0.", 10+server) }

func newServerPartition(t *testing.T, program string) partitioned {
	t.Helper()
	p := &serverPartition{t: t, apart: map[int]bool{}, links: map[*link]bool{}}
	var front []model.Address
	var buses []int
	for i := range 4 {
		port, bus := loopback.Port(t), loopback.Port(t)
		announced, announcedBus := p.proxy(i, port), p.proxy(i, bus)
		p.start(program, i, map[string]string{
			"port": strconv.Itoa(port), "cluster-port": strconv.Itoa(bus), "bind": "127.0.0.1", "bind-source-addr": sourceOf(i),
			"cluster-announce-ip": "127.0.0.1", "cluster-announce-port": strconv.Itoa(announced), "cluster-announce-bus-port": strconv.Itoa(announcedBus),
		})
		c := goredis.NewClient(&goredis.Options{Addr: fmt.Sprint("127.0.0.1:", port), MaxRetries: -1, ReadTimeout: time.Second})
		t.Cleanup(func() { _ = c.Close() })
		p.clients, front, buses = append(p.clients, c), append(front, model.Address{IP: "127.0.0.1", Port: announced}), append(buses, announcedBus)
	}
	ctx := t.Context()
	for i, c := range p.clients {
		p.until("a server answers", func() bool { return c.Ping(ctx).Err() == nil })
		p.do(c.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		if share := slots.Share(i%3, 3)[0]; i < 3 {
			p.do(c.ClusterAddSlotsRange(ctx, share.From, share.To).Err())
		}
		p.keys = append(p.keys, p.keyOf(c, i%3))
	}
	for i := range 3 {
		p.do(p.clients[3].Do(ctx, "CLUSTER", "MEET", front[i].IP, front[i].Port, buses[i]).Err())
	}
	first := p.clients[0].ClusterMyID(ctx).Val()
	p.until("the cluster forms", func() bool { return p.write(0, "first") && p.write(1, "first") && p.write(2, "first") })
	p.until("the replica follows", func() bool { return p.clients[3].ClusterReplicate(ctx, first).Err() == nil })
	p.until("it has a copy", func() bool { return p.holds(3, "first") })
	return p
}

func (p *serverPartition) start(program string, server int, options map[string]string) {
	p.t.Helper()
	dir := p.t.TempDir()
	args := []string{
		"--dir", dir, "--save", "", "--protected-mode", "no", "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no",
		"--cluster-node-timeout", strconv.FormatInt(partitionTimeout.Milliseconds(), 10), "--repl-diskless-sync-delay", "0",
	}
	for name, value := range options {
		args = append(args, "--"+name, value)
	}
	cmd := exec.Command(program, args...) //nolint:noctx // It ends with the test.
	stores.Start(p.t, cmd, filepath.Join(dir, fmt.Sprint(server, ".log")))
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// proxy listens for a port of a server, unless the network is divided between the two.
func (p *serverPartition) proxy(server, port int) int {
	p.t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(p.t.Context(), "tcp", loopback.Address(p.t))
	p.do(err)
	p.t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.carry(conn, server, port)
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // It listens for TCP.
}

func (p *serverPartition) carry(conn net.Conn, server, port int) {
	var d net.Dialer
	to, err := d.DialContext(context.WithoutCancel(p.t.Context()), "tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		_ = conn.Close()
		return
	}
	l := &link{conn, to}
	defer l.close()
	p.mu.Lock()
	if p.divided(conn, server) {
		p.mu.Unlock()
		return
	}
	p.links[l] = true
	p.mu.Unlock()
	go func() {
		_, _ = io.Copy(to, conn)
		l.close()
	}()
	_, _ = io.Copy(conn, to)
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// divided reports whether a connection crosses the partition. The caller holds the lock.
func (p *serverPartition) divided(from net.Conn, to int) bool {
	for server := range partitionServers {
		if host, _, _ := net.SplitHostPort(from.RemoteAddr().String()); host == sourceOf(server) {
			return p.apart[server] != p.apart[to]
		}
	}
	return false
}

// cut ends all connections: those that do not cross the partition are made again.
func (p *serverPartition) cut(apart ...int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.apart)
	for _, server := range apart {
		p.apart[server] = true
	}
	for l := range p.links {
		l.close()
	}
}

func (p *serverPartition) heal() { p.cut() }

func (p *serverPartition) do(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// keyOf finds a key of a shard.
func (p *serverPartition) keyOf(c *goredis.Client, shard int) string {
	p.t.Helper()
	for i := 0; ; i++ {
		key := fmt.Sprint("key-", i)
		slot, err := c.ClusterKeySlot(p.t.Context(), key).Result()
		p.do(err)
		if slots.Share(shard, 3).Has(int(slot)) {
			return key
		}
	}
}

func (p *serverPartition) write(server int, value string) bool {
	return p.clients[server].Set(p.t.Context(), p.keys[server], value, 0).Err() == nil
}

// holds reads from a server whether it is a primary or a replica.
func (p *serverPartition) holds(server int, value string) bool {
	conn := p.clients[server].Conn()
	defer func() { _ = conn.Close() }()
	_ = conn.ReadOnly(p.t.Context())
	got, err := conn.Get(p.t.Context(), p.keys[server]).Result()
	return err == nil && got == value
}

func (p *serverPartition) leads(server int) bool {
	nodes, err := p.clients[server].ClusterNodes(p.t.Context()).Result()
	p.do(err)
	for line := range strings.Lines(nodes) {
		if fields := strings.Fields(line); strings.Contains(fields[2], "myself") {
			return strings.Contains(fields[2], "master") && len(fields) > 8
		}
	}
	return false
}

func (p *serverPartition) handOver(replica int) bool {
	return p.clients[replica].ClusterFailover(p.t.Context()).Err() == nil
}

func (p *serverPartition) pass(d time.Duration) { pause(p.t.Context(), d) }

func (p *serverPartition) until(what string, so func() bool) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); !so(); p.pass(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("%s: not within a minute", what)
		}
	}
}
