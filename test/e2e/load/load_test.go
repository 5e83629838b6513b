package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/connection"
	"github.com/quorate/quorate/test/e2e/load/ledger"
	"github.com/quorate/quorate/test/e2e/load/updates"
	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/stores"
)

func TestSlotOfAgreesWithTheSpecification(t *testing.T) {
	for key, want := range map[string]int{
		"123456789": 0x31c3, "foo": 12182, "hash_tag": 2515, "x{hash_tag}y": 2515, "{}foo": slotOf("{}foo"),
	} {
		if got := slotOf(key); got != want {
			t.Errorf("slotOf(%q) = %d, want %d", key, got, want)
		}
	}
	if slotOf("{}foo") == slotOf("foo") {
		t.Error("empty braces are no tag")
	}
}

func TestEveryKeyBelongsToTheLaneOfItsShard(t *testing.T) {
	lanes := lanesOf([]redis.ClusterShard{
		{Slots: []redis.SlotRange{{Start: 8000, End: 16383}, {Start: 100, End: 200}}},
		{}, // A server that is not part of the cluster yet.
		{Slots: []redis.SlotRange{{Start: 0, End: 99}, {Start: 201, End: 7999}}},
	})
	if len(lanes) != 2 {
		t.Fatalf("%d lanes, want 2", len(lanes))
	}
	for i := range 1000 {
		key := fmt.Sprintf("key-%d", i)
		slot := slotOf(key)
		wantB := slot >= 8000 || (slot >= 100 && slot <= 200)
		if lanes[1].owns(key) != wantB || lanes[0].owns(key) == wantB {
			t.Errorf("slot %d is in the wrong lane", slot)
		}
	}
}

func TestUnusableFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{nil, {"mongo"}, {"etcd", "-rate=0"}, {"redis", "-in-flight=-1"}, {"redis", "-watch"}, {"etcd", "-wait=1"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("parse(%q) accepts it", args)
		}
	}
}

// A key that is deleted behind the back of the load stands for a write that the data store lost.
func TestALostWriteOfEtcdIsFound(t *testing.T) {
	port := strconv.Itoa(loopback.Port(t))
	url := startEtcd(t, port)
	summary := loadAndLose(t, "etcd", port, func(ctx context.Context) error {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, DialTimeout: 10 * time.Second})
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_, err = c.Delete(ctx, "load/run/etcd/00000000")
		return err
	}, "-watch")
	if summary.Watch == nil || summary.Watch.Events < summary.Acked || summary.Watch.Duplicate != 1 || summary.Watch.Missing+summary.Watch.Unordered != 0 {
		t.Errorf("the watcher was told of a deletion, and of all else once: %+v", summary.Watch)
	}
	if summary.Lost != 1 || summary.LostKeys[0] != "load/run/etcd/00000000" || len(summary.ClusterIDs) != 1 {
		t.Errorf("summary %+v", summary)
	}
}

func TestAnEtcdThatKeepsItsPromisesIsFoundToDoSo(t *testing.T) {
	port := strconv.Itoa(loopback.Port(t))
	startEtcd(t, port)
	summary := loadAndLose(t, "etcd", port, func(ctx context.Context) error {
		<-time.After(3 * time.Second) // The clients of registers take their time.
		return ctx.Err()
	}, "-watch", "-look-back", "-registers=2", "-updates=3")
	if u := summary.Updates; u == nil || u.Acked == 0 || u.Wrong > 0 || summary.Returned > 0 {
		t.Errorf("%d returned, updates %+v", summary.Returned, u)
	}
	if r := summary.Registers; summary.Lost > 0 || summary.Watch == nil || summary.Watch.Broken() || r == nil || r.Operations == 0 || r.Result != "Ok" {
		t.Errorf("%d lost, watcher %+v, registers %+v", summary.Lost, summary.Watch, summary.Registers)
	}
}

