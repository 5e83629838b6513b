package etcdrestore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/verify"
	"go.uber.org/zap"

	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/etcdrestore"
)

// nothing checks that there is neither a data directory nor what is left of one.
func nothing(t *testing.T, dir string) {
	t.Helper()
	for _, path := range []string{dir, dir + ".restoring"} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", path, err)
		}
	}
}

// filled is a snapshot of an etcd with some keys, and its newest revision.
func filled(t *testing.T, c *clientv3.Client, n int) (raw []byte, revision int64) {
	t.Helper()
	for i := range n {
		r, err := c.Put(t.Context(), fmt.Sprintf("key-%d", i), strings.Repeat("v", 1000))
		if err != nil {
			t.Fatal(err)
		}
		revision = r.Header.Revision
	}
	return snapshot(t, c), revision
}

func TestMembersOfAnySizeStartInTheSameOrTheNextVersion(t *testing.T) {
	all := etcds(t)
	for i, s := range all {
		t.Run("from "+s.Version, func(t *testing.T) {
			t.Parallel()
			raw, revision := filled(t, s.start(t, members(t, 1)), 50)
			for _, to := range all[i:min(i+2, len(all))] {
				for _, size := range []int{1, 3} {
					t.Run(fmt.Sprintf("%d of %s", size, to.Version), func(t *testing.T) {
						m := members(t, size)
						ids := map[uint64]bool{}
						for _, p := range m {
							o := options(p, m, raw)
							o.Version, o.SnapshotVersion = to.Version, s.Version
							got, err := etcdrestore.Restore(t.Context(), o)
							if err != nil {
								t.Fatal(err)
							}
							ids[got.ClusterID] = true
							verified(t, p.dir)
						}
						c := to.start(t, m)
						checkCluster(t, c, m, revision)
						list, err := c.MemberList(t.Context())
						if err != nil || len(ids) != 1 || !ids[list.Header.ClusterId] {
							t.Errorf("the cluster is %v, %v; restored as %v", list, err, ids)
						}
					})
				}
			}
		})
	}
}

// verified lets etcd compare the log with the database: the position, the voters and the versions.
func verified(t *testing.T, dir string) {
	t.Helper()
	if err := verify.Verify(verify.Config{Logger: zap.NewNop(), DataDir: dir, ExactIndex: true}); err != nil {
		t.Errorf("etcd finds %s to be inconsistent: %v", dir, err)
	}
}

// checkCluster checks that all members serve the same 50 keys, take a write, and are of the version of their binary in the end.
func checkCluster(t *testing.T, c *clientv3.Client, m []process, revision int64) {
	t.Helper()
	list, err := c.MemberList(t.Context())
	if err != nil || len(list.Members) != len(m) {
		t.Fatalf("%v, %v", list, err)
	}
	for _, p := range m {
		one := connect(t, []string{p.client})
		eventually(t, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			got, err := one.Get(ctx, "key-", clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil || got.Count != 50 || got.Header.Revision != revision {
				return fmt.Errorf("%s: %v, %w; want revision %d", p.name, got, err, revision)
			}
			return nil
		})
	}
	put, err := c.Put(t.Context(), "after", "the restore")
	if err != nil || put.Header.Revision != revision+1 {
		t.Errorf("%v, %v", put, err)
	}
	hashes := map[uint32]bool{}
	for _, p := range m {
		eventually(t, func() error {
			h, err := c.HashKV(t.Context(), p.client, revision+1)
			if err == nil {
				hashes[h.Hash] = true
			}
			return err
		})
	}
	if len(hashes) != 1 {
		t.Errorf("members differ: %v", hashes)
	}
}

