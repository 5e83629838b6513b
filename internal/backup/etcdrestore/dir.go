package etcdrestore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	checksumSize = sha256.Size
	// logSize is what etcd allocates for a segment of its write-ahead log (wal.SegmentSizeBytes).
	logSize = 64 << 20
	// spare is what a database may be larger by than what is in it, beside a tenth.
	spare = 16 << 20
	mib   = 1 << 20
)

// stream makes what is read look like what a member sends.
type stream struct {
	ctx  context.Context //nolint:containedctx // It is that of the one call that this is for.
	from io.Reader
}

func (s stream) SnapshotWithVersion(context.Context) (*clientv3.SnapshotResponse, error) {
	return &clientv3.SnapshotResponse{Snapshot: io.NopCloser(s)}, nil
}

func (s stream) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	return s.from.Read(p) //nolint:wrapcheck // io.EOF has to stay what it is.
}

// makeRoom removes what an earlier attempt left, and looks whether there is a place for this one.
func (o Options) makeRoom(temporary string) error {
	if err := os.RemoveAll(temporary); err != nil {
		return fmt.Errorf("remove an unfinished restore: %w", err)
	}
	switch entries, err := os.ReadDir(o.Dir); {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("%w: %s", ErrExists, o.Dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look into the data directory: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(o.Dir), 0o700); err != nil {
		return fmt.Errorf("create the parent of the data directory: %w", err)
	}
	if o.SnapshotSize == 0 {
		return nil
	}
	free, err := o.free()
	if err != nil {
		return err
	}
	if free < o.needed() {
		return o.tooSmall(free)
	}
	return nil
}

// needed is an estimate in bytes. Changes take up to twice their size, because pages of the database are not filled completely.
func (o Options) needed() int64 {
	return o.SnapshotSize + o.SnapshotSize/10 + 2*o.ChangesSize + logSize + spare
}

func (o Options) tooSmall(free int64) error {
	return fmt.Errorf("%w: a snapshot of %d MiB and changes of %d MiB need %d MiB, and %d MiB are free",
		ErrNoSpace, o.SnapshotSize/mib, o.ChangesSize/mib, o.needed()/mib, free/mib)
}

// explain says in figures that the disk is full.
func (o Options) explain(err error) error {
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	free, _ := o.free() // Zero where even that cannot be told.
	return fmt.Errorf("%w (%w)", o.tooSmall(free), err)
}

func (o Options) free() (int64, error) {
	path := filepath.Dir(o.Dir)
	if o.Free != nil {
		return o.Free(path)
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, fmt.Errorf("ask for the free space of %s: %w", path, err)
	}
	return int64(s.Bavail) * s.Bsize, nil //nolint:gosec // A file system of more than 2^63 bytes there is none.
}

// publish gives a directory its name after everything in it is on the disk.
func publish(temporary, dir string) error {
	err := filepath.WalkDir(temporary, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(path)
	})
	if err != nil {
		return fmt.Errorf("write the data directory to the disk: %w", err)
	}
	// It is empty if it is there, or this fails.
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make place for the data directory: %w", err)
	}
	if err := os.Rename(temporary, dir); err != nil {
		return fmt.Errorf("give the data directory its name: %w", err)
	}
	if err := syncPath(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("write the name of the data directory to the disk: %w", err)
	}
	return nil
}

func syncPath(path string) (err error) {
	f, err := os.Open(path) //nolint:gosec // The path is the caller's to choose.
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Sync()
}
