// Command agent runs inside the pods of the clusters, from the operator's own image: as the start
// gate in front of a data store, to take snapshots and backups, to tell metrics of Redis servers,
// and as a small client in the demonstration. It must not decide what a cluster needs, and must not
// call the Kubernetes API.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/quorate/quorate/internal/backup/job"
	"github.com/quorate/quorate/internal/heap"
)

// version is set by the linker.
var version = "dev"

// commands are the subcommands, by their words.
var commands = map[string]func(ctx context.Context, args []string) error{
	"gate etcd":  runGateEtcd,
	"gate redis": runGateRedis,
	"back etcd":  runBackEtcd,
	"demo":       runDemo,
	"exporter":   runExporter,
	"install":    runInstall,
	"shell":      runShell,

	"backup etcd":   runBackupEtcd,
	"backup redis":  runBackupRedis,
	"restore redis": runRestoreRedis,
	"backup find":   runBackupFind,
	"backup check":  runBackupCheck,
	"backup remove": runBackupRemove,

	"backup stream-etcd": runStreamEtcd,
}

func main() {
	heap.Spare()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:])
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "agent:", err)
	if errors.As(err, new(finalError)) {
		os.Exit(job.ExitFinal)
	}
	os.Exit(1)
}

func run(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == "--version" {
		fmt.Println(version)
		return nil
	}
	for words := 1; words <= 2 && words <= len(args); words++ {
		name := args[0]
		if words == 2 {
			name += " " + args[1]
		}
		if command, ok := commands[name]; ok {
			return command(ctx, args[words:])
		}
	}
	return fmt.Errorf("unknown command %q: use --version, or one of %s", args, strings.Join(slices.Sorted(maps.Keys(commands)), ", "))
}
