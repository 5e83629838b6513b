package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/quorate/quorate/internal/cluster/etcd/etcdlog"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// epochFile on a volume bears the incident that the data on it is from after, see etcd.Recovery.
const epochFile = "epoch"

// volume is where the data directory is.
func (g etcdGate) volume() string { return filepath.Dir(g.dataDir) }

// epoch reads which incident the volume bears, empty for none.
func (g etcdGate) epoch() (string, error) {
	raw, err := os.ReadFile(filepath.Join(g.volume(), epochFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the epoch of the volume: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// aside names what earlier recoveries and restores have set aside on the volume.
func (g etcdGate) aside() ([]string, error) {
	found, err := filepath.Glob(filepath.Join(g.volume(), model.CopyName("*"), "member", "wal"))
	if err != nil {
		return nil, fmt.Errorf("look for what was set aside: %w", err)
	}
	var names []string
	for _, path := range found {
		names = append(names, filepath.Base(filepath.Dir(filepath.Dir(path))))
	}
	return names, nil
}

// begin makes the volume bear an incident, so that its data is not taken for older again.
func (g etcdGate) begin(incident string) error {
	path := filepath.Join(g.volume(), epochFile)
	if err := writeSynced(path+".new", strings.NewReader(incident+"\n")); err != nil {
		return fmt.Errorf("write the epoch of the volume: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the epoch of the volume: %w", err)
	}
	return syncDir(g.volume())
}

// goOnAlone keeps a copy of the data and makes this member the only one of its cluster. Interrupted, it is done again as if it
// had not been begun.
func (g etcdGate) goOnAlone(incident string) error {
	kept := filepath.Join(g.volume(), model.CopyName(incident))
	if _, err := os.Stat(kept); errors.Is(err, fs.ErrNotExist) {
		if err := g.keepCopy(kept); err != nil {
			return err
		}
	}
	if err := etcdlog.GoOnAlone(g.dataDir); err != nil {
		return fmt.Errorf("make %s the only member: %w", g.self, err)
	}
	return nil
}

// setAsideFor keeps the data of a member that has to join again, next to where it was.
func (g etcdGate) setAsideFor(incident string) error {
	kept := filepath.Join(g.volume(), model.CopyName(incident))
	if err := os.Rename(g.dataDir, kept); err != nil {
		return fmt.Errorf("set the data aside: %w", err)
	}
	g.say(model.GateReport{Reason: "SetAside", Message: "what " + g.self + " had is kept in " + kept})
	return syncDir(g.volume())
}

// keepCopy copies the data directory. It takes as long as the disk needs for as much.
func (g etcdGate) keepCopy(to string) error {
	size, err := treeSize(g.dataDir)
	if err != nil {
		return err
	}
	partial := to + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("remove a copy that was interrupted: %w", err)
	}
	free, err := freeSpace(g.volume())
	if err != nil {
		return err
	}
	if free < size {
		return gateHolds{model.GateReport{Reason: model.GateNoRoom, Message: fmt.Sprintf("a copy of the data takes %d MiB, and %d MiB are free: "+
			"enlarge the volume, or remove earlier copies (before-*) from it", size>>20+1, free>>20)}}
	}
	g.say(model.GateReport{Reason: "Copying", Message: fmt.Sprintf("a copy of %d MiB is kept in %s", size>>20+1, to)})
	if err := copyTree(g.dataDir, partial); err != nil {
		return err
	}
	if err := os.Rename(partial, to); err != nil {
		return fmt.Errorf("finish the copy: %w", err)
	}
	return syncDir(g.volume())
}

// gateHolds is an error that the operator is told of like a decision to wait.
type gateHolds struct{ model.GateReport }

func (h gateHolds) Error() string { return h.Message }

func treeSize(dir string) (n uint64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += uint64(info.Size()) //nolint:gosec // No file has a size below zero.
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", dir, err)
	}
	return n, nil
}

func freeSpace(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("measure what is free in %s: %w", dir, err)
	}
	return st.Bavail * uint64(st.Bsize), nil //nolint:gosec // No block has a size below zero.
}

// copyTree copies files and directories, and returns when they are on the disk.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error { // Its errors are ours.
		if err != nil {
			return fmt.Errorf("copy %s: %w", from, err)
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return fmt.Errorf("copy %s: %w", from, err)
		}
		if d.IsDir() {
			if err := os.MkdirAll(filepath.Join(to, rel), 0o700); err != nil {
				return fmt.Errorf("copy %s: %w", from, err)
			}
			return nil
		}
		in, err := os.Open(path) //nolint:gosec // It is below the data directory.
		if err != nil {
			return fmt.Errorf("copy %s: %w", from, err)
		}
		err = writeSynced(filepath.Join(to, rel), in)
		return errors.Join(err, in.Close())
	})
}

func writeSynced(path string, from io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600) //nolint:gosec // It is on the volume.
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if _, err := io.Copy(f, from); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), f.Close())
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir) //nolint:gosec // It is the volume.
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	if err := f.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync %s: %w", dir, err), f.Close())
	}
	return f.Close() // It was only read.
}
