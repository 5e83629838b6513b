package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorate/quorate/internal/backup"
	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/backup/redisdump"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/resp"
)

const (
	redisSocket = "server.sock"
	redisDump   = "dump.rdb"
	// defaultDatabases is how many databases a server has unless it is told.
	defaultDatabases = 16
	// sampleSize is how many keys of a shard are read from its server. Those with names or values above sampleKey and sampleValue in
	// bytes are not among them: they would be held in memory.
	sampleSize  = 100
	sampleKey   = 1 << 10
	sampleValue = 1 << 20
)

// redis reads every key and value of every shard, and counts the keys of each slot; then a server is started on each shard in turn.
func (c *checkBackup) redis(ctx context.Context, m backup.Manifest) (job.Checked, error) {
	var checked job.Checked
	for i, shard := range m.Redis.Shards {
		found, err := c.readShard(ctx, m, i)
		if err != nil {
			return checked, fmt.Errorf("shard %d: %w", shard.Index, err)
		}
		checked.Keys += found.Keys
		if !c.withServer {
			continue
		}
		c.say("starting a server on shard %d: %d keys", shard.Index, found.Keys)
		if checked.Server, err = found.run(ctx, m.Engine); err != nil {
			return checked, fmt.Errorf("shard %d: %w", shard.Index, err)
		}
		if err := os.RemoveAll(found.dir); err != nil {
			return checked, fmt.Errorf("make room for the next shard: %w", err)
		}
	}
	return checked, nil
}

// readShard reads a shard to its end, and leaves it where a server loads it from, if one is to.
func (c *checkBackup) readShard(ctx context.Context, m backup.Manifest, i int) (*redisCheck, error) {
	shard := m.Redis.Shards[i]
	found := &redisCheck{dir: filepath.Join(c.scratch, "shard")}
	err := c.store.ReadPart(ctx, c.directory, m.Parts[i], c.keys, func(content io.Reader) error {
		if !c.withServer {
			return found.scan(content)
		}
		return found.keep(content)
	})
	if err != nil {
		return nil, err
	}
	if found.Keys != shard.Keys || (!m.Redis.Replicated && !slices.Equal(slotCounts(found.KeysPerSlot), shard.KeysPerSlot)) {
		return nil, fmt.Errorf("%w: it has %d keys, and its manifest promises %d", backup.ErrDamaged, found.Keys, shard.Keys)
	}
	return found, nil
}

// redisCheck is what is known of a shard that was read.
type redisCheck struct {
	dir string
	redisdump.Summary
	// Databases is one more than the highest number of a database, FieldsExpire how many keys may be gone because all of their fields are.
	databases    int
	fieldsExpire int64
	// Sample are keys that do not expire, each as likely to be in it as any other.
	sample   []sampled
	eligible int
}

// sampled is a key that a server has to have.
type sampled struct {
	db  int
	key string
}

