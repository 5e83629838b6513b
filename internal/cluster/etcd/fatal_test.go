package etcd_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

func TestFatalStart(t *testing.T) {
	for says, want := range map[string]string{
		`{"level":"fatal","msg":"failed to read WAL","error":"wal: crc mismatch"}`:                          "wal: crc mismatch",
		"panic: cannot use none as id\n\ngoroutine 1 [running]:\ngo.etcd.io/raft/v3.newRaft(0xd0c561372c0)": "panic: cannot use none as id", // Seen of 3.6.16.
		"no space left on device": "",
		"":                        "",
	} {
		if got := etcd.FatalStart(says); got != want {
			t.Errorf("%q: want %q, got %q", says, want, got)
		}
	}
}
