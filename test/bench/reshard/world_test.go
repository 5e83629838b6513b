package reshard

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	redisconfig "github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/stores"
)

// shards is how many there are at first.
const shards = 3

const password = "secret"

var passwords = map[string]string{
	acl.PasswordDefault: password, acl.PasswordOperator: "operator-secret",
	acl.PasswordReplication: "replication-secret", acl.PasswordMigration: "migration-secret",
}

// world is a cluster of real servers, each with an address of its own.
type world struct {
	b       *testing.B
	binary  string
	spec    v1alpha1.RedisClusterSpec
	servers []*server
}

type server struct {
	name, id string
	addr     model.Address
	rdb      *goredis.Client
	started  time.Time
}

func newWorld(b *testing.B, engine string) *world {
	b.Helper()
	server := stores.Newest(b, engine)
	e, mode := v1alpha1.RedisEngine(server.Name), v1alpha1.TLSDisabled
	w := &world{b: b, binary: server.Program(), spec: v1alpha1.RedisClusterSpec{
		Engine: &e, Version: server.Version,
		Shards: shards, ReplicasPerShard: new(int32), TLS: &v1alpha1.TLSSpec{Mode: &mode},
	}}
	subnet := fmt.Sprintf("127.%d.%d", 1+rand.IntN(254), rand.IntN(256))
	for shard := range shards + 1 {
		w.servers = append(w.servers, w.start(cluster.Pod(cluster.ShardSet("carts", shard), 0), fmt.Sprintf("%s.%d", subnet, shard+1)))
	}
	return w
}

// start runs a server as a pod would. It ends with the benchmark.
func (w *world) start(name, ip string) *server {
	w.b.Helper()
	dir := w.b.TempDir()
	for file, text := range w.files(name, ip, dir) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			w.b.Fatal(err)
		}
	}
	cmd := exec.CommandContext(context.Background(), w.binary, filepath.Join(dir, redisconfig.ConfigKey))
	log := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		w.b.Fatal(err)
	}
	s := &server{name: name, addr: model.Address{IP: ip, Port: model.ClientPort}, started: time.Now(), rdb: goredis.NewClient(&goredis.Options{
		Addr: ip + ":6379", Username: acl.UserDefault, Password: password, ReadTimeout: time.Minute,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})}
	w.b.Cleanup(func() {
		_ = s.rdb.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if w.b.Failed() {
			w.b.Logf("log of %s:\n%s", name, log.Bytes()[max(0, log.Len()-2000):])
		}
	})
	return s
}

func (w *world) files(name, ip, dir string) map[string]string {
	w.b.Helper()
	config, err := redisconfig.Config(&w.spec)
	if err != nil {
		w.b.Fatal(err)
	}
	software := software.Release{Engine: w.spec.ServerEngine(), Version: w.spec.Version}
	config, err = redisconfig.PodConfig(config, redisconfig.PodFacts{
		Name: name, IP: ip, Host: name, Engine: string(software.Engine), Version: software.Version,
		ReplicationPassword: acl.ShardPassword(passwords[acl.PasswordReplication], name),
	})
	if err != nil {
		w.b.Fatal(err)
	}
	users, err := w.access().Users(name, software)
	if err != nil {
		w.b.Fatal(err)
	}
	config = strings.NewReplacer("/run/quorate", dir, "dir /data", "dir "+dir).Replace(config) + "bind " + ip + "\nbind-source-addr " + ip + "\n"
	return map[string]string{redisconfig.ConfigKey: config, redisconfig.UsersFile: acl.UsersText(users, true)}
}

func (w *world) access() *acl.Access { return &acl.Access{Passwords: passwords} }

func (w *world) connect(s *server, user, password string) redisclient.Options {
	return redisclient.Options{Logins: []redisclient.Login{{Username: user, Password: password}}, Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", s.addr.String())
	}}
}

// form makes a cluster of the first three servers, by the operator's rules, and lets the fourth in.
func (w *world) form() {
	w.b.Helper()
	if err := w.follow(w.b.Context(), shards); err != nil {
		w.b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.b.Context(), time.Minute)
	defer cancel()
	for _, s := range w.servers {
		s.id = s.rdb.ClusterMyID(ctx).Val()
	}
	if err := w.servers[0].rdb.ClusterMeet(ctx, w.servers[shards].addr.IP, "6379").Err(); err != nil {
		w.b.Fatal(err)
	}
	for _, s := range w.servers {
		for ctx.Err() == nil && (strings.Count(s.rdb.ClusterNodes(ctx).Val(), " connected") != len(w.servers) ||
			!strings.Contains(s.rdb.ClusterInfo(ctx).Val(), "cluster_state:ok")) {
			time.Sleep(50 * time.Millisecond)
		}
	}
	if ctx.Err() != nil {
		w.b.Fatal("the new server was not heard of")
	}
}

// operate gives the cluster its fourth shard in the way that the operator does.
func operate(ctx context.Context, w *world) error { return w.follow(ctx, shards+1) }

// follow does what the rules say until nothing is left to do.
func (w *world) follow(ctx context.Context, wanted int) error {
	for ctx.Err() == nil {
		plan := planner.Next(w.observe(ctx, wanted))
		if plan.Step == nil && plan.Reason == "" {
			return nil
		}
		if plan.Step != nil {
			if err := w.act(ctx, plan.Step); err != nil {
				return err
			}
		}
		time.Sleep(plan.After)
	}
	return context.Cause(ctx)
}

