package redisclient_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// newReplicatedWorld is one primary with replicas.
func newReplicatedWorld(t *testing.T, engine string, replicas int32, secure bool) *world {
	t.Helper()
	w := newWorld(t, engine, 1, replicas, secure)
	w.cluster.Spec.Mode = ptr.To(v1alpha1.RedisReplicated)
	w.roles = map[string]string{}
	return w
}

// gate decides as the start gate does.
func (w *world) gate(disk redis.Disk) redis.Decision {
	if w.cluster.Spec.IsReplicated() {
		return redis.GateReplicated(disk)
	}
	return redis.Gate(disk)
}

// assign does what the labels of the pods do.
func (w *world) assign(s redis.AssignRoles) {
	w.change.Lock()
	defer w.change.Unlock()
	for _, p := range s.Pods {
		w.roles[p.Pod.Name] = p.Role
	}
}

// appoint does what the Service of the primary does.
func (w *world) appoint(s redis.Appoint) {
	w.change.Lock()
	defer w.change.Unlock()
	w.appointed, w.candidate = s.Appointment, s.Candidate
}

// handsOver has a primary hand over to a replica, of which the loop hears later.
func (w *world) handsOver(from, to *process) {
	w.t.Helper()
	must(w.t, w.act(w.t.Context(), redis.HandOver{From: from.name, To: to.name, Addr: redis.Address{IP: to.ip, Port: redis.ClientPort}}))
}

// untilItCopies waits until a server is a replica that is in touch with what it copies.
func (w *world) untilItCopies(p *process) {
	w.t.Helper()
	c := w.connect(p)
	defer func() { _ = c.Close() }()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); pause(w.t.Context(), 20*time.Millisecond) {
		if n, err := c.Read(w.t.Context()); err == nil && !n.Replication.Primary && n.LinkUp {
			return
		}
	}
	w.t.Fatalf("%s copies nobody", p.name)
}

// end kills servers, as the kubelet does with those that do not end by themselves.
func (w *world) end(pods []redis.PodRef) {
	w.t.Helper()
	for _, ref := range pods {
		w.kill(w.pods[ref.Name])
		w.recreate(w.pods[ref.Name], w.ephemeral)
	}
}

// primaryIP is where the Service of the primary leads to, empty when it leads nowhere.
func (w *world) primaryIP() string {
	w.change.RLock()
	defer w.change.RUnlock()
	c := w.candidate
	if p := w.pods[cmp.Or(c.Pod, w.appointed.Pod)]; p != nil && (w.roles[p.name] == redis.RolePrimary || (c.Pod != "" && c.History == "")) {
		return p.ip
	}
	return ""
}

// plainClient is a client that knows nothing but the Service of the primary.
func (w *world) plainClient() *goredis.Client {
	var conf *tls.Config
	if w.secure() {
		conf = w.tlsFor("carts-0-0")
	}
	c := goredis.NewClient(&goredis.Options{
		CredentialsProvider: func() (string, string) { return "default", w.given.Load().(string) },
		DialTimeout:         time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			ip := w.primaryIP()
			if ip == "" {
				return nil, errors.New("the Service has no endpoint")
			}
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, net.JoinHostPort(ip, "6379"))
			if err != nil || conf == nil {
				return conn, err
			}
			secure := tls.Client(conn, conf)
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return secure, secure.HandshakeContext(ctx)
		},
	})
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// plainWriter writes one key after another until it is stopped, and remembers when each was acknowledged.
type plainWriter struct {
	w     *world
	c     *goredis.Client
	stop  context.CancelFunc
	done  sync.WaitGroup
	mu    sync.Mutex
	acked []time.Time // by key
	names []string
	stall time.Duration
}

func (w *world) startPlainWriter() *plainWriter {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // stopped by its user
	wr := &plainWriter{w: w, c: w.plainClient(), stop: cancel}
	wr.done.Go(func() {
		last := time.Now()
		for i := 0; ctx.Err() == nil; i++ {
			key := fmt.Sprintf("written-%d", i)
			err := wr.c.Set(ctx, key, value, 0).Err()
			now := time.Now()
			wr.mu.Lock()
			if err == nil {
				wr.stall = max(wr.stall, now.Sub(last))
				last = now
				wr.acked, wr.names = append(wr.acked, now), append(wr.names, key)
			}
			wr.mu.Unlock()
			pause(ctx, time.Millisecond)
		}
	})
	w.t.Cleanup(cancel)
	return wr
}

// count of acknowledged writes.
func (wr *plainWriter) count() int {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	return len(wr.acked)
}

