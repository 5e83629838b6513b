// Command load writes to an etcd or Redis cluster at a bounded rate until it is told to stop, then checks that every
// acknowledged write is there, and prints what it found as one line of JSON. It knows only what any client is given:
// a mounted connection Secret, and the addresses of the members.
//
// It stops writing on POST /pause, and checks on POST /stop, on SIGTERM, or after -duration. It ends with 0 when it could check, whatever it found, and with 1
// when it could not.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quorate/quorate/internal/connection"
	"github.com/quorate/quorate/test/e2e/load/ledger"
	"github.com/quorate/quorate/test/e2e/load/updates"
)

// options are the flags.
type options struct {
	mode, secretDir, endpoints, listen, run string
	rate                                    float64
	inFlight                                int
	opTimeout, duration, checkTimeout       time.Duration
	watch, lookBack                         bool
	registers, replicas, updates            int
}

// defaultRate of each mode in writes per second.
var defaultRate = map[string]float64{"etcd": 100, "redis": 500, replicatedMode: 500}

func parse(args []string) (options, error) {
	var o options
	if len(args) == 0 || defaultRate[args[0]] == 0 {
		return o, errors.New("usage: load etcd|redis|redis-replicated [flags]")
	}
	o.mode = args[0]
	fs := flag.NewFlagSet("load "+o.mode, flag.ContinueOnError)
	fs.StringVar(&o.secretDir, "secret-dir", "/connection", "directory that the connection Secret is mounted at")
	fs.StringVar(&o.endpoints, "endpoints", "", "comma-separated host:port of the members; empty: what the Secret names")
	fs.StringVar(&o.listen, "listen", ":8080", "address that serves GET /progress, POST /pause and POST /stop")
	fs.StringVar(&o.run, "run", strconv.FormatInt(time.Now().UnixNano(), 36), "name of this run, part of every key")
	fs.Float64Var(&o.rate, "rate", defaultRate[o.mode], "writes per second, over all shards")
	fs.IntVar(&o.inFlight, "in-flight", 256, "writes that may wait for their answer at a time, for each shard")
	fs.DurationVar(&o.opTimeout, "op-timeout", 2*time.Second, "time after which a write counts as unknown")
	fs.DurationVar(&o.duration, "duration", 30*time.Minute, "longest time to write")
	fs.DurationVar(&o.checkTimeout, "check-timeout", 2*time.Minute, "longest time to read everything back")
	fs.BoolVar(&o.watch, "watch", false, "etcd: watch everything that is written, and compare")
	fs.BoolVar(&o.lookBack, "look-back", false, "look again and again, while writing, whether what was acknowledged is there")
	fs.IntVar(&o.registers, "registers", 0, "etcd: keys that several clients read, write, and compare and swap")
	fs.IntVar(&o.updates, "updates", 0, "keys that are overwritten, deleted and incremented again and again")
	fs.IntVar(&o.replicas, "wait", 0, "Redis: a write counts as acknowledged when so many replicas have it (WAIT)")
	if err := fs.Parse(args[1:]); err != nil {
		return o, err
	}
	if etcd := o.mode == "etcd"; (o.watch || o.registers > 0) && !etcd || o.replicas > 0 && etcd {
		return o, errors.New("-watch and -registers are for etcd, -wait is for Redis")
	}
	if o.rate <= 0 || o.inFlight <= 0 {
		return o, errors.New("-rate and -in-flight must be positive")
	}
	return o, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// run writes until ctx ends, then checks and prints the summary.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	conn, err := connection.Read(o.secretDir)
	if err != nil {
		return err
	}
	follow(o.secretDir, &conn)
	first, err := connect(ctx, o, conn)
	if err != nil {
		return err
	}
	s := reopen(ctx, o, first, conn)
	defer s.close()
	var names []string
	for _, l := range s.lanes() {
		names = append(names, l.name)
	}
	book := ledger.New(o.mode, names, time.Now)
	changed := updates.New(time.Now)
	finish, err := writeUntilTold(ctx, o, s, book, changed)
	if err != nil {
		return err
	}
	checkCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.checkTimeout)
	defer cancel()
	registers := finish(checkCtx)
	summary, err := check(checkCtx, s, book)
	if err != nil {
		return err
	}
	summary.Registers = registers
	if o.updates > 0 {
		if summary.Updates, err = checkUpdates(checkCtx, s.rewriter, changed); err != nil {
			return err
		}
	}
	return json.NewEncoder(out).Encode(summary)
}

// connect retries until the data store can be reached: at first its name may not even resolve.
func connect(ctx context.Context, o options, conn connection.Connection) (store, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		s, err := dial(ctx, o, conn)
		if err == nil {
			return s, nil
		}
		fmt.Fprintln(os.Stderr, "connect:", err)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to %s: %w", o.mode, err)
		case <-time.After(time.Second):
		}
	}
}

// dial connects once.
func dial(ctx context.Context, o options, conn connection.Connection) (store, error) {
	addrs := []string{conn.Addr()}
	if o.endpoints != "" {
		addrs = strings.Split(o.endpoints, ",")
	}
	switch o.mode {
	case "redis":
		return openRedis(ctx, conn, addrs, o)
	case replicatedMode:
		return openReplicated(ctx, conn, addrs[0], o)
	}
	return openEtcd(ctx, conn, addrs)
}

// check reads everything back, trying again while the data store does not answer.
func check(ctx context.Context, s store, book *ledger.Ledger) (ledger.Summary, error) {
	acked, unknown := book.Keys()
	keys := append(acked, unknown...)
	for {
		found, last, err := s.read(ctx, keys)
		if err == nil {
			return book.Check(found, valueOf, last), nil
		}
		fmt.Fprintln(os.Stderr, "check:", err)
		select {
		case <-ctx.Done():
			return ledger.Summary{}, fmt.Errorf("read back %d keys: %w", len(keys), err)
		case <-time.After(time.Second):
		}
	}
}

// valueOf is the value that a key is written with.
func valueOf(key string) string { return "value of " + key }
