package etcdhistory_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/backup/etcdhistory"
)

// running is a recorder that runs.
type running struct {
	*etcdhistory.Recorder
	stop  func()
	ended chan error
}

func record(t *testing.T, c *clientv3.Client, m *memory, base int64, change ...func(*etcdhistory.Recorder)) *running {
	t.Helper()
	r := &running{Recorder: &etcdhistory.Recorder{Client: c, Store: m, Timeline: timeline, Interval: 100 * time.Millisecond, Grace: 2 * time.Second}, ended: make(chan error, 1)}
	for _, f := range change {
		f(r.Recorder)
	}
	ctx, cancel := context.WithCancel(t.Context())
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		r.ended <- r.Run(ctx, base)
	}()
	r.stop = func() {
		cancel()
		<-finished
	}
	t.Cleanup(r.stop)
	return r
}

// puts writes so many keys of a size, and returns the last revision.
func puts(t *testing.T, c *clientv3.Client, n, size int) (revision int64) {
	t.Helper()
	for i := range n {
		r, err := c.Put(t.Context(), fmt.Sprintf("key-%04d", i), strings.Repeat("v", size))
		if err != nil {
			t.Fatal(err)
		}
		revision = r.Header.Revision
	}
	return revision
}

func (r *running) durable(t *testing.T, revision int64) {
	t.Helper()
	eventually(t, func() error {
		select {
		case err := <-r.ended:
			t.Fatalf("it has ended: %v", err)
		default:
		}
		if s := r.Status(); s.Durable < revision {
			return fmt.Errorf("%+v, want %d", s, revision)
		}
		return nil
	})
}

// complete checks that everything from base to a revision can be read back.
func complete(t *testing.T, m *memory, base, to int64) []etcdhistory.Record {
	t.Helper()
	m.mu.Lock()
	frozen := &memory{objects: map[string][]byte{}}
	for name, raw := range m.objects {
		frozen.objects[name] = raw
	}
	m.mu.Unlock()
	records := replayed(t, frozen, base, etcdhistory.Target{})
	got := revisions(records)
	if int64(len(got)) < to-base || got[0] != base+1 {
		t.Fatalf("%d revisions from %d on, want %d to %d", len(got), got[0], base+1, to)
	}
	return records
}

func TestEverythingIsRecordedAndSafeInTime(t *testing.T) {
	for minor := 5; minor <= 7; minor++ {
		t.Run(fmt.Sprintf("3.%d", minor), func(t *testing.T) {
			t.Parallel()
			c, m := fresh(t, minor), &memory{}
			r := record(t, c, m, 1)
			l, err := c.Grant(t.Context(), 333)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Put(t.Context(), "leased", "", clientv3.WithLease(l.ID)); err != nil {
				t.Fatal(err)
			}
			last := puts(t, c, 300, 100)
			acknowledged := time.Now()
			r.durable(t, last)
			known := 0
			for _, record := range complete(t, m, 1, last) {
				if record.Kind == etcdhistory.Granted && record.Lease == (etcdhistory.Lease{ID: int64(l.ID), TTL: 333}) {
					known++
				}
			}
			if known != 1 {
				t.Errorf("the lease was recorded %d times", known)
			}
			// Nothing more is written, and the time up to which everything is safe goes on.
			for range 2 {
				eventually(t, func() error {
					if s := r.Status(); !s.DurableTime.After(acknowledged) || s.Behind() != 0 || s.Source != last {
						return fmt.Errorf("%+v", s)
					}
					return nil
				})
				acknowledged = time.Now()
			}
		})
	}
}

