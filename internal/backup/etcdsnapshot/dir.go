package etcdsnapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	// suffix of a snapshot that was verified, and unfinished of one that is not.
	suffix     = ".db"
	unfinished = ".part"
	// kept is how many snapshots stay.
	kept = 2
	// spare is what a database may grow by between the question for its size and the snapshot, beside a tenth.
	spare = 16 << 20
)

// Dir keeps the newest snapshots of one cluster. Nobody else writes to it.
type Dir struct {
	Path string
	// Free tells the free bytes of the file system that a directory is on; nil asks the system.
	Free func(path string) (int64, error)
}

// Wanted is what a snapshot must be.
type Wanted struct {
	// Version of etcd, for the name of the file.
	Version string
	// Size of the member's database in bytes.
	Size int64
	// Revision that the member had before: the snapshot has none that is older.
	Revision int64
}

// Save takes a snapshot, verifies it, and only then gives it its name, <version>-<revision>.db, which it returns. Older ones go, but
// for the newest two in all, and as many of these as stand in the way.
func (d Dir) Save(ctx context.Context, member Source, want Wanted) (name string, content Content, err error) {
	if err := d.makeRoom(want.Size); err != nil {
		return "", content, err
	}
	temporary := filepath.Join(d.Path, "snapshot"+unfinished)
	defer func() {
		if err != nil {
			_ = os.Remove(temporary) // The next attempt removes it if this one cannot.
		}
	}()
	if err := write(ctx, member, temporary); err != nil {
		return "", content, d.explain(err, want.Size)
	}
	if content, err = Verify(temporary); err != nil {
		return "", content, err
	}
	if content.Revision < want.Revision {
		return "", content, fmt.Errorf("%w: it ends at revision %d, and the member was at %d before", ErrDamaged, content.Revision, want.Revision)
	}
	name = fmt.Sprintf("%s-%d%s", want.Version, content.Revision, suffix)
	if err := os.Rename(temporary, filepath.Join(d.Path, name)); err != nil {
		return "", content, fmt.Errorf("give the snapshot its name: %w", err)
	}
	if err := syncDir(d.Path); err != nil {
		return "", content, err
	}
	return name, content, d.prune(kept)
}

// write streams to a file that is on the disk when it returns.
func write(ctx context.Context, member Source, path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // The path is the caller's to choose.
	if err != nil {
		return fmt.Errorf("create a file for the snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := Stream(ctx, member, f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write the snapshot to the disk: %w", err)
	}
	return nil
}

func syncDir(path string) (err error) {
	d, err := os.Open(path) //nolint:gosec // The path is the caller's to choose.
	if err != nil {
		return fmt.Errorf("write the name of the snapshot to the disk: %w", err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("write the name of the snapshot to the disk: %w", err)
	}
	return nil
}

// makeRoom removes what attempts left that did not come to their end, and old snapshots that stand in the way, the oldest first.
func (d Dir) makeRoom(size int64) error {
	leftovers, err := filepath.Glob(filepath.Join(d.Path, "*"+unfinished))
	if err != nil {
		return fmt.Errorf("look into %s: %w", d.Path, err)
	}
	for _, path := range leftovers {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove an unfinished snapshot: %w", err)
		}
	}
	snapshots, err := d.list()
	if err != nil {
		return err
	}
	for {
		free, err := d.free()
		if err != nil {
			return err
		}
		if free >= needed(size) {
			return nil
		}
		if len(snapshots) == 0 {
			return tooSmall(size, free)
		}
		if err := os.Remove(snapshots[len(snapshots)-1]); err != nil {
			return fmt.Errorf("remove an old snapshot: %w", err)
		}
		snapshots = snapshots[:len(snapshots)-1]
	}
}

func needed(size int64) int64 { return size + size/10 + spare }

func tooSmall(size, free int64) error {
	const mib = 1 << 20
	return fmt.Errorf("the volume for snapshots is too small: a database of %d MiB needs %d MiB, and %d MiB are free",
		size/mib, needed(size)/mib, free/mib)
}

// explain says in figures that the disk is full.
func (d Dir) explain(err error, size int64) error {
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	free, _ := d.free() // Zero where even that cannot be told.
	return fmt.Errorf("%w (%w)", tooSmall(size, free), err)
}

// list returns the verified snapshots, the newest first.
func (d Dir) list() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(d.Path, "*"+suffix))
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", d.Path, err)
	}
	ages := map[string]time.Time{}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("look at an old snapshot: %w", err)
		}
		ages[path] = info.ModTime()
	}
	slices.SortFunc(paths, func(a, b string) int { return ages[b].Compare(ages[a]) })
	return paths, nil
}

// prune removes all but the newest snapshots.
func (d Dir) prune(keep int) error {
	snapshots, err := d.list()
	if err != nil {
		return err
	}
	for _, path := range snapshots[min(keep, len(snapshots)):] {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove an old snapshot: %w", err)
		}
	}
	return nil
}

func (d Dir) free() (int64, error) {
	if d.Free != nil {
		return d.Free(d.Path)
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(d.Path, &s); err != nil {
		return 0, fmt.Errorf("ask for the free space of %s: %w", d.Path, err)
	}
	return int64(s.Bavail) * s.Bsize, nil //nolint:gosec // A file system of more than 2^63 bytes there is none.
}
