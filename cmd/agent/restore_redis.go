package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/resp"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/goroutine"
)

// redisRestore loads a backup into the servers of a cluster, whatever shards it has.
type redisRestore struct {
	backupJob
	redisServers
	// replace says that what the servers have is deleted before.
	replace bool
	// empty says that keys in the slots of into are deleted before: they are of another backup.
	empty bool
	// wanted are the slots that are loaded; none: all.
	wanted redisslots.Set
	// into are the servers that import slots, by pod; none: each key goes to the owner of its slot.
	into map[string]redisslots.Set
}

// runRestoreRedis loads a backup into a cluster that runs. A key that is there already is left alone, so that it can be done again.
func runRestoreRedis(ctx context.Context, args []string) error {
	r := &redisRestore{into: map[string]redisslots.Set{}}
	fs := flag.NewFlagSet("restore redis", flag.ContinueOnError)
	r.backupJob.flags(fs)
	r.redisServers.flags(fs)
	r.flags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	return r.run(ctx, r.load)
}

func (r *redisRestore) flags(fs *flag.FlagSet) {
	fs.BoolVar(&r.replace, "replace", false, "delete all keys and functions of the servers first")
	fs.BoolVar(&r.empty, "empty", false, "delete the keys in slots that servers import (see --into) first")
	fs.TextVar(&r.wanted, "slots", redisslots.Set(nil), "slots whose keys are loaded, as \"0-99 200\"; default: all")
	fs.Func("into", "pod=slots of a server that imports them; repeat for every one", func(text string) error {
		pod, slots, ok := strings.Cut(text, "=")
		parsed, err := redisslots.Parse(slots)
		if !ok || err != nil || len(parsed) == 0 {
			return errors.New("write pod=slots")
		}
		r.into[pod] = parsed
		r.wanted = redisslots.Union(r.wanted, parsed)
		return nil
	})
}

func (r *redisRestore) load(ctx context.Context) (job.Report, error) {
	if r.replace && len(r.wanted) > 0 {
		return job.Report{}, finalError{errors.New("--replace is for all slots")}
	}
	if r.empty && len(r.into) == 0 {
		return job.Report{}, finalError{errors.New("--empty is for slots that servers import: clients use all others")}
	}
	if err := r.prepare(); err != nil {
		return job.Report{}, err
	}
	m, err := r.store.ReadManifest(ctx, r.directory, r.keys)
	if err != nil {
		return job.Report{}, fmt.Errorf("backup %s: %w", r.directory, err)
	}
	if m.Redis == nil {
		return job.Report{}, finalError{fmt.Errorf("backup %s is none of Redis or Valkey", r.directory)}
	}
	for _, p := range m.Parts {
		r.total.Add(p.Size)
	}
	began := time.Now()
	targets, summary, err := r.loadInto(ctx, m)
	if err != nil {
		return job.Report{}, err
	}
	r.say("%d keys are restored, %d were there already, %d had expired; %d libraries of functions", summary.Restored, summary.Present, summary.Expired, summary.Functions)
	restored := &job.Restored{Keys: summary.Restored, Present: summary.Present, Expired: summary.Expired, Took: time.Since(began)}
	if restored.Users, err = r.missingUsers(ctx, m.Redis.Users); err != nil {
		return job.Report{}, err
	}
	if len(r.into) > 0 {
		restored.Into = strings.Join(targets, " ")
	}
	return job.Report{Backup: stored(r.directory, m), Restored: restored}, nil
}

// loadInto empties the servers if that is asked for, and loads them. It fails when one of them was restarted or replaced meanwhile, and
// may have lost what it had acknowledged.
func (r *redisRestore) loadInto(ctx context.Context, m backup.Manifest) (targets []string, s redisdump.LoadSummary, err error) {
	target, closeTarget, err := r.target(ctx)
	if err != nil {
		return nil, s, err
	}
	defer closeTarget()
	if targets, err = r.processes(ctx); err != nil {
		return nil, s, err
	}
	if r.replace {
		r.say("deleting what %d servers have", len(targets))
		if err := redisdump.Empty(ctx, target); err != nil {
			return nil, s, err
		}
	}
	if r.empty {
		r.say("deleting what another backup has left in slots %s", r.wanted)
		if err := redisdump.EmptySlots(ctx, target, r.wanted.Has); err != nil {
			return nil, s, err
		}
	}
	r.say("loading %s: %d shards of %s %s", r.directory, len(m.Redis.Shards), m.Engine, m.EngineVersion)
	if s, err = r.loadParts(ctx, m, target); err != nil {
		return nil, s, err
	}
	if err := r.complete(m, s); err != nil {
		return nil, s, err
	}
	now, err := r.processes(ctx)
	if err == nil && !slices.Equal(targets, now) {
		err = fmt.Errorf("servers were restarted or replaced while they were loaded: they were %v and are %v", targets, now)
	}
	return targets, s, err
}

// processes are those of the servers that are loaded, and what with.
func (r *redisRestore) processes(ctx context.Context) ([]string, error) {
	views, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, v := range views {
		if r.takes(v) {
			out = append(out, planner.LoadedInto(v.pod, v.node.Process, r.into[v.pod]))
		}
	}
	slices.Sort(out)
	return out, nil
}

// takes reports whether a server is loaded.
func (r *redisRestore) takes(v redisView) bool {
	switch {
	case len(r.into) > 0:
		return len(r.into[v.pod]) > 0
	case r.replicated:
		return v.candidate.Primary
	}
	return !v.node.Self().Replica && len(v.node.Self().Slots) > 0
}

// maxUsers is how many users are named that the servers lack: a termination message has 4096 bytes.
const maxUsers = 20

