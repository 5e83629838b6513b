package etcdsnapshot_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/stores"
)

// eachServer runs a test with the newest etcd of each supported minor version.
func eachServer(t *testing.T, run func(t *testing.T, s server, c *clientv3.Client)) {
	t.Helper()
	for _, minor := range stores.Etcds {
		s := server{stores.Newest(t, minor)}
		t.Run(s.Version, func(t *testing.T) {
			t.Parallel()
			run(t, s, s.start(t, filepath.Join(t.TempDir(), "data")))
		})
	}
}

// server is an etcd to run.
type server struct{ stores.Server }

// restore makes a data directory out of a snapshot, with etcd's own tool.
func (s server) restore(t *testing.T, snapshot string) (data string) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "restored")
	cmd := exec.CommandContext(t.Context(), s.Tool("etcdutl"), "snapshot", "restore", snapshot, "--data-dir="+data)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("etcdutl: %v\n%s", err, out)
	}
	return data
}

// start runs one member and returns its client.
func (s server) start(t *testing.T, data string) *clientv3.Client {
	t.Helper()
	client, peer := address(t), address(t)
	cmd := exec.Command(s.Program(), "--data-dir="+data, //nolint:noctx // It ends with the test, see below.
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
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			raw, _ := os.ReadFile(log.Name())
			t.Logf("etcd: ...%s", raw[max(0, len(raw)-3000):])
		}
	})
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{client}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	deadline := time.Now().Add(30 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := c.Get(ctx, "ready")
		cancel()
		if err == nil {
			return c
		}
		if time.Now().After(deadline) {
			t.Fatalf("etcd does not answer: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func address(t *testing.T) string {
	t.Helper()
	return "http://" + loopback.Address(t)
}

// write puts so many values of 10 kB and returns the revision of the last.
func write(t *testing.T, c *clientv3.Client, n int) (revision int64) {
	t.Helper()
	for i := range n {
		r, err := c.Put(t.Context(), fmt.Sprintf("key-%d", i), strings.Repeat("v", 10_000))
		if err != nil {
			t.Fatal(err)
		}
		revision = r.Header.Revision
	}
	return revision
}
