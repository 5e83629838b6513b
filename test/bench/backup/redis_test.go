package backup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/stores"
)

// BenchmarkRedis stores the data of a replica in a directory and in a bucket, and loads it into an empty server, next to redis-cli --rdb.
func BenchmarkRedis(b *testing.B) {
	found := stores.Newest(b, "redis-8.0")
	server, cli := found.Program(), found.Tool("redis-cli")
	program := agent(b)
	auth := writePasswords(b)
	primary := startRedis(b, server, "")
	replica := startRedis(b, server, primary)
	client := redisClient(b, primary)
	fillRedis(b, client)
	awaitReplica(b, redisClient(b, replica))
	header("Redis 8.0")
	writers := &clients{}
	writers.start(b.Context(), func(ctx context.Context, i int) error { return client.Set(ctx, "client", i, 0).Err() })
	bucket, credentials := startS3(b)
	_, port, _ := strings.Cut(replica, ":")
	t := newTable(b, "BackupRedis")
	backup, restore := fmt.Sprintf("a backup of Redis 8.0 with %d MiB", *mib), fmt.Sprintf("a restore of Redis 8.0 with %d MiB", *mib)
	var quiet []run
	for round := range *rounds {
		dir, remove := scratch(b)
		directory := "file://" + filepath.Join(dir, "backups")
		writers.reset()
		time.Sleep(3 * time.Second)
		quiet = append(quiet, run{took: time.Second, latency: writers.reset()})
		t.add(backup, "redis-cli --rdb", measure(b, writers, cli, "-h", "127.0.0.1", "-p", port, "--rdb", filepath.Join(dir, "dump.rdb")))
		name := fmt.Sprintf("carts-%d", round)
		// The two servers need different names, and these are names of one address.
		servers := []string{"--auth-dir=" + auth, "--tls-dir=" + auth, "--replicated", "--server=0/127.0.0.1:" + portOf(primary), "--server=0/localhost:" + port}
		take := append([]string{"backup", "redis", "--engine=redis", "--version=8.0.2", "--id=" + name, "--namespace=bench", "--cluster=carts"}, servers...)
		t.add(backup, "to a directory", measure(b, writers, program, append(take, agentArgs(b, directory, name)...)...))
		t.add(backup, "to S3", measure(b, writers, program, append(append(take, agentArgs(b, bucket, name)...), "--credentials-dir="+credentials)...))
		empty := startRedis(b, server, "")
		t.add(restore, "into one server", measure(b, writers, program, append([]string{
			"restore", "redis", "--auth-dir=" + auth, "--tls-dir=" + auth, "--replicated", "--server=0/" + empty,
		}, agentArgs(b, directory, name)...)...))
		if err := redisClient(b, empty).FlushAll(b.Context()).Err(); err != nil {
			b.Fatal(err)
		}
		remove()
	}
	fmt.Printf("FIGURE while nothing else goes on, clients of Redis waited %.1f ms (p99)\n", medianLatency(quiet))
	t.report()
}

func portOf(address string) string {
	_, port, _ := strings.Cut(address, ":")
	return port
}

func writePasswords(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	for _, name := range acl.PasswordKeys {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("bench-"+name), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

// startRedis starts a server with the users that the operator makes, a replica where there is a primary.
func startRedis(b *testing.B, binary, primary string) string {
	b.Helper()
	port := strconv.Itoa(loopback.Port(b))
	args := []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", "--dir", b.TempDir()}
	for name, rules := range map[string]string{
		acl.UserOperator: "+@all ~*", acl.UserReplication: "+ping +replconf +psync", acl.UserMigration: "+@all ~*",
	} {
		key := map[string]string{
			acl.UserOperator: acl.PasswordOperator, acl.UserReplication: acl.PasswordReplication, acl.UserMigration: acl.PasswordMigration,
		}[name]
		args = append(append(args, "--user", name, "on", ">bench-"+key), strings.Fields(rules)...)
	}
	if primary != "" {
		args = append(args, "--replicaof", "127.0.0.1", portOf(primary))
	}
	server := exec.CommandContext(b.Context(), binary, args...)
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	address := "127.0.0.1:" + port
	client := redisClient(b, address)
	for deadline := time.Now().Add(20 * time.Second); client.Ping(b.Context()).Err() != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatal("Redis did not start")
		}
	}
	return address
}

func redisClient(b *testing.B, address string) *goredis.Client {
	b.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: address, DisableIdentity: true})
	b.Cleanup(func() { _ = c.Close() })
	return c
}

func fillRedis(b *testing.B, client *goredis.Client) {
	b.Helper()
	noise := rand.NewChaCha8([32]byte{})
	const batch = 256
	for i := 0; i < keys(); i += batch {
		pipe := client.Pipeline()
		for j := i; j < min(i+batch, keys()); j++ {
			pipe.Set(b.Context(), key(j), value(noise), 0)
		}
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func awaitReplica(b *testing.B, replica *goredis.Client) {
	b.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		info, err := replica.Info(b.Context(), "replication").Result()
		n, _ := replica.DBSize(b.Context()).Result()
		if err == nil && strings.Contains(info, "master_link_status:up") && n >= int64(keys()) {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("the replica has %d keys: %s", n, info)
		}
	}
}
