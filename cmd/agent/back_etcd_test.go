package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

func TestAMemberGetsBackWhatItHadBeforeARestore(t *testing.T) {
	g := newGate(t, model.Record{Bootstrap: model.BootstrapRetained, Members: []model.Peer{{Name: "orders-0", URL: "http://127.0.0.1:1"}}})
	log := filepath.Join("member", "wal", "0000000000000000-0000000000000000.wal")
	g.write(filepath.Join(g.volume(), "before-abc123-20260501T000000Z", log), "what it had")
	g.write(filepath.Join(g.volume(), "before-abc1-20260401T000000Z", log), "something else")
	g.write(filepath.Join(g.dataDir, log), "what was restored")
	g.write(filepath.Join(g.dataDir, "member", "snap", "db"), "a database")
	for _, plan := range []string{"", "fedcba", "abc", "*", "../x"} {
		if err := takeBack(g.etcdGate, plan); !errors.As(err, new(finalError)) {
			t.Errorf("plan %q: %v", plan, err)
		}
	}
	runs, err := os.Open(filepath.Join(g.dataDir, "member", "snap", "db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(runs.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	if err := takeBack(g.etcdGate, "abc123"); err == nil || !strings.Contains(err.Error(), "a member runs on the volume") {
		t.Errorf("under a member that runs: %v", err)
	}
	if err := runs.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := takeBack(g.etcdGate, "abc123"); err != nil {
			t.Fatal(err)
		}
		if now, then := g.read(filepath.Join(g.dataDir, log)), g.read(filepath.Join(g.volume(), "after-abc123-20260501T000000Z", log)); now != "what it had" || then != "what was restored" {
			t.Errorf("it has %q, and %q is kept", now, then)
		}
	}
	if err := g.run(t.Context()); err != nil {
		t.Errorf("it does not start: %v", err)
	}
}

// Between the two renames there is no data directory.
func TestTakingBackGoesOnWhereItWasInterrupted(t *testing.T) {
	dir := t.TempDir()
	g := gateFixture{t: t, etcdGate: etcdGate{dataDir: filepath.Join(dir, "data"), out: io.Discard}}
	log := filepath.Join("member", "wal", "0.wal")
	g.write(filepath.Join(dir, "before-abc-1", log), "what it had")
	g.write(filepath.Join(dir, "after-abc-1", log), "what was restored")
	if err := takeBack(g.etcdGate, "abc"); err != nil || g.read(filepath.Join(g.dataDir, log)) != "what it had" {
		t.Error(err)
	}
}
