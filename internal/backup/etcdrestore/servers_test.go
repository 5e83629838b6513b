package etcdrestore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/etcdrestore"
	"github.com/quorate/quorate/internal/backup/etcdsnapshot"
	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/stores"
)

// server is an etcd to run.
type server struct{ stores.Server }

// etcds returns the newest etcd of each supported minor version, the oldest first.
func etcds(tb testing.TB) (out []server) {
	tb.Helper()
	for _, minor := range stores.Etcds {
		out = append(out, server{stores.Newest(tb, minor)})
	}
	return out
}

// eachServer runs a test with each of them.
func eachServer(t *testing.T, run func(t *testing.T, s server)) {
	t.Helper()
	for _, s := range etcds(t) {
		t.Run(s.Version, func(t *testing.T) {
			t.Parallel()
			run(t, s)
		})
	}
}

// process is one member to run.
type process struct{ name, dir, client, peer string }

// members prepares so many.
func members(tb testing.TB, n int) (out []process) {
	tb.Helper()
	for i := range n {
		out = append(out, process{fmt.Sprintf("m-%d", i), filepath.Join(tb.TempDir(), "data"), address(tb), address(tb)})
	}
	return out
}

const token = "a-new-cluster"

// cluster is what a restore has to know of them.
func cluster(all []process) map[string][]string {
	out := map[string][]string{}
	for _, m := range all {
		out[m.name] = []string{m.peer}
	}
	return out
}

// start runs members and returns a client once they answer.
func (s server) start(tb testing.TB, all []process, config ...func(*clientv3.Config)) *clientv3.Client {
	tb.Helper()
	var initial, endpoints []string
	for _, m := range all {
		initial = append(initial, m.name+"="+m.peer)
		endpoints = append(endpoints, m.client)
	}
	for _, m := range all {
		s.run(tb, m, strings.Join(initial, ","))
	}
	c := connect(tb, endpoints, config...)
	deadline := time.Now().Add(40 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(tb.Context(), time.Second)
		_, err := c.Get(ctx, "ready")
		cancel()
		if err == nil {
			return c
		}
		if time.Now().After(deadline) {
			tb.Fatalf("etcd does not answer: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func connect(tb testing.TB, endpoints []string, config ...func(*clientv3.Config)) *clientv3.Client {
	tb.Helper()
	conf := clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second, Logger: zap.NewNop()}
	for _, change := range config {
		change(&conf)
	}
	c, err := clientv3.New(conf)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func (s server) run(tb testing.TB, m process, initial string) {
	tb.Helper()
	cmd := exec.Command(s.Program(), "--name="+m.name, "--data-dir="+m.dir, //nolint:noctx // It ends with the test, see below.
		"--listen-client-urls="+m.client, "--advertise-client-urls="+m.client,
		"--listen-peer-urls="+m.peer, "--initial-advertise-peer-urls="+m.peer,
		"--initial-cluster="+initial, "--initial-cluster-token="+token)
	cmd.Env = append(os.Environ(), "ETCD_VERIFY=all") // It ends at the first assertion of its own that does not hold.
	log, err := os.Create(filepath.Join(tb.TempDir(), "log"))
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if tb.Failed() {
			raw, _ := os.ReadFile(log.Name())
			tb.Logf("etcd %s: ...%s", m.name, raw[max(0, len(raw)-3000):])
		}
	})
}

func address(tb testing.TB) string {
	tb.Helper()
	return "http://" + loopback.Address(tb)
}

// snapshot takes one.
func snapshot(tb testing.TB, c *clientv3.Client) []byte {
	tb.Helper()
	var out bytes.Buffer
	if _, err := etcdsnapshot.Stream(tb.Context(), c, &out); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// options are those of a restore that should work.
func options(m process, all []process, from []byte) etcdrestore.Options {
	return etcdrestore.Options{
		Dir: m.dir, Snapshot: bytes.NewReader(from), SnapshotSize: int64(len(from)),
		Member: etcdrestore.Member{Name: m.name, Cluster: cluster(all), Token: token},
	}
}

// memory is a store in memory.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func (m *memory) Put(_ context.Context, name string, r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects == nil {
		m.objects = map[string][]byte{}
	}
	m.objects[name] = raw
	return nil
}

func (m *memory) List(_ context.Context, prefix string) (out []etcdhistory.Object, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, raw := range m.objects {
		if strings.HasPrefix(name, prefix) {
			out = append(out, etcdhistory.Object{Name: name, Size: int64(len(raw))})
		}
	}
	return out, nil
}

func (m *memory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	raw, ok := m.objects[name]
	if !ok {
		return nil, errors.New("not found")
	}
	return io.NopCloser(bytes.NewReader(raw)), nil
}

func (m *memory) Delete(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, name)
	return nil
}
