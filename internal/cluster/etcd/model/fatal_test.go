package model_test

import (
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// TestDiskFull has what etcd 3.5.35, 3.6.16 and 3.7.3 say at the end on a file system without room, shortened.
func TestDiskFull(t *testing.T) {
	for says, want := range map[string]string{
		`{"level":"fatal","caller":"backend/batch_tx.go:282","msg":"failed to commit tx","error":"write /data/member/snap/db: no space left on device","stacktrace":"x"}`: "no space left on device",
		`{"level":"fatal","msg":"failed to save","error":"disk quota exceeded"}`:                                                                                          "disk quota exceeded",
		`{"level":"fatal","msg":"failed to read WAL","error":"wal: crc mismatch"}`:                                                                                        "",
		"": "",
	} {
		if got := model.DiskFull(says); got != want {
			t.Errorf("%q: want %q, got %q", says, want, got)
		}
	}
}

func TestFatalStart(t *testing.T) {
	for says, want := range map[string]string{
		`{"level":"fatal","msg":"failed to read WAL","error":"wal: crc mismatch"}`:                          "wal: crc mismatch",
		"panic: cannot use none as id\n\ngoroutine 1 [running]:\ngo.etcd.io/raft/v3.newRaft(0xd0c561372c0)": "panic: cannot use none as id", // Seen of 3.6.16.
		"no space left on device": "",
		"":                        "",
	} {
		if got := model.FatalStart(says); got != want {
			t.Errorf("%q: want %q, got %q", says, want, got)
		}
	}
}
