package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/test/recorded"
)

// redisFleet are two shards of a primary and a replica.
type redisFleet struct {
	servers []*redisServer
	release string
}

type redisServer struct {
	process
	name string
	port int
	rdb  *goredis.Client
	// shard of the server, and a tag of keys whose slot the shard owns.
	shard int
	tag   string
	// raw is a connection of its own to hammer on.
	raw net.Conn
}

// tags are hash tags of slots of the lower and the upper half: {b} is in slot 3300, {a} in slot 15495.
var tags = []string{"{b}", "{a}"}

func redisScenario(begin func(ctx context.Context, f *redisFleet) func(reading int) string) func(context.Context, string, string) (fleet, func(int) string, error) {
	return func(ctx context.Context, servers, dir string) (fleet, func(int) string, error) {
		f, err := startRedis(ctx, servers, dir)
		if err != nil {
			return nil, nil, err
		}
		if err := f.join(ctx); err != nil {
			return nil, nil, err
		}
		return f, begin(ctx, f), nil
	}
}

func startRedis(ctx context.Context, servers, dir string) (*redisFleet, error) {
	binary, err := newest(servers, "redis-8.*", "redis-server")
	if err != nil {
		return nil, err
	}
	f := &redisFleet{release: filepath.Base(filepath.Dir(filepath.Dir(binary)))}
	for i := range 4 {
		port := 21000 + 100*(os.Getpid()%90) + i // The port for the others is 10000 above.
		home := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(home, 0o700); err != nil {
			return nil, err
		}
		s := &redisServer{name: fmt.Sprintf("carts-%d-%d", i%2, i/2), port: port, shard: i % 2, tag: tags[i%2]}
		s.args = []string{
			binary, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", home, "--cluster-enabled", "yes", "--save", "",
			"--maxmemory", "200mb", "--maxmemory-policy", "noeviction", "--logfile", filepath.Join(home, "log"), "--repl-timeout", "600",
			"--cluster-node-timeout", "600000", "--client-output-buffer-limit", "replica 0 0 0", "--repl-backlog-size", "1mb",
		}
		s.rdb = goredis.NewClient(&goredis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port), MaxRetries: -1, ReadTimeout: 2 * time.Second})
		if err := s.start(ctx); err != nil {
			return nil, err
		}
		f.servers = append(f.servers, s)
	}
	return f, nil
}