func TestARecorderGoesOnWhereTheLastOneEnded(t *testing.T) {
	c, m := fresh(t, 6), &memory{}
	var last int64
	for range 4 {
		r := record(t, c, m, 1)
		last = puts(t, c, 100, 100)
		eventually(t, func() error {
			if s := r.Status(); s.Recorded < last-50 {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
		r.stop()
		if err := <-r.ended; err != nil {
			t.Fatal(err)
		}
	}
	r := record(t, c, m, 1)
	r.durable(t, last)
	complete(t, m, 1, last)
	total := int64(0)
	for _, n := range etcdhistory.Names(objects(t, m), timeline) {
		total += n.To - n.From
	}
	if total != last-1 {
		t.Errorf("%d revisions are stored for %d", total, last-1)
	}
}

// A recorder that was away while a full backup was taken leaves no hole before that, where the etcd still has what was changed.
func TestARecorderFillsWhatItMissedBeforeAFullBackup(t *testing.T) {
	c, m := fresh(t, 6), &memory{}
	r := record(t, c, m, 1)
	recorded := puts(t, c, 20, 10)
	r.durable(t, recorded)
	r.stop()
	puts(t, c, 20, 10)
	base := puts(t, c, 1, 10)
	r = record(t, c, m, base)
	last := puts(t, c, 20, 10)
	r.durable(t, last)
	r.stop()
	complete(t, m, 1, last)

	missed := puts(t, c, 20, 10)
	base = puts(t, c, 1, 10)
	if _, err := c.Compact(t.Context(), missed); err != nil {
		t.Fatal(err)
	}
	r = record(t, c, m, base)
	later := puts(t, c, 20, 10)
	r.durable(t, later)
	names := etcdhistory.Names(objects(t, m), timeline)
	if got := etcdhistory.Latest(names, 1); got != last {
		t.Errorf("it leads to %d, and what came after %d was compacted", got, last)
	}
	if got := etcdhistory.Latest(names, base); got < later {
		t.Errorf("from the full backup at %d it leads to %d, want %d", base, got, later)
	}
}

func objects(t *testing.T, m *memory) []etcdhistory.Object {
	t.Helper()
	out, err := m.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhatIsLeftIsPutAwayAtTheEnd(t *testing.T) {
	c, m := fresh(t, 6), &memory{}
	r := record(t, c, m, 1, func(r *etcdhistory.Recorder) { r.Interval = time.Hour })
	last := puts(t, c, 10, 10)
	eventually(t, func() error {
		if s := r.Status(); s.Recorded < last {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if len(objects(t, m)) > 0 {
		t.Error("a segment was stored before it was due")
	}
	r.stop()
	complete(t, m, 1, last)
}

func TestTwoRecordersDoNotDisturbEachOther(t *testing.T) {
	c, m := fresh(t, 6), &memory{}
	a := record(t, c, m, 1)
	puts(t, c, 50, 100)
	b := record(t, c, m, 1, func(r *etcdhistory.Recorder) { r.Interval = 70 * time.Millisecond })
	last := puts(t, c, 500, 100)
	a.durable(t, last)
	b.durable(t, last)
	complete(t, m, 1, last)
}

// While the store is down, a small part of what is written is in memory; afterwards everything is recorded.
func TestAStoreThatIsDownLosesNothing(t *testing.T) {
	c, m := fresh(t, 6), &memory{}
	// piece is what etcd sends at once: a request of the largest size, and 512 KiB.
	const size, piece = 50_000, 2 << 20
	r := record(t, c, m, 1, func(r *etcdhistory.Recorder) { r.Size = size })
	r.durable(t, puts(t, c, 20, 100))
	m.setDown(true)
	last := puts(t, c, 1000, 2000)
	eventually(t, func() error {
		s := r.Status()
		if !errors.Is(s.StoreErr, errDown) || s.Source != last || s.Behind() < 900 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	eventually(t, func() error { // Long enough for the watch to be given up.
		if s := r.Status(); s.WatchErr == nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	stalled := r.Status()
	if held := stalled.Recorded - stalled.Durable; held > 2*size/2000+30 {
		t.Errorf("%d revisions of 2000 bytes are in memory", held)
	}
	m.setDown(false)
	r.durable(t, last)
	complete(t, m, 1, last)
	if s := r.Status(); s.StoreErr != nil {
		t.Errorf("%+v", s)
	}
	for name, raw := range m.objects {
		if len(raw) > size+piece {
			t.Errorf("%s has %d bytes", name, len(raw))
		}
	}
}

func TestAnEtcdThatIsRestartedIsRecordedOn(t *testing.T) {
	s, dir, at, m := etcds(t)[1], filepath.Join(t.TempDir(), "data"), address(t), &memory{}
	c, kill := s.start(t, dir, at)
	r := record(t, c, m, 1)
	puts(t, c, 100, 100)
	kill()
	again, _ := s.start(t, dir, at)
	last := puts(t, again, 100, 100)
	r.durable(t, last)
	complete(t, m, 1, last)
}

func TestACompactionBeforeTheRecorderEndsIt(t *testing.T) {
	for minor := 5; minor <= 7; minor++ {
		t.Run(fmt.Sprintf("3.%d", minor), func(t *testing.T) {
			t.Parallel()
			c, m := fresh(t, minor), &memory{}
			first := record(t, c, m, 1)
			stored := puts(t, c, 100, 100)
			first.durable(t, stored)
			first.stop()
			last := puts(t, c, 100, 100)
			if _, err := c.Compact(t.Context(), last-10); err != nil {
				t.Fatal(err)
			}
			r := record(t, c, m, 1)
			var compacted *etcdhistory.CompactedError
			if err := <-r.ended; !errors.As(err, &compacted) || compacted.Need != stored+1 || compacted.Compacted != last-10 {
				t.Fatalf("%v, want %d compacted at %d", err, stored+1, last-10)
			}
			// It begins anew from a later snapshot.
			r = record(t, c, m, last)
			newest := puts(t, c, 10, 10)
			r.durable(t, newest)
			complete(t, m, last, newest)
		})
	}
}

// A transaction, and a range that is deleted, have many changes in one revision. Some are more than etcd sends at once.
func TestARevisionIsNotDivided(t *testing.T) {
	c, m := fresh(t, 6), &memory{}
	r := record(t, c, m, 1, func(r *etcdhistory.Recorder) { r.Size = 10_000 })
	const batches, batch = 40, 100
	for i := range batches {
		var ops []clientv3.Op
		for j := range batch {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("%0*d", 1000, i*batch+j), "value"))
		}
		if _, err := c.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	deleted, err := c.Delete(t.Context(), "0", clientv3.WithPrefix())
	if err != nil || deleted.Deleted != batches*batch {
		t.Fatalf("%v, %v", deleted, err)
	}
	last := deleted.Header.Revision
	r.durable(t, last)
	n := map[int64]int64{}
	for _, record := range complete(t, m, 1, last) {
		if record.Sub != n[record.Revision] {
			t.Fatalf("change %d of revision %d after %d", record.Sub, record.Revision, n[record.Revision])
		}
		n[record.Revision]++
	}
	if n[last] != batches*batch || n[2] != batch {
		t.Errorf("%d and %d changes", n[last], n[2])
	}
}

// An etcd that was restored from an older snapshot in place has lower revisions, and would never tell of those that a watch asks for.
func TestAnEtcdThatWentBackEndsTheRecorder(t *testing.T) {
	s, dir, at, m := etcds(t)[1], filepath.Join(t.TempDir(), "data"), address(t), &memory{}
	c, kill := s.start(t, dir, at)
	older := t.TempDir()
	puts(t, c, 10, 10)
	kill()
	if out, err := exec.CommandContext(t.Context(), "cp", "-r", dir, filepath.Join(older, "data")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c, kill = s.start(t, dir, at)
	r := record(t, c, m, 1)
	r.durable(t, puts(t, c, 100, 10))
	kill()
	s.start(t, filepath.Join(older, "data"), at)
	if err := <-r.ended; !errors.Is(err, etcdhistory.ErrDiverged) {
		t.Errorf("%v", err)
	}
}

func TestAnotherEtcdEndsTheRecorder(t *testing.T) {
	s, at, m := etcds(t)[1], address(t), &memory{}
	c, kill := s.start(t, filepath.Join(t.TempDir(), "data"), at)
	r := record(t, c, m, 1)
	r.durable(t, puts(t, c, 10, 10))
	kill()
	other, _ := s.start(t, filepath.Join(t.TempDir(), "data"), at)
	puts(t, other, 100, 10)
	if err := <-r.ended; !errors.Is(err, etcdhistory.ErrDiverged) {
		t.Errorf("%v", err)
	}
}

func TestARecorderWithoutANameIsRefused(t *testing.T) {
	for name, r := range map[string]*etcdhistory.Recorder{"": {}, "a/b": {Timeline: "a/b"}, "..": {Timeline: ".."}} {
		if err := r.Run(t.Context(), 1); err == nil {
			t.Errorf("%q is a timeline", name)
		}
	}
	if err := (&etcdhistory.Recorder{Timeline: "a"}).Run(t.Context(), 0); err == nil {
		t.Error("0 is a revision")
	}
}
