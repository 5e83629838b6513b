package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/google/uuid"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"

	"github.com/quorate/quorate/internal/goroutine"
)

// directory is the driver for file://. The one of gocloud.dev does not fit: it neither syncs what it writes nor replaces atomically what must
// not be there, skips what it cannot read when it lists, and follows symbolic links to anywhere.
//
// The directory is made by the first write. It may be a volume that several nodes mount.
type directory struct {
	path string
	// fsync replaces the system call in tests; nil: os.File.Sync.
	fsync func(*os.File) error

	mu   sync.Mutex
	root *os.Root
}

// temporary is the end of names of files that are being written. They begin with a dot, so no object has such a name.
const temporary = ".part"

func (d *directory) open(create bool) (*os.Root, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root != nil {
		return d.root, nil
	}
	if create {
		if err := os.MkdirAll(d.path, 0o750); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoBucket, err)
	}
	d.root = root
	return root, err
}

// Close implements driver.Bucket.
func (d *directory) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root == nil {
		return nil
	}
	root := d.root
	d.root = nil
	return root.Close()
}

// ErrorCode implements driver.Bucket. What the codes do not tell is found in the error by classify.
func (d *directory) ErrorCode(err error) gcerrors.ErrorCode {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return gcerrors.NotFound
	case errors.Is(err, fs.ErrExist):
		return gcerrors.FailedPrecondition
	}
	return gcerrors.Unknown
}

// As implements driver.Bucket.
func (d *directory) As(any) bool { return false }

// ErrorAs implements driver.Bucket.
func (d *directory) ErrorAs(err error, i any) bool { return errors.As(err, i) }

// Attributes implements driver.Bucket.
func (d *directory) Attributes(_ context.Context, key string) (*driver.Attributes, error) {
	root, err := d.open(false)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(key)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	return &driver.Attributes{ModTime: info.ModTime(), Size: info.Size()}, nil
}

// ListPaged implements driver.Bucket, with everything on one page. Only files are listed: symbolic links are not followed.
func (d *directory) ListPaged(ctx context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	if o.Delimiter != "" {
		return nil, errors.New("a directory is listed without delimiters")
	}
	root, err := d.open(false)
	if err != nil {
		return nil, err
	}
	start := "."
	if dir := path.Dir(o.Prefix + "x"); dir != "." {
		start = dir
	}
	page := &driver.ListPage{}
	err = fs.WalkDir(root.FS(), start, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist): // There is no such directory, or it went meanwhile.
			return nil
		case err != nil && name == "lost+found": // Made by the file system, for root alone.
			return fs.SkipDir
		case err != nil:
			return err
		case !entry.Type().IsRegular() || !strings.HasPrefix(name, o.Prefix):
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		page.Objects = append(page.Objects, &driver.ListObject{Key: name, ModTime: info.ModTime(), Size: info.Size()})
		return nil
	})
	slices.SortFunc(page.Objects, func(a, b *driver.ListObject) int { return strings.Compare(a.Key, b.Key) })
	return page, err
}

type fileReader struct {
	io.Reader
	io.Closer
	attributes driver.ReaderAttributes
}

func (r *fileReader) Attributes() *driver.ReaderAttributes { return &r.attributes }
func (r *fileReader) As(any) bool                          { return false }