// A value that no client wrote stands for a register that went back.
func TestARegisterThatIsNotLinearizableIsFound(t *testing.T) {
	port := strconv.Itoa(loopback.Port(t))
	url := startEtcd(t, port)
	summary := loadAndLose(t, "etcd", port, func(ctx context.Context) error {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, DialTimeout: 10 * time.Second})
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		// A client reads after half a second, one time in three; until then the value comes again and again.
		for range 100 {
			if _, err := c.Put(ctx, "register/run/0", "of nobody"); err != nil {
				return err
			}
			<-time.After(100 * time.Millisecond)
		}
		return nil
	}, "-registers=1")
	if r := summary.Registers; r == nil || r.Result != "Illegal" {
		t.Errorf("registers %+v", r)
	}
}

func TestWritesThatNoReplicaHasAreNotAcknowledged(t *testing.T) {
	port := strconv.Itoa(loopback.ClusterPort(t))
	startRedis(t, "redis-7.0", port)
	dir := t.TempDir()
	secret(t, dir, port)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"redis", "-secret-dir", dir, "-listen", loopback.Address(t), "-wait=1", "-duration=3s"}, &out); err != nil {
		t.Fatal(err)
	}
	var s ledger.Summary
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if s.Acked != 0 || s.UnknownPresent == 0 || !strings.Contains(s.Misses.String(), errNotReplicated.Error()) || !s.Checked {
		t.Errorf("summary %+v", s)
	}
}

func TestALostWriteOfRedisIsFound(t *testing.T) {
	port := strconv.Itoa(loopback.ClusterPort(t))
	c := startRedis(t, "redis-7.0", port)
	summary := loadAndLose(t, "redis", port, func(ctx context.Context) error {
		return c.Del(ctx, "load/run/shard-0/00000000").Err()
	})
	if summary.Lost != 1 || len(summary.LostKeys) != 1 {
		t.Errorf("summary %+v", summary)
	}
}

func TestEtcdThatLosesUpdatesIsReported(t *testing.T) {
	port := strconv.Itoa(loopback.Port(t))
	startEtcd(t, port)
	s, err := openEtcd(t.Context(), connection.Connection{}, []string{"127.0.0.1:" + port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	reports(t, s.(rewriter))
}

func TestARedisThatLosesUpdatesIsReported(t *testing.T) {
	for _, version := range []string{"redis-7.0", "valkey-9.1"} {
		t.Run(version, func(t *testing.T) {
			port := strconv.Itoa(loopback.ClusterPort(t))
			startRedis(t, version, port)
			s, err := openRedis(t.Context(), connection.Connection{}, []string{"127.0.0.1:" + port}, options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.close)
			reports(t, s.(rewriter))
		})
	}
}

// A client that increments a counter of the load stands for an increment that was applied twice.
// A key that it removes and writes again stands for data that is gone for a while.
func TestUpdatesAndReturnsAreReportedByTheLoad(t *testing.T) {
	port := strconv.Itoa(loopback.ClusterPort(t))
	c := startRedis(t, "redis-7.0", port)
	const key = "load/run/shard-0/00000000"
	summary := loadAndLose(t, "redis", port, func(ctx context.Context) error {
		if err := c.Incr(ctx, "updates/run/2/0").Err(); err != nil {
			return err
		}
		value, err := c.Get(ctx, key).Result()
		// The load looks every second.
		for range 3 {
			err = errors.Join(err, c.Del(ctx, key).Err())
			<-time.After(1500 * time.Millisecond)
			err = errors.Join(err, c.Set(ctx, key, value, 0).Err())
			<-time.After(1500 * time.Millisecond)
		}
		return err
	}, "-look-back", "-updates=3")
	if summary.Lost != 0 || summary.Returned == 0 || summary.Returns[0].Key != key {
		t.Errorf("%d lost, returned: %+v", summary.Lost, summary.Returns)
	}
	u := summary.Updates
	if u == nil || u.Acked == 0 || u.Wrong != 1 || u.Faults[0].Kind != updates.AppliedTwice || u.Faults[0].Key != "updates/run/2/0" {
		t.Errorf("updates %+v", u)
	}
}

// startEtcd runs a member that is a cluster by itself, and returns its URL.
func startEtcd(t *testing.T, port string) string {
	t.Helper()
	url := "http://127.0.0.1:" + port
	start(t, "etcd-3.6", "--data-dir", t.TempDir(), "--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", "http://"+loopback.Address(t), "--log-level", "error")
	return url
}

// startRedis runs a server that is a cluster by itself.
func startRedis(t *testing.T, version, port string) *redis.Client {
	t.Helper()
	start(t, version, "--port", port, "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--dir", t.TempDir(), "--save", "")
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	t.Cleanup(func() { _ = c.Close() })
	if err := c.ClusterAddSlotsRange(t.Context(), 0, slotCount-1).Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		info, err := c.ClusterInfo(t.Context()).Result()
		if err == nil && strings.Contains(info, "cluster_state:ok") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not become a cluster: %q, %v", info, err)
		}
		<-time.After(20 * time.Millisecond)
	}
	return c
}

