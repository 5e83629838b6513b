package redisclient_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/software"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// earlierUsers is the file of users that an earlier version of the operator wrote: nobody migrates slots, and the operator
// may not list users.
const earlierUsers = `user default on %s ~* &* +@all
user quorate on %s resetkeys resetchannels -@all +hello +ping +info +role +client|setname +cluster|myid +cluster|nodes +cluster|info +cluster|set-config-epoch +cluster|meet +cluster|addslotsrange +cluster|replicate +cluster|forget +cluster|failover +acl|getuser +acl|setuser
user replication on %s resetkeys resetchannels -@all +ping +replconf +psync +sync
`

// TestRealUsers keeps users of real servers in line while a client writes.
func TestRealUsers(t *testing.T) {
	t.Parallel()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, engine, 3, 1, true)
			w.startAll()
			w.settle()
			for _, s := range w.steps {
				if strings.Contains(s, steps.ReasonSetUsers) {
					t.Errorf("the users that the start gate writes are not those that the planner wants: %s", s)
				}
			}
			w.write(w.clients())
			t.Run("of an operator that was upgraded", w.upgradesUsers)
			t.Run("that somebody changed", w.restoresUsers)
			t.Run("of an application", w.servesAccount)
			t.Run("with other passwords", w.rotatesPasswords)
			t.Run("whose file is read by a server that restarts in place", w.keepsPasswords)
			t.Run("after the operator's password was lost", w.recoversPassword)
			t.Run("who move slots", w.movesSlot)
		})
	}
}

// writer writes until it is stopped, over one client that stays connected, and counts what was refused.
type writer struct {
	stop         chan struct{}
	done         chan struct{}
	acked, fails atomic.Int64
	last         atomic.Value
}

func (w *world) startWriter() *writer { return write(w.t, w.clients()) }

func write(t *testing.T, c *goredis.ClusterClient) *writer {
	t.Helper()
	out := &writer{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(out.done)
		for i := 0; ; i++ {
			select {
			case <-out.stop:
				return
			default:
			}
			if err := c.Set(t.Context(), fmt.Sprintf("key-%d", i%keys), value, 0).Err(); err != nil {
				out.fails.Add(1)
				out.last.Store(err.Error())
				continue
			}
			out.acked.Add(1)
		}
	}()
	return out
}

// expectNoRefusal ends the writer, which must have written something and met no error.
func (o *writer) expectNoRefusal(t *testing.T) {
	t.Helper()
	close(o.stop)
	<-o.done
	if o.fails.Load() > 0 || o.acked.Load() == 0 {
		t.Errorf("%d writes failed, %d succeeded; the last error: %v", o.fails.Load(), o.acked.Load(), o.last.Load())
	}
	t.Logf("%d writes, none refused", o.acked.Load())
}