func TestOtherVersionsAreRefused(t *testing.T) {
	for _, fit := range [][2]string{{"3.5.9", "3.5.35"}, {"3.5.35", "3.6.16"}, {"3.6.16", "v3.6.0-rc.1"}, {"3.6", "3.7.3"}, {"3.7.3", "3.7.0"}} {
		if err := etcdrestore.Compatible(fit[0], fit[1]); err != nil {
			t.Errorf("%v: %v", fit, err)
		}
	}
	for _, unfit := range [][2]string{{"3.6.16", "3.5.35"}, {"3.5.35", "3.7.3"}, {"3.4.34", "3.5.35"}, {"3.7.3", "3.8.0"}, {"", "3.6.1"}, {"3.x", "3.6.1"}, {"2.5.1", "3.5.1"}} {
		if err := etcdrestore.Compatible(unfit[0], unfit[1]); !errors.Is(err, etcdrestore.ErrIncompatible) {
			t.Errorf("%v: %v", unfit, err)
		}
	}
}

func TestTheVersionOfASnapshotIsFoundInIt(t *testing.T) {
	all := etcds(t)
	for i, want := range []string{"3.6.16", "3.5.35", "3.5.35"} {
		c := all[i].start(t, members(t, 1))
		eventually(t, func() error { // etcd writes it a moment after it has started.
			m := members(t, 1)
			o := options(m[0], m, snapshot(t, c))
			o.Version = want
			_, err := etcdrestore.Restore(t.Context(), o)
			if fits := i == 0; fits != (err == nil) || err != nil && !errors.Is(err, etcdrestore.ErrIncompatible) {
				return fmt.Errorf("a snapshot of %s for %s: %w", all[i].Version, want, err)
			}
			return nil
		})
	}
}

func TestABumpedRevisionTellsWatchersThatHistoryIsAnother(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		t.Helper()
		raw, revision := filled(t, s.start(t, members(t, 1)), 50)
		m := members(t, 3)
		const bump = 1_000_000_000
		for _, p := range m {
			o := options(p, m, raw)
			o.Bump = bump
			got, err := etcdrestore.Restore(t.Context(), o)
			if err != nil || got.BumpedTo != revision+bump || got.Revision != revision || got.State.Keys != 50 {
				t.Fatalf("%+v, %v", got, err)
			}
		}
		c := s.start(t, m)
		checkCluster(t, c, m, revision+bump)
		// A client saw later revisions of the source than the snapshot's.
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		response := <-c.Watch(ctx, "key-", clientv3.WithPrefix(), clientv3.WithRev(revision+500))
		if !errors.Is(response.Err(), rpctypes.ErrCompacted) || response.CompactRevision != revision+bump {
			t.Errorf("the watcher was told %+v, %v", response, response.Err())
		}
		if _, err := c.Get(t.Context(), "key-1", clientv3.WithRev(revision)); !errors.Is(err, rpctypes.ErrCompacted) {
			t.Errorf("an old revision: %v", err)
		}
		state, err := etcdrestore.Verify(t.Context(), dbOf(restored(t, raw, bump)))
		if err != nil || state.Revision != revision+bump || state.Keys != 50 {
			t.Errorf("%+v, %v", state, err)
		}
	})
}

func dbOf(dir string) string { return filepath.Join(dir, "member", "snap", "db") }

func restored(t *testing.T, raw []byte, bump int64) (dir string) {
	t.Helper()
	m := members(t, 1)
	o := options(m[0], m, raw)
	o.Bump = bump
	if _, err := etcdrestore.Restore(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return m[0].dir
}

func TestUsersStayAndRootHasTheNewPassword(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		t.Helper()
		c := s.start(t, members(t, 1))
		ctx := t.Context()
		must := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(c.Put(ctx, "app/a", "1"))
		must(c.RoleAdd(ctx, "app"))
		must(c.RoleGrantPermission(ctx, "app", "app/", "app0", clientv3.PermissionType(clientv3.PermReadWrite)))
		must(c.UserAdd(ctx, "app", "app's"))
		must(c.UserGrantRole(ctx, "app", "app"))
		must(c.UserAdd(ctx, "root", "old"))
		must(c.UserGrantRole(ctx, "root", "root"))
		must(c.AuthEnable(ctx))
		root := connect(t, c.Endpoints(), login("root", "old"))
		raw := snapshot(t, root)
		m := members(t, 3)
		for _, p := range m {
			o := options(p, m, raw)
			o.RootPassword = "new"
			must(etcdrestore.Restore(ctx, o))
		}
		after := s.start(t, m, login("root", "new"))
		if status, err := after.AuthStatus(ctx); err != nil || !status.Enabled {
			t.Errorf("%v, %v", status, err)
		}
		must(connect(t, after.Endpoints(), login("app", "app's")).Put(ctx, "app/b", "2"))
		for _, p := range m { // Each has a hash of its own.
			must(connect(t, []string{p.client}, login("root", "new")).UserList(ctx))
		}
		if _, err := clientv3.New(clientv3.Config{Endpoints: after.Endpoints(), Username: "root", Password: "old", DialTimeout: 5 * time.Second}); err == nil {
			t.Error("the old password of root still works")
		}
	})
}

