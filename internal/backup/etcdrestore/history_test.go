package etcdrestore_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/etcdrestore"
)

const timeline = "1234abcd"

// source is an etcd with a history that is recorded while it grows.
type source struct {
	t        *testing.T
	client   *clientv3.Client
	random   *rand.Rand
	store    *memory
	recorder *etcdhistory.Recorder
	leases   []clientv3.LeaseID

	// snapshot of a revision in the middle.
	snapshot         []byte
	snapshotRevision int64
	snapshotTime     time.Time
	// points are what the etcd said that it had at some revisions, when these were the newest.
	points []point
}

type point struct {
	revision int64
	// at is a time before which the revision was recorded, and after which the next was made.
	at   time.Time
	keys []*mvccpb.KeyValue
	hash uint32
}

// record begins to record an etcd.
func record(t *testing.T, c *clientv3.Client) *source {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &source{t: t, client: c, random: rand.New(rand.NewPCG(seed, 0)), store: &memory{}}
	s.recorder = &etcdhistory.Recorder{Client: c, Store: s.store, Timeline: timeline, Interval: 200 * time.Millisecond, Size: 20_000}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.recorder.Run(ctx, 1) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the recorder: %v", err)
		}
	})
	return s
}

// write makes n random changes, and keeps what the etcd had after every tenth or so.
func (s *source) write(n int) {
	s.t.Helper()
	for i := range n {
		revision := s.change()
		if s.random.IntN(10) > 0 && i != n-1 {
			continue
		}
		s.await(revision)
		s.points = append(s.points, s.look(revision))
	}
}

// look asks for everything.
func (s *source) look(revision int64) point {
	s.t.Helper()
	all, err := s.client.Get(s.t.Context(), "\x00", clientv3.WithFromKey(), clientv3.WithRev(revision))
	if err != nil {
		s.t.Fatal(err)
	}
	hash, err := s.client.HashKV(s.t.Context(), s.client.Endpoints()[0], revision)
	if err != nil {
		s.t.Fatal(err)
	}
	return point{revision, time.Now(), all.Kvs, hash.Hash}
}

// await waits until a revision is recorded.
func (s *source) await(revision int64) {
	s.t.Helper()
	eventually(s.t, func() error {
		if status := s.recorder.Status(); status.Recorded < revision {
			return fmt.Errorf("recorded %d of %d: %+v", status.Recorded, revision, status)
		}
		return nil
	})
}