// NewRangeReader implements driver.Bucket.
func (d *directory) NewRangeReader(_ context.Context, key string, offset, length int64, _ *driver.ReaderOptions) (driver.Reader, error) {
	root, err := d.open(false)
	if err != nil {
		return nil, err
	}
	// Without waiting: a pipe in the place of a file must not hold anybody up.
	f, err := root.OpenFile(key, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err == nil && offset > 0 {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r := &fileReader{Reader: f, Closer: f, attributes: driver.ReaderAttributes{ModTime: info.ModTime(), Size: info.Size()}}
	if length >= 0 {
		r.Reader = io.LimitReader(f, length)
	}
	return r, nil
}

// fileWriter has a name of its own until it is closed.
type fileWriter struct {
	*os.File
	ctx             context.Context // Close looks whether the write was given up, and gets none.
	dir             *directory
	root            *os.Root
	name, temporary string
	exclusive       bool
	// failed is the first error of Write: whoever wrote may close what is not whole.
	failed error
	// unsynced counts the bytes since the last sync that was begun; synced has the result of the one that runs.
	unsynced int
	synced   chan error
}

// syncEvery is after how many bytes a file begins to go to the disk, so that there is little to wait for in the end.
const syncEvery = 16 << 20

func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.File.Write(p)
	w.failed = cmp.Or(w.failed, err)
	if w.unsynced += n; w.unsynced >= syncEvery {
		w.startSync()
	}
	return n, err
}

// startSync begins to sync, unless that is going on.
func (w *fileWriter) startSync() {
	if w.synced == nil {
		w.synced = make(chan error, 1)
		w.synced <- nil
	}
	select {
	case err := <-w.synced: // A disk tells of what it lost once.
		w.failed = cmp.Or(w.failed, err)
	default:
		return
	}
	w.unsynced = 0
	goroutine.Go(func() error { return w.dir.sync(w.File) }, func(err error) { w.synced <- err })
}

// endSync waits for the sync that is going on.
func (w *fileWriter) endSync() {
	if w.synced != nil {
		w.failed = cmp.Or(w.failed, <-w.synced)
	}
}

// NewTypedWriter implements driver.Bucket.
func (d *directory) NewTypedWriter(ctx context.Context, key, _ string, o *driver.WriterOptions) (driver.Writer, error) {
	root, err := d.open(true)
	if err != nil {
		return nil, err
	}
	if o.BeforeWrite != nil {
		if err := o.BeforeWrite(func(any) bool { return false }); err != nil {
			return nil, err
		}
	}
	dir, base := path.Split(key)
	if dir != "" {
		if err := root.MkdirAll(strings.TrimSuffix(dir, "/"), 0o750); err != nil {
			return nil, err
		}
	}
	w := &fileWriter{ctx: ctx, dir: d, root: root, name: key, temporary: dir + "." + base + "." + uuid.NewString()[:8] + temporary, exclusive: o.IfNotExist}
	if w.File, err = root.OpenFile(w.temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640); err != nil {
		return nil, err
	}
	return w, nil
}

// Close gives the file its name once it is on the disk, or removes it.
func (w *fileWriter) Close() error {
	w.endSync()
	err := cmp.Or(w.failed, w.ctx.Err())
	if err == nil {
		err = w.dir.sync(w.File)
	}
	err = errors.Join(err, w.File.Close())
	if err == nil {
		err = w.publish()
	}
	if err != nil {
		_ = w.root.Remove(w.temporary) // DeleteBackup removes it if this cannot.
		return err
	}
	return w.dir.syncTree(w.root, path.Dir(w.name))
}

func (w *fileWriter) publish() error {
	if !w.exclusive {
		return w.root.Rename(w.temporary, w.name)
	}
	err := w.root.Link(w.temporary, w.name) // Fails if there is one, also when two do it at the same time.
	switch {
	case err == nil:
		return w.root.Remove(w.temporary)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	// A file system without links, as some that are reached by network.
	if _, statErr := w.root.Lstat(w.name); !errors.Is(statErr, fs.ErrNotExist) {
		return errors.Join(fs.ErrExist, statErr)
	}
	return w.root.Rename(w.temporary, w.name)
}

func (d *directory) sync(f *os.File) error {
	if d.fsync != nil {
		return d.fsync(f)
	}
	return f.Sync()
}

// syncTree brings the names in a directory to the disk, and those of the directories above, which may be new as well.
func (d *directory) syncTree(root *os.Root, dir string) error {
	for {
		f, err := root.Open(dir)
		if err != nil {
			return err
		}
		err = d.sync(f)
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
			err = nil // A file system that has no such thing.
		}
		if err := errors.Join(err, f.Close()); err != nil || dir == "." {
			return err
		}
		dir = path.Dir(dir)
	}
}

// Delete implements driver.Bucket. Directories go with their last file.
func (d *directory) Delete(_ context.Context, key string, _ *driver.DeleteOptions) error {
	root, err := d.open(false)
	if err != nil {
		return err
	}
	if err := root.Remove(key); err != nil {
		return err
	}
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		if root.Remove(dir) != nil { // Not empty.
			return d.syncTree(root, dir)
		}
	}
	return d.syncTree(root, ".")
}

// Copy implements driver.Bucket.
func (d *directory) Copy(context.Context, string, string, *driver.CopyOptions) error {
	return errors.ErrUnsupported
}

// SignedURL implements driver.Bucket.
func (d *directory) SignedURL(context.Context, string, *driver.SignedURLOptions) (string, error) {
	return "", errors.ErrUnsupported
}