func (w *world) observe(ctx context.Context, wanted int) model.State {
	live, err := redisconfig.LiveConfig(&w.spec)
	if err != nil {
		w.b.Fatal(err)
	}
	s := model.State{Now: time.Now(), Spec: model.Spec{
		Name: "carts", Shards: wanted, Version: w.spec.Version, Persistent: true, NodeTimeout: redisconfig.NodeTimeout(nil), Access: w.access(),
		HandedOut: true, Live: live,
	}}
	for shard, server := range w.servers[:wanted] {
		s.Sets = append(s.Sets, model.Set{Shard: shard, Replicas: 1})
		c := redisclient.New(w.connect(server, acl.UserOperator, passwords[acl.PasswordOperator]))
		pod := model.Pod{Name: server.name, UID: server.name, Shard: shard, Addr: server.addr, Ready: true, HasRun: true, Started: server.started}
		if pod.Node, err = c.Read(ctx); err != nil {
			pod.Error = err.Error()
		}
		_ = c.Close()
		s.Pods = append(s.Pods, pod)
	}
	return s
}

func (w *world) act(ctx context.Context, step cluster.Step) error {
	switch s := step.(type) {
	case steps.MoveSlots:
		return w.move(ctx, s.Moves, s.For)
	case steps.ServerStep:
		for _, call := range s.Calls() {
			c := redisclient.New(w.connect(w.server(call.Pod), acl.UserOperator, passwords[acl.PasswordOperator]))
			err := call.Do(ctx, c)
			_ = c.Close()
			if err != nil {
				return fmt.Errorf("%s: %w", step, err)
			}
		}
	}
	return nil
}

func (w *world) server(name string) *server {
	return w.servers[slices.IndexFunc(w.servers, func(s *server) bool { return s.name == name })]
}

// move moves slots key by key, all pairs at once.
func (w *world) move(ctx context.Context, moves []steps.SlotMove, limit time.Duration) error {
	end := time.Now().Add(limit)
	errs := make([]error, len(moves))
	var wg sync.WaitGroup
	for i, m := range moves {
		wg.Go(func() {
			from := redisclient.NewMover(w.connect(w.server(m.From), acl.UserMigration, passwords[acl.PasswordMigration]))
			to := redisclient.NewMover(w.connect(w.server(m.To), acl.UserMigration, passwords[acl.PasswordMigration]))
			_, errs[i] = m.Run(ctx, from, to, func() bool { return time.Now().Before(end) })
			_, _ = from.Close(), to.Close()
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// restore gives every shard the slots that it had, and waits until all agree.
func (w *world) restore(ctx context.Context, before []slots.Set) {
	w.b.Helper()
	var moves []steps.SlotMove
	from, now := w.servers[shards], w.slots(ctx)
	for shard, slots := range before[:shards] {
		to := w.servers[shard]
		if back := slots.And(now[shards]); len(back) > 0 {
			moves = append(moves, steps.SlotMove{From: from.name, To: to.name, FromID: from.id, ToID: to.id, ToAddr: to.addr, Slots: back, Process: from.process(ctx), ToProcess: to.process(ctx), Patience: time.Second})
		}
	}
	for _, m := range moves { // One after the other: they have one source.
		if err := w.move(ctx, []steps.SlotMove{m}, time.Hour); err != nil {
			w.b.Fatal(err)
		}
	}
	for ctx.Err() == nil && (!w.agreed(ctx) || !slices.EqualFunc(w.slots(ctx), before, slots.Set.Equal)) {
		time.Sleep(50 * time.Millisecond)
	}
	w.rest(ctx)
}

// rest waits until no server writes its file anew: the next round would pay for it.
func (w *world) rest(ctx context.Context) {
	for ctx.Err() == nil && !w.calm() {
		time.Sleep(50 * time.Millisecond)
	}
}

func (w *world) calm() bool {
	return !slices.ContainsFunc(w.servers, func(s *server) bool { return s.info("aof_rewrite_in_progress") != 0 })
}

// slots are those that each server says it owns.
func (w *world) slots(ctx context.Context) []slots.Set {
	w.b.Helper()
	out := make([]slots.Set, len(w.servers))
	for i, s := range w.servers {
		for _, p := range w.table(ctx, s) {
			if p.Myself {
				out[i] = p.Slots
			}
		}
	}
	return out
}

// agreed tells whether all servers think the same of who owns what: redis-cli does nothing before they do.
func (w *world) agreed(ctx context.Context) bool {
	w.b.Helper()
	own := w.slots(ctx)
	for _, s := range w.servers {
		for _, p := range w.table(ctx, s) {
			if i := slices.IndexFunc(w.servers, func(o *server) bool { return o.id == p.ID }); !p.Slots.Equal(own[i]) {
				return false
			}
		}
	}
	return true
}

func (w *world) table(ctx context.Context, s *server) []model.Peer {
	w.b.Helper()
	peers, err := model.ParseNodes(s.rdb.ClusterNodes(ctx).Val())
	if err != nil {
		w.b.Fatal(err)
	}
	return peers
}

func (w *world) migratesSlots() bool {
	return w.servers[0].rdb.Do(w.b.Context(), "CLUSTER", "GETSLOTMIGRATIONS").Err() == nil
}

func (w *world) keys() int64 {
	n := int64(0)
	for _, s := range w.servers {
		n += s.keys()
	}
	return n
}

func (w *world) used() int64 {
	n := int64(0)
	for _, s := range w.servers {
		n += s.info("used_memory")
	}
	return n
}

func (s *server) process(ctx context.Context) string {
	return model.ParseProcess(s.rdb.Info(ctx, "server").Val())
}

func (s *server) keys() int64 { return s.rdb.DBSize(context.Background()).Val() }

// info is a number out of INFO.
func (s *server) info(name string) int64 {
	for line := range strings.Lines(s.rdb.Info(context.Background()).Val()) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			n, _ := strconv.ParseInt(text, 10, 64)
			return n
		}
	}
	return 0
}
