package redisclient_test

import (
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

func TestAReplicatedClusterStartsAndHandsOver(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string, secure bool) {
		t.Helper()
		w := newReplicatedWorld(t, engine, 2, secure)
		w.startAll()
		t.Logf("ready after %s\n%s", w.settle(), strings.Join(w.steps, "\n"))
		if w.appointed.Pod != "carts-0-0" || w.appointed.Guard == 0 || w.roles["carts-0-1"] != model.RoleReplica || w.roles["carts-0-2"] != model.RoleReplica {
			t.Fatalf("appointed %+v, roles %v", w.appointed, w.roles)
		}
		wr, full := w.startPlainWriter(), w.fullCopies()
		wr.waitFor(200)
		to := w.pods["carts-0-2"]
		w.handsOver(w.lead(), to)
		w.steps = nil
		w.settle()
		wr.waitFor(200)
		if w.appointed.Pod != to.name || w.roles["carts-0-0"] != model.RoleReplica || w.roles["carts-0-1"] != model.RoleReplica {
			t.Errorf("appointed %+v, roles %v", w.appointed, w.roles)
		}
		if n := w.fullCopies(); n != full {
			t.Errorf("replicas copied everything %d times", n-full)
		}
		wr.nothingLost("hand-over")
	})
}

func TestAReplicatedClusterSurvivesFaults(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string, secure bool) {
		t.Helper()
		w := newReplicatedWorld(t, engine, 2, !secure)
		w.startAll()
		w.settle()
		succeeded := func(was *process) func() bool {
			return func() bool { return w.appointed.Pod != was.name && w.roles[w.appointed.Pod] == model.RolePrimary }
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
		w.passwords = acl.Introduce(w.passwords, map[string]string{
			acl.PasswordDefault: "second", acl.PasswordOperator: "second-op", acl.PasswordReplication: "second-repl", acl.PasswordMigration: "second-mig",
		})
		w.settle()
		time.Sleep(hold)
		w.settle()
		wr.waitFor(50)
		wr.nothingLost("new passwords")
		if w.passwords[acl.PasswordDefault] != "second" {
			t.Errorf("the password is %q", w.passwords[acl.PasswordDefault])
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
			must(t, w.do(was, "FAILOVER", "TO", heir.ip, model.ClientPort, "FORCE", "TIMEOUT", 200))
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
			must(t, w.do(to, "REPLICAOF", from.ip, model.ClientPort))
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
