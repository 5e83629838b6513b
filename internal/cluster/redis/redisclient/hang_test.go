package redisclient_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// heardOf is how long after their start servers are known to have heard of each other, and more.
const heardOf = 5 * time.Second

// TestAPrimaryThatHangsIsEndedOnceItIsReplaced stops the process of a primary until another one has been elected, and lets it go on. A client with all
// the time in the world must not be told that its write is done.
func TestAPrimaryThatHangsIsEndedOnceItIsReplaced(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string, secure bool) {
		t.Helper()
		w := newWorld(t, engine, 3, 1, secure)
		w.startAll()
		w.settle()
		w.write(w.clients())
		pause(t.Context(), heardOf)
		was := w.pods[w.primary(t, 0)]
		key, stopped := w.keyOf(w.clients(), 0), was.cmd.Process

		o := *w.client(was).Options()
		o.MaxRetries, o.ReadTimeout = -1, time.Minute
		patient := goredis.NewClient(&o)
		defer func() { _ = patient.Close() }()
		must(t, patient.Ping(t.Context()).Err())
		must(t, stopped.Signal(syscall.SIGSTOP))
		answer := make(chan error, 1)
		go func() { answer <- patient.Set(t.Context(), key, "written", 0).Err() }()
		began := time.Now()
		w.steps, w.hungFor = nil, 3*time.Second
		w.loopUntil(func() bool { return was.cmd.Process != stopped })
		t.Logf("it was ended after %s", time.Since(began).Round(time.Millisecond))
		_ = stopped.Signal(syscall.SIGCONT) // It was to be ended by now.
		if err := <-answer; err == nil {
			t.Errorf("a client was told that its write is done by a server that another one had taken the place of\n%s", strings.Join(w.steps, "\n"))
		}
		w.settle()
		if w.primary(t, 0) == was.name {
			t.Errorf("%s leads", was.name)
		}
		w.expect(w.clients())
	})
}

// TestAServerThatHangsForGoodIsEnded stops the process of the primary of a cluster in which nobody can vote on who takes its place, and of a replica.
func TestAServerThatHangsForGoodIsEnded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string, secure bool) {
		t.Helper()
		w := newWorld(t, engine, 1, 1, !secure)
		w.startAll()
		w.settle()
		for _, leads := range []bool{true, false} {
			w.write(w.clients())
			pause(t.Context(), heardOf)
			p := w.pods["carts-0-0"]
			if (w.primary(t, 0) == p.name) != leads {
				p = w.pods["carts-0-1"]
			}
			stopped, began := p.cmd.Process, time.Now()
			must(t, stopped.Signal(syscall.SIGSTOP))
			w.steps, w.hungFor = nil, time.Minute
			w.loopUntil(func() bool { return time.Since(began) > 4*time.Second })
			if p.cmd.Process != stopped {
				t.Errorf("%s was ended after a minute\n%s", p.name, strings.Join(w.steps, "\n"))
			}
			w.hungFor = 2 * time.Minute
			w.loopUntil(func() bool { return p.cmd.Process != stopped })
			w.settle()
			w.expect(w.clients())
		}
	})
}