// The planner enables authentication where it is off and wanted (see authenticate), and can do nothing where it is on and not wanted.
func TestAuthenticationOfARestoreIsThatOfTheSpecification(t *testing.T) {
	eachServer(t, func(t *testing.T, s server) {
		t.Helper()
		ctx := t.Context()
		must := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		c := s.start(t, members(t, 1))
		must(c.Put(ctx, "a", "1"))
		raws := map[string][]byte{"without users": snapshot(t, c)}
		must(c.RoleAdd(ctx, "root"))
		must(c.UserAdd(ctx, "root", "old"))
		must(c.UserGrantRole(ctx, "root", "root"))
		raws["with users, off"] = snapshot(t, c)
		must(c.AuthEnable(ctx))
		raws["on"] = snapshot(t, connect(t, c.Endpoints(), login("root", "old")))
		for name, raw := range raws {
			for mode, want := range map[string]bool{"Disabled": false, "Password": name == "on"} {
				m := members(t, 1)
				o := options(m[0], m, raw)
				var config []func(*clientv3.Config)
				if mode == "Disabled" {
					o.WithoutAuthentication = true
				} else {
					o.RootPassword = "new"
				}
				if want {
					config = append(config, login("root", "new"))
				}
				must(etcdrestore.Restore(ctx, o))
				after := s.start(t, m, config...)
				if status, err := after.AuthStatus(ctx); err != nil || status.Enabled != want {
					t.Errorf("a backup %s with mode %s: %v, %v", name, mode, status, err)
				}
				if got, err := after.Get(ctx, "a"); err != nil || len(got.Kvs) != 1 {
					t.Errorf("a backup %s with mode %s: %v, %v", name, mode, got, err)
				}
				if mode == "Disabled" && name != "without users" { // They are of use once authentication is enabled again.
					users, err := after.UserList(ctx)
					if err != nil || len(users.Users) != 1 {
						t.Errorf("a backup %s with mode %s: %v, %v", name, mode, users, err)
					}
				}
			}
		}
	})
}

func login(user, password string) func(*clientv3.Config) {
	return func(c *clientv3.Config) { c.Username, c.Password = user, password }
}

func TestDamageIsFound(t *testing.T) {
	raw, _ := filled(t, etcds(t)[1].start(t, members(t, 1)), 100)
	for name, harm := range map[string]func([]byte) []byte{
		"nothing":              func([]byte) []byte { return nil },
		"cut in the middle":    func(b []byte) []byte { return b[:len(b)/2] },
		"cut to look complete": func(b []byte) []byte { return b[:len(b)/2/4096*4096+sha256.Size] },
		"without the checksum": func(b []byte) []byte { return b[:len(b)-sha256.Size] },
		"a flipped bit":        func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"zeros from a page on": func(b []byte) []byte { clear(b[4096*3 : len(b)-sha256.Size]); return sealed(b) },
		"every page twice":     func(b []byte) []byte { return sealed(doubled(b)) },
		"half of it":           func(b []byte) []byte { return sealed(b[:len(b)/2/4096*4096+sha256.Size]) },
		"no database":          func([]byte) []byte { return sealed(make([]byte, 4096*4+sha256.Size)) },
	} {
		m := members(t, 1)
		if got, err := etcdrestore.Restore(t.Context(), options(m[0], m, harm(bytes.Clone(raw)))); !errors.Is(err, etcdrestore.ErrDamaged) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		nothing(t, m[0].dir)
	}
}

