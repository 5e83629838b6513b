package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/goroutine"
)

const (
	// maxGap is how many bytes of writes a replica may be behind its primary to be copied in its place.
	maxGap = 4 << 20
	// topologyTries is how often a backup waits for slots and roles to settle, topologyRest how long each time.
	topologyTries = 30
	topologyRest  = 2 * time.Second
)

// errTopology tells that slots or roles changed while the shards were copied: together, the copies may have keys twice or not at all.
var errTopology = errors.New("slots or roles of the servers changed meanwhile")

// redisBackup takes a backup of a Redis or Valkey cluster.
type redisBackup struct {
	backupJob
	redisServers
	identity
	engine string
}

// runBackupRedis stores an RDB of each shard, taken from a replica that has caught up where there is one.
func runBackupRedis(ctx context.Context, args []string) error {
	b := &redisBackup{}
	fs := flag.NewFlagSet("backup redis", flag.ContinueOnError)
	b.backupJob.flags(fs)
	b.redisServers.flags(fs)
	b.identity.flags(fs)
	fs.StringVar(&b.engine, "engine", "", "redis or valkey; empty: what the servers say themselves")
	if err := fs.Parse(args); err != nil {
		return err
	}
	return b.run(ctx, b.take)
}

// topology is who owns what, and whom each shard is copied from.
type topology struct {
	shards []backup.RedisShard
	from   []redisServer
	// users of the first server that tells any: all are to have the same.
	users []string
	// engine and version that the first server says it is.
	engine, version string
}

// same reports whether the same nodes own the same slots, by the same epochs.
func (t topology) same(o topology) bool {
	return slices.EqualFunc(t.shards, o.shards, func(a, b backup.RedisShard) bool {
		return a.Index == b.Index && a.Slots == b.Slots && a.Epoch == b.Epoch
	})
}

func (b *redisBackup) take(ctx context.Context) (job.Report, error) {
	if err := b.prepare(); err != nil {
		return job.Report{}, err
	}
	if done, err := b.earlier(ctx, b.id); done != nil || err != nil {
		return job.Report{Backup: done}, err
	}
	if len(b.external) > 0 {
		if err := b.discover(ctx); err != nil {
			return job.Report{}, err
		}
	}
	before, err := b.settled(ctx)
	if err != nil {
		return job.Report{}, err
	}
	m := backup.Manifest{
		Format: backup.Format, ID: b.id, Kind: string(v1alpha1.KindRedisCluster), Namespace: b.namespace, Cluster: b.cluster,
		Engine: cmp.Or(b.engine, before.engine), EngineVersion: cmp.Or(b.version, before.version), Started: time.Now().UTC(), Encrypted: len(b.keys.Recipients) > 0,
		Redis: &backup.RedisContent{Replicated: b.replicated, Shards: before.shards, Users: before.users},
	}
	if err := b.copyAll(ctx, before, &m); err != nil {
		return job.Report{}, err
	}
	after, err := b.observe(ctx)
	if err != nil {
		return job.Report{}, fmt.Errorf("look at the servers once more: %w", err)
	}
	if !before.same(after) {
		return job.Report{}, errTopology
	}
	m.Finished = time.Now().UTC()
	if err := b.store.WriteManifest(ctx, b.directory, m, b.keys); err != nil {
		return job.Report{}, fmt.Errorf("complete the backup: %w", err)
	}
	done := stored(b.directory, m)
	b.say("complete: %d keys of %d shards, %d bytes, %d stored; frozen within %s of each other", done.Keys, done.Shards, done.Size, done.StoredSize, done.Skew)
	return job.Report{Backup: done}, nil
}

// settled waits until every slot has an owner and none is on its way.
func (b *redisBackup) settled(ctx context.Context) (topology, error) {
	for try := 1; ; try++ {
		t, err := b.observe(ctx)
		if err == nil || try == topologyTries {
			return t, err
		}
		b.say("waiting for the servers to settle: %v", err)
		select {
		case <-ctx.Done():
			return t, context.Cause(ctx)
		case <-time.After(topologyRest):
		}
	}
}

// observe asks all servers who owns what, and chooses whom to copy.
func (b *redisBackup) observe(ctx context.Context) (topology, error) {
	views, err := b.look(ctx)
	if err != nil {
		return topology{}, err
	}
	t := topology{engine: string(views[0].node.Engine), version: views[0].node.Version}
	var owned []slots.Set
	for _, v := range views {
		if t.users == nil {
			t.users = v.users
		}
	}
	for _, shard := range shardsOf(views) {
		if !b.replicated && !anySlots(shard, views) {
			continue // It is on its way in or out.
		}
		s, from, slots, err := b.shard(shard, views)
		if err != nil {
			return t, fmt.Errorf("shard %d: %w", shard, err)
		}
		t.shards, t.from, owned = append(t.shards, s), append(t.from, from), append(owned, slots)
	}
	if missing := slots.Union(owned...).Missing(); len(missing) > 0 && !b.replicated {
		return t, fmt.Errorf("slots %s have no owner", missing)
	}
	return t, nil
}