// waitFor waits until so many more writes were acknowledged.
func (wr *plainWriter) waitFor(more int) {
	wr.w.t.Helper()
	from, end := wr.count(), time.Now().Add(30*time.Second)
	for wr.count() < from+more {
		if time.Now().After(end) {
			wr.w.t.Fatalf("%d writes were acknowledged instead of %d more than %d\n%s", wr.count(), more, from, strings.Join(wr.w.steps, "\n"))
		}
		pause(wr.w.t.Context(), 10*time.Millisecond)
	}
}

// finish stops the writer and returns when each lost write was acknowledged.
func (wr *plainWriter) finish(what string) (lost []time.Time) {
	wr.w.t.Helper()
	wr.stop()
	wr.done.Wait()
	var first string
	for i, part := range slices.Collect(slices.Chunk(wr.names, 500)) {
		values, err := wr.c.MGet(wr.w.t.Context(), part...).Result()
		if err != nil {
			wr.w.t.Fatalf("read back: %v", err)
		}
		for j, v := range values {
			if v == nil {
				lost = append(lost, wr.acked[i*500+j])
				if first == "" {
					first = part[j]
				}
			}
		}
	}
	wr.w.t.Logf("%s: %d writes acknowledged, %d lost %s, the longest stall was %s", what, len(wr.acked), len(lost), first, wr.stall.Round(time.Millisecond))
	return lost
}

// nothingLost fails when an acknowledged write is gone.
func (wr *plainWriter) nothingLost(what string) {
	wr.w.t.Helper()
	if lost := wr.finish(what); len(lost) > 0 {
		wr.w.t.Errorf("%s: %d acknowledged writes are lost\n%s", what, len(lost), strings.Join(wr.w.steps, "\n"))
	}
}

// fullCopies counts how often replicas copied everything.
func (w *world) fullCopies() int64 {
	w.t.Helper()
	var n int64
	for _, p := range w.pods {
		if p.cmd == nil {
			continue
		}
		c := goredis.NewClient(&goredis.Options{
			Addr: p.ip + ":6379", Username: "default", Password: w.given.Load().(string), TLSConfig: w.tlsFor(p.name),
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		var full int64
		text, err := c.Info(w.t.Context(), "STATS").Result()
		for line := range strings.Lines(text) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "sync_full:"); ok {
				_, err = fmt.Sscan(v, &full)
			}
		}
		_ = c.Close()
		if err != nil {
			w.t.Fatal(err)
		}
		n += full
	}
	return n
}

func (w *world) lead() *process {
	w.t.Helper()
	p := w.pods[w.appointed.Pod]
	if p == nil {
		w.t.Fatal("nobody is the primary")
	}
	return p
}

func eachEngine(t *testing.T, test func(t *testing.T, engine string, secure bool)) {
	t.Helper()
	for _, engine := range someEngines(t) {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			test(t, engine, slices.Index(engines, engine)%2 == 0)
		})
	}
}

func TestAReplicatedClusterStartsAndHandsOver(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string, secure bool) {
		t.Helper()
		w := newReplicatedWorld(t, engine, 2, secure)
		w.startAll()
		t.Logf("ready after %s\n%s", w.settle(), strings.Join(w.steps, "\n"))
		if w.appointed.Pod != "carts-0-0" || w.appointed.Guard == 0 || w.roles["carts-0-1"] != redis.RoleReplica || w.roles["carts-0-2"] != redis.RoleReplica {
			t.Fatalf("appointed %+v, roles %v", w.appointed, w.roles)
		}
		wr, full := w.startPlainWriter(), w.fullCopies()
		wr.waitFor(200)
		to := w.pods["carts-0-2"]
		w.handsOver(w.lead(), to)
		w.steps = nil
		w.settle()
		wr.waitFor(200)
		if w.appointed.Pod != to.name || w.roles["carts-0-0"] != redis.RoleReplica || w.roles["carts-0-1"] != redis.RoleReplica {
			t.Errorf("appointed %+v, roles %v", w.appointed, w.roles)
		}
		if n := w.fullCopies(); n != full {
			t.Errorf("replicas copied everything %d times", n-full)
		}
		wr.nothingLost("hand-over")
	})
}

// loopUntil runs the loop until something holds.
func (w *world) loopUntil(holds func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	started, last := time.Now(), ""
	for ctx.Err() == nil {
		p := redis.Next(w.observe(ctx))
		if p.Message != last {
			w.steps, last = append(w.steps, fmt.Sprintf("%6s %s: %s", time.Since(started).Round(time.Millisecond), p.Reason, p.Message)), p.Message
		}
		if holds() {
			return
		}
		if p.Step != nil {
			if err := w.act(ctx, p.Step); err != nil {
				w.steps = append(w.steps, err.Error())
			}
		}
		pause(ctx, max(min(p.After, time.Second), 20*time.Millisecond))
	}
	w.t.Fatalf("it did not happen\n%s", strings.Join(w.steps, "\n"))
}

