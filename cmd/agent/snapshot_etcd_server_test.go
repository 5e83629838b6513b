package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/internal/backup/etcdsnapshot"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/test/loopback"
)

// serverDir is where the programs of the newest server of a name such as "etcd-3.6" are. They are what the tests are about, so their
// absence is a failure: `make test-unit` builds them.
func serverDir(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("QUORATE_SERVERS")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(cache, "quorate", "servers")
	}
	found, err := filepath.Glob(filepath.Join(dir, name+".*", "bin"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s under %s: run `make test-unit`, or set QUORATE_SERVERS to the directory that holds it", name, dir)
	}
	return found[len(found)-1]
}

// startEtcd runs one member of etcd 3.6 and returns its client URL and a client.
func startEtcd(t *testing.T) (string, *clientv3.Client) {
	t.Helper()
	return startEtcdOf(t, "etcd-3.6")
}

func startEtcdOf(t *testing.T, name string) (string, *clientv3.Client) {
	t.Helper()
	program := filepath.Join(serverDir(t, name), "etcd")
	urls := []string{"http://" + loopback.Address(t), "http://" + loopback.Address(t)}
	cmd := exec.Command(program, "--data-dir="+t.TempDir(), "--log-level=error", //nolint:noctx // It ends with the test, see below.
		"--listen-client-urls="+urls[0], "--advertise-client-urls="+urls[0],
		"--listen-peer-urls="+urls[1], "--initial-advertise-peer-urls="+urls[1], "--initial-cluster=default="+urls[1])
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c, err := clientv3.New(clientv3.Config{Endpoints: urls[:1], DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		if _, err = c.Put(ctx, "a", "b"); err == nil {
			return urls[0], c
		}
		if ctx.Err() != nil {
			t.Fatalf("etcd does not answer: %v", err)
		}
	}
}

func TestASnapshotOfAServerThatAsksForAPassword(t *testing.T) {
	url, c := startEtcd(t)
	for _, err := range []error{
		second(c.RoleAdd(t.Context(), "root")), second(c.UserAdd(t.Context(), "root", "secret")),
		second(c.UserGrantRole(t.Context(), "root", "root")), second(c.AuthEnable(t.Context())),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	log, password, snapshots := filepath.Join(dir, "log"), filepath.Join(dir, "password"), filepath.Join(dir, "snapshots")
	if err := os.Mkdir(snapshots, 0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"snapshot", "etcd", "--version=3.6.16", "--member=http://127.0.0.1:1", "--member=" + url,
		"--dir=" + snapshots, "--tls-dir=" + dir, "--password-file=" + password, "--termination-log=" + log,
	}
	if err := run(t.Context(), args); err == nil {
		t.Error("there is a snapshot without the password")
	}
	if err := os.WriteFile(password, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), "authentication failed") {
		t.Errorf("with a wrong password: %v", err)
	}
	if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	said, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	report, ok := etcd.ParseSnapshotReport(string(said))
	if !ok {
		t.Fatalf("the operator is told %q", said)
	}
	content, err := etcdsnapshot.Verify(filepath.Join(snapshots, report.File))
	if err != nil || content.Revision != report.Revision || content.Size != report.Size || content.SHA256 != report.SHA256 {
		t.Errorf("%+v is said of %+v, %v", report, content, err)
	}
}

func second[T any](_ T, err error) error { return err }