// missingUsers names users of the backup that the servers do not have. Nobody can make them from it: it has no passwords.
func (r *redisRestore) missingUsers(ctx context.Context, backedUp []string) (string, error) {
	views, err := r.look(ctx)
	if err != nil {
		return "", fmt.Errorf("compare the users: %w", err)
	}
	var present []string
	for _, v := range views {
		present = append(present, v.users...)
	}
	missing := acl.UsersWithout(backedUp, present)
	for i, name := range missing {
		if len(name) > 64 {
			missing[i] = strings.ToValidUTF8(name[:64], "") + "..."
		}
	}
	if n := len(missing); n > maxUsers {
		missing = append(missing[:maxUsers], fmt.Sprintf("and %d more", n-maxUsers))
	}
	return strings.Join(missing, ", "), nil
}

// loadParts reads all parts at the same time. What is loaded counts only when every part was read to its end and was whole.
func (r *redisRestore) loadParts(ctx context.Context, m backup.Manifest, target redisdump.Target) (redisdump.LoadSummary, error) {
	group, ctx := goroutine.NewGroup(ctx)
	readers := make([]io.Reader, len(m.Parts))
	for i, part := range m.Parts {
		out, in := io.Pipe()
		readers[i] = out
		group.Go(func() error {
			err := goroutine.Try(func() error {
				return r.store.ReadPart(ctx, r.directory, part, r.keys, func(content io.Reader) error {
					_, err := io.Copy(in, content)
					return err
				})
			})
			_ = in.CloseWithError(err) // Of a pipe.
			return err
		})
	}
	var summary redisdump.LoadSummary
	group.Go(func() error {
		err := goroutine.Try(func() (err error) {
			summary, err = redisdump.Load(ctx, readers, target, r.options())
			return err
		})
		for _, reader := range readers {
			_ = reader.(*io.PipeReader).CloseWithError(errors.Join(err, io.ErrClosedPipe))
		}
		return err
	})
	return summary, group.Wait()
}

func (r *redisRestore) options() redisdump.LoadOptions {
	o := redisdump.LoadOptions{Asking: len(r.into) > 0}
	if len(r.wanted) > 0 {
		o.Slots = r.wanted.Has
	}
	return o
}

// complete compares the keys that were loaded with those that the manifest promises, slot by slot. Those that expired meanwhile are not there.
func (r *redisRestore) complete(m backup.Manifest, s redisdump.LoadSummary) error {
	var promised int64
	perSlot := make([]int64, backup.Slots)
	for _, shard := range m.Redis.Shards {
		promised += shard.Keys
		for slot, n := range shard.KeysPerSlot {
			perSlot[slot] += int64(n)
		}
	}
	if got := s.Restored + s.Present + s.Expired + s.Skipped; got != promised {
		return fmt.Errorf("%w: of %d keys that were backed up, %d were loaded", backup.ErrDamaged, promised, got)
	}
	if m.Redis.Replicated || s.Expired > 0 {
		return nil
	}
	for slot, n := range s.KeysPerSlot {
		if wanted := len(r.wanted) == 0 || r.wanted.Has(slot); wanted && n != perSlot[slot] {
			return fmt.Errorf("%w: of %d keys of slot %d that were backed up, %d were loaded", backup.ErrDamaged, perSlot[slot], slot, n)
		}
	}
	return nil
}

// target is where keys go: by the slots that the servers have now, asked of themselves and reached under the names of their pods.
func (r *redisRestore) target(ctx context.Context) (redisdump.Target, func(), error) {
	password := r.access.Passwords[acl.PasswordMigration]
	if r.replicated {
		views, err := r.look(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, v := range views {
			if v.candidate.Primary {
				c := r.client(v.addr, acl.UserMigration, password)
				return redisdump.IntoServer(c), func() { _ = c.Close() }, nil
			}
		}
		return nil, nil, errors.New("no server is the primary")
	}
	if _, err := r.slots(ctx); err != nil {
		return nil, nil, err
	}
	c := redisclient.NewBoundedCluster(goredis.ClusterOptions{
		ClusterSlots: r.slots, Username: acl.UserMigration, Password: password, DisableIdentity: true, ContextTimeoutEnabled: true,
		Dialer:      func(ctx context.Context, _, addr string) (net.Conn, error) { return r.dial(ctx, addr) },
		DialTimeout: askServerTimeout, ReadTimeout: valueTimeout, WriteTimeout: valueTimeout,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, resp.Agent())
	return redisdump.IntoCluster(c), func() { _ = c.Close() }, nil
}

// slots tells the client of the cluster which server has what.
func (r *redisRestore) slots(ctx context.Context) ([]goredis.ClusterSlot, error) {
	views, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	var out []goredis.ClusterSlot
	var owned []redisslots.Set
	for _, v := range views {
		slots := v.node.Self().Slots
		if len(r.into) > 0 {
			slots = r.into[v.pod]
			if owned := v.node.Self().Slots.And(slots); len(owned) > 0 {
				return nil, fmt.Errorf("%s serves slots %s by now", v.pod, owned)
			}
		}
		if v.node.Self().Replica {
			continue
		}
		owned = append(owned, slots)
		for _, span := range slots {
			out = append(out, goredis.ClusterSlot{Start: span.From, End: span.To, Nodes: []goredis.ClusterNode{{ID: v.node.ID, Addr: v.addr}}})
		}
	}
	if missing := r.wantedOf(redisslots.Union(owned...).Missing()); len(missing) > 0 {
		return nil, fmt.Errorf("slots %s have no owner", missing)
	}
	return out, nil
}

// wantedOf are those of the slots that are loaded.
func (r *redisRestore) wantedOf(slots redisslots.Set) redisslots.Set {
	if len(r.wanted) == 0 {
		return slots
	}
	return slots.And(r.wanted)
}
