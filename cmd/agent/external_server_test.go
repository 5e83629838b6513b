package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
	"github.com/quorate/quorate/test/loopback"
)

// migrator may do what docs/migration.md says that it takes, and nothing else.
var migrator = []any{
	"ACL", "SETUSER", "migrator", "on", ">hunter2", "-@all", "+psync", "+replconf", "+ping", "+info", "+acl|list", "+cluster|myid", "+cluster|nodes",
	"+cluster|info",
}

// secretOf is a Secret as a pod sees it.
func secretOf(t *testing.T, values map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, value := range values {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// moves backs servers up that are none of the operator's, and loads that into others.
func moves(t *testing.T, engine, secret string, endpoints []string, into ...*redisProcess) {
	t.Helper()
	url, s := aStore(t)
	args := []string{"--url=" + url, "--directory=one", "--id=1", "--cluster=legacy", "--auth-dir=" + secret, "--tls-dir=" + secret}
	for _, e := range endpoints {
		args = append(args, "--external="+e)
	}
	if r, err := runJob(t, runBackupRedis, args...); err != nil {
		t.Fatalf("%v, %+v", err, r)
	}
	m, err := s.ReadManifest(t.Context(), "one", backup.Keys{})
	if err != nil || m.Engine+"-"+strings.Join(strings.Split(m.EngineVersion, ".")[:2], ".") != engine {
		t.Errorf("it is of %s %s, %v", m.Engine, m.EngineVersion, err)
	}
	restore := append([]string{"--url=" + url, "--directory=one"}, servers(t, into...)...)
	if r, err := runJob(t, runRestoreRedis, restore...); err != nil || r.Restored.Keys == 0 {
		t.Fatalf("%v, %+v", err, r.Restored)
	}
}

func TestAClusterOfSomebodyElseIsBackedUp(t *testing.T) {
	eachRedis(t, func(t *testing.T, engine string) {
		t.Helper()
		theirs, ours := startShards(t, engine), startShards(t, engine)
		for _, p := range theirs {
			if err := p.Do(t.Context(), migrator...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		fillShards(t, theirs, "key", 1000)
		want := digestOf(t, theirs...)
		secret := secretOf(t, map[string]string{"username": "migrator", "password": "hunter2\n"})
		moves(t, engine, secret, []string{"redis://127.0.0.1:1", "redis://" + theirs[1].addr}, ours...)
		if got := digestOf(t, ours...); got != want {
			t.Errorf("the servers hold %s, and those before %s", got, want)
		}
		theirs[2].kill()
		url, _ := aStore(t)
		r, err := runJob(t, runBackupRedis, "--url="+url, "--directory=one", "--id=1", "--auth-dir="+t.TempDir(), "--tls-dir="+t.TempDir(), "--external=redis://127.0.0.1:1")
		if err == nil || !strings.Contains(r.Problem.Message, "no server answers: 127.0.0.1:1: ") {
			t.Errorf("of nobody: %v, %+v", err, r.Problem)
		}
	})
}

func TestAServerOfSomebodyElseIsBackedUpOverTLS(t *testing.T) {
	ca, err := clustertls.NewCA("theirs", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := clustertls.Issue(ca, clustertls.Leaf{CommonName: "redis", DNSNames: []string{"localhost"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"ca.crt": string(ca.Cert), "tls.crt": string(leaf.Cert), "tls.key": string(leaf.Key), "password": "hunter2"}
	secret := secretOf(t, values)
	eachRedis(t, func(t *testing.T, engine string) {
		t.Helper()
		port := strconv.Itoa(loopback.Port(t))
		theirs := rdbServer(t, engine, shortDir(t), "--bind", "127.0.0.1", "--tls-port", port, "--tls-ca-cert-file", secret+"/ca.crt",
			"--tls-cert-file", secret+"/tls.crt", "--tls-key-file", secret+"/tls.key", "--tls-auth-clients", "yes")
		for i := range 500 {
			if err := theirs.Set(t.Context(), fmt.Sprint("key", i), i, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := theirs.ConfigSet(t.Context(), "requirepass", "hunter2").Err(); err != nil {
			t.Fatal(err)
		}
		ours := startShards(t, engine)
		moves(t, engine, secret, []string{"rediss://localhost:" + port}, ours...)
		keys := int64(0)
		for _, p := range ours {
			keys += p.DBSize(t.Context()).Val()
		}
		if keys != 500 {
			t.Errorf("%d of 500 keys have come", keys)
		}
	})
}

func TestAReplicaOfSomebodyElseIsCopiedInThePlaceOfItsPrimary(t *testing.T) {
	engine := "valkey-9.1"
	primary, replica := startRedis(t, engine), startRedis(t, engine)
	for _, p := range []*redisProcess{primary, replica} {
		if err := p.Do(t.Context(), migrator...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	fillShards(t, []*redisProcess{primary}, "key", 100)
	for name, value := range map[string]string{"masteruser": "migrator", "masterauth": "hunter2"} {
		if err := replica.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := replica.Do(t.Context(), "REPLICAOF", "127.0.0.1", primary.port).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "the replica follows", func() error {
		if info := replica.Info(t.Context(), "replication").Val(); !strings.Contains(info, "master_link_status:up") {
			return fmt.Errorf("%s", info)
		}
		return nil
	})
	url, s := aStore(t)
	secret := secretOf(t, map[string]string{"username": "migrator", "password": "hunter2"})
	if r, err := runJob(t, runBackupRedis, "--url="+url, "--directory=one", "--id=1", "--auth-dir="+secret, "--tls-dir="+t.TempDir(),
		"--external=redis://"+primary.addr, "--external=redis://"+replica.addr); err != nil {
		t.Fatalf("%v, %+v", err, r)
	}
	m, err := s.ReadManifest(t.Context(), "one", backup.Keys{})
	if err != nil || !m.Redis.Replicated || m.Redis.Shards[0].Keys != 100 {
		t.Fatalf("%+v, %v", m.Redis, err)
	}
	if syncs := info(t, primary.Client, "sync_full"); syncs != "1" {
		t.Errorf("the primary was copied %s times, once of them by its replica", syncs)
	}
}

// info is one field of what a server says of itself.
func info(t *testing.T, c *goredis.Client, field string) string {
	t.Helper()
	_, rest, _ := strings.Cut(c.Info(t.Context()).Val(), field+":")
	value, _, _ := strings.Cut(rest, "\r")
	return value
}

func TestTheServersOfAClusterAreFoundByWhatOneSays(t *testing.T) {
	peers, err := model.ParseNodes(strings.Join([]string{
		"aa 10.0.0.1:6379@16379,old-0.old.shop.svc myself,master - 0 0 2 connected 8192-16383",
		"bb 10.0.0.2:6379@16379 master - 0 0 1 connected 0-8191",
		"cc 10.0.0.3:6379@16379 slave bb 0 0 1 connected",
		"dd 10.0.0.4:6379@16379 slave,fail bb 0 0 1 disconnected",
		"ee 10.0.0.5:6379@16379 master - 0 0 3 connected",
		"ff :0@0 master,noaddr - 0 0 1 disconnected",
	}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := redisServers{}
	if err := s.follow("old.example.com", peers); err != nil {
		t.Fatal(err)
	}
	want := "[{1 10.0.0.1:6379 10.0.0.1:6379} {0 10.0.0.2:6379 10.0.0.2:6379} {0 10.0.0.3:6379 10.0.0.3:6379}]"
	if got := fmt.Sprint(s.servers); got != want {
		t.Errorf("the servers are %s, want %s", got, want)
	}
	if s.names["10.0.0.1:6379"] != "old-0.old.shop.svc" || s.names["10.0.0.2:6379"] != "old.example.com" {
		t.Errorf("their certificates are to be for %v", s.names)
	}
	if err := s.follow("old.example.com", nil); err == nil {
		t.Error("a cluster without servers can be backed up")
	}
}

func TestAMemberOfSomebodyElseIsBackedUp(t *testing.T) {
	member, c := startEtcd(t)
	for _, err := range []error{
		second(c.RoleAdd(t.Context(), "root")), second(c.UserAdd(t.Context(), "root", "secret")), second(c.UserGrantRole(t.Context(), "root", "root")),
		second(c.UserAdd(t.Context(), "backup", "hunter2")), second(c.UserGrantRole(t.Context(), "backup", "root")), second(c.AuthEnable(t.Context())),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	url, s := aStore(t)
	secret := secretOf(t, map[string]string{"username": "backup", "password": "hunter2\n"})
	if r, err := runJob(t, runBackupEtcd, "--url="+url, "--directory=one", "--id=1", "--cluster=legacy", "--member="+member, "--tls-dir="+secret,
		"--password-file="+secret+"/password", "--username-file="+secret+"/username"); err != nil {
		t.Fatalf("%v, %+v", err, r.Problem)
	}
	m, err := s.ReadManifest(t.Context(), "one", backup.Keys{})
	if err != nil || !strings.HasPrefix(m.EngineVersion, "3.6.") || m.Etcd.Timeline == "" || !strings.HasPrefix(m.Etcd.Member, "127.0.0.1:") {
		t.Errorf("%+v, %+v, %v", m, m.Etcd, err)
	}
}

func TestCertificatesAreWhatTheSecretHas(t *testing.T) {
	ca, err := clustertls.NewCA("theirs", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := clustertls.Issue(ca, clustertls.Leaf{CommonName: "client"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair := map[string]string{"tls.crt": string(leaf.Cert), "tls.key": string(leaf.Key)}
	for name, tc := range map[string]struct {
		files  map[string]string
		member string
		check  func(cfg *tls.Config) bool
	}{
		"nothing, in plain text":        {nil, "http://etcd:2379", func(c *tls.Config) bool { return c == nil }},
		"nothing":                       {nil, "https://etcd:2379", func(c *tls.Config) bool { return c != nil && c.RootCAs == nil }},
		"an authority":                  {map[string]string{"ca.crt": string(ca.Cert)}, "https://etcd:2379", func(c *tls.Config) bool { return c.RootCAs != nil && len(c.Certificates) == 0 }},
		"a certificate of a client":     {pair, "https://etcd:2379", func(c *tls.Config) bool { return c.RootCAs == nil && len(c.Certificates) == 1 }},
		"an authority that is no valid": {map[string]string{"ca.crt": "x"}, "https://etcd:2379", nil},
		"a certificate without its key": {map[string]string{"tls.crt": string(leaf.Cert), "tls.key": "x"}, "https://etcd:2379", nil},
	} {
		t.Run(name, func(t *testing.T) {
			with, err := etcdMembers{members: []string{tc.member}, tlsDir: secretOf(t, tc.files)}.credentials()
			if (err != nil) != (tc.check == nil) {
				t.Fatal(err)
			}
			if tc.check != nil && !tc.check(with.secure) {
				t.Errorf("%+v", with.secure)
			}
		})
	}
}