// anySlots tells whether a server of a shard says that it has slots, or gets or gives any.
func anySlots(shard int, views []redisView) bool {
	return slices.ContainsFunc(views, func(v redisView) bool {
		self := v.node.Self()
		return v.shard == shard && len(self.Slots)+len(self.Open) > 0
	})
}

func shardsOf(views []redisView) []int {
	var out []int
	for _, v := range views {
		out = append(out, v.shard)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// shard describes one of the shards and chooses whom to copy.
func (b *redisBackup) shard(index int, views []redisView) (s backup.RedisShard, from redisServer, slots slots.Set, err error) {
	var candidates []redisdump.Candidate
	for _, v := range views {
		if v.shard == index {
			candidates = append(candidates, v.candidate)
		}
	}
	choice, err := redisdump.Choose(candidates, maxGap)
	if err != nil {
		return s, from, nil, err
	}
	s = backup.RedisShard{Index: index, Part: fmt.Sprintf("shard-%d.rdb", index), PrimaryOffset: choice.PrimaryPosition.Offset}
	for _, v := range views {
		if v.shard != index {
			continue
		}
		if v.pod == choice.Name {
			from, s.Node = v.redisServer, v.node.ID
		}
		if b.replicated || !v.candidate.Primary {
			continue
		}
		self := v.node.Self()
		if len(self.Open) > 0 {
			return s, from, nil, fmt.Errorf("slots are on their way from or to %s", v.pod)
		}
		s.Slots, s.Epoch, slots = strings.ReplaceAll(self.Slots.String(), " ", ","), int64(self.Epoch), self.Slots //nolint:gosec // An epoch counts failovers.
	}
	return s, from, slots, nil
}

// copyAll copies all shards at the same time.
func (b *redisBackup) copyAll(ctx context.Context, t topology, m *backup.Manifest) error {
	m.Parts = make([]backup.Part, len(t.shards))
	var names []string
	for _, from := range t.from {
		names = append(names, from.pod)
	}
	b.say("copying %s", strings.Join(names, ", "))
	group, ctx := goroutine.NewGroup(ctx)
	versions := make([]int, len(t.shards))
	for i := range t.shards {
		group.Go(func() error {
			version, err := b.copyShard(ctx, t.from[i], &m.Redis.Shards[i], &m.Parts[i])
			versions[i] = version
			if err != nil {
				return fmt.Errorf("shard %d from %s: %w", t.shards[i].Index, t.from[i].pod, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	m.Redis.RDBVersion = slices.Max(versions)
	first, last := m.Redis.Shards[0].Began, m.Redis.Shards[0].Began
	for _, s := range m.Redis.Shards {
		if s.Began.Before(first) {
			first = s.Began
		}
		if s.Began.After(last) {
			last = s.Began
		}
	}
	m.Redis.Skew = last.Sub(first)
	return nil
}

// copyShard stores what a server sends, and counts what is in it on the way.
func (b *redisBackup) copyShard(ctx context.Context, from redisServer, s *backup.RedisShard, part *backup.Part) (int, error) {
	username, password := b.copies(from)
	source := redisdump.Source{
		Dial:     func(ctx context.Context) (net.Conn, error) { return b.dial(ctx, from.addr) },
		Username: username, Password: password,
		Started: func(redisdump.Transfer) { s.Began = time.Now().UTC() }, // The server has just forked, or is about to.
	}
	var summary redisdump.Summary
	written, err := b.store.WritePart(ctx, b.directory, s.Part, b.keys, func(w io.Writer) error {
		counter := redisdump.NewCounter(w)
		transfer, err := source.Copy(ctx, counter)
		if err != nil {
			return err
		}
		s.ReplicationID, s.Offset, s.Ended = transfer.ReplicationID, transfer.Offset, transfer.Ended.UTC()
		summary, err = counter.Finish()
		return err
	})
	if err != nil {
		return 0, err
	}
	*part = written
	s.Keys, s.Expires, s.KeysPerSlot = summary.Keys, summary.Expires, slotCounts(summary.KeysPerSlot)
	if b.replicated {
		s.KeysPerSlot = nil
	}
	return summary.Version, nil
}

func slotCounts(counts []int64) backup.SlotCounts {
	out := make(backup.SlotCounts, 0, len(counts))
	for _, n := range counts {
		out = append(out, uint32(n)) //nolint:gosec // No slot has four billion keys.
	}
	for len(out) > 0 && out[len(out)-1] == 0 {
		out = out[:len(out)-1]
	}
	return out
}
