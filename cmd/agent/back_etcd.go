package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/quorate/quorate/internal/cluster/etcd/config"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// takenBack begins the names of directories with what a member had until something else was taken back.
const takenBack = "after-"

// runBackEtcd gives a member back what it had before a restore or a recovery. No member may run on the volume.
func runBackEtcd(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("back etcd", flag.ContinueOnError)
	dir := flags.String("data-dir", config.DataDir, "data directory of etcd")
	plan := flags.String("plan", "", "plan of the restore or of the recovery, as in before-<plan> on the volume")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return takeBack(etcdGate{dataDir: *dir, out: os.Stdout}, *plan)
}

// takeBack exchanges the data directory for what was set aside. Interrupted or done before, it can be done again.
func takeBack(g etcdGate, plan string) error {
	if plan == "" || strings.ContainsAny(plan, "/*?[\\") {
		return finalError{errors.New("--plan is missing, or is not the name of one")}
	}
	aside, err := g.aside()
	if err != nil {
		return err
	}
	var from []string
	for _, name := range aside {
		if name == model.CopyName(plan) || strings.HasPrefix(name, model.CopyName(plan)+"-") {
			from = append(from, name)
		}
	}
	kept, err := filepath.Glob(filepath.Join(g.volume(), takenBack+plan+"*"))
	switch {
	case err != nil:
		return fmt.Errorf("look for what was taken back: %w", err)
	case len(from) == 0 && len(kept) == 1:
		_, _ = fmt.Fprintf(g.out, "it is taken back already; what was there until then is in %s\n", kept[0])
		return nil
	case len(from) != 1:
		return finalError{fmt.Errorf("the volume has not one %s, but %d; what was set aside is %q", model.CopyName(plan), len(from), aside)}
	}
	if err := unused(g.dataDir); err != nil {
		return err
	}
	to := filepath.Join(g.volume(), takenBack+strings.TrimPrefix(from[0], model.CopyName("")))
	if err := os.Rename(g.dataDir, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep what is there: %w", err)
	}
	if err := os.Rename(filepath.Join(g.volume(), from[0]), g.dataDir); err != nil {
		return fmt.Errorf("take %s back: %w", from[0], err)
	}
	_, _ = fmt.Fprintf(g.out, "%s is taken back; what was there until now is in %s\n", from[0], to)
	return syncDir(g.volume())
}

// unused fails while a member runs on a data directory: etcd holds a lock on its database.
func unused(dir string) error {
	f, err := os.Open(filepath.Join(dir, "member", "snap", "db")) //nolint:gosec // It is on the volume.
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look whether a member runs: %w", err)
	}
	defer func(c io.Closer) { _ = c.Close() }(f) // It gives the lock up.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("a member runs on the volume (%w): delete the cluster first, its claims stay", err)
	}
	return nil
}