// sealed puts the right checksum behind wrong data, as a member with a damaged database would.
func sealed(b []byte) []byte {
	data := b[:len(b)-sha256.Size]
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

// doubled puts every other page in the place of the one before it, beyond the first four, which describe the others.
func doubled(b []byte) []byte {
	const page = 4096
	for i := 4 * page; i+2*page < len(b); i += 2 * page {
		copy(b[i:i+page], b[i+page:i+2*page])
	}
	return b
}

// records are changes without a store.
func records(all ...etcdhistory.Record) func(int64) iter.Seq2[etcdhistory.Record, error] {
	return func(int64) iter.Seq2[etcdhistory.Record, error] {
		return func(yield func(etcdhistory.Record, error) bool) {
			for _, r := range all {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

func put(revision, sub, leaseID int64) etcdhistory.Record {
	return etcdhistory.Record{Kind: etcdhistory.Put, Revision: revision, Sub: sub, Time: time.Unix(revision, 0), KV: &mvccpb.KeyValue{
		Key: []byte(fmt.Sprintf("new-%d", sub)), CreateRevision: revision, ModRevision: revision, Version: 1, Lease: leaseID,
	}}
}

func TestChangesThatDoNotBelongToASnapshotAreRefused(t *testing.T) {
	raw, revision := filled(t, etcds(t)[1].start(t, members(t, 1)), 10)
	for name, all := range map[string][]etcdhistory.Record{
		"a hole":            {put(revision+2, 0, 0)},
		"a hole later":      {put(revision+1, 0, 0), put(revision+3, 0, 0)},
		"what is there":     {put(revision, 0, 0)},
		"more of the last":  {put(revision, 1, 0)},
		"a part of one":     {put(revision+1, 1, 0)},
		"the same again":    {put(revision+1, 0, 0), put(revision+1, 0, 0)},
		"a part left out":   {put(revision+1, 0, 0), put(revision+1, 2, 0)},
		"beyond the target": {put(revision+1, 0, 0), put(revision+2, 0, 0), put(revision+3, 0, 0)},
	} {
		m := members(t, 1)
		o := options(m[0], m, raw)
		o.Changes, o.Target.Revision = records(all...), revision+2
		if got, err := etcdrestore.Restore(t.Context(), o); !errors.Is(err, etcdrestore.ErrDamaged) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		nothing(t, m[0].dir)
	}
}

func TestALeaseThatNobodyKnowsEndsSoon(t *testing.T) {
	s := etcds(t)[1]
	raw, revision := filled(t, s.start(t, members(t, 1)), 10)
	m := members(t, 1)
	o := options(m[0], m, raw)
	granted := func(id, ttl int64) etcdhistory.Record {
		return etcdhistory.Record{Kind: etcdhistory.Granted, Revision: revision + 3, Lease: etcdhistory.Lease{ID: id, TTL: ttl}}
	}
	o.Changes = records(put(revision+1, 0, 7), put(revision+1, 1, 8), put(revision+2, 0, 9), granted(7, 500), granted(8, 0), granted(10, 600))
	got, err := etcdrestore.Restore(t.Context(), o)
	if err != nil || got.UnknownLeases != 2 || got.Revision != revision+2 || !got.Time.Equal(time.Unix(revision+2, 0)) {
		t.Fatalf("%+v, %v", got, err)
	}
	c := s.start(t, m)
	for id, want := range map[clientv3.LeaseID]int64{7: 500, 8: etcdrestore.LeaseTTL, 9: etcdrestore.LeaseTTL, 10: 0} {
		if l, err := c.TimeToLive(t.Context(), id); err != nil || l.GrantedTTL != want {
			t.Errorf("lease %d: %+v, %v; want %d s", id, l, err, want)
		}
	}
}

func TestADirectoryWithSomethingInItIsNotTouched(t *testing.T) {
	raw, _ := filled(t, etcds(t)[1].start(t, members(t, 1)), 10)
	m := members(t, 1)
	kept := filepath.Join(m[0].dir, "member", "snap", "db")
	if err := errors.Join(os.MkdirAll(filepath.Dir(kept), 0o700), os.WriteFile(kept, []byte("kept"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := etcdrestore.Restore(t.Context(), options(m[0], m, raw)); !errors.Is(err, etcdrestore.ErrExists) {
		t.Errorf("%v", err)
	}
	if got, err := os.ReadFile(kept); err != nil || string(got) != "kept" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWhatACrashLeftIsRemoved(t *testing.T) {
	raw, _ := filled(t, etcds(t)[1].start(t, members(t, 1)), 10)
	m := members(t, 1)
	left := filepath.Join(m[0].dir+".restoring", "member", "snap", "db")
	err := errors.Join(os.MkdirAll(filepath.Dir(left), 0o700), os.WriteFile(left, []byte("half of it"), 0o600), os.Mkdir(m[0].dir, 0o700))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcdrestore.Restore(t.Context(), options(m[0], m, raw)); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(m[0].dir))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestAVolumeThatIsTooSmallIsNamed(t *testing.T) {
	m := members(t, 1)
	o := options(m[0], m, nil)
	o.SnapshotSize, o.ChangesSize = 1000<<20, 100<<20
	o.Free = func(string) (int64, error) { return 900 << 20, nil }
	_, err := etcdrestore.Restore(t.Context(), o)
	if !errors.Is(err, etcdrestore.ErrNoSpace) || !strings.Contains(err.Error(), "need 1380 MiB, and 900 MiB are free") {
		t.Errorf("%v", err)
	}
	nothing(t, m[0].dir)
}

func TestARestoreThatIsStoppedLeavesNothing(t *testing.T) {
	raw, _ := filled(t, etcds(t)[1].start(t, members(t, 1)), 10)
	m := members(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	o := options(m[0], m, raw)
	o.Changes = func(int64) iter.Seq2[etcdhistory.Record, error] {
		cancel()
		return records(put(12, 0, 0))(0)
	}
	if _, err := etcdrestore.Restore(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	nothing(t, m[0].dir)
}

func TestWrongMembersAreRefused(t *testing.T) {
	for name, m := range map[string]etcdrestore.Member{
		"none":             {Name: "a"},
		"another":          {Name: "a", Cluster: map[string][]string{"b": {"http://127.0.0.1:1"}}},
		"two with one URL": {Name: "a", Cluster: map[string][]string{"a": {"http://127.0.0.1:1"}, "b": {"http://127.0.0.1:1"}}},
		"no URL":           {Name: "a", Cluster: map[string][]string{"a": {"127.0.0.1"}}},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if _, err := etcdrestore.Restore(t.Context(), etcdrestore.Options{Dir: dir, Member: m, Snapshot: bytes.NewReader(nil)}); err == nil || errors.Is(err, etcdrestore.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		nothing(t, dir)
	}
}

func TestKeysAreCountedInTheMiddleOfACompaction(t *testing.T) {
	c := etcds(t)[1].start(t, members(t, 1))
	_, revision := filled(t, c, 30)
	for i := range 10 {
		if _, err := c.Delete(t.Context(), fmt.Sprintf("key-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	dir := restored(t, snapshot(t, c), 0)
	db, err := bolt.Open(dbOf(dir), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error { // A compaction of everything was decided on, and has done a third of its work.
		keys := tx.Bucket([]byte("key"))
		last, _ := keys.Cursor().Last()
		var done [][]byte
		_ = keys.ForEach(func(k, _ []byte) error {
			if len(done) < 7 {
				done = append(done, slices.Clone(k))
			}
			return nil
		})
		for _, k := range done {
			if err := keys.Delete(k); err != nil {
				return err
			}
		}
		return tx.Bucket([]byte("meta")).Put([]byte("scheduledCompactRev"), last[:17])
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	state, err := etcdrestore.Verify(t.Context(), dbOf(dir))
	if err != nil || state.Keys != 20 || state.Revision != revision+10 {
		t.Errorf("%+v, %v", state, err)
	}
	if _, _, err := etcdrestore.HashKV(t.Context(), dbOf(dir), state.Revision); !errors.Is(err, etcdrestore.ErrNotComparable) {
		t.Errorf("its hash: %v", err)
	}
}
