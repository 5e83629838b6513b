package rediscluster

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// respServers are servers of one cluster in memory that speak the protocol on loopback. All lines of CLUSTER NODES are shared, so that what a benchmark
// measures is mostly what reads them.
type respServers struct {
	listener net.Listener
	state    model.State
	ids      []string
	lines    [][]byte
	length   int
	// pods finds the server that a connection is for, by the address that it comes from.
	pods sync.Map
}

const (
	respInfo = "redis_version:8.0.2\r\nrun_id:%s\r\nserver_time_usec:1767323045000000\r\nloading:0\r\nrole:master\r\nmaster_replid:%s\r\nmaster_repl_offset:1000\r\n" +
		"aof_enabled:1\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\naof_last_bgrewrite_status:ok\r\naof_last_write_status:ok\r\ndb0:keys=10,expires=0,avg_ttl=0\r\n"
	respUser = "%2\r\n$5\r\nflags\r\n*1\r\n$2\r\non\r\n$8\r\nchannels\r\n$0\r\n\r\n"
	respAuth = "%2\r\n$10\r\nmasteruser\r\n$4\r\nrepl\r\n$10\r\nmasterauth\r\n$1\r\nx\r\n"
)

func startRESP(tb testing.TB, shards, copies int) *respServers {
	tb.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &respServers{listener: listener, state: model.State{Spec: model.Spec{Name: "c", Namespace: "ns"}}}
	for i := range shards * copies {
		shard, ordinal := i/copies, i%copies
		name, id := cluster.Pod(cluster.ShardSet("c", shard), ordinal), fmt.Sprintf("%032x%08x", shard*0x9e3779b9, ordinal+1)
		addr := model.Address{IP: fmt.Sprintf("10.%d.%d.%d", shard/256, shard%256, ordinal), Port: model.ClientPort}
		s.state.Pods = append(s.state.Pods, model.Pod{Name: name, Shard: shard, Ordinal: ordinal, Addr: addr})
		flags, slots := "master -", slots.Share(shard, shards).String()
		if ordinal > 0 {
			flags, slots = fmt.Sprintf("slave %032x%08x", shard*0x9e3779b9, 1), ""
		}
		line := fmt.Sprintf("%s %s@16379,%s.c-peers.ns.svc.cluster.local,,shard-id=%040x %s 0 1767323044%03d %d connected %s\n", id, addr, name, shard, flags, i%1000, shard+1, slots)
		s.ids, s.lines, s.length = append(s.ids, id), append(s.lines, []byte(line)), s.length+len(line)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { s.serve(conn) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		open.Wait()
	})
	return s
}

func (s *respServers) connect(_ string, to endpoint) redisclient.Options {
	return redisclient.Options{Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", s.listener.Addr().String())
		if err == nil {
			s.pods.Store(conn.LocalAddr().String(), to.pod)
		}
		return conn, err
	}}
}

func (s *respServers) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in, out := bufio.NewReaderSize(conn, 4<<10), bufio.NewWriterSize(conn, 16<<10)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		pod, _ := s.pods.Load(conn.RemoteAddr().String())
		s.answer(out, command, fmt.Sprint(pod))
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

func readCommand(in *bufio.Reader) (string, error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	if err != nil {
		return "", err
	}
	words := make([]string, n)
	for i := range words {
		size, err := number()
		if err != nil {
			return "", err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return "", err
		}
		words[i] = string(word[:size])
	}
	return strings.ToUpper(strings.Join(words, " ")), nil
}