// lostOnlyAround fails when a write is gone that was acknowledged long before a fault: it had been copied.
func (wr *plainWriter) lostOnlyAround(what string, fault time.Time) {
	wr.w.t.Helper()
	for _, at := range wr.finish(what) {
		if fault.Sub(at) > 500*time.Millisecond {
			wr.w.t.Fatalf("%s: a write is lost that was acknowledged %s before\n%s", what, fault.Sub(at), strings.Join(wr.w.steps, "\n"))
		}
	}
}

func TestAReplicatedClusterSurvivesFaults(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string, secure bool) {
		t.Helper()
		w := newReplicatedWorld(t, engine, 2, !secure)
		w.startAll()
		w.settle()
		succeeded := func(was *process) func() bool {
			return func() bool { return w.appointed.Pod != was.name && w.roles[w.appointed.Pod] == redis.RolePrimary }
		}

		w.steps = nil
		wr, full, was := w.startPlainWriter(), w.fullCopies(), w.lead()
		wr.waitFor(200)
		at := time.Now()
		w.kill(was)
		w.loopUntil(succeeded(was))
		wr.waitFor(100)
		if n := w.fullCopies(); n > full {
			t.Errorf("%d replicas copied everything", n-full)
		}
		w.start(was)
		w.settle()
		wr.lostOnlyAround("kill -9", at)
		t.Log(strings.Join(w.steps, "\n"))

		wr, was, w.steps = w.startPlainWriter(), w.lead(), nil
		wr.waitFor(200)
		at = time.Now()
		w.kill(was)
		w.run(was)
		w.loopUntil(succeeded(was))
		w.settle()
		wr.waitFor(100)
		wr.lostOnlyAround("restart in place", at)

		wr, was, w.steps = w.startPlainWriter(), w.lead(), nil
		wr.waitFor(200)
		at = time.Now()
		w.kill(was)
		w.recreate(was, true)
		w.loopUntil(succeeded(was))
		w.settle()
		wr.waitFor(100)
		wr.lostOnlyAround("empty restart", at)

		wr, was, w.steps = w.startPlainWriter(), w.lead(), nil
		wr.waitFor(200)
		for _, p := range w.pods {
			w.kill(p)
		}
		for _, p := range w.pods {
			w.recreate(p, false)
		}
		w.settle()
		wr.waitFor(100)
		if w.lead() != was {
			t.Errorf("%s leads, not %s, which had everything", w.lead().name, was.name)
		}
		wr.nothingLost("all restarted")

		wr, was, w.steps = w.startPlainWriter(), w.lead(), nil
		wr.waitFor(200)
		at = time.Now()
		o := *w.plainClient().Options()
		o.MaxRetries, o.ReadTimeout = -1, time.Minute
		patient, stopped := goredis.NewClient(&o), was.cmd.Process
		defer func() { _ = patient.Close() }()
		must(t, patient.Ping(t.Context()).Err())
		must(t, stopped.Signal(syscall.SIGSTOP))
		answer := make(chan error, 1)
		go func() { answer <- patient.Set(t.Context(), "patient", "written", 0).Err() }()
		w.loopUntil(succeeded(was))
		took := time.Since(at)
		wr.waitFor(100)
		_ = stopped.Signal(syscall.SIGCONT) // It was to be ended by now.
		if err := <-answer; err == nil {
			t.Error("a client was told that its write is done by a server that another one had taken the place of")
		}
		w.settle()
		if took < maxSilence {
			t.Errorf("a primary that may have been alive was replaced after %s", took)
		}
		wr.lostOnlyAround("hung", at)

		wr, w.steps = w.startPlainWriter(), nil
		wr.waitFor(50)
		w.passwords = redis.Introduce(w.passwords, map[string]string{
			redis.PasswordDefault: "second", redis.PasswordOperator: "second-op", redis.PasswordReplication: "second-repl", redis.PasswordMigration: "second-mig",
		})
		w.settle()
		time.Sleep(hold)
		w.settle()
		wr.waitFor(50)
		wr.nothingLost("new passwords")
		if w.passwords[redis.PasswordDefault] != "second" {
			t.Errorf("the password is %q", w.passwords[redis.PasswordDefault])
		}
	})
}

