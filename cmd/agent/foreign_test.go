package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/backup/etcdrestore"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/test/docs"
	"github.com/quorate/quorate/test/stores"
)

// migration are the commands of docs/migration.md that this test carries out: what is common, of etcd, and of Redis.
func migration(t *testing.T) (common, etcd, redis string) {
	t.Helper()
	page, err := docs.Read("../..", "docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, s := range page.Steps {
		if s.Verb == docs.Skip && strings.HasPrefix(s.Argument, "TestForeignDataBecomesABackup ") {
			blocks = append(blocks, s.Text)
		}
	}
	if len(blocks) != 3 {
		t.Fatalf("the page has %d blocks for this test", len(blocks))
	}
	return blocks[0], blocks[1], blocks[2]
}

// imported carries commands out in a directory of their own, and returns it as a place of backups.
func imported(t *testing.T, programs, old, script string) (url, dir string) {
	t.Helper()
	dir = t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "OLD="+old, "PATH="+programs+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return "file://" + dir, dir
}

func TestForeignDataBecomesABackup(t *testing.T) {
	common, ofEtcd, ofRedis := migration(t)
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		foreignEtcd(t, common+ofEtcd)
	})
	for from, into := range map[string][]string{
		"redis-7.0": {"redis-7.0", "valkey-8.1"}, "redis-8.0": {"redis-8.0"}, "valkey-8.1": {"redis-8.0", "valkey-9.1"}, "valkey-9.1": {"valkey-9.1"},
	} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			script := ofRedis
			if strings.HasPrefix(from, "valkey") {
				script = strings.NewReplacer("redis-cli", "valkey-cli", "redis-check-rdb", "valkey-check-rdb", "engine=redis", "engine=valkey").Replace(script)
			}
			foreignRedis(t, from, into, common+script)
		})
	}
}

func foreignEtcd(t *testing.T, script string) {
	t.Helper()
	endpoint, c := startEtcdOf(t, "etcd-3.5")
	var revision int64
	for i := range 200 {
		r, err := c.Put(t.Context(), "key-"+strconv.Itoa(i), strings.Repeat("v", 100))
		if err != nil {
			t.Fatal(err)
		}
		revision = r.Header.Revision
	}
	url, dir := imported(t, stores.Newest(t, "etcd-3.5").Dir, endpoint, script)
	for _, arg := range []string{"", "--directory=imported"} {
		args := []string{"--url=" + url, "--kind=EtcdCluster"}
		if arg != "" {
			args = append(args, arg)
		}
		if r, err := runJob(t, runBackupFind, args...); err != nil || r.Backup == nil || r.Backup.Directory != "imported" || r.Backup.Revision != revision || r.Target != 0 {
			t.Fatalf("%v, %+v", err, r)
		}
	}
	checked, err := runJob(t, runBackupCheck, "--url="+url, "--directory=imported", "--scratch-dir="+t.TempDir())
	if err != nil || checked.Checked == nil || checked.Checked.Keys != 201 || checked.Checked.Revision != revision {
		t.Errorf("%v, %+v", err, checked)
	}
	snapshot := filepath.Join(dir, "snapshot.db")
	for _, version := range []string{"3.5", "3.6"} {
		startsOn(t, "etcd-"+version, snapshot)
	}
}

// startsOn restores a snapshot as a member does, and reads a key from an etcd that runs on it.
func startsOn(t *testing.T, server, snapshot string) {
	t.Helper()
	f, err := os.Open(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	data := filepath.Join(t.TempDir(), "data")
	member := etcdrestore.Member{Name: "default", Cluster: map[string][]string{"default": {"http://127.0.0.1:1"}}, Token: "new"}
	if _, err := etcdrestore.Restore(t.Context(), etcdrestore.Options{Dir: data, Snapshot: f, Member: member, SnapshotVersion: "3.5.0", Version: strings.TrimPrefix(server, "etcd-") + ".20"}); err != nil {
		t.Fatal(err)
	}
	_, c := etcdOn(t, server, data)
	if r, err := c.Get(t.Context(), "key-", clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil || r.Count != 200 {
		t.Errorf("%s serves %+v, %v", server, r, err)
	}
}

func foreignRedis(t *testing.T, from string, into []string, script string) {
	t.Helper()
	old := startRedis(t, from)
	fillShards(t, []*redisProcess{old}, "cart:", 500)
	for i := range 50 {
		if err := old.HSet(t.Context(), "hash:"+strconv.Itoa(i), "field", i).Err(); err != nil {
			t.Fatal(err)
		}
		if err := old.Set(t.Context(), "soon:"+strconv.Itoa(i), i, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := digestOf(t, old)
	url, _ := imported(t, stores.Newest(t, from).Dir, "redis://default:"+serverPasswords[acl.PasswordDefault]+"@"+old.addr, script)
	checked, err := runJob(t, runBackupCheck, "--url="+url, "--directory=imported", "--scratch-dir="+t.TempDir())
	if err != nil || checked.Checked == nil || checked.Checked.Keys != 600 {
		t.Errorf("%v, %+v", err, checked)
	}
	for _, engine := range into {
		name, version, _ := strings.Cut(engine, "-")
		r, err := runJob(t, runBackupFind, "--url="+url, "--kind=RedisCluster", "--engine="+name, "--version="+version+".0")
		if err != nil {
			t.Fatal(err)
		}
		nodes := startShards(t, engine)
		loaded, err := runJob(t, runRestoreRedis, append(servers(t, nodes...), "--url="+url, "--directory="+r.Backup.Directory)...)
		if err != nil || loaded.Restored.Keys != 600 {
			t.Fatalf("%v, %+v", err, loaded.Restored)
		}
		if got := digestOf(t, nodes...); got != want {
			t.Errorf("%s holds %s, and %s %s", engine, got, from, want)
		}
	}
}
