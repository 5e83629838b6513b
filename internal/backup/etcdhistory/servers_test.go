package etcdhistory_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/internal/backup/etcdhistory"
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

// start runs one member, with data if the directory has some, and returns its client and how to kill it.
func (s server) start(t *testing.T, dir, client string) (c *clientv3.Client, kill func()) {
	t.Helper()
	peer := address(t)
	cmd := exec.Command(s.Program(), "--data-dir="+dir, //nolint:noctx // It ends with the test, see below.
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		kill()
		_ = log.Close()
		if t.Failed() {
			raw, _ := os.ReadFile(log.Name())
			t.Logf("etcd: ...%s", raw[max(0, len(raw)-2000):])
		}
	})
	c, err = clientv3.New(clientv3.Config{Endpoints: []string{client}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	eventually(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Get(ctx, "ready")
		return err
	})
	return c, kill
}

// fresh starts an empty etcd of a minor version.
func fresh(t *testing.T, minor int) *clientv3.Client {
	t.Helper()
	c, _ := etcds(t)[minor-5].start(t, filepath.Join(t.TempDir(), "data"), address(t))
	return c
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func address(tb testing.TB) string {
	tb.Helper()
	return "http://" + loopback.Address(tb)
}

// memory is a store in memory, with faults.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	// down refuses to take or list anything, and forbidden to delete anything.
	down, forbidden bool
	refused         int
}

var errDown = errors.New("the store is down")

func (m *memory) setDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

func (m *memory) Put(_ context.Context, name string, r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		m.refused++
		return errDown
	}
	if m.objects == nil {
		m.objects = map[string][]byte{}
	}
	m.objects[name] = raw
	return nil
}

func (m *memory) List(_ context.Context, prefix string) (out []etcdhistory.Object, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return nil, errDown
	}
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
	return io.NopCloser(bytes.NewReader(slices.Clone(raw))), nil
}

func (m *memory) Delete(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.forbidden {
		return errors.New("not allowed")
	}
	delete(m.objects, name)
	return nil
}
