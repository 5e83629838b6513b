// Command record records what real servers on loopback say while something happens to them, see ../testdata/README.md.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/quorate/quorate/test/recorded"
)

// fleet are servers that are recorded.
type fleet interface {
	// version of the servers.
	version() string
	// read asks all of them. With every fourth reading it also asks for what is asked for once a minute.
	read(ctx context.Context, minute bool) []recorded.Server
}

// scenario is what happens to servers: act is called before each reading, and says what it has done.
type scenario struct {
	readings int
	// start makes the servers in a directory.
	start func(ctx context.Context, servers, dir string) (fleet, func(reading int) string, error)
}

// scenarios by their names, which are those of the files.
var scenarios = map[string]scenario{
	"etcd-idle":      {120, etcdScenario(0, nil)},
	"etcd-load":      {120, etcdScenario(40, nil)},
	"etcd-slow-disk": {200, etcdScenario(40, slowDisk)},
	"etcd-stopped":   {160, etcdScenario(10, stopAndGo)},
	"etcd-restarts":  {420, etcdScenario(10, restarts)},
	"redis-idle":     {120, redisScenario(noLoad)},
	"redis-load":     {120, redisScenario(evenLoad)},
	"redis-hot":      {240, redisScenario(hotLoad)},
	"redis-filling":  {200, redisScenario(filling)},
	"redis-lagging":  {160, redisScenario(lagging)},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run() error {
	var (
		name    = flag.String("scenario", "", "which one")
		servers = flag.String("servers", os.Getenv("QUORATE_SERVERS"), "directory with the servers that make test-unit builds")
		out     = flag.String("out", "test/recorded/testdata", "directory to write to")
		every   = flag.Duration("every", time.Second, "how far readings are apart")
		as      = flag.Duration("as", 15*time.Second, "how far they are told to be apart")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, ok := scenarios[*name]
	if !ok {
		return fmt.Errorf("there is no scenario %q", *name)
	}
	header := recorded.Header{Scenario: *name, Every: *every, As: *as, Began: time.Now().UTC().Truncate(time.Second)}
	return record(ctx, s, header, *servers, filepath.Join(*out, *name+".jsonl"))
}

// disk is where servers keep their data: in memory, so that what else uses the disk of this machine is not recorded.
const disk = "/dev/shm"

func record(ctx context.Context, s scenario, header recorded.Header, servers, path string) error {
	dir, err := os.MkdirTemp(disk, "recorded")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		running.Wait()
		_ = os.RemoveAll(dir)
	}()
	fleet, act, err := s.start(ctx, servers, dir)
	if err != nil {
		return err
	}
	header.Version = fleet.version()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(file)
	if err := lines.Encode(header); err != nil {
		return err
	}
	tick := time.NewTicker(header.Every)
	defer tick.Stop()
	for i := range s.readings {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		r := recorded.Reading{Act: act(i)}
		r.Servers = fleet.read(ctx, i%4 == 0)
		if err := lines.Encode(r); err != nil {
			return err
		}
	}
	return file.Close()
}

// running are the processes and loads that end with the recording.
var running sync.WaitGroup

// process is a server that runs, and how often it was started.
type process struct {
	args   []string
	starts int
	cmd    *exec.Cmd
}

func (p *process) start(ctx context.Context) error {
	p.cmd = exec.CommandContext(ctx, p.args[0], p.args[1:]...)
	p.starts++
	if err := p.cmd.Start(); err != nil {
		return err
	}
	cmd := p.cmd
	running.Go(func() { _ = cmd.Wait() }) // It is killed.
	return nil
}

func (p *process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
	}
}

// slower is the strace that slows a server down.
var slower *process

// delayCalls makes a system call of a server take longer until slower ends. strace does that to the real process.
func delayCalls(ctx context.Context, p process, call string, by time.Duration) error {
	slower = &process{args: []string{
		"strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call,
		"-e", fmt.Sprintf("inject=%s:delay_enter=%d", call, by.Microseconds()), "-p", strconv.Itoa(p.cmd.Process.Pid),
	}}
	return slower.start(ctx)
}

// load does something so many times a second until the recording ends.
func load(ctx context.Context, perSecond int, do func(n int)) {
	if perSecond == 0 {
		return
	}
	running.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				do(n)
			}
		}
	})
}

// newest is the newest of the servers whose name begins so.
func newest(servers, pattern, binary string) (path string, err error) {
	found, err := filepath.Glob(filepath.Join(servers, pattern, "bin", binary))
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("no %s in %q: run make test-unit, and name the directory with -servers", binary, servers)
	}
	return found[len(found)-1], nil
}
