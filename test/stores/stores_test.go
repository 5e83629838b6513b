package stores

import (
	"os"
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