// maxSilence is what a primary is given at least, see redis.maxSilence: the node timeout in whole seconds.
const maxSilence = 2 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAPrimaryThatWasAloneIsWaitedFor ends the process of a primary that has taken writes alone, as both replicas stood still. They go on just then, and
// have the beginning of all that it has.
func TestAPrimaryThatWasAloneIsWaitedFor(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string, secure bool) {
		t.Helper()
		w := newReplicatedWorld(t, engine, 2, !secure)
		w.startAll()
		w.settle()
		wr, was := w.startPlainWriter(), w.lead()
		wr.waitFor(50)
		replicas := slices.DeleteFunc(slices.Collect(maps.Values(w.pods)), func(p *process) bool { return p == was })
		for _, p := range replicas {
			must(t, p.cmd.Process.Signal(syscall.SIGSTOP))
		}
		w.steps = nil
		w.loopUntil(func() bool {
			c := w.connect(was)
			defer func() { _ = c.Close() }()
			n, err := c.Read(t.Context())
			return err == nil && n.Config["min-replicas-to-write"] == "0"
		})
		wr.waitFor(200)
		w.kill(was)
		for _, p := range replicas {
			must(t, p.cmd.Process.Signal(syscall.SIGCONT))
		}
		began := time.Now()
		w.loopUntil(func() bool { return time.Since(began) > maxSilence })
		w.run(was)
		w.settle()
		if w.lead() != was {
			t.Errorf("%s leads, not %s, which alone had everything\n%s", w.lead().name, was.name, strings.Join(w.steps, "\n"))
		}
		wr.waitFor(50)
		wr.nothingLost("the primary was alone")
	})
}

// TestAPrimaryWhoseHeirIsGoneTakesItsPartBack has the heir hang or vanish in the very moment in which it is to take over: the primary goes on
// trying to reach it, and refuses to copy anybody else meanwhile.
func TestAPrimaryWhoseHeirIsGoneTakesItsPartBack(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string, secure bool) {
		t.Helper()
		w := newReplicatedWorld(t, engine, 2, secure)
		w.startAll()
		w.settle()
		// The one that leads is not the first of those that have as much.
		w.handsOver(w.lead(), w.pods["carts-0-1"])
		w.settle()
		wr := w.startPlainWriter()
		for _, vanishes := range []bool{false, true} {
			wr.waitFor(100)
			was, heir := w.lead(), w.pods["carts-0-2"]
			stopped := heir.cmd.Process
			must(t, stopped.Signal(syscall.SIGSTOP))
			must(t, w.do(was, "FAILOVER", "TO", heir.ip, redis.ClientPort, "FORCE", "TIMEOUT", 200))
			pause(t.Context(), time.Second)
			if vanishes {
				w.crash(heir)
			}
			w.steps = nil
			w.loopUntil(func() bool {
				c := w.connect(was)
				defer func() { _ = c.Close() }()
				n, err := c.Read(t.Context())
				return err == nil && n.Replication.Primary
			})
			wr.waitFor(100)
			if vanishes {
				w.revive(false, heir)
			} else {
				must(t, stopped.Signal(syscall.SIGCONT))
			}
			w.settle()
			if w.lead() != was {
				t.Errorf("%s leads, not %s", w.lead().name, was.name)
			}
		}
		wr.waitFor(100)
		wr.nothingLost("an heir that is gone")
	})
}

// TestWhoHasHandedOverIsNotPromoted has a decision come true late: the server that was to lead again has handed over since.
func TestWhoHasHandedOverIsNotPromoted(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string, secure bool) {
		t.Helper()
		w := newReplicatedWorld(t, engine, 1, secure)
		w.startAll()
		w.settle()
		was, to, history := w.lead(), w.pods["carts-0-1"], w.appointed.History
		w.handsOver(was, to)
		w.untilItCopies(was)
		c := w.connect(was)
		defer func() { _ = c.Close() }()
		if err := c.Promote(t.Context(), history); err == nil || !strings.Contains(err.Error(), history) {
			t.Errorf("it is the primary again beside %s: %v", to.name, err)
		}
		w.untilItCopies(was) // It copies the other one as before.
	})
}

// TestTwoHandOversByHandAreFollowed has the primary hand over, and its heir hand over again, before the operator looks.
func TestTwoHandOversByHandAreFollowed(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string, secure bool) {
		t.Helper()
		w := newReplicatedWorld(t, engine, 2, secure)
		w.startAll()
		w.settle()
		wr := w.startPlainWriter()
		wr.waitFor(50)
		for _, by := range [][2]*process{{w.pods["carts-0-0"], w.pods["carts-0-1"]}, {w.pods["carts-0-1"], w.pods["carts-0-2"]}} {
			from, to := by[0], by[1]
			must(t, w.do(to, "REPLICAOF", from.ip, redis.ClientPort))
			w.untilItCopies(to)
			w.handsOver(from, to)
		}
		w.steps = nil
		w.settle()
		if w.appointed.Pod != "carts-0-2" {
			t.Errorf("%s leads\n%s", w.appointed.Pod, strings.Join(w.steps, "\n"))
		}
		wr.waitFor(50)
		wr.nothingLost("two hand-overs")
	})
}