// secret writes a connection Secret.
func secret(t *testing.T, dir, port string) {
	t.Helper()
	for key, value := range map[string]string{"host": "127.0.0.1", "port": port} {
		if err := os.WriteFile(filepath.Join(dir, key), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// loadAndLose runs a load for a while, lets lose destroy something, stops the load and returns its summary.
func loadAndLose(t *testing.T, mode, port string, lose func(context.Context) error, flags ...string) ledger.Summary {
	t.Helper()
	dir := t.TempDir()
	secret(t, dir, port)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	lost := make(chan error, 1)
	var out bytes.Buffer
	listen := loopback.Address(t)
	go func() {
		progress := "http://" + listen + "/progress"
		err := errors.Join(waitForAcks(ctx, progress, 20), lose(ctx))
		s, failed := progressOf(ctx, progress)
		// What is written after it has its watcher hear of it as well.
		lost <- errors.Join(err, failed, waitForAcks(ctx, progress, s.Acked+20))
		stop()
	}()
	err := run(ctx, append([]string{mode, "-secret-dir", dir, "-run", "run", "-listen", listen}, flags...), &out)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-lost; err != nil {
		t.Fatal(err)
	}
	var s ledger.Summary
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatalf("read %q: %v", out.String(), err)
	}
	t.Log(s)
	if !s.Checked || s.Acked < 10 || s.Written != s.Acked+s.Failed+s.Unknown || s.OutOfOrder != 0 || s.Stale != 0 {
		t.Errorf("summary %+v", s)
	}
	return s
}

func waitForAcks(ctx context.Context, url string, n int) error {
	for ctx.Err() == nil {
		s, err := progressOf(ctx, url)
		if err == nil && s.Acked >= n {
			return nil
		}
		<-time.After(20 * time.Millisecond)
	}
	return ctx.Err()
}

func progressOf(ctx context.Context, url string) (s ledger.Summary, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return s, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err
	}
	defer func() { _ = answer.Body.Close() }()
	return s, json.NewDecoder(answer.Body).Decode(&s)
}

// start runs a data store's program and waits until it listens.
func start(t *testing.T, version string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), stores.Newest(t, version).Program(), args...)
	cmd.Dir = t.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	waitForPort(t, portIn(args))
}

// portIn finds the port that clients use among the arguments of a data store.
func portIn(args []string) string {
	for i, a := range args[:len(args)-1] {
		switch a {
		case "--port":
			return args[i+1]
		case "--listen-client-urls":
			return args[i+1][strings.LastIndex(args[i+1], ":")+1:]
		}
	}
	return ""
}

func waitForPort(t *testing.T, port string) {
	t.Helper()
	var d net.Dialer
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		conn, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
		if err == nil {
			_ = conn.Close()
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatalf("nothing listens on port %s", port)
}
