package backup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/stores"
)

// BenchmarkEtcd stores a snapshot in a directory and in a bucket, and restores it, next to etcdctl and etcdutl.
func BenchmarkEtcd(b *testing.B) {
	found := stores.Newest(b, "etcd-3.6")
	etcd, ctl, utl := found.Program(), found.Tool("etcdctl"), found.Tool("etcdutl")
	program := agent(b)
	url, client := startEtcd(b, etcd)
	fillEtcd(b, client)
	header("etcd")
	writers := &clients{}
	writers.start(b.Context(), func(ctx context.Context, i int) error {
		_, err := client.Put(ctx, "client", fmt.Sprint(i))
		return err
	})
	bucket, credentials := startS3(b)
	t := newTable(b, "BackupEtcd")
	backup, restore := fmt.Sprintf("a backup of etcd with %d MiB", *mib), fmt.Sprintf("a restore of etcd with %d MiB", *mib)
	var quiet []run
	for round := range *rounds {
		dir, remove := scratch(b)
		directory := "file://" + filepath.Join(dir, "backups")
		writers.reset()
		time.Sleep(3 * time.Second)
		quiet = append(quiet, run{took: time.Second, latency: writers.reset()})
		file := filepath.Join(dir, "snapshot.db")
		t.add(backup, "etcdctl snapshot save", measure(b, writers, ctl, "--endpoints="+url, "snapshot", "save", file))
		name := fmt.Sprintf("orders-%d", round)
		take := []string{"backup", "etcd", "--member=" + url, "--version=3.6.16", "--id=" + name, "--namespace=bench", "--cluster=orders", "--timeline=1"}
		t.add(backup, "to a directory", measure(b, writers, program, append(take, agentArgs(b, directory, name)...)...))
		t.add(backup, "to S3", measure(b, writers, program, append(append(take, agentArgs(b, bucket, name)...), "--credentials-dir="+credentials)...))
		t.add(restore, "etcdutl snapshot restore", measure(b, writers, utl, "snapshot", "restore", file, "--data-dir="+filepath.Join(dir, "data")))
		t.add(restore, "with every key read", measure(b, writers, program, append([]string{"backup", "check", "--scratch-dir=" + dir}, agentArgs(b, directory, name)...)...))
		remove()
	}
	fmt.Printf("FIGURE while nothing else goes on, clients of etcd waited %.1f ms (p99)\n", medianLatency(quiet))
	t.report()
}

func medianLatency(runs []run) float64 {
	var p99 []float64
	for _, r := range runs {
		p99 = append(p99, r.latency.quantile(0.99))
	}
	return median(p99)
}

func startEtcd(b *testing.B, binary string) (url string, client *clientv3.Client) {
	b.Helper()
	url = "http://" + loopback.Address(b)
	peer := "http://" + loopback.Address(b)
	server := exec.CommandContext(b.Context(), binary, "--data-dir="+b.TempDir(), "--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer, "--quota-backend-bytes=17179869184", "--log-level=error")
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	return url, client
}

func fillEtcd(b *testing.B, client *clientv3.Client) {
	b.Helper()
	group, ctx := errgroup.WithContext(b.Context())
	const writers = 8
	for w := range writers {
		group.Go(func() error {
			noise := rand.NewChaCha8([32]byte{byte(w)})
			for i := w; i < keys(); i += writers {
				if _, err := client.Put(ctx, key(i), string(value(noise))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}
