package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorate/quorate/internal/goroutine"
)

var (
	// errServer tells that a server does not serve what was restored. What it said is in the message.
	errServer = errors.New("a server does not run on what was restored")
	// errMemory tells that one was killed by the system, which does so when the memory of the pod runs out.
	errMemory = errors.New("the server was killed, most likely because the memory of the pod ran out")
)

const (
	// serveLimit is how long a server may take to read its data: etcd builds an index of all keys, Redis has them all in memory.
	serveLimit = 2 * time.Hour
	// serveRest is how long it rests between two questions whether it serves.
	serveRest = 100 * time.Millisecond
	// askLimit bounds one such question, and tellLimit one that takes reading all of the data.
	askLimit  = 5 * time.Second
	tellLimit = 30 * time.Minute
	// tailSize is how much of what a server says is kept, in bytes: the end of it goes into a termination message.
	tailSize = 1200
	// endLimit is how soon the end of a process is known after its connections broke.
	endLimit = time.Second
)

// throwAway is a server that runs for as long as a check takes, on data that nobody needs afterwards. It has neither the environment of
// this program, which may hold credentials, nor its memory limit, and is reached by a socket in its directory only.
type throwAway struct {
	program string
	args    []string
	dir     string
}

// run starts the server, waits until it serves, and lets look compare. The server is gone when it returns.
func (s throwAway) run(ctx context.Context, serves, look func(context.Context) error) error {
	path, err := exec.LookPath(s.program)
	if err != nil {
		return finalError{fmt.Errorf("the image of the check has no program %s in its PATH: correct spec.image of the cluster: %w", s.program, err)}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	said := &tail{}
	cmd := exec.CommandContext(ctx, path, s.args...) //nolint:gosec // One of the servers, see programs.
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir}, said, said
	cmd.WaitDelay = endLimit // What a server has started itself may hold on to its output.
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.program, err)
	}
	ended := make(chan struct{})
	var end error
	goroutine.Go(cmd.Wait, func(err error) {
		end = err
		close(ended)
	})
	err = wait(ctx, ended, serves)
	if err == nil {
		err = look(ctx)
	}
	if err != nil {
		err = s.explain(ctx, err, ended, &end, said)
	}
	cancel()
	<-ended
	return err
}

// wait asks until the server serves or ends.
func wait(ctx context.Context, ended <-chan struct{}, serves func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, serveLimit, fmt.Errorf("it did not serve within %s", serveLimit))
	defer cancel()
	for {
		asking, done := context.WithTimeout(ctx, askLimit)
		err := serves(asking)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return errServer
		case <-ctx.Done():
			return fmt.Errorf("%w: %w: %w", errServer, context.Cause(ctx), err)
		case <-time.After(serveRest):
		}
	}
}

// explain says what ended the server, if something did, and what it said last.
func (s throwAway) explain(ctx context.Context, err error, ended <-chan struct{}, end *error, said *tail) error {
	select {
	case <-ctx.Done():
	case <-time.After(endLimit):
		return err // It runs: what was found out is about the data.
	case <-ended:
	}
	if ctx.Err() != nil { // It was told to end, and says nothing about the data.
		return fmt.Errorf("%s was stopped: %w", s.program, context.Cause(ctx))
	}
	if exit := new(exec.ExitError); errors.As(*end, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return fmt.Errorf("%s: %w", s.program, errMemory)
		}
	}
	if *end == nil {
		*end = errors.New("exit status 0")
	}
	if !errors.Is(err, errServer) {
		err = fmt.Errorf("%w: %w", errServer, err)
	}
	return fmt.Errorf("%w: %s ended (%w), and said at last: %s", err, s.program, *end, said)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-tailSize):]...)
	t.text = append(t.text[:0], t.text[max(0, len(t.text)-tailSize):]...)
	return len(p), nil
}

// String is what was kept, without the breaks between lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(strings.Join(strings.Fields(string(t.text)), " "), "")
}