// change makes a revision and returns its number.
func (s *source) change() int64 {
	s.t.Helper()
	ctx := s.t.Context()
	key := func() string { return fmt.Sprintf("key-%02d", s.random.IntN(40)) }
	value := func() string { return fmt.Sprintf("%d %0*d", s.random.Uint64(), s.random.IntN(800)+1, 0) }
	var header interface{ GetRevision() int64 }
	var err error
	switch s.random.IntN(12) {
	case 0, 1:
		var r *clientv3.DeleteResponse
		if r, err = s.client.Delete(ctx, key()); err == nil {
			header = r.Header
		}
	case 2:
		var r *clientv3.DeleteResponse
		if r, err = s.client.Delete(ctx, key(), clientv3.WithRange("key-3")); err == nil {
			header = r.Header
		}
	case 3, 4, 5:
		var r *clientv3.TxnResponse
		r, err = s.client.Txn(ctx).Then(clientv3.OpPut("txn-a", value()), clientv3.OpDelete(key()), clientv3.OpPut("txn-b/"+key(), value()),
			clientv3.OpDelete("txn-b/key-0", clientv3.WithRange("txn-b/key-00")), clientv3.OpPut("binary\x00\xff", "\x00\x01\xfe")).Commit()
		if err == nil {
			header = r.Header
		}
	case 6, 7:
		header, err = s.leased(key(), value())
	default:
		var r *clientv3.PutResponse
		if r, err = s.client.Put(ctx, key(), value()); err == nil {
			header = r.Header
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return header.GetRevision()
}

// leased puts with a lease, and now and then revokes one, which deletes what was put with it.
func (s *source) leased(key, value string) (interface{ GetRevision() int64 }, error) {
	ctx := s.t.Context()
	if len(s.leases) > 3 && s.random.IntN(2) == 0 {
		r, err := s.client.Revoke(ctx, s.leases[0])
		s.leases = s.leases[1:]
		if err != nil {
			return nil, err
		}
		return r.Header, nil
	}
	granted, err := s.client.Grant(ctx, int64(1000+s.random.IntN(1000)))
	if err != nil {
		return nil, err
	}
	s.leases = append(s.leases, granted.ID)
	r, err := s.client.Put(ctx, key, value, clientv3.WithLease(granted.ID))
	if err != nil {
		return nil, err
	}
	return r.Header, nil
}

// changes returns what a restore has to apply.
func (s *source) changes(target etcdhistory.Target) func(int64) iter.Seq2[etcdhistory.Record, error] {
	s.t.Helper()
	objects, err := s.store.List(s.t.Context(), etcdhistory.Prefix(timeline))
	if err != nil {
		s.t.Fatal(err)
	}
	return func(revision int64) iter.Seq2[etcdhistory.Record, error] {
		chain, err := etcdhistory.Chain(etcdhistory.Names(objects, timeline), revision, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		return etcdhistory.Replay(s.t.Context(), s.store, chain, revision, target)
	}
}

// grown is a source with a history of several hundred revisions, all of which are in the store.
func grown(t *testing.T, c *clientv3.Client) *source {
	t.Helper()
	s := record(t, c)
	s.write(100)
	if _, err := c.Compact(t.Context(), s.points[len(s.points)/2].revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	s.write(20)
	s.snapshotTime = time.Now()
	s.snapshot, s.snapshotRevision = snapshot(t, c), s.points[len(s.points)-1].revision
	s.points = s.points[len(s.points)-1:]
	s.points[0].at = time.Now()
	s.write(250)
	last := s.points[len(s.points)-1].revision
	eventually(t, func() error {
		if status := s.recorder.Status(); status.Durable < last {
			return fmt.Errorf("%+v, want %d", status, last)
		}
		return nil
	})
	return s
}

func TestEveryRevisionIsRestoredAsItWas(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		t.Helper()
		src := grown(t, s.start(t, members(t, 1)))
		t.Logf("%d segments, %d points", len(src.store.objects), len(src.points))
		for i, p := range src.points {
			last := p.revision == src.points[len(src.points)-1].revision // Several may be of one revision.
			for name, target := range map[string]etcdhistory.Target{"revision": {Revision: p.revision}, "time": {Time: p.at}} {
				// A data directory takes 64 MiB and more, so each goes before the next is made.
				t.Run(fmt.Sprintf("%d by %s", p.revision, name), func(t *testing.T) {
					m := restoredAt(t, s, src, target, p, !last || name == "revision")
					if name == "time" && i%8 == 7 {
						served(t, p, s.start(t, m))
					}
				})
			}
		}
	})
}

// restoredAt restores one member to a point, and checks that it is that point: complete says whether the
// history is known to reach it.
func restoredAt(t *testing.T, s server, src *source, target etcdhistory.Target, p point, complete bool) []process {
	t.Helper()
	m := members(t, 1)
	o := options(m[0], m, src.snapshot)
	o.Target, o.Changes, o.Version, o.SnapshotTime = target, src.changes(target), s.Version, src.snapshotTime
	got, err := etcdrestore.Restore(t.Context(), o)
	if err != nil {
		t.Fatalf("restore %+v: %v", target, err)
	}
	if got.Revision != p.revision || got.BumpedTo != p.revision || got.State.Keys != int64(len(p.keys)) || got.UnknownLeases != 0 || got.Complete != complete {
		t.Fatalf("%+v; want revision %d with %d keys", got, p.revision, len(p.keys))
	}
	db := filepath.Join(m[0].dir, "member", "snap", "db")
	own, compacted, err := etcdrestore.HashKV(t.Context(), db, p.revision)
	if err != nil || own != p.hash || compacted == 0 {
		t.Fatalf("the hash is %d, compacted at %d, %v; want %d", own, compacted, err, p.hash)
	}
	same(t, p, db)
	return m
}

// same reads a database with etcd's own code.
func same(t *testing.T, want point, path string) {
	t.Helper()
	b := backend.NewDefaultBackend(zap.NewNop(), path)
	defer func() { _ = b.Close() }()
	store := mvcc.NewStore(zap.NewNop(), b, &lease.FakeLessor{}, mvcc.StoreConfig{})
	defer func() { _ = store.Close() }()
	got, err := store.Range(t.Context(), []byte{0}, []byte{}, mvcc.RangeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.keys, got.KVs, protocmp.Transform()); diff != "" || got.Rev != want.revision {
		t.Fatalf("revision %d, want %d (-source +restored):\n%s", got.Rev, want.revision, diff)
	}
	hash, _, err := store.HashStorage().HashByRev(want.revision)
	if err != nil || hash.Hash != want.hash {
		t.Fatalf("the hash is %+v, %v, want %d", hash, err, want.hash)
	}
}

// served asks a real etcd, which has the leases as well.
func served(t *testing.T, want point, c *clientv3.Client) {
	t.Helper()
	got, err := c.Get(t.Context(), "\x00", clientv3.WithFromKey())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.keys, got.Kvs, protocmp.Transform()); diff != "" || got.Header.Revision != want.revision {
		t.Fatalf("revision %d, want %d (-source +restored):\n%s", got.Header.Revision, want.revision, diff)
	}
	hash, err := c.HashKV(t.Context(), c.Endpoints()[0], want.revision)
	if err != nil || hash.Hash != want.hash {
		t.Fatalf("the hash is %+v, %v, want %d", hash, err, want.hash)
	}
	for _, kv := range want.keys {
		if kv.Lease == 0 {
			continue
		}
		l, err := c.TimeToLive(t.Context(), clientv3.LeaseID(kv.Lease), clientv3.WithAttachedKeys())
		if err != nil || l.GrantedTTL < 1000 || len(l.Keys) == 0 {
			t.Errorf("the lease of %q is %+v, %v", kv.Key, l, err)
		}
	}
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestATargetThatIsNotThereIsRefused(t *testing.T) {
	s := etcds(t)[1]
	src := grown(t, s.start(t, members(t, 1)))
	last := src.points[len(src.points)-1].revision
	for name, target := range map[string]etcdhistory.Target{
		"before the snapshot":  {Revision: src.snapshotRevision - 1},
		"after the end":        {Revision: last + 1},
		"before its time":      {Time: src.snapshotTime.Add(-time.Second)},
		"long after the end":   {Revision: last + 1_000_000},
		"the first revision":   {Revision: 1},
		"the epoch of the age": {Time: time.Unix(1, 0)},
	} {
		m := members(t, 1)
		o := options(m[0], m, src.snapshot)
		o.Target, o.Changes, o.SnapshotTime = target, src.changes(target), src.snapshotTime
		if got, err := etcdrestore.Restore(t.Context(), o); !errors.Is(err, etcdrestore.ErrOutOfRange) {
			t.Errorf("%s: %+v, %v", name, got, err)
		} else {
			t.Logf("%s: %v", name, err)
		}
		nothing(t, m[0].dir)
	}
}
