package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/etcdrestore"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
)

const (
	// checkMember is the name of the member that a check makes, checkPeer what its data has as its address: nobody connects to it.
	checkMember = "throw-away"
	checkPeer   = "http://localhost:2380"
	// checkQuota in bytes is more than a database can have: nothing is written, and an alarm would be about the data.
	checkQuota = 1 << 40
	etcdSocket = "client.sock"
)

// etcd makes the data directory of a member, with what was recorded since. Every page and every key of it is read; then a server is
// started on it.
func (c *checkBackup) etcd(ctx context.Context, m backup.Manifest) (job.Checked, error) {
	names, _, err := c.segments(ctx, m.Etcd.Timeline)
	if err != nil {
		return job.Checked{}, err
	}
	upto := etcdhistory.Latest(names, m.Etcd.Revision)
	if upto <= m.Etcd.Revision {
		upto = 0
	}
	member := etcdCheck{dir: filepath.Join(c.scratch, checkMember), password: rand.Text()}
	member.restored, err = c.restoreEtcd(ctx, etcdTarget{directory: c.directory, upto: upto}, etcdrestore.Options{
		Dir: member.dir, RootPassword: member.password,
		Member: etcdrestore.Member{Name: checkMember, Cluster: map[string][]string{checkMember: {checkPeer}}, Token: checkMember},
	})
	if err != nil {
		return job.Checked{}, err
	}
	r := member.restored
	if r.Revision < m.Etcd.Revision {
		return job.Checked{}, fmt.Errorf("%w: it ends at revision %d, and its manifest promises %d", backup.ErrDamaged, r.Revision, m.Etcd.Revision)
	}
	checked := job.Checked{Keys: r.State.Keys, Revision: r.Revision}
	if !c.withServer {
		return checked, nil
	}
	c.say("starting a member on revision %d", r.Revision)
	checked.Server, err = member.run(ctx, m.Engine)
	return checked, err
}

// etcdCheck is a member on restored data.
type etcdCheck struct {
	dir, password string
	restored      etcdrestore.Result
}

// run starts it, and compares what it serves with what was restored. It returns the version of the server.
func (e etcdCheck) run(ctx context.Context, engine string) (server string, err error) {
	hash, compacted, err := etcdrestore.HashKV(ctx, filepath.Join(e.dir, "member", "snap", "db"), e.restored.Revision)
	hashed := err == nil
	if err != nil && !errors.Is(err, etcdrestore.ErrNotComparable) {
		return "", fmt.Errorf("compute the hash of what was restored: %w", err)
	}
	dir := e.dir + ".run"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the directory of the sockets: %w", err)
	}
	endpoint := "unix://" + filepath.Join(dir, etcdSocket)
	login := func(ctx context.Context) (*clientv3.Client, error) {
		return etcdclient.NewBounded(clientv3.Config{
			Endpoints: []string{endpoint}, Username: "root", Password: e.password, DialTimeout: askLimit, Context: ctx, Logger: zap.NewNop(),
		})
	}
	serves := func(ctx context.Context) error {
		client, err := login(ctx)
		if err != nil {
			return fmt.Errorf("log in to the member: %w", err)
		}
		defer func() { _ = client.Close() }() // It only asked.
		status, err := client.Status(ctx, endpoint)
		if err != nil {
			return fmt.Errorf("ask the member for its status: %w", err)
		}
		if status.Leader == 0 {
			return errors.New("the member has no leader")
		}
		server = engine + " " + status.Version
		return nil
	}
	err = throwAway{program: programs[engine], dir: dir, args: e.flags()}.run(ctx, serves, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, tellLimit, fmt.Errorf("it did not answer within %s", tellLimit))
		defer cancel()
		client, err := login(ctx)
		if err != nil {
			return fmt.Errorf("log in to the member: %w", err)
		}
		defer func() { _ = client.Close() }() // It only asked.
		if err := e.compare(ctx, client); err != nil || !hashed {
			return err
		}
		return e.compareHash(ctx, client, endpoint, hash, compacted)
	})
	return server, err
}

// flags of a member that nobody else reaches. What it was told of its cluster is in its data.
func (e etcdCheck) flags() []string {
	return []string{
		"--name=" + checkMember, "--data-dir=" + e.dir, "--log-level=warn", "--enable-grpc-gateway=false", fmt.Sprintf("--quota-backend-bytes=%d", int64(checkQuota)),
		"--listen-client-urls=unix://" + etcdSocket, "--advertise-client-urls=http://localhost:2379",
		"--listen-peer-urls=unix://peer.sock", "--initial-advertise-peer-urls=" + checkPeer, "--initial-cluster=" + checkMember + "=" + checkPeer,
	}
}

// compare looks at the revision, the number of keys and the alarms. Leases go on: what they take away later is not counted.
func (e etcdCheck) compare(ctx context.Context, client *clientv3.Client) error {
	r, err := client.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly(), clientv3.WithRev(e.restored.Revision))
	if err != nil {
		return fmt.Errorf("count the keys at revision %d: %w", e.restored.Revision, err)
	}
	if r.Count != e.restored.State.Keys {
		return fmt.Errorf("%w: a member serves %d keys at revision %d, and %d were restored", backup.ErrDamaged, r.Count, e.restored.Revision, e.restored.State.Keys)
	}
	alarms, err := client.AlarmList(ctx)
	if err != nil {
		return fmt.Errorf("ask for alarms: %w", err)
	}
	for _, a := range alarms.Alarms {
		return fmt.Errorf("%w: a member raises the alarm %s", backup.ErrDamaged, a.Alarm)
	}
	return nil
}

// compareHash compares the hash of the whole history. Those of different compactions say nothing.
func (e etcdCheck) compareHash(ctx context.Context, client *clientv3.Client, endpoint string, want uint32, compacted int64) error {
	r, err := client.HashKV(ctx, endpoint, e.restored.Revision)
	if err != nil {
		return fmt.Errorf("ask for the hash at revision %d: %w", e.restored.Revision, err)
	}
	if max(r.CompactRevision, 0) == max(compacted, 0) && r.Hash != want {
		return fmt.Errorf("%w: a member has the hash %08x at revision %d, and %08x was restored", backup.ErrDamaged, r.Hash, e.restored.Revision, want)
	}
	return nil
}
