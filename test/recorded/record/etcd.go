package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
	"github.com/quorate/quorate/test/recorded"
)

// etcdFleet are three members without TLS: what is recorded does not depend on it.
type etcdFleet struct {
	members []*etcdMember
	release string
}

type etcdMember struct {
	process
	name   string
	port   int
	client *etcdclient.Client
}

func etcdScenario(writes int, act func(ctx context.Context, f *etcdFleet, reading int) string) func(context.Context, string, string) (fleet, func(int) string, error) {
	return func(ctx context.Context, servers, dir string) (fleet, func(int) string, error) {
		f, err := startEtcd(ctx, servers, dir)
		if err != nil {
			return nil, nil, err
		}
		var endpoints []string
		for _, m := range f.members {
			endpoints = append(endpoints, fmt.Sprintf("127.0.0.1:%d", m.port))
		}
		writer, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(), DialTimeout: time.Second})
		if err != nil {
			return nil, nil, err
		}
		value := strings.Repeat("x", 200)
		load(ctx, writes, func(n int) {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, _ = writer.Put(short, strconv.Itoa(n%1000), value) // A write that fails is part of the scenario.
		})
		time.Sleep(5 * time.Second) // Until they have a leader.
		return f, func(reading int) string {
			if act == nil {
				return ""
			}
			return act(ctx, f, reading)
		}, nil
	}
}

func startEtcd(ctx context.Context, servers, dir string) (*etcdFleet, error) {
	binary, err := newest(servers, "etcd-3.6.*", "etcd")
	if err != nil {
		return nil, err
	}
	f := &etcdFleet{release: filepath.Base(filepath.Dir(filepath.Dir(binary)))}
	var initial []string
	ports, err := freePorts(ctx, 6)
	if err != nil {
		return nil, err
	}
	for i := range 3 {
		m := &etcdMember{name: fmt.Sprintf("orders-%d", i), port: ports[2*i]}
		peer := fmt.Sprintf("http://127.0.0.1:%d", ports[2*i+1])
		client := fmt.Sprintf("http://127.0.0.1:%d", m.port)
		initial = append(initial, m.name+"="+peer)
		m.args = []string{
			binary, "--name=" + m.name, "--data-dir=" + filepath.Join(dir, m.name), "--log-level=error",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		}
		m.client = etcdclient.New(etcdclient.Config{Host: "127.0.0.1", Dial: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", m.port))
		}})
		f.members = append(f.members, m)
	}
	for _, m := range f.members {
		m.args = append(m.args, "--initial-cluster="+strings.Join(initial, ","))
		if err := m.start(ctx); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// freePorts are ports of loopback that nobody listens at.
func freePorts(ctx context.Context, n int) ([]int, error) {
	var out []int
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // All are kept until all are found.
		if a, ok := l.Addr().(*net.TCPAddr); ok {
			out = append(out, a.Port)
		}
	}
	return out, nil
}

func (f *etcdFleet) version() string { return f.release }

// read asks as the operator does: each member at the same time, for a second at most.
func (f *etcdFleet) read(ctx context.Context, minute bool) []recorded.Server {
	out := make([]recorded.Server, len(f.members))
	var all sync.WaitGroup
	for i, m := range f.members {
		all.Go(func() { out[i] = m.read(ctx, minute) })
	}
	all.Wait()
	return out
}

func (m *etcdMember) read(ctx context.Context, minute bool) recorded.Server {
	s := recorded.Server{Name: m.name, Process: m.starts, Ready: m.cmd != nil}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	began := time.Now()
	v, err := m.client.Status(short)
	if err == nil || short.Err() != nil {
		s.Took = time.Since(began)
	}
	if err != nil {
		return s
	}
	s.Answered = true
	s.Etcd = &recorded.Etcd{ID: v.MemberID, Leader: v.Leader, Applied: v.Applied, Size: v.DBSize, InUse: v.DBInUse}
	if !minute {
		return s
	}
	long, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	asked := time.Now()
	vitals, err := m.client.Vitals(long)
	if err != nil {
		return s
	}
	s.Etcd.Vitals, s.Clock = &vitals, anomaly.ClockOf(m.name, vitals.Time, time.Second, asked, time.Now())
	return s
}

// slowDisk makes every fdatasync of one member take 110 ms longer for a while.
func slowDisk(ctx context.Context, f *etcdFleet, reading int) string {
	switch reading {
	case 40:
		if err := delayCalls(ctx, f.members[1].process, "fdatasync", 110*time.Millisecond); err != nil {
			return "strace does not run: " + err.Error()
		}
		return "every fdatasync of orders-1 takes 110 ms longer"
	case 110:
		slower.signal(syscall.SIGINT)
		return "it does not any more"
	}
	return ""
}

// stopAndGo keeps one member stopped for most of the time, for a while.
func stopAndGo(ctx context.Context, f *etcdFleet, reading int) string {
	switch reading {
	case 40:
		until, cancel := context.WithCancel(ctx)
		calm = cancel
		running.Go(func() {
			for until.Err() == nil {
				f.members[2].signal(syscall.SIGSTOP)
				time.Sleep(900 * time.Millisecond)
				f.members[2].signal(syscall.SIGCONT)
				time.Sleep(50 * time.Millisecond)
			}
		})
		return "orders-2 is stopped for 900 ms of every 950 ms"
	case 90:
		calm()
		return "it is not any more"
	}
	return ""
}

var calm context.CancelFunc

// restarts kills a member again and again, for a while.
func restarts(ctx context.Context, f *etcdFleet, reading int) string {
	m := f.members[0]
	if reading < 40 || reading >= 140 || reading%15 != 0 {
		if m.cmd == nil {
			if err := m.start(ctx); err != nil {
				return err.Error()
			}
			return "orders-0 starts"
		}
		return ""
	}
	m.signal(syscall.SIGKILL)
	m.cmd = nil
	return "orders-0 is killed"
}
