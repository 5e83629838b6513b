package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/redisdump"
	redisacl "github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/loopback"
	"github.com/quorate/quorate/test/stores"
)

// redisEngines are those whose servers are restored.
var redisEngines = []string{"redis-7.0", "redis-8.0", "valkey-8.1", "valkey-9.1"}

var serverPasswords = map[string]string{
	redisacl.PasswordDefault: "a", redisacl.PasswordOperator: "b", redisacl.PasswordReplication: "c", redisacl.PasswordMigration: "d",
}

// redisProcess is a server that has just the users that Quorate gives it. Clients are let in.
type redisProcess struct {
	*goredis.Client
	addr string
	port int
	cmd  *exec.Cmd
}

// startRedis runs a server. Without one there is nothing to test: `make test-unit` provides them.
func startRedis(t *testing.T, engine string, args ...string) *redisProcess {
	t.Helper()
	bin := stores.Newest(t, engine).Dir
	name, _, _ := strings.Cut(engine, "-")
	_, version, _ := strings.Cut(filepath.Base(filepath.Dir(bin)), "-")
	p := &redisProcess{port: loopback.ClusterPort(t)}
	p.addr = "localhost:" + strconv.Itoa(p.port)
	access := redisacl.Access{Passwords: serverPasswords, Open: true, Replicated: len(args) == 0}
	users, err := access.Users(p.addr, software.Release{Engine: v1alpha1.RedisEngine(name), Version: version})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	acl := filepath.Join(home, "users.acl")
	if err := os.WriteFile(acl, []byte(redisacl.UsersText(users, true)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(filepath.Join(bin, name+"-server"), append([]string{ //nolint:noctx // It ends with the test, see below.
		"--port", strconv.Itoa(p.port), "--bind", "127.0.0.1", "--dir", home, "--save", "", "--aclfile", acl, "--cluster-node-timeout", "3000",
		"--repl-diskless-sync-delay", "0",
	}, args...)...)
	stores.Start(t, p.cmd, filepath.Join(home, "log"))
	p.Client = goredis.NewClient(&goredis.Options{
		Addr: p.addr, DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() {
		_ = p.Close()
		p.kill()
		if t.Failed() {
			raw, _ := os.ReadFile(filepath.Join(home, "log"))
			t.Logf("%s at %s: ...%s", engine, p.addr, raw[max(0, len(raw)-4000):])
		}
	})
	until(t, engine+" answers", func() error { return p.Ping(t.Context()).Err() })
	return p
}

// clustered are the arguments of servers of the mode Sharded.
var clustered = []string{"--cluster-enabled", "yes", "--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no"}

func (p *redisProcess) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// until waits for something to come true.
func until(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if err = try(); err == nil {
			return
		}
		select {
		case <-t.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// meet introduces servers to each other.
func meet(t *testing.T, nodes ...*redisProcess) {
	t.Helper()
	for _, n := range nodes[1:] {
		if err := n.ClusterMeet(t.Context(), "127.0.0.1", strconv.Itoa(nodes[0].port)).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// healthy waits until all servers see a cluster that works, and know so many nodes.
func healthy(t *testing.T, known int, nodes ...*redisProcess) {
	t.Helper()
	for _, n := range nodes {
		until(t, "a cluster that works", func() error {
			info := n.ClusterInfo(t.Context()).Val()
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(known)) {
				return errors.New(info)
			}
			return nil
		})
	}
}

// startShards runs a cluster of three shards without replicas.
func startShards(t *testing.T, engine string) []*redisProcess {
	t.Helper()
	var nodes []*redisProcess
	for shard := range 3 {
		p := startRedis(t, engine, clustered...)
		slots := redisslots.Share(shard, 3)
		for _, err := range []error{
			p.Do(t.Context(), "CLUSTER", "SET-CONFIG-EPOCH", shard+1).Err(),
			p.ClusterAddSlotsRange(t.Context(), slots[0].From, slots[0].To).Err(),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		nodes = append(nodes, p)
	}
	meet(t, nodes...)
	healthy(t, 3, nodes...)
	return nodes
}

// servers name servers to the agent.
func servers(t *testing.T, nodes ...*redisProcess) []string {
	t.Helper()
	dir := t.TempDir()
	for key, password := range serverPasswords {
		if err := os.WriteFile(filepath.Join(dir, key), []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--auth-dir=" + dir, "--tls-dir=" + t.TempDir()}
	for shard, n := range nodes {
		args = append(args, fmt.Sprintf("--server=%d/%s", shard, n.addr))
	}
	return args
}

// fill writes keys with a prefix, each to the server that has its slot.
func fillShards(t *testing.T, nodes []*redisProcess, prefix string, n int) {
	t.Helper()
	for i := range n {
		key := prefix + strconv.Itoa(i)
		for shard, node := range nodes {
			if len(nodes) == 1 || redisslots.Share(shard, len(nodes)).Has(redisdump.Slot([]byte(key))) {
				if err := node.Set(t.Context(), key, i, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func digestOf(t *testing.T, nodes ...*redisProcess) (sum redisdump.Digest) {
	t.Helper()
	for _, n := range nodes {
		d, err := redisdump.DigestOf(t.Context(), n.Client)
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(d)
	}
	return sum
}

// mover is a connection to a server as the user that moves keys.
func moverOf(t *testing.T, p *redisProcess) steps.Mover {
	t.Helper()
	m := redisclient.NewMover(redisclient.Options{
		Logins: []redisclient.Login{{Username: redisacl.UserMigration, Password: serverPasswords[redisacl.PasswordMigration]}},
		Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", p.addr)
		},
	})
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func eachRedis(t *testing.T, run func(t *testing.T, engine string)) {
	t.Helper()
	for _, engine := range redisEngines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			run(t, engine)
		})
	}
}

// backedUp takes a backup of servers.
func backedUp(t *testing.T, engine string, access []string) (url string) {
	t.Helper()
	url, _ = aStore(t)
	name, _, _ := strings.Cut(engine, "-")
	args := append([]string{"--url=" + url, "--directory=one", "--id=1", "--cluster=carts", "--engine=" + name, "--version=0"}, access...)
	if r, err := runJob(t, runBackupRedis, args...); err != nil {
		t.Fatalf("%v, %+v", err, r)
	}
	return url
}

func TestARestoreReplacesAllThatServersHave(t *testing.T) {
	eachRedis(t, func(t *testing.T, engine string) {
		t.Helper()
		nodes := startShards(t, engine)
		replaces(t, engine, nodes, servers(t, nodes...))
	})
}

func TestARestoreReplacesAllThatAReplicatedPrimaryHas(t *testing.T) {
	eachRedis(t, func(t *testing.T, engine string) {
		t.Helper()
		nodes := []*redisProcess{startRedis(t, engine)}
		replaces(t, engine, nodes, append(servers(t, nodes...), "--replicated"))
	})
}

func replaces(t *testing.T, engine string, nodes []*redisProcess, access []string) {
	t.Helper()
	fillShards(t, nodes, "old", 500)
	want := digestOf(t, nodes...)
	url := backedUp(t, engine, access)
	fillShards(t, nodes, "new", 100)
	if err := nodes[0].FunctionLoad(t.Context(), "#!lua name=later\nredis.register_function('later', function() return 1 end)").Err(); err != nil {
		t.Fatal(err)
	}
	restore := append([]string{"--url=" + url, "--directory=one"}, access...)
	if _, err := runJob(t, runRestoreRedis, restore...); err != nil || digestOf(t, nodes...) == want {
		t.Errorf("without being told so, it replaces what there is: %v", err)
	}
	r, err := runJob(t, runRestoreRedis, append(restore, "--replace")...)
	if err != nil || r.Restored.Keys != 500 || r.Restored.Present != 0 || r.Restored.Into != "" {
		t.Errorf("%v, %+v", err, r.Restored)
	}
	if got := digestOf(t, nodes...); got != want {
		t.Errorf("the servers hold %s, and the backup %s", got, want)
	}
	if libraries := nodes[0].FunctionList(t.Context(), goredis.FunctionListQuery{}).Val(); len(libraries) > 0 {
		t.Errorf("functions that the backup does not have are left: %v", libraries)
	}
}

// A shard is lost with its disk. An empty server imports its slots, is loaded, and owns them then: the very commands of the operator.
func TestLostSlotsAreLoadedIntoAServerThatImportsThem(t *testing.T) {
	eachRedis(t, func(t *testing.T, engine string) {
		t.Helper()
		nodes := startShards(t, engine)
		fillShards(t, nodes, "key", 3000)
		lost := redisslots.Share(2, 3)
		want, url := digestOf(t, nodes...), backedUp(t, engine, servers(t, nodes...))
		dead := nodes[2].ClusterMyID(t.Context()).Val()
		nodes[2].kill()
		fresh := startRedis(t, engine, clustered...)
		meet(t, fresh, nodes[0], nodes[1])
		healthy(t, 4, nodes[0], nodes[1])
		until(t, "the new server hears of the dead one", func() error {
			info, table := fresh.ClusterInfo(t.Context()).Val(), fresh.ClusterNodes(t.Context()).Val()
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(table, dead) {
				return errors.New(info + table)
			}
			return nil
		})
		id := fresh.ClusterMyID(t.Context()).Val()
		m := moverOf(t, fresh)
		if err := (steps.ImportLost{Pod: fresh.addr, ID: id, Other: dead, Slots: lost}).Run(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		all := []*redisProcess{nodes[0], nodes[1], fresh}
		args := append([]string{"--url=" + url, "--directory=one", "--into=" + fresh.addr + "=" + lost.String()}, servers(t, all...)...)
		r, err := runJob(t, runRestoreRedis, args...)
		process, _ := m.Process(t.Context())
		if err != nil || r.Restored.Into != planner.LoadedInto(fresh.addr, process, lost) || r.Restored.Keys == 0 {
			t.Fatalf("%v, %+v", err, r)
		}
		leave(t, fresh, lost)
		if _, err := runJob(t, runRestoreRedis, args...); err != nil || fresh.DBSize(t.Context()).Val() != r.Restored.Keys+1 {
			t.Errorf("a key of another backup is not to be seen: %v", err)
		}
		if r, err := runJob(t, runRestoreRedis, append(args, "--empty")...); err != nil || r.Restored.Present != 0 || fresh.DBSize(t.Context()).Val() != r.Restored.Keys {
			t.Errorf("after another backup: %v, %+v", err, r.Restored)
		}
		again, err := runJob(t, runRestoreRedis, args...)
		if err != nil || again.Restored.Keys != 0 || again.Restored.Present != r.Restored.Keys {
			t.Errorf("a second time: %v, %+v", err, again.Restored)
		}
		key := keyIn(lost)
		if err := fresh.Get(t.Context(), key).Err(); err == nil || !strings.Contains(err.Error(), "MOVED") {
			t.Errorf("%s is served before the slots are owned: %v", key, err)
		}
		if owned := ownedBy(t, nodes[0], dead); !owned.Equal(lost) {
			t.Errorf("the others believe that the dead one owns %s", owned)
		}
		if err := (steps.OwnLoaded{Pod: fresh.addr, ID: id, Slots: lost}).Run(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		until(t, "the others know the new owner", func() error {
			for _, n := range nodes[:2] {
				if owned := ownedBy(t, n, id); !owned.Equal(lost) {
					return fmt.Errorf("%s thinks that it owns %s", n.addr, owned)
				}
			}
			return nil
		})
		if got := digestOf(t, all...); got != want {
			t.Errorf("the servers hold %s, and the backup %s", got, want)
		}
		if _, err := runJob(t, runRestoreRedis, append(args, "--empty")...); err == nil || digestOf(t, all...) != want {
			t.Errorf("slots that clients use are emptied: %v", err)
		}
		if err := fresh.Set(t.Context(), key, "x", 0).Err(); err != nil {
			t.Errorf("the new owner does not serve: %v", err)
		}
	})
}

// leave writes a key that the backup does not have into a slot that a server imports.
func leave(t *testing.T, p *redisProcess, slots redisslots.Set) {
	t.Helper()
	for i := 0; ; i++ {
		key := "left" + strconv.Itoa(i)
		if !slots.Has(redisdump.Slot([]byte(key))) {
			continue
		}
		pipe := p.Pipeline()
		pipe.Do(t.Context(), "ASKING")
		pipe.Set(t.Context(), key, "of another backup", 0)
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		return
	}
}

// keyIn is a key of a slot of a set.
func keyIn(slots redisslots.Set) string {
	for i := 0; ; i++ {
		if key := "key" + strconv.Itoa(i); slots.Has(redisdump.Slot([]byte(key))) {
			return key
		}
	}
}

// ownedBy is what a server thinks that another one owns.
func ownedBy(t *testing.T, n *redisProcess, id string) redisslots.Set {
	t.Helper()
	var ranges []redisslots.Range
	for line := range strings.Lines(n.ClusterNodes(t.Context()).Val()) {
		words := strings.Fields(line)
		if len(words) < 9 || words[0] != id {
			continue
		}
		for _, w := range words[8:] {
			if r, err := redisslots.ParseRange(w); err == nil {
				ranges = append(ranges, r)
			}
		}
	}
	return redisslots.New(ranges...)
}

func TestARestoreIsToldWhatDoesNotFit(t *testing.T) {
	url, _ := aStore(t)
	for _, args := range [][]string{{"--into=a"}, {"--into=a=x"}, {"--slots=x"}} {
		if err := runRestoreRedis(t.Context(), append(args, "--url="+url)); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
	for _, args := range [][]string{{"--replace", "--slots=1-2"}, {"--empty"}, {"--empty", "--slots=1-2"}} {
		if _, err := runJob(t, runRestoreRedis, append(args, "--url="+url)...); !errors.As(err, new(finalError)) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// A server that is restarted while it is loaded may have lost what it had taken.
func TestALoadFailsWhenAServerIsAnotherOneAtItsEnd(t *testing.T) {
	nodes := startShards(t, "valkey-9.1")
	r := &redisRestore{}
	for shard, n := range nodes {
		r.servers = append(r.servers, redisServer{shard, n.addr, n.addr})
	}
	r.access = redisacl.Access{Passwords: serverPasswords}
	before, err := r.processes(t.Context())
	if err != nil || len(before) != 3 {
		t.Fatalf("%v, %v", before, err)
	}
	process, _ := moverOf(t, nodes[1]).Process(t.Context())
	slots := redisslots.New(redisslots.Range{From: 1, To: 2})
	r.into = map[string]redisslots.Set{nodes[1].addr: slots}
	if into, err := r.processes(t.Context()); err != nil || !slices.Equal(into, []string{planner.LoadedInto(nodes[1].addr, process, slots)}) {
		t.Errorf("%v, %v", into, err)
	}
}
