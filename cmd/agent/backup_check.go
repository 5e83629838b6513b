package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/etcdhistory"
	"github.com/quorate/quorate/internal/backup/etcdrestore"
	"github.com/quorate/quorate/internal/backup/plan"
	"github.com/quorate/quorate/internal/backup/redisdump"
)

// checkBackup restores a backup into a directory that is thrown away.
type checkBackup struct {
	backupJob
	scratch string
}

// runBackupCheck proves that a backup can be restored, by doing it.
func runBackupCheck(ctx context.Context, args []string) error {
	c := &checkBackup{}
	fs := flag.NewFlagSet("backup check", flag.ContinueOnError)
	c.flags(fs)
	fs.StringVar(&c.scratch, "scratch-dir", plan.ScratchDir, "directory with room for the data")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return c.run(ctx, c.check)
}

// checks restore a backup, by what it is of.
var checks = map[string]func(c *checkBackup, ctx context.Context, m backup.Manifest) (plan.Checked, error){
	string(v1alpha1.KindEtcdCluster):  (*checkBackup).etcd,
	string(v1alpha1.KindRedisCluster): (*checkBackup).redis,
}

func (c *checkBackup) check(ctx context.Context) (plan.Report, error) {
	m, err := c.store.ReadManifest(ctx, c.directory)
	if err != nil {
		return plan.Report{}, fmt.Errorf("backup %s: %w", c.directory, err)
	}
	check, ok := checks[m.Kind]
	if !ok {
		return plan.Report{}, finalError{fmt.Errorf("backup %s is of a %s, which cannot be checked", c.directory, m.Kind)}
	}
	began := time.Now()
	checked, err := check(c, ctx, m)
	if err != nil {
		return plan.Report{}, err
	}
	checked.Time, checked.Took = time.Now().UTC(), time.Since(began)
	c.say("restored %d keys within %s", checked.Keys, checked.Took.Round(time.Millisecond))
	return plan.Report{Backup: stored(c.directory, m), Checked: &checked}, nil
}

// redis reads every key and value of every shard, and counts the keys of each slot.
func (c *checkBackup) redis(ctx context.Context, m backup.Manifest) (plan.Checked, error) {
	var checked plan.Checked
	for i, shard := range m.Redis.Shards {
		var s redisdump.Summary
		err := c.store.ReadPart(ctx, c.directory, m.Parts[i], c.keys, func(content io.Reader) (err error) {
			s, err = redisdump.Scan(content, func(redisdump.Entry) error { return nil })
			return err
		})
		if err != nil {
			return checked, fmt.Errorf("shard %d: %w", shard.Index, err)
		}
		if s.Keys != shard.Keys || (!m.Redis.Replicated && !slices.Equal(slotCounts(s.KeysPerSlot), shard.KeysPerSlot)) {
			return checked, fmt.Errorf("%w: shard %d has %d keys, and its manifest promises %d", backup.ErrDamaged, shard.Index, s.Keys, shard.Keys)
		}
		checked.Keys += s.Keys
	}
	return checked, nil
}

// etcd makes the data directory of a member, with what was recorded since. Every page and every key of it is read.
func (c *checkBackup) etcd(ctx context.Context, m backup.Manifest) (plan.Checked, error) {
	names, _, err := c.segments(ctx, m.Etcd.Timeline)
	if err != nil {
		return plan.Checked{}, err
	}
	upto := etcdhistory.Latest(names, m.Etcd.Revision)
	if upto <= m.Etcd.Revision {
		upto = 0
	}
	const name = "throw-away"
	r, err := c.restoreEtcd(ctx, etcdTarget{directory: c.directory, upto: upto}, etcdrestore.Options{
		Dir: filepath.Join(c.scratch, name),
		Member: etcdrestore.Member{
			Name: name, Cluster: map[string][]string{name: {"http://localhost:2380"}}, Token: name,
		},
	})
	if err != nil {
		return plan.Checked{}, err
	}
	if r.Revision < m.Etcd.Revision {
		return plan.Checked{}, fmt.Errorf("%w: it ends at revision %d, and its manifest promises %d", backup.ErrDamaged, r.Revision, m.Etcd.Revision)
	}
	return plan.Checked{Keys: r.State.Keys, Revision: r.Revision}, nil
}