// keep reads an RDB, and writes it to where a server loads it from.
func (r *redisCheck) keep(content io.Reader) (err error) {
	if err := os.RemoveAll(r.dir); err != nil { // An attempt before this one may have left it.
		return fmt.Errorf("remove what an attempt before left: %w", err)
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("make a directory for the server: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(r.dir, redisDump), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make a file for the server: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return r.scan(io.TeeReader(content, f))
}

func (r *redisCheck) scan(content io.Reader) (err error) {
	r.databases = defaultDatabases
	r.Summary, err = redisdump.Scan(content, func(e redisdump.Entry) error {
		r.see(e)
		return nil
	})
	return err
}

// see takes note of a key, and takes it into the sample by chance (algorithm R of J. Vitter).
func (r *redisCheck) see(e redisdump.Entry) {
	r.databases = max(r.databases, e.DB+1)
	switch {
	case e.FieldsExpire():
		r.fieldsExpire++
		return
	case e.ExpireAt != 0, len(e.Key) > sampleKey, len(e.Value) > sampleValue:
		return
	}
	r.eligible++
	if len(r.sample) < sampleSize {
		r.sample = append(r.sample, sampled{e.DB, string(e.Key)})
	} else if i := rand.IntN(r.eligible); i < sampleSize { //nolint:gosec // Nobody gains from foreseeing it.
		r.sample[i] = sampled{e.DB, string(e.Key)}
	}
}

// run starts a server on the RDB and compares what it serves with what was read. It returns the version of the server.
func (r *redisCheck) run(ctx context.Context, engine string) (server string, err error) {
	socket := filepath.Join(r.dir, redisSocket)
	client := redisclient.NewBounded(goredis.Options{
		Network: "unix", Addr: socket, ContextTimeoutEnabled: true, DisableIdentity: true, MaxRetries: -1, PoolSize: 1,
		ReadTimeout: valueTimeout, WriteTimeout: valueTimeout, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, resp.Agent())
	defer func() { _ = client.Close() }() // It only asked.
	serves := func(ctx context.Context) error {
		if _, err := os.Stat(socket); err != nil {
			return err // The client would log each attempt.
		}
		return client.Ping(ctx).Err()
	}
	err = throwAway{program: programs[engine], args: r.flags(), dir: r.dir}.run(ctx, serves, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, tellLimit, fmt.Errorf("it did not answer within %s", tellLimit))
		defer cancel()
		software, err := redisdump.SoftwareOf(ctx, client)
		if err != nil {
			return err
		}
		server = software.String()
		if err := r.compare(ctx, client); err != nil {
			return err
		}
		return r.readSample(ctx, client)
	})
	return server, err
}

// flags of a server that nobody else reaches and that writes nothing: keys of any slot are in one, as it is no cluster.
func (r *redisCheck) flags() []string {
	return []string{
		"--port", "0", "--unixsocket", redisSocket, "--unixsocketperm", "700", "--protected-mode", "yes",
		"--dir", r.dir, "--dbfilename", redisDump, "--appendonly", "no", "--save", "", "--cluster-enabled", "no",
		"--databases", strconv.Itoa(r.databases), "--daemonize", "no", "--logfile", "",
	}
}

// compare looks at the number of keys and of libraries. What expired before the server read it, or since, it tells itself.
func (r *redisCheck) compare(ctx context.Context, client *goredis.Client) error {
	text, err := client.Info(ctx).Result() // One answer, so that its numbers are of one moment.
	if err != nil {
		return fmt.Errorf("ask the server for its keys: %w", err)
	}
	served, err := parseServed(text)
	if err != nil {
		return err
	}
	if err := r.fits(served); err != nil {
		return fmt.Errorf("%w: %w", backup.ErrDamaged, err)
	}
	libraries, err := client.FunctionList(ctx, goredis.FunctionListQuery{}).Result()
	if err != nil {
		return fmt.Errorf("ask the server for its functions: %w", err)
	}
	if len(libraries) != r.Functions {
		return fmt.Errorf("%w: a server has %d libraries of functions, and the RDB has %d", backup.ErrDamaged, len(libraries), r.Functions)
	}
	return nil
}

// served is what a server tells of its keys: those that it loaded, those that it left out because they had expired, those that expired
// since, and those that it has.
type served struct{ loaded, late, gone, keys int64 }

// parseServed reads the answer to INFO. https://redis.io/docs/latest/commands/info/
func parseServed(info string) (s served, err error) {
	fields := map[string]*int64{"rdb_last_load_keys_loaded": &s.loaded, "rdb_last_load_keys_expired": &s.late, "expired_keys": &s.gone}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if to, ok := fields[name]; ok {
			if *to, err = strconv.ParseInt(value, 10, 64); err != nil {
				return s, fmt.Errorf("read %s of the answer to INFO: %w", name, err)
			}
			delete(fields, name)
		}
		if rest, ok := strings.CutPrefix(value, "keys="); ok && strings.HasPrefix(name, "db") {
			count, _, _ := strings.Cut(rest, ",")
			n, err := strconv.ParseInt(count, 10, 64)
			if err != nil {
				return s, fmt.Errorf("read the keys of %s of the answer to INFO: %w", name, err)
			}
			s.keys += n
		}
	}
	for name := range fields {
		return s, fmt.Errorf("the answer to INFO has no %s", name)
	}
	return s, nil
}

// fits compares what a server tells with what was read.
func (r *redisCheck) fits(s served) error {
	switch missing, lost := r.Keys-s.loaded-s.late, s.loaded-s.gone-s.keys; {
	case missing < 0 || missing > r.fieldsExpire:
		return fmt.Errorf("of %d keys a server loads %d, and leaves out %d that have expired", r.Keys, s.loaded, s.late)
	case s.keys > s.loaded || lost > r.fieldsExpire:
		return fmt.Errorf("of %d keys that a server loaded it has %d, and %d have expired since", s.loaded, s.keys, s.gone)
	case s.late+s.gone > r.Expires+r.fieldsExpire:
		return fmt.Errorf("%d keys have expired, and only %d can", s.late+s.gone, r.Expires+r.fieldsExpire)
	}
	return nil
}

// readSample reads some keys that must be there.
func (r *redisCheck) readSample(ctx context.Context, client *goredis.Client) error {
	conn := client.Conn()
	defer func() { _ = conn.Close() }() // It only asked.
	db := 0
	for _, s := range r.sample {
		if s.db != db {
			if err := conn.Select(ctx, s.db).Err(); err != nil {
				return fmt.Errorf("select database %d: %w", s.db, err)
			}
			db = s.db
		}
		kind, err := conn.Type(ctx, s.key).Result()
		if err != nil {
			return fmt.Errorf("ask for the type of a key: %w", err)
		}
		value, err := conn.Dump(ctx, s.key).Result()
		if err != nil && !errors.Is(err, goredis.Nil) {
			return fmt.Errorf("read the value of a key: %w", err)
		}
		if kind == "none" || value == "" {
			return fmt.Errorf("%w: a server does not have a key of slot %d of database %d, which the RDB has", backup.ErrDamaged, redisdump.Slot([]byte(s.key)), s.db) // Keys may be secrets.
		}
	}
	return nil
}
