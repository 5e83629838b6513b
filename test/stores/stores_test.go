package stores

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestTheNewestPatchIsFound(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("QUORATE_SERVERS", dir)
	for _, name := range []string{"etcd-3.6.9", "etcd-3.6.16", "etcd-3.7.0", "valkey-9.1.2"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "bin"), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := Newest(t, "etcd-3.6"), (Server{"etcd", "3.6.16", filepath.Join(dir, "etcd-3.6.16", "bin")}); got != want {
		t.Errorf("%+v", got)
	}
	if got, want := Newest(t, "etcd-3.6").Program(), filepath.Join(dir, "etcd-3.6.16", "bin", "etcd"); got != want {
		t.Errorf("%s", got)
	}
	if got, want := Newest(t, "valkey-9.1").Program(), filepath.Join(dir, "valkey-9.1.2", "bin", "valkey-server"); got != want {
		t.Errorf("%s", got)
	}
}

func TestWhatAServerHasForkedIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	server := exec.CommandContext(t.Context(), "sh", "-c", `(sleep 0.5; echo written >`+dir+`/last; echo said) & echo ready >`+dir+`/ready; wait`)
	Start(t, server, filepath.Join(dir, "log"))
	for {
		if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
			break
		}
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	if _, err := os.Stat(filepath.Join(dir, "last")); err != nil {
		t.Error(err)
	}
	if log, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || string(log) != "said\n" {
		t.Errorf("the log says %q, %v", log, err)
	}
}
