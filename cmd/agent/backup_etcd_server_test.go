package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/stores"
)

// startEtcd runs one member of etcd 3.6 and returns its client URL and a client.
func startEtcd(t *testing.T) (string, *clientv3.Client) {
	t.Helper()
	return startEtcdOf(t, "etcd-3.6")
}

func startEtcdOf(t *testing.T, name string) (string, *clientv3.Client) {
	t.Helper()
	return etcdOn(t, name, t.TempDir())
}

// etcdOn runs one member on a data directory.
func etcdOn(t *testing.T, name, data string) (string, *clientv3.Client) {
	t.Helper()
	url, c, _ := etcdProcess(t, name, data)
	return url, c
}

// etcdProcess is the same, and returns the process too.
func etcdProcess(t *testing.T, name, data string) (string, *clientv3.Client, *os.Process) {
	t.Helper()
	program := filepath.Join(stores.Newest(t, name).Dir, "etcd")
	urls := []string{"http://" + loopback.Address(t), "http://" + loopback.Address(t)}
	cmd := exec.Command(program, "--data-dir="+data, "--log-level=error", //nolint:noctx // It ends with the test, see below.
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
		if _, err = c.Put(ctx, "a", "b"); err == nil || errors.Is(err, rpctypes.ErrUserEmpty) { // With authentication.
			return urls[0], c, cmd.Process
		}
		if ctx.Err() != nil {
			t.Fatalf("etcd does not answer: %v", err)
		}
	}
}

func TestABackupOfAServerThatAsksForAPassword(t *testing.T) {
	member, c := startEtcd(t)
	for _, err := range []error{
		second(c.RoleAdd(t.Context(), "root")), second(c.UserAdd(t.Context(), "root", "secret")),
		second(c.UserGrantRole(t.Context(), "root", "root")), second(c.AuthEnable(t.Context())),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	url, _ := aStore(t)
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	args := []string{
		"--url=" + url, "--directory=first", "--id=1", "--timeline=a1", "--version=3.6.16", "--member=http://127.0.0.1:1", "--member=" + member,
		"--tls-dir=" + dir, "--password-file=" + password,
	}
	if r, err := runJob(t, runBackupEtcd, args...); err == nil {
		t.Errorf("there is a backup without the password: %+v", r.Backup)
	}
	if err := os.WriteFile(password, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runJob(t, runBackupEtcd, args...); err == nil || !strings.Contains(err.Error(), "authentication failed") {
		t.Errorf("with a wrong password: %v", err)
	}
	if err := os.WriteFile(password, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := runJob(t, runBackupEtcd, args...)
	if err != nil || taken.Backup == nil || taken.Backup.Revision == 0 {
		t.Fatalf("%+v, %v", taken.Backup, err)
	}
	checked, err := runJob(t, runBackupCheck, "--url="+url, "--directory=first", "--scratch-dir="+dir)
	if err != nil || checked.Checked == nil || checked.Checked.Keys != 1 || checked.Checked.Revision < taken.Backup.Revision {
		t.Errorf("%+v, %v", checked, err)
	}
}

// TestASnapshotOfAMemberThatHangsFails stops the process of a member in the middle of a snapshot.
func TestASnapshotOfAMemberThatHangsFails(t *testing.T) {
	t.Parallel()
	url, c, process := etcdProcess(t, "etcd-3.6", t.TempDir())
	for i := range 16 {
		if _, err := c.Put(t.Context(), fmt.Sprintf("key-%d", i), strings.Repeat("x", 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	asked, _, err := ask(t.Context(), url, login{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = asked.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	snapshot, err := asked.SnapshotWithVersion(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = snapshot.Snapshot.Close() }()
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, snapshot.Snapshot)
	t.Logf("%d bytes, %v", n, err)
	if err == nil || ctx.Err() != nil {
		t.Errorf("it waits for %d bytes and more: %v", n, err)
	}
}

func second[T any](_ T, err error) error { return err }

// What is restored may end long before the time that was asked for: when nothing was changed, or when nobody recorded it.
func TestATimeLeadsToTheLastChangeUntilThen(t *testing.T) {
	member, c := startEtcd(t)
	url, s := aStore(t)
	if r, err := runJob(t, runBackupEtcd, "--url="+url, "--directory=first", "--id=1", "--timeline=a1", "--version=3.6.16", "--member="+member); err != nil {
		t.Fatal(r.Problem, err)
	}
	find := func(at time.Time) job.Report {
		t.Helper()
		r, err := runJob(t, runBackupFind, "--url="+url, "--kind=EtcdCluster", "--time="+at.Format(time.RFC3339Nano))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := find(time.Now().Add(time.Hour)); r.Target != 0 || r.LastChange != nil {
		t.Errorf("nothing was recorded, and it leads to revision %d of %s", r.Target, r.LastChange)
	}
	m, err := s.ReadManifest(t.Context(), "first", backup.Keys{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	put, err := c.Put(t.Context(), "a", "changed")
	if err != nil {
		t.Fatal(err)
	}
	recorder := &etcdhistory.Recorder{Client: c, Store: backup.Sealed{Store: s}, Timeline: "a1", Interval: 10 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- recorder.Run(ctx, m.Etcd.Revision) }()
	for recorder.Status().Durable < put.Header.Revision {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r := find(time.Now().Add(time.Hour))
	if r.Target != put.Header.Revision || r.LastChange == nil || r.LastChange.Before(began.Truncate(time.Millisecond)) || r.LastChange.After(time.Now()) {
		t.Errorf("it leads to revision %d of %s", r.Target, r.LastChange)
	}
}