func (s *respServers) answer(out *bufio.Writer, command, pod string) {
	self := 0
	for i := range s.state.Pods {
		if s.state.Pods[i].Name == pod {
			self = i
		}
	}
	bulk := func(text string) { _, _ = fmt.Fprintf(out, "$%d\r\n%s\r\n", len(text), text) }
	switch {
	case strings.HasPrefix(command, "HELLO"):
		_, _ = out.WriteString("%1\r\n$5\r\nproto\r\n:3\r\n")
	case strings.HasPrefix(command, "INFO"):
		bulk(fmt.Sprintf(respInfo, s.ids[self], s.ids[self]))
	case command == "CLUSTER MYID":
		bulk(s.ids[self])
	case command == "CLUSTER INFO":
		bulk("cluster_state:ok\r\n")
	case command == "CLUSTER NODES":
		s.nodes(out, self)
	case strings.HasPrefix(command, "ACL GETUSER"):
		_, _ = out.WriteString(respUser)
	case strings.HasPrefix(command, "ACL LIST"):
		_, _ = out.WriteString("*0\r\n")
	case strings.HasPrefix(command, "CONFIG GET MASTERUSER"):
		_, _ = out.WriteString(respAuth)
	case strings.HasPrefix(command, "CONFIG GET"):
		_, _ = out.WriteString("%0\r\n")
	default:
		_, _ = out.WriteString("-ERR unknown subcommand\r\n")
	}
}

// nodes lists the lines in an order of the server's own, as a verbatim string.
func (s *respServers) nodes(out *bufio.Writer, self int) {
	const mark = "myself,"
	_, _ = fmt.Fprintf(out, "=%d\r\ntxt:", s.length+len(mark)+len("txt:"))
	for i := range s.lines {
		at := (i + 7*self) % len(s.lines)
		if at == self {
			own := strings.NewReplacer(" master ", " "+mark+"master ", " slave ", " "+mark+"slave ")
			_, _ = own.WriteString(out, string(s.lines[at]))
			continue
		}
		_, _ = out.Write(s.lines[at])
	}
	_, _ = out.WriteString("\r\n")
}

// fresh is the state before servers are read.
func (s *respServers) fresh() model.State {
	out := s.state
	out.Pods = append([]model.Pod(nil), s.state.Pods...)
	return out
}

func TestAllServersAreReadThroughTheProtocol(t *testing.T) {
	servers := startRESP(t, 10, 3)
	k := New(&owned.Client{Now: time.Now})
	s := servers.fresh()
	k.readServers(t.Context(), servers.connect, &s)
	for i, p := range s.Pods {
		if p.Node == nil {
			t.Fatalf("%s: %s", p.Name, p.Error)
		}
		known := 0
		for range p.Node.All() {
			known++
		}
		if self := p.Node.Self(); self.ID != servers.ids[i] || known != len(servers.ids) || !p.Node.StateOK || p.Node.Keys != 10 {
			t.Errorf("%s is %s, knows %d nodes and has %d keys", p.Name, self.ID, known, p.Node.Keys)
		}
	}
}

// BenchmarkReadServers measures one observation of all servers: cpu of both sides of the connections, and memory.
func BenchmarkReadServers(b *testing.B) {
	for _, shards := range []int{3, 30, 100, 333} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			servers := startRESP(b, shards, 3)
			k := New(&owned.Client{Now: time.Now})
			runtime.GC()
			var held, before, after uint64
			before = heapInUse()
			began := cpuTime(b)
			b.ReportAllocs()
			stop, watched := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(watched)
				tick := time.NewTicker(time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-stop:
						return
					case <-tick.C:
						held = max(held, heapInUse())
					}
				}
			}()
			for b.Loop() {
				s := servers.fresh()
				k.readServers(b.Context(), servers.connect, &s)
				for i := range s.Pods {
					if s.Pods[i].Node == nil {
						b.Fatalf("%s: %s", s.Pods[i].Name, s.Pods[i].Error)
					}
				}
				runtime.GC()
				after = heapInUse()
				runtime.KeepAlive(s)
			}
			close(stop)
			<-watched
			b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N)/1e6, "cpu-ms/op")
			b.ReportMetric((float64(held)-float64(before))/(1<<20), "peak-MiB")
			b.ReportMetric((float64(after)-float64(before))/(1<<20), "held-MiB")
		})
	}
}

func heapInUse() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func cpuTime(b *testing.B) int64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