// join makes the servers one cluster.
func (f *redisFleet) join(ctx context.Context) error {
	var err error
	for _, s := range f.servers {
		for n := 0; s.rdb.Ping(ctx).Err() != nil && n < 100; n++ {
			time.Sleep(200 * time.Millisecond)
		}
	}
	for i, s := range f.servers {
		err = errors.Join(err, s.rdb.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		err = errors.Join(err, s.rdb.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", f.servers[0].port).Err())
	}
	err = errors.Join(err, f.servers[0].rdb.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", 0, 8191).Err())
	err = errors.Join(err, f.servers[1].rdb.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", 8192, 16383).Err())
	for _, s := range f.servers {
		known := func() bool {
			return strings.Contains(text(s.rdb.Do(ctx, "CLUSTER", "INFO")), "cluster_known_nodes:4")
		}
		for n := 0; !known() && n < 100; n++ {
			time.Sleep(200 * time.Millisecond)
		}
	}
	for _, s := range f.servers[2:] {
		id, idErr := f.servers[s.shard].rdb.Do(ctx, "CLUSTER", "MYID").Text()
		err = errors.Join(err, idErr, s.rdb.Do(ctx, "CLUSTER", "REPLICATE", id).Err())
	}
	time.Sleep(5 * time.Second)
	return err
}

func (f *redisFleet) version() string { return f.release }

func (f *redisFleet) read(ctx context.Context, _ bool) []recorded.Server {
	out := make([]recorded.Server, len(f.servers))
	var all sync.WaitGroup
	for i, s := range f.servers {
		all.Go(func() { out[i] = s.read(ctx) })
	}
	all.Wait()
	return out
}

func (s *redisServer) read(ctx context.Context) recorded.Server {
	out := recorded.Server{Name: s.name, Process: s.starts, Ready: true}
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	pipe := s.rdb.Pipeline()
	id, nodes, state, info := pipe.Do(short, "CLUSTER", "MYID"), pipe.Do(short, "CLUSTER", "NODES"), pipe.Do(short, "CLUSTER", "INFO"), pipe.Do(short, "INFO")
	began := time.Now()
	_, err := pipe.Exec(short)
	out.Took = time.Since(began)
	if err != nil {
		return out
	}
	n, err := model.ParseNode(text(id), text(nodes), text(state), text(info))
	if err != nil {
		return out
	}
	out.Answered, out.Clock = true, anomaly.ClockOf(s.name, n.Clock, time.Microsecond, began, began.Add(out.Took))
	self := n.Self()
	out.Redis = &recorded.Redis{
		ID: n.ID, Primary: self.PrimaryID, Slots: self.Slots.String(), LinkUp: n.LinkUp, Process: n.Process, Offset: n.Offset,
		Commands: n.Commands, Memory: n.Memory,
	}
	return out
}

func text(c *goredis.Cmd) string {
	t, _ := c.Text() // What is missing is found by who reads it.
	return t
}

func quiet(int) string { return "" }

func noLoad(context.Context, *redisFleet) func(int) string { return quiet }

// write writes so many keys of some size to a primary, in one round trip.
func (s *redisServer) write(ctx context.Context, from, keys, size int) {
	value := strings.Repeat("x", size)
	pipe := s.rdb.Pipeline()
	for i := range keys {
		pipe.Set(ctx, fmt.Sprintf("%s%d", s.tag, from+i), value, 0)
	}
	_, _ = pipe.Exec(ctx) // A write that fails is part of the scenario.
}

func evenLoad(ctx context.Context, f *redisFleet) func(int) string {
	load(ctx, 20, func(n int) {
		for _, s := range f.servers[:2] {
			s.write(ctx, n%100*100, 100, 100)
		}
	})
	return quiet
}

// hammer writes one key a thousand times, in one round trip and with as little work here as there can be.
func (s *redisServer) hammer(ctx context.Context) {
	const times, answer = 1000, "+OK\r\n"
	if s.raw == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
		if err != nil {
			return
		}
		s.raw = conn
	}
	commands := strings.Repeat(fmt.Sprintf("SET %s x\r\n", s.tag), times)
	if _, err := io.WriteString(s.raw, commands); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, s.raw, times*int64(len(answer))) // A write that fails is part of the scenario.
}

// hotLoad has one shard carry out 100 times as much as the other, for a while.
func hotLoad(ctx context.Context, f *redisFleet) func(int) string {
	hot := make(chan bool, 1)
	busy := false
	load(ctx, 50, func(int) {
		select {
		case busy = <-hot:
		default:
		}
		f.servers[1].write(ctx, 0, 10, 100)
		if busy {
			f.servers[0].hammer(ctx)
		}
	})
	return func(reading int) string {
		switch reading {
		case 20:
			hot <- true
			return "keys of carts-0 are written 100 times as often as those of carts-1"
		case 100:
			hot <- false
			return "they are not any more"
		}
		return ""
	}
}

// filling fills one shard up to its limit and deletes everything at the end.
func filling(ctx context.Context, f *redisFleet) func(int) string {
	return func(reading int) string {
		const from, to = 20, 140
		switch {
		case reading >= from && reading < to:
			f.servers[0].write(ctx, reading*1700, 1700, 1000) // 1.9 MiB
			if reading == from {
				return "carts-0 gets about 1.9 MiB with each reading"
			}
		case reading == to:
			_ = f.servers[0].rdb.FlushAll(ctx).Err()
			return "everything is deleted"
		}
		return ""
	}
}

// lagging makes a replica read slower than its primary is written to, for a while. strace does that to the real process.
func lagging(ctx context.Context, f *redisFleet) func(int) string {
	return func(reading int) string {
		if reading >= 20 && reading < 100 {
			f.servers[0].write(ctx, 0, 400, 10000)
		}
		switch reading {
		case 40:
			if err := delayCalls(ctx, f.servers[2].process, "read", 20*time.Millisecond); err != nil {
				return "strace does not run: " + err.Error()
			}
			return "every read of carts-0-1 takes 20 ms longer"
		case 90:
			slower.signal(syscall.SIGINT)
			return "it does not any more"
		}
		return ""
	}
}
