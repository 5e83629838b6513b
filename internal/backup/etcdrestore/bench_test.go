package etcdrestore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/etcdrestore"
	"github.com/quorate/quorate/internal/backup/etcdsnapshot"
)

// loaded is what the benchmarks restore: a snapshot in a file, and the changes after it in a store.
type loaded struct {
	server   server
	snapshot string
	size     int64
	store    *memory
	files    *files
	changes  int64
	// revision of the snapshot, and last of the changes.
	revision, last int64
}

// fill writes n transactions of 100 keys with values of 1 KiB that do not compress.
func fill(b *testing.B, c *clientv3.Client, n int) {
	b.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error {
			random := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)})
			var ops []clientv3.Op
			value := make([]byte, 1024)
			for j := range 100 {
				_, _ = random.Read(value)
				ops = append(ops, clientv3.OpPut(fmt.Sprintf("key/%d/%d", (i*7919)%5000, j), string(value)))
			}
			_, err := c.Txn(context.Background()).Then(ops...).Commit()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

// prepare makes it.
func prepare(b *testing.B) *loaded {
	b.Helper()
	l := &loaded{server: etcds(b)[1], store: &memory{}}
	c := l.server.start(b, members(b, 1))
	fill(b, c, 3000)
	dir := b.TempDir()
	l.snapshot = filepath.Join(dir, "snapshot.db")
	f, err := os.Create(l.snapshot)
	if err != nil {
		b.Fatal(err)
	}
	content, err := etcdsnapshot.Stream(b.Context(), c, f)
	if err != nil {
		b.Fatal(err)
	}
	_ = f.Close()
	status, err := c.Status(b.Context(), c.Endpoints()[0])
	if err != nil {
		b.Fatal(err)
	}
	l.size, l.revision = content.Size, status.Header.Revision
	ctx, stop := context.WithCancel(b.Context())
	recorder := &etcdhistory.Recorder{Client: c, Store: l.store, Timeline: timeline}
	ended := make(chan error, 1)
	go func() { ended <- recorder.Run(ctx, l.revision) }()
	fill(b, c, 1000)
	l.last = l.revision + 1000
	for recorder.Status().Recorded < l.last {
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	for name, raw := range l.store.objects {
		l.changes += int64(len(raw))
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, raw, 0o600)); err != nil {
			b.Fatal(err)
		}
		l.store.objects[name] = nil // It would count as memory of the restore, by way of the garbage that may be as much as what lives.
	}
	l.files = &files{memory: l.store, dir: dir}
	return l
}

// files is a store whose contents are in files.
type files struct {
	*memory
	dir string
}

func (f *files) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(f.dir, name))
}

// replay is what a restore applies.
func (l *loaded) replay(b *testing.B) func(int64) iter.Seq2[etcdhistory.Record, error] {
	b.Helper()
	objects, _ := l.store.List(b.Context(), "")
	chain, err := etcdhistory.Chain(etcdhistory.Names(objects, timeline), l.revision, l.last)
	if err != nil {
		b.Fatal(err)
	}
	return func(revision int64) iter.Seq2[etcdhistory.Record, error] {
		return etcdhistory.Replay(b.Context(), l.files, chain, revision, etcdhistory.Target{})
	}
}

// heap tells by how many MiB the heap was larger than at the beginning, at most.
func heap(b *testing.B) (stop func()) {
	b.Helper()
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	first, most := s.HeapInuse, s.HeapInuse
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(10 * time.Millisecond):
				runtime.ReadMemStats(&s)
				most = max(most, s.HeapInuse)
			}
		}
	}()
	return func() {
		close(quit)
		<-done
		b.ReportMetric(float64(most-first)/(1<<20), "MiB-heap")
	}
}

func benchmark(b *testing.B, bytes int64, restore func(m process, all []process) error) {
	b.Helper()
	b.SetBytes(bytes)
	defer heap(b)()
	for b.Loop() {
		m := members(b, 1)
		if err := restore(m[0], m); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		_ = os.RemoveAll(m[0].dir)
		b.StartTimer()
	}
}

func BenchmarkRestore(b *testing.B) {
	l := prepare(b)
	b.Logf("a snapshot of %d MiB, changes of %d MiB", l.size>>20, l.changes>>20)
	for name, changes := range map[string]int64{"snapshot": 0, "snapshot and changes": l.changes} {
		b.Run(name, func(b *testing.B) {
			benchmark(b, l.size+changes, func(m process, all []process) error {
				f, err := os.Open(l.snapshot)
				if err != nil {
					return err
				}
				defer func() { _ = f.Close() }()
				o := options(m, all, nil)
				o.Snapshot, o.SnapshotSize = f, l.size
				if changes > 0 {
					o.Changes, o.ChangesSize = l.replay(b), changes
				}
				_, err = etcdrestore.Restore(b.Context(), o)
				return err
			})
		})
	}
	b.Run("etcdutl", func(b *testing.B) {
		benchmark(b, l.size, func(m process, _ []process) error {
			cmd := exec.CommandContext(b.Context(), l.server.Tool("etcdutl"), "snapshot", "restore", l.snapshot,
				"--data-dir="+m.dir, "--name="+m.name, "--initial-cluster="+m.name+"="+m.peer, "--initial-advertise-peer-urls="+m.peer)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%w: %s", err, strings.TrimSpace(out.String()))
			}
			return nil
		})
	})
}
