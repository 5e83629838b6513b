package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/redisdump"
)

// checkBackup restores a backup into servers that are thrown away.
type checkBackup struct {
	backupJob
	scratch    string
	withServer bool
}

// programs are the servers, by engine.
var programs = map[string]string{"etcd": "etcd", redisdump.EngineRedis: "redis-server", redisdump.EngineValkey: "valkey-server"}

// runBackupCheck proves that a backup can be restored, by doing it.
func runBackupCheck(ctx context.Context, args []string) error {
	c := &checkBackup{}
	fs := flag.NewFlagSet("backup check", flag.ContinueOnError)
	c.flags(fs)
	fs.StringVar(&c.scratch, "scratch-dir", job.ScratchDir, "directory with room for the data")
	fs.BoolVar(&c.withServer, "with-server", false, "start the server of the data on what was restored, a program of this image")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return c.run(ctx, c.check)
}

// checks restore a backup, by what it is of.
var checks = map[string]func(c *checkBackup, ctx context.Context, m backup.Manifest) (job.Checked, error){
	string(v1alpha1.KindEtcdCluster):  (*checkBackup).etcd,
	string(v1alpha1.KindRedisCluster): (*checkBackup).redis,
}

func (c *checkBackup) check(ctx context.Context) (job.Report, error) {
	m, err := c.store.ReadManifest(ctx, c.directory, c.keys)
	if err != nil {
		return job.Report{}, fmt.Errorf("backup %s: %w", c.directory, err)
	}
	check, ok := checks[m.Kind]
	if !ok {
		return job.Report{}, finalError{fmt.Errorf("backup %s is of a %s, which cannot be checked", c.directory, m.Kind)}
	}
	began := time.Now()
	checked, err := check(c, ctx, m)
	if err != nil {
		return job.Report{}, err
	}
	checked.Time, checked.Took = time.Now().UTC(), time.Since(began)
	c.say("restored %d keys within %s", checked.Keys, checked.Took.Round(time.Millisecond))
	return job.Report{Backup: stored(c.directory, m), Checked: &checked}, nil
}