func (w *world) usersOf(p *process) []acl.User {
	w.t.Helper()
	c := w.connect(p)
	defer func() { _ = c.Close() }()
	node, err := c.Read(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return node.Users
}

// upgradesUsers gives all servers the users of an earlier operator, as if they had been started by it.
func (w *world) upgradesUsers(t *testing.T) {
	for _, p := range w.pods {
		w.kill(p)
		text := fmt.Sprintf(earlierUsers, acl.Hash(w.passwords[acl.PasswordDefault]), acl.Hash(w.passwords[acl.PasswordOperator]),
			acl.Hash(acl.ShardPassword(w.passwords[acl.PasswordReplication], p.name)))
		if err := os.WriteFile(filepath.Join(p.dir, config.UsersFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.run(p)
	}
	w.steps = nil
	var pids []int
	for _, p := range w.pods {
		pids = append(pids, p.cmd.Process.Pid)
	}
	w.settle()
	writing := w.startWriter()
	for _, p := range w.pods {
		if users := w.usersOf(p); len(users) != 4 {
			t.Errorf("%s has %d users", p.name, len(users))
		}
		if !slices.Contains(pids, p.cmd.Process.Pid) {
			t.Errorf("%s was restarted", p.name)
		}
	}
	w.settleFor(time.Second)
	writing.expectNoRefusal(t)
}

// settleFor insists that nothing is planned for a while.
func (w *world) settleFor(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); pause(w.t.Context(), 50*time.Millisecond) {
		if p := planner.Next(w.observe(w.t.Context())); p.Step != nil {
			w.t.Fatalf("planned %s: %s", p.Step, p.Message)
		}
	}
}

// restoresUsers has somebody change users by hand.
func (w *world) restoresUsers(t *testing.T) {
	w.steps = nil
	writing := w.startWriter()
	p := w.pods["carts-0-0"]
	for _, args := range [][]any{
		{"ACL", "SETUSER", "quorate", "-acl|list", "+get"},
		{"ACL", "SETUSER", "replication", "resetpass"},
		{"ACL", "SETUSER", "default", ">another", "(+get ~x)", "-flushall"},
		{"ACL", "DELUSER", "migration"},
		{"ACL", "SETUSER", "app", "on", ">app", "~app:*", "+@read"},
	} {
		if err := w.do(p, args...); err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	if !strings.Contains(strings.Join(w.steps, "\n"), steps.ReasonSetUsers) {
		t.Errorf("no users were set:\n%s", strings.Join(w.steps, "\n"))
	}
	var found []string
	for _, u := range w.usersOf(p) {
		found = append(found, u.Name)
	}
	slices.Sort(found)
	if want := []string{"app", "default", "migration", "quorate", "replication"}; !slices.Equal(found, want) {
		t.Errorf("users %v, want %v", found, want)
	}
	w.settleFor(time.Second)
	writing.expectNoRefusal(t)
}

// servesAccount gives one server the user of an application, lets the others have it, and takes it away again.
func (w *world) servesAccount(t *testing.T) {
	w.steps = nil
	u := &v1alpha1.RedisUser{}
	u.Name = "carts-app"
	u.Spec = v1alpha1.RedisUserSpec{
		ClusterName: "carts", Keys: []v1alpha1.RedisKeys{{Pattern: "key-*", Access: v1alpha1.RedisReadWrite}, {Pattern: "in:*", Access: v1alpha1.RedisRead}},
		Channels: []v1alpha1.RedisPattern{"news"}, Categories: []v1alpha1.RedisCategory{"read", "write", "pubsub", "transaction", "scripting", "blocking"},
		Commands: []v1alpha1.RedisCommand{"memory|usage", "keys"},
	}
	want := acl.Account(u, "app-secret")
	w.accounts = map[string]model.AccountClaim{"carts-app": {Username: "carts-app", Wanted: true}}
	defer func() { w.accounts = nil }()
	first := steps.SetUsers{Pods: []steps.PodUsers{{Pod: "carts-0-0", Users: []acl.User{want}, Admits: model.AdmitsForNow}}}
	if err := w.act(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.settle()
	for name, p := range w.pods {
		software := software.Release{Engine: w.cluster.Spec.ServerEngine(), Version: w.cluster.Spec.Version}
		i := slices.IndexFunc(w.usersOf(p), func(u acl.User) bool { return u.Name == "carts-app" })
		if i < 0 || !w.usersOf(p)[i].IsAccount(want, software) || w.usersOf(p)[i].MadeFor() != "carts-app" {
			t.Fatalf("%s has not the user that was set: %+v", name, w.usersOf(p))
		}
	}
	c := w.clientsAs(func() (string, string) { return "carts-app", "app-secret" })
	if err := c.Set(t.Context(), "key-0", value, 0).Err(); err != nil {
		t.Errorf("it may not do what it is for: %v", err)
	}
	for _, args := range [][]any{
		{"SET", "other", "1"}, {"SET", "in:x", "1"}, {"FLUSHALL"}, {"ACL", "LIST"}, {"CONFIG", "GET", "maxmemory"}, {"CLUSTER", "RESET"}, {"SHUTDOWN"}, {"MODULE", "LIST"},
	} {
		if err := c.Do(t.Context(), args...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("%v: %v, want it denied", args, err)
		}
	}
	w.accounts = map[string]model.AccountClaim{}
	w.settle()
	for name, p := range w.pods {
		if slices.ContainsFunc(w.usersOf(p), func(u acl.User) bool { return u.Name == "carts-app" }) {
			t.Errorf("%s still has the user", name)
		}
		if saved, err := os.ReadFile(filepath.Join(p.dir, config.UsersFile)); err != nil || strings.Contains(string(saved), "carts-app") {
			t.Errorf("the file of %s still has the user, or cannot be read: %v", name, err)
		}
	}
}

// rotatesPasswords replaces all passwords while a client writes that makes a new connection for every few writes.
func (w *world) rotatesPasswords(t *testing.T) {
	w.steps = nil
	before := maps.Clone(w.passwords)
	c := w.clients()
	c.Options().ConnMaxLifetime = 20 * time.Millisecond
	writing := write(t, c)
	w.passwords = acl.Introduce(w.passwords, map[string]string{
		acl.PasswordDefault: "new-client", acl.PasswordOperator: "new-operator",
		acl.PasswordReplication: "new-replication", acl.PasswordMigration: "new-migration",
	})
	w.settle()
	if w.passwords[acl.PasswordDefault] != "new-client" || w.given.Load() != "new-client" {
		t.Fatalf("the new password is not given out: %v", w.steps)
	}
	p := w.pods["carts-0-0"]
	if err := w.as(p, "default", before[acl.PasswordDefault]).Ping(t.Context()).Err(); err != nil {
		t.Errorf("the former password does not work while it is to: %v", err)
	}
	for end := time.Now().Add(time.Minute); (acl.Access{Passwords: w.passwords}).Replacing(); pause(t.Context(), 50*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the former passwords were not retired: %v", w.steps)
		}
		w.settle()
	}
	w.settle()
	writing.expectNoRefusal(t)
	for user, key := range map[string]string{
		"default": acl.PasswordDefault, acl.UserOperator: acl.PasswordOperator, acl.UserMigration: acl.PasswordMigration,
	} {
		if err := w.as(p, user, before[key]).Ping(t.Context()).Err(); err == nil || !strings.HasPrefix(err.Error(), "WRONGPASS") {
			t.Errorf("the former password of %s: %v", user, err)
		}
		if err := w.as(p, user, w.passwords[key]).Ping(t.Context()).Err(); err != nil {
			t.Errorf("the new password of %s: %v", user, err)
		}
	}
	t.Logf("%s", strings.Join(w.steps, "\n"))
}

// keepsPasswords restarts all servers in place: the file of users is that of the last change.
func (w *world) keepsPasswords(t *testing.T) {
	w.steps = nil
	for _, p := range w.pods {
		saved, err := os.ReadFile(filepath.Join(p.dir, config.UsersFile))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(saved), "user replication on") || !strings.Contains(string(saved), acl.AdmitsMark) {
			t.Errorf("%s would admit no replicas after a restart in place:\n%s", p.name, saved)
		}
		w.kill(p)
		w.run(p)
	}
	w.settle()
	w.expect(w.clients())
	for _, p := range w.pods {
		c := w.connect(p)
		node, err := c.Read(t.Context())
		_ = c.Close()
		if err != nil || node.ReplicationPassword != acl.Hash(acl.ShardPassword(w.passwords[acl.PasswordReplication], p.name)) {
			t.Errorf("%s: %v, or another replication password than the wanted one", p.name, err)
		}
	}
	t.Logf("%s", strings.Join(w.steps, "\n"))
}

// recoversPassword loses the operator's password.
func (w *world) recoversPassword(t *testing.T) {
	w.steps = nil
	w.passwords = maps.Clone(w.passwords)
	w.passwords[acl.PasswordOperator] = "made-anew"
	w.others = []redisclient.Login{{Username: "quorate", Password: "neither"}, {Username: "default", Password: w.passwords[acl.PasswordDefault]}}
	defer func() { w.others = nil }()
	w.settle()
	if err := w.as(w.pods["carts-1-0"], acl.UserOperator, "made-anew").Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

// as connects to a server as one of its users.
func (w *world) as(p *process, user, password string) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{
		Addr: p.ip + ":6379", Username: user, Password: password, TLSConfig: w.tlsFor(p.name), DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// movesSlot moves the slot of a key by hand, with what the user for it may do.
func (w *world) movesSlot(t *testing.T) {
	ctx := t.Context()
	from, to := w.pods[w.primary(t, 0)], w.pods[w.primary(t, 1)]
	fromID, toID := w.nodeID(from), w.nodeID(to)
	admin := w.as(from, "default", w.passwords[acl.PasswordDefault])
	key, slot := "", int64(slots.Count)
	for i := 0; slot > int64(slots.Share(0, 3)[0].To); i++ { // Until it is one of the first shard.
		key = fmt.Sprintf("moved-%d", i)
		slot = admin.ClusterKeySlot(ctx, key).Val()
	}
	if err := w.clients().Set(ctx, key, value, 0).Err(); err != nil {
		t.Fatal(err)
	}
	secret := w.passwords[acl.PasswordMigration]
	source, target := w.as(from, acl.UserMigration, secret), w.as(to, acl.UserMigration, secret)
	for _, c := range []struct {
		on   *goredis.Client
		args []any
	}{
		{target, []any{"CLUSTER", "SETSLOT", slot, "IMPORTING", fromID}},
		{source, []any{"CLUSTER", "SETSLOT", slot, "MIGRATING", toID}},
		{source, []any{"CLUSTER", "COUNTKEYSINSLOT", slot}},
		{source, []any{"CLUSTER", "GETKEYSINSLOT", slot, 10}},
		{source, []any{"MEMORY", "USAGE", key}},
		{source, []any{"OBJECT", "ENCODING", key}},
		{source, []any{"DUMP", key}},
		{source, []any{"MIGRATE", to.ip, 6379, "", 0, 2000, "REPLACE", "AUTH2", acl.UserMigration, secret, "KEYS", key}},
		{target, []any{"CLUSTER", "NODES"}},
		{target, []any{"CLUSTER", "SETSLOT", slot, "NODE", toID}},
		{source, []any{"CLUSTER", "SETSLOT", slot, "NODE", toID}},
		{target, []any{"UNLINK", key}},
		{target, []any{"DEL", key}},
	} {
		if err := c.on.Do(ctx, c.args...).Err(); err != nil {
			t.Fatalf("%v: %v", c.args[:2], err)
		}
	}
	for _, args := range [][]any{{"GET", key}, {"FLUSHALL"}, {"ACL", "LIST"}, {"CLUSTER", "MEET", "127.0.0.1", 1}, {"CONFIG", "GET", "*"}} {
		if err := source.Do(ctx, args...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("%v: %v", args, err)
		}
	}
}
