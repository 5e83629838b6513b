package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/etcdsnapshot"
	"github.com/quorate/quorate/internal/backup/job"
)

// partSnapshot is the part of a backup that holds the database of an etcd member, as it sends it.
const partSnapshot = "snapshot.db"

// identity says whose backup it is.
type identity struct{ id, namespace, cluster, version string }

func (i *identity) flags(fs *flag.FlagSet) {
	fs.StringVar(&i.id, "id", "", "what tells this backup from all others")
	fs.StringVar(&i.namespace, "namespace", "", "namespace of the cluster")
	fs.StringVar(&i.cluster, "cluster", "", "name of the cluster")
	fs.StringVar(&i.version, "version", "", "version of the data store; empty: what it says itself")
}

// etcdBackup takes a backup of an etcd cluster.
type etcdBackup struct {
	backupJob
	etcdMembers
	identity
	timeline string
}

// runBackupEtcd stores a snapshot of a healthy member, a follower where there is one.
func runBackupEtcd(ctx context.Context, args []string) error {
	b := &etcdBackup{}
	fs := flag.NewFlagSet("backup etcd", flag.ContinueOnError)
	b.backupJob.flags(fs)
	b.etcdMembers.flags(fs)
	b.identity.flags(fs)
	fs.StringVar(&b.timeline, "timeline", "", "what tells this history of revisions from others; empty: the ID of the cluster")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return b.run(ctx, b.take)
}

func (b *etcdBackup) take(ctx context.Context) (job.Report, error) {
	if done, err := b.earlier(ctx, b.id); done != nil || err != nil {
		return job.Report{Backup: done}, err
	}
	member, status, err := b.choose(ctx)
	if err != nil {
		return job.Report{}, err
	}
	defer func() { _ = member.Close() }()
	m := backup.Manifest{
		Format: backup.Format, ID: b.id, Kind: string(v1alpha1.KindEtcdCluster), Namespace: b.namespace, Cluster: b.cluster,
		Engine: v1alpha1.ComponentEtcd, EngineVersion: cmp.Or(b.version, status.Version), Started: time.Now().UTC(), Encrypted: len(b.keys.Recipients) > 0,
		Etcd: &backup.EtcdContent{Timeline: cmp.Or(b.timeline, strconv.FormatUint(status.Header.ClusterId, 16)), Revision: status.Header.Revision, Member: podOf(member.Endpoints()[0])},
	}
	b.total.Store(status.DbSize)
	b.say("storing a snapshot of %s", m.Etcd.Member)
	source := &datedSource{Client: member, content: m.Etcd}
	part, err := b.store.WritePart(ctx, b.directory, partSnapshot, b.keys, func(w io.Writer) error {
		_, err := etcdsnapshot.Stream(ctx, source, w)
		return err
	})
	if err != nil {
		return job.Report{}, fmt.Errorf("snapshot of %s: %w", m.Etcd.Member, err)
	}
	m.Parts, m.Finished = []backup.Part{part}, time.Now().UTC()
	if err := b.store.WriteManifest(ctx, b.directory, m, b.keys); err != nil {
		return job.Report{}, fmt.Errorf("complete the backup: %w", err)
	}
	b.say("complete: revision %d, %d bytes, %d stored", m.Etcd.Revision, part.Size, part.StoredSize)
	return job.Report{Backup: stored(b.directory, m)}, nil
}

// datedSource notes up to where a snapshot can go at most: what the member was at right after it had begun to send one.
type datedSource struct {
	*clientv3.Client
	content *backup.EtcdContent
}

// SnapshotWithVersion asks the member for a snapshot.
func (s *datedSource) SnapshotWithVersion(ctx context.Context) (*clientv3.SnapshotResponse, error) {
	r, err := s.Client.SnapshotWithVersion(ctx)
	if err != nil {
		return nil, err
	}
	status, err := statusOf(ctx, s.Client, s.Endpoints()[0])
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ask how far the snapshot can go: %w", err), r.Snapshot.Close())
	}
	s.content.Newest, s.content.Taken = status.Header.Revision, time.Now().UTC()
	return r, nil
}

// earlier is this very backup, where an earlier attempt completed it and could not leave word.
func (j *backupJob) earlier(ctx context.Context, id string) (*job.Stored, error) {
	m, err := j.store.ReadManifest(ctx, j.directory, j.keys)
	switch {
	case errors.Is(err, backup.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look whether %s is complete: %w", j.directory, err)
	case m.ID != id:
		return nil, fmt.Errorf("%s: %w", j.directory, backup.ErrExists)
	}
	j.say("an earlier attempt completed it")
	return stored(j.directory, m), nil
}

// stored is what a manifest says, in short.
func stored(directory string, m backup.Manifest) *job.Stored {
	out := &job.Stored{
		Directory: directory, Kind: m.Kind, Cluster: m.Cluster, Engine: m.Engine, Version: m.EngineVersion, Started: m.Started, Finished: m.Finished,
	}
	sizes := map[string]int64{}
	for _, p := range m.Parts {
		sizes[p.Name] = p.Size
		out.Size += p.Size
		out.StoredSize += p.StoredSize
	}
	if m.Etcd != nil {
		out.Revision, out.Timeline = m.Etcd.Revision, m.Etcd.Timeline
		out.Memory = job.ServerMemory(out.Size, 0)
	}
	if m.Redis != nil {
		out.Shards, out.Skew = len(m.Redis.Shards), m.Redis.Skew
		for _, s := range m.Redis.Shards {
			out.Keys += s.Keys
			out.Memory = max(out.Memory, job.ServerMemory(sizes[s.Part], s.Keys))
		}
	}
	return out
}
