// Command agent runs inside the pods of the clusters, from the operator's own image: as the start gate in front of a
// data store, to take snapshots, and as a small client in the demonstration.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// commands are the subcommands, by their words.
var commands = map[string]func(ctx context.Context, args []string) error{
	"gate etcd":  runGateEtcd,
	"gate redis": runGateRedis,
	"demo":       runDemo,

	"snapshot etcd": runSnapshotEtcd,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	for words := 1; words <= 2 && words <= len(args); words++ {
		name := args[0]
		if words == 2 {
			name += " " + args[1]
		}
		if command, ok := commands[name]; ok {
			return command(ctx, args[words:])
		}
	}
	return fmt.Errorf("unknown command %q: use gate etcd, gate redis, snapshot etcd or demo", args)
}
