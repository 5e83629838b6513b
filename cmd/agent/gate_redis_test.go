package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/gate"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// redisPod is the file system of a Redis pod, with the gate in it.
func redisPod(t *testing.T) redisGate {
	t.Helper()
	dir := t.TempDir()
	g := redisGate{
		engine: "redis", version: "8.0.2", domain: "carts-peers.shop.svc.cluster.local", needPassword: true,
		podName: "carts-0-0", podIP: "10.0.0.2", now: time.Now,
		configDir: filepath.Join(dir, "config"), authDir: filepath.Join(dir, "auth"), dataDir: filepath.Join(dir, "data"), runDir: filepath.Join(dir, "run"),
		lastWords: filepath.Join(dir, "termination-log"),
	}
	write(t, filepath.Join(g.configDir, config.ConfigKey), "appendonly yes\n")
	for _, key := range acl.PasswordKeys {
		write(t, filepath.Join(g.authDir, key), "secret-"+key)
	}
	for _, d := range []string{g.dataDir, g.runDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const ownsSlots = "0123456789 10.0.0.1:6379@16379 myself,master - 0 0 3 connected 0-5460\n"

func TestRedisGateWritesPrivateFiles(t *testing.T) {
	g := redisPod(t)
	if message, err := g.run(); err != nil || message != "" {
		t.Fatalf("%q, %v", message, err)
	}
	for name, wants := range map[string][]string{
		config.ConfigKey: {"appendonly yes\n", "cluster-announce-ip 10.0.0.2\n", "cluster-announce-hostname carts-0-0.carts-peers.shop.svc.cluster.local\n", "masterauth " + acl.ShardPassword("secret-replication", "carts-0-1") + "\n"},
		config.UsersFile: {"user default on resetpass #", "user quorate on resetpass #", "user replication off resetpass #", "user migration on resetpass #"},
	} {
		path := filepath.Join(g.runDir, name)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(raw), want) {
				t.Errorf("%s has no %q:\n%s", name, want, raw)
			}
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
}

// TestRedisGatePassesOnWhereThePodIsReached: a server of the mode Replicated is told nothing of it, since its replicas are found by
// their addresses.
func TestRedisGatePassesOnWhereThePodIsReached(t *testing.T) {
	for name, tc := range map[string]struct {
		replicated       bool
		text             string
		wants, unwanteds []string
	}{
		"a node port": {
			text: `{"carts-0-0":{"host":"redis.example.com","ip":"10.96.0.1","tlsPort":31000},"carts-0-1":{"host":"another"}}`,
			wants: []string{
				"cluster-announce-hostname redis.example.com\n", "cluster-announce-ip 10.96.0.1\n", "cluster-announce-tls-port 31000\n",
				"cluster-preferred-endpoint-type hostname\n", "replica-announce-ip carts-0-0.carts-peers.shop.svc.cluster.local\n",
			}, unwanteds: []string{"another"},
		},
		"that of another pod": {
			text: `{"carts-0-1":{"host":"another"}}`, wants: []string{"cluster-announce-ip 10.0.0.2\n", "cluster-announce-tls-port 0\n"}, unwanteds: []string{"another", "preferred"},
		},
		"one primary": {replicated: true, text: `{}`, wants: []string{"masterauth secret-replication\n", "cluster-announce-hostname carts-0-0.carts-peers"}, unwanteds: []string{"replica-announce-ip"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := redisPod(t)
			g.replicated = tc.replicated
			write(t, filepath.Join(g.configDir, config.AnnounceKey), tc.text)
			if message, err := g.run(); err != nil {
				t.Fatalf("%q, %v", message, err)
			}
			raw, err := os.ReadFile(filepath.Join(g.runDir, config.ConfigKey))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.wants {
				if !strings.Contains(string(raw), want) {
					t.Errorf("no %q in:\n%s", want, raw)
				}
			}
			for _, no := range tc.unwanteds {
				if strings.Contains(string(raw), no) {
					t.Errorf("%q in:\n%s", no, raw)
				}
			}
		})
	}
	g := redisPod(t)
	write(t, filepath.Join(g.configDir, config.AnnounceKey), "{")
	if _, err := g.run(); err == nil {
		t.Error("what cannot be read is passed over")
	}
}

func TestRedisGateRetiresAnEmptyPrimary(t *testing.T) {
	g := redisPod(t)
	write(t, filepath.Join(g.dataDir, model.NodesFile), ownsSlots)
	message, err := g.run()
	if err != nil || !strings.Contains(message, "its data is gone") {
		t.Fatalf("%q, %v", message, err)
	}
	if _, err := os.Stat(filepath.Join(g.dataDir, model.NodesFile)); err == nil {
		t.Error("the old identity is still in place")
	}
	if aside, _ := filepath.Glob(filepath.Join(g.dataDir, model.NodesFile+".retired-*")); len(aside) != 1 {
		t.Errorf("set aside: %v", aside)
	}
}

func TestRedisGateStartsAPrimaryWithItsData(t *testing.T) {
	g := redisPod(t)
	write(t, filepath.Join(g.dataDir, model.NodesFile), ownsSlots)
	write(t, filepath.Join(g.dataDir, model.AppendDir, "appendonly.aof.manifest"), "file appendonly.aof.1.base.rdb seq 1 type b\n")
	if message, err := g.run(); err != nil || message != "" {
		t.Fatalf("%q, %v", message, err)
	}
	if _, err := os.Stat(filepath.Join(g.dataDir, model.NodesFile)); err != nil {
		t.Error(err)
	}
	users, err := os.ReadFile(filepath.Join(g.runDir, config.UsersFile))
	if err != nil || !strings.Contains(string(users), "user replication on resetpass #") {
		t.Errorf("its replicas are not let in: %v\n%s", err, users)
	}
}

func TestRedisGateHolds(t *testing.T) {
	tests := map[string]struct {
		spoil func(t *testing.T, g *redisGate)
		want  string
	}{
		"a server whose password is missing": {func(t *testing.T, g *redisGate) {
			t.Helper()
			if err := os.Remove(filepath.Join(g.authDir, acl.PasswordOperator)); err != nil {
				t.Fatal(err)
			}
		}, "no password under the key \"operator\""},
		"a pod without an address": {func(_ *testing.T, g *redisGate) { g.podIP = "" }, "POD_IP"},
		"a manifest without the identity": {func(t *testing.T, g *redisGate) {
			t.Helper()
			write(t, filepath.Join(g.dataDir, model.AppendDir, "appendonly.aof.manifest"), "file x\n")
		}, "held back"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := redisPod(t)
			tc.spoil(t, &g)
			_, err := g.run()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
			if _, err := os.Stat(filepath.Join(g.runDir, config.ConfigKey)); err == nil {
				t.Error("the configuration was written all the same")
			}
		})
	}
}

// TestRedisGateSetsAsideWhatTheServerCannotRead: a replica whose upgrade was set back.
func TestRedisGateSetsAsideWhatTheServerCannotRead(t *testing.T) {
	g := redisPod(t)
	files := filepath.Join(g.dataDir, model.AppendDir)
	for range 2 { // The second time something has been set aside before.
		write(t, filepath.Join(g.dataDir, model.NodesFile), strings.Replace(ownsSlots, "master - 0 0 3 connected 0-5460", "slave ab 0 0 3 connected", 1))
		write(t, filepath.Join(files, "appendonly.aof.manifest"), "file appendonly.aof.1.base.rdb seq 1 type b\n")
		write(t, filepath.Join(files, "appendonly.aof.1.base.rdb"), "REDIS0012\xfa\x09redis-ver\x058.2.1\xff")
		message, err := g.run()
		if err != nil || !strings.Contains(message, "written by version 8.2.1, which 8.0.2 cannot read") {
			t.Fatalf("%q, %v", message, err)
		}
		if _, err := os.Stat(files); err == nil {
			t.Error("the files are still in place")
		}
		if _, err := os.Stat(filepath.Join(files+".set-aside", "appendonly.aof.1.base.rdb")); err != nil {
			t.Error(err)
		}
	}
}

func TestRedisGateComparesVersionsWithinOneEngine(t *testing.T) {
	t.Parallel()
	const magicValkey9, magic11 = "VALKEY080", "REDIS0011"
	for name, tc := range map[string]struct {
		engine, version, base string
		want                  string
	}{
		"Redis over Valkey 9":               {"redis", "8.0.2", magicValkey9 + "\xfa\x0avalkey-ver\x059.1.2\xff", "written by valkey 9.1.2, which redis 8.0.2 cannot read"},
		"Redis of a high version over it":   {"redis", "9.9.9", magicValkey9 + "\xfa\x0avalkey-ver\x059.1.2\xff", "cannot read"},
		"Redis over Valkey 8":               {"redis", "8.0.2", magic11 + "\xfa\x0avalkey-ver\x058.1.1\xff", ""},
		"Valkey over Redis 7.2":             {"valkey", "8.1.1", magic11 + "\xfa\x09redis-ver\x057.2.4\xff", ""},
		"Valkey 9 over Redis 7.4":           {"valkey", "9.1.2", "REDIS0012\xfa\x09redis-ver\x057.4.1\xff", "written by redis 7.4.1, which valkey 9.1.2 cannot read"},
		"Valkey over a later Valkey":        {"valkey", "8.1.1", magicValkey9 + "\xfa\x0avalkey-ver\x059.1.2\xff", "set spec.version to 9.1.2 or later"},
		"a base that does not tell its age": {"valkey", "8.1.1", magicValkey9 + "\xff", ""},
	} {
		for _, replicated := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, replicated %t", name, replicated), func(t *testing.T) {
				t.Parallel()
				g := redisPod(t)
				g.engine, g.version, g.replicated = tc.engine, tc.version, replicated
				write(t, filepath.Join(g.dataDir, model.NodesFile), ownsSlots)
				write(t, filepath.Join(g.dataDir, model.AppendDir, "appendonly.aof.manifest"), "file appendonly.aof.1.base.rdb seq 1 type b\n")
				write(t, filepath.Join(g.dataDir, model.AppendDir, "appendonly.aof.1.base.rdb"), tc.base)
				_, err := g.run()
				if (err != nil) != (tc.want != "") || (err != nil && !strings.Contains(err.Error(), gate.HeldBack)) || (err != nil && !strings.Contains(err.Error(), tc.want)) {
					t.Errorf("error %v, want %q", err, tc.want)
				}
			})
		}
	}
}
