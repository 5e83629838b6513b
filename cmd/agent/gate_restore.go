package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/etcdrestore"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// restore fills the data directory from the backup that the cluster begins with. It is all there afterwards, or nothing is.
func (g etcdGate) restore(ctx context.Context, record model.Record) error {
	from := record.Restore
	j := &backupJob{
		location: backup.Location{URL: job.AgentURL(from.Destination.URL)}, terminationLog: os.DevNull, flowAddress: g.flowAddress,
	}
	if from.Destination.Credentials != nil {
		j.location.Credentials = job.CredentialsDir
	}
	if from.Destination.Encryption != nil {
		j.keysDir = job.KeysDir
	}
	password, err := os.ReadFile(job.AccessAuthDir + "/password")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the password of root: %w", err)
	}
	members := map[string][]string{}
	for _, p := range record.Members {
		members[p.Name] = []string{p.URL}
	}
	err = j.run(ctx, func(ctx context.Context) (job.Report, error) {
		_, err := j.restoreEtcd(ctx, etcdTarget{directory: from.Directory, upto: from.Revision, exact: from.Exact}, etcdrestore.Options{
			Dir: g.dataDir, Version: g.version, Bump: from.Bump, RootPassword: string(password), WithoutAuthentication: g.withoutAuthentication,
			Member: etcdrestore.Member{Name: g.self, Cluster: members, Token: from.Token},
		})
		return job.Report{}, err
	})
	if err != nil {
		return g.giveUp(model.GateReport{Reason: model.GateRestore, Message: problemOf(err).Message})
	}
	return nil
}
