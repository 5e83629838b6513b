package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/test/stores"
)

// shortDir is a directory whose name leaves room for that of a socket, which may have 107 bytes in all.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "check")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// checkIn checks a backup with the servers of a directory.
func checkIn(t *testing.T, url, programs string) (job.Report, error) {
	t.Helper()
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	return runJob(t, runBackupCheck, "--url="+url, "--directory=b", "--scratch-dir="+shortDir(t), "--with-server")
}

// storeEtcd stores a backup of a database.
func storeEtcd(t *testing.T, s *backup.Store, version string, revision int64, snapshot []byte) {
	t.Helper()
	part, err := s.WritePart(t.Context(), "b", partSnapshot, backup.Keys{}, func(w io.Writer) error {
		_, err := w.Write(snapshot)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.WriteManifest(t.Context(), "b", backup.Manifest{
		Format: backup.Format, ID: "b", Kind: backup.KindEtcd, Namespace: "shop", Cluster: "orders", Engine: "etcd", EngineVersion: version,
		Started: noon, Finished: noon, Parts: []backup.Part{part}, Etcd: &backup.EtcdContent{Timeline: "a1", Revision: revision, Newest: revision, Taken: noon},
	}, backup.Keys{})
	if err != nil {
		t.Fatal(err)
	}
}

func snapshotOf(t *testing.T, c *clientv3.Client) []byte {
	t.Helper()
	r, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// history writes keys, deletes some, compacts, and writes again. One key has a lease.
func history(t *testing.T, c *clientv3.Client) (revision int64) {
	t.Helper()
	ctx := t.Context()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 50 {
		_, err := c.Put(ctx, fmt.Sprint("key-", i%30), strings.Repeat("v", 100*i))
		do(err)
	}
	gone, err := c.Delete(ctx, "key-7")
	do(err)
	_, err = c.Compact(ctx, gone.Header.Revision-3, clientv3.WithCompactPhysical())
	do(err)
	lease, err := c.Grant(ctx, 3600)
	do(err)
	_, err = c.Put(ctx, "leased", "v", clientv3.WithLease(lease.ID))
	do(err)
	last, err := c.Put(ctx, "key-8", "last")
	do(err)
	return last.Header.Revision
}

func TestACheckStartsAMemberOfEtcd(t *testing.T) {
	for _, name := range []string{"etcd-3.5", "etcd-3.6", "etcd-3.7"} {
		t.Run(name, func(t *testing.T) {
			_, c := startEtcdOf(t, name)
			revision := history(t, c)
			for _, authenticated := range []bool{false, true} {
				if authenticated {
					c = enableAuth(t, c)
				}
				url, s := aStore(t)
				dir := stores.Newest(t, name).Dir
				version := strings.TrimPrefix(filepath.Base(filepath.Dir(dir)), "etcd-")
				storeEtcd(t, s, version, revision, snapshotOf(t, c))
				r, err := checkIn(t, url, dir)
				if err != nil {
					t.Fatalf("authentication %t: %v", authenticated, err)
				}
				if got := r.Checked; got.Server != "etcd "+version || got.Keys != 31 || got.Revision != revision {
					t.Errorf("authentication %t: %+v", authenticated, got)
				}
			}
		})
	}
}

// enableAuth switches authentication on, and returns a client of root.
func enableAuth(t *testing.T, c *clientv3.Client) *clientv3.Client {
	t.Helper()
	if _, err := c.UserAdd(t.Context(), "root", "hunter2"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.UserGrantRole(t.Context(), "root", "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AuthEnable(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Username: "root", Password: "hunter2", DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() })
	return again
}

// Pages and keys are whole, and so is every checksum: only who has to understand the leases finds out.
func TestACheckFindsWhatOnlyAMemberOfEtcdFinds(t *testing.T) {
	_, c := startEtcd(t)
	revision := history(t, c)
	path := filepath.Join(t.TempDir(), "db")
	raw := snapshotOf(t, c)
	if err := os.WriteFile(path, raw[:len(raw)-sha256.Size], 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("lease")).Put([]byte("12345678"), []byte("no lease"))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if raw, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	url, s := aStore(t)
	storeEtcd(t, s, "3.6.16", revision, append(raw, sum[:]...))
	if r, err := runJob(t, runBackupCheck, "--url="+url, "--directory=b", "--scratch-dir="+shortDir(t)); err != nil || r.Checked.Server != "" {
		t.Fatalf("without a server it is found already, and the test tells nothing: %v", err)
	}
	r, err := checkIn(t, url, stores.Newest(t, "etcd-3.6").Dir)
	if !errors.Is(err, errServer) || r.Problem.Reason != "ServerFailed" || !r.Problem.Final || !strings.Contains(r.Problem.Message, "lease") {
		t.Errorf("%v, %+v", err, r.Problem)
	}
}

// rdbServer runs a server of Redis or Valkey in a directory, and returns a client.
func rdbServer(t *testing.T, name, dir string, args ...string) *goredis.Client {
	t.Helper()
	engine, _, _ := strings.Cut(name, "-")
	cmd := exec.Command(filepath.Join(stores.Newest(t, name).Dir, programs[engine]), //nolint:noctx // It ends with the test.
		append([]string{"--port", "0", "--unixsocket", "s", "--dir", dir, "--save", "", "--databases", "20"}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := goredis.NewClient(&goredis.Options{Network: "unix", Addr: filepath.Join(dir, "s"), DisableIdentity: true})
	t.Cleanup(func() {
		_ = c.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	deadline := time.Now().Add(30 * time.Second)
	for c.Ping(t.Context()).Err() != nil {
		if time.Now().After(deadline) {
			t.Fatal("the server does not answer")
		}
		time.Sleep(20 * time.Millisecond)
	}
	return c
}

// rdbOf is what a server with keys of several kinds saves: some expire before it is read, some while a check is going on.
func rdbOf(t *testing.T, name string) []byte {
	t.Helper()
	dir, ctx := shortDir(t), t.Context()
	c := rdbServer(t, name, dir)
	pipe := c.Pipeline()
	for i := range 300 {
		pipe.Set(ctx, fmt.Sprint("key-", i), strings.Repeat("v", i), 0)
	}
	for i := range 20 {
		pipe.Set(ctx, fmt.Sprint("soon-", i), "v", time.Duration(50*(i+1))*time.Millisecond)
		pipe.Set(ctx, fmt.Sprint("late-", i), "v", time.Hour)
	}
	pipe.HSet(ctx, "hash", "a", 1, "b", 2)
	pipe.RPush(ctx, "list", "a", "b")
	pipe.XAdd(ctx, &goredis.XAddArgs{Stream: "stream", Values: []any{"a", 1}})
	pipe.FunctionLoad(ctx, "#!lua name=lib\nredis.register_function('f', function() return 1 end)")
	pipe.Do(ctx, "SELECT", 17)
	pipe.Set(ctx, "elsewhere", "v", 0)
	pipe.Save(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// storeRedis stores a backup of so many RDBs, with what they hold by their own account.
func storeRedis(t *testing.T, s *backup.Store, engine, version string, rdbs ...[]byte) (keys int64) {
	t.Helper()
	m := backup.Manifest{
		Format: backup.Format, ID: "b", Kind: backup.KindRedis, Namespace: "shop", Cluster: "carts", Engine: engine, EngineVersion: version,
		Started: noon, Finished: noon, Redis: &backup.RedisContent{},
	}
	for i, rdb := range rdbs {
		summary, err := redisdump.Count(bytes.NewReader(rdb))
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("shard-%d.rdb", i)
		part, err := s.WritePart(t.Context(), "b", name, backup.Keys{}, func(w io.Writer) error {
			_, err := w.Write(rdb)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		m.Parts = append(m.Parts, part)
		m.Redis.Shards = append(m.Redis.Shards, backup.RedisShard{Index: i, Part: name, Keys: summary.Keys, Expires: summary.Expires, KeysPerSlot: slotCounts(summary.KeysPerSlot)})
		keys += summary.Keys
	}
	if err := s.WriteManifest(t.Context(), "b", m, backup.Keys{}); err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestACheckStartsAServerOnEachShard(t *testing.T) {
	for _, name := range []string{"redis-7.0", "redis-8.0", "valkey-8.1", "valkey-9.1"} {
		t.Run(name, func(t *testing.T) {
			engine, _, _ := strings.Cut(name, "-")
			dir := stores.Newest(t, name).Dir
			full := filepath.Base(filepath.Dir(dir))
			url, s := aStore(t)
			rdb := rdbOf(t, name)
			keys := storeRedis(t, s, engine, strings.TrimPrefix(full, engine+"-"), rdb, rdb)
			if keys < 2*324 {
				t.Fatalf("the RDBs have %d keys", keys)
			}
			r, err := checkIn(t, url, dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Checked; got.Server != strings.Replace(full, "-", " ", 1) || got.Keys != keys {
				t.Errorf("%+v, of %d keys", got, keys)
			}
		})
	}
}

// The RDB is one by its form, and nobody but a server reads the code of functions.
func TestACheckFindsWhatOnlyAServerFinds(t *testing.T) {
	code := "#!lua name=lib\nthis is no Lua"
	rdb := slices.Concat([]byte("REDIS0010\xf5"), []byte{byte(len(code))}, []byte(code), []byte{0xff}, make([]byte, 8))
	for _, name := range []string{"redis-7.0", "valkey-9.1"} {
		engine, version, _ := strings.Cut(name, "-")
		url, s := aStore(t)
		storeRedis(t, s, engine, version+".0", rdb)
		if r, err := runJob(t, runBackupCheck, "--url="+url, "--directory=b", "--scratch-dir="+shortDir(t)); err != nil || r.Checked.Server != "" {
			t.Fatalf("without a server it is found already, and the test tells nothing: %v", err)
		}
		r, err := checkIn(t, url, stores.Newest(t, name).Dir)
		if !errors.Is(err, errServer) || r.Problem.Reason != "ServerFailed" || !strings.Contains(r.Problem.Message, "library") {
			t.Errorf("%s: %v, %+v", name, err, r.Problem)
		}
	}
}

func TestKeysThatExpireAreToldFromThoseThatAreLost(t *testing.T) {
	r := &redisCheck{Summary: redisdump.Summary{Keys: 100, Expires: 10}, fieldsExpire: 2}
	for name, tc := range map[string]struct {
		served served
		good   bool
	}{
		"all are there":                        {served{100, 0, 0, 100}, true},
		"some had expired":                     {served{95, 5, 0, 95}, true},
		"some expire meanwhile":                {served{95, 5, 5, 90}, true},
		"hashes without fields are left out":   {served{98, 0, 0, 98}, true},
		"hashes lose their fields meanwhile":   {served{100, 0, 0, 98}, true},
		"more were left out than can be empty": {served{97, 0, 0, 97}, false},
		"more than were backed up":             {served{101, 0, 0, 101}, false},
		"one that was loaded is not there":     {served{100, 0, 0, 97}, false},
		"one came from nowhere":                {served{95, 5, 0, 96}, false},
		"more have expired than expire":        {served{85, 15, 0, 85}, false},
	} {
		if err := r.fits(tc.served); (err == nil) != tc.good {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := parseServed("rdb_last_load_keys_loaded:1\r\nexpired_keys:0\r\n"); err == nil {
		t.Error("what a server does not tell is taken for zero")
	}
}

func TestAKeyThatAServerLacksIsMissed(t *testing.T) {
	dir := shortDir(t)
	c := rdbServer(t, "redis-7.0", dir)
	if err := c.Set(t.Context(), "here", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	for key, good := range map[string]bool{"here": true, "away": false} {
		err := (&redisCheck{sample: []sampled{{0, key}}}).readSample(t.Context(), c)
		if (err == nil) != good || (err != nil && !errors.Is(err, backup.ErrDamaged)) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// script is a program that does what the test says.
func script(t *testing.T, text string) throwAway {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "server")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return throwAway{program: path, dir: dir}
}

func TestTheEndOfAServerIsExplained(t *testing.T) {
	never := func(context.Context) error { return errors.New("no answer") }
	at := func(context.Context) error { return nil }
	broken := func(context.Context) error { time.Sleep(300 * time.Millisecond); return io.ErrUnexpectedEOF }
	for name, tc := range map[string]struct {
		text         string
		serves, look func(context.Context) error
		is           error
		says         string
	}{
		"it does not begin":             {"echo no such option >&2; exit 1", never, at, errServer, "no such option"},
		"its memory runs out":           {"kill -9 $$", never, at, errMemory, ""},
		"it runs out while it is asked": {"sleep 0.1; kill -9 $$", at, broken, errMemory, ""},
		"it ends while it is asked":     {"sleep 0.1; echo assertion; exit 2", at, broken, errServer, "assertion"},
		"it serves something else":      {"sleep 10", at, func(context.Context) error { return backup.ErrDamaged }, backup.ErrDamaged, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := script(t, tc.text).run(t.Context(), tc.serves, tc.look)
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
				t.Error(err)
			}
		})
	}
	t.Run("it is told to end", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := script(t, "sleep 10").run(ctx, func(context.Context) error { cancel(); return errors.New("not yet") }, at)
		if !errors.Is(err, context.Canceled) || errors.Is(err, errServer) || errors.Is(err, errMemory) {
			t.Error(err)
		}
	})
	t.Run("there is no such program", func(t *testing.T) {
		err := throwAway{program: "no-such-server"}.run(t.Context(), at, at)
		if !errors.As(err, new(finalError)) || !strings.Contains(err.Error(), "spec.image") {
			t.Error(err)
		}
	})
	t.Run("it learns nothing of this program", func(t *testing.T) {
		t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
		t.Setenv("GOMEMLIMIT", "1000000")
		err := script(t, "/usr/bin/env; exit 1").run(t.Context(), never, at)
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "GOMEMLIMIT") || !strings.Contains(err.Error(), "PATH=") {
			t.Error(err)
		}
	})
}

func TestTheAgentIsInstalledWithTheAuthorities(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	program, authority := filepath.Join(from, "agent"), filepath.Join(from, "ca.crt")
	for _, path := range []string{program, authority} {
		if err := os.WriteFile(path, []byte(filepath.Base(path)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // The second time is a container that was started again.
		if err := install(program, []string{filepath.Join(from, "none"), authority}, to); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(to, job.AgentFile))
	if err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("it cannot be run: %v, %v", info, err)
	}
	if raw, err := os.ReadFile(filepath.Join(to, job.AuthoritiesFile)); err != nil || string(raw) != "ca.crt" {
		t.Errorf("%q, %v", raw, err)
	}
	if err := install(program, nil, t.TempDir()); err != nil {
		t.Errorf("an image without authorities: %v", err)
	}
}
