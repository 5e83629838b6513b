package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Store is one place for backups. It may be used by several goroutines at once.
type Store struct {
	bucket *blob.Bucket
	// tune is called before an upload, nil: nothing is.
	tune func(as func(any) bool) error
	// vague: a bucket that is missing is answered like an object that is.
	vague bool
	// creates: the first write makes the bucket.
	creates bool
	// patience is what a small request may take, stall how long a stream may stand still.
	patience, stall time.Duration

	plain, stored atomic.Int64
}

// Close ends what the store has open.
func (s *Store) Close() error {
	if err := s.bucket.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}

// Progress counts the bytes of all parts that were written and read so far: as they are, and as they are stored. It may be asked at any time.
func (s *Store) Progress() (plain, stored int64) { return s.plain.Load(), s.stored.Load() }

// Object is something that is stored.
type Object struct {
	// Path of the object in the store, without the prefix of the Location.
	Path string
	// Size in bytes.
	Size int64
	// Modified is when it was written, by the clock of the store.
	Modified time.Time
}

// Put stores a small object, or replaces one. Whoever reads it sees the former content or the new one, and never a part of it.
func (s *Store) Put(ctx context.Context, path string, content []byte) error {
	if err := checkPath(path); err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	return s.put(ctx, path, content, false)
}

// put with exclusive fails with ErrExists if there is such an object.
func (s *Store) put(ctx context.Context, path string, content []byte, exclusive bool) error {
	ctx, cancel := s.patient(ctx)
	defer cancel()
	err := s.bucket.Upload(ctx, path, bytes.NewReader(content), s.options(exclusive))
	if exclusive && (gcerrors.Code(err) == gcerrors.FailedPrecondition || gcerrors.Code(err) == gcerrors.AlreadyExists) {
		return fmt.Errorf("write %s: %w", path, ErrExists)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, classify(ctx, err))
	}
	return nil
}

func (s *Store) options(exclusive bool) *blob.WriterOptions {
	return &blob.WriterOptions{
		ContentType: "application/octet-stream", // Given, so that no content is looked at to guess it.
		BufferSize:  partSize, MaxConcurrency: uploadsAtOnce,
		IfNotExist: exclusive, BeforeWrite: s.tune,
	}
}

// Get reads a small object. ErrNotFound if there is none, ErrDamaged if it is larger than limit bytes.
func (s *Store) Get(ctx context.Context, path string, limit int64) ([]byte, error) {
	if err := checkPath(path); err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	ctx, cancel := s.patient(ctx)
	defer cancel()
	content, err := s.get(ctx, path, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, s.missing(ctx, classify(ctx, err)))
	}
	return content, nil
}

// missing asks a store for its bucket where the answer for an object does not tell.
func (s *Store) missing(ctx context.Context, err error) error {
	if !s.vague || !errors.Is(err, ErrNotFound) {
		return err
	}
	if _, _, listErr := s.listPage(ctx, "", blob.FirstPageToken); errors.Is(listErr, ErrNoBucket) {
		return listErr
	}
	return err
}

func (s *Store) get(ctx context.Context, path string, limit int64) (content []byte, err error) {
	r, err := s.bucket.NewReader(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	// What a store says of the size decides nothing: no memory is taken before the content is there.
	content, err = io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(content)) > limit {
		return nil, fmt.Errorf("%w: it is larger than %d bytes", ErrDamaged, limit)
	}
	return content, err
}

// List lists the objects whose path begins with prefix, in all directories below, by path. What uploads to a directory left that were
// killed is listed as well. An empty prefix lists everything; a store that cannot be read is an error and never empty.
func (s *Store) List(ctx context.Context, prefix string) ([]Object, error) {
	if prefix != "" {
		if err := checkPath(strings.TrimSuffix(prefix, "/")); err != nil {
			return nil, fmt.Errorf("list %q: %w", prefix, err)
		}
	}
	var found []Object
	for token := blob.FirstPageToken; token != nil; {
		page, next, err := s.listPage(ctx, prefix, token)
		if err != nil {
			return nil, fmt.Errorf("list %q: %w", prefix, err)
		}
		found, token = append(found, page...), next
	}
	slices.SortFunc(found, func(a, b Object) int { return strings.Compare(a.Path, b.Path) })
	return found, nil
}

func (s *Store) listPage(ctx context.Context, prefix string, token []byte) (page []Object, next []byte, err error) {
	ctx, cancel := s.patient(ctx)
	defer cancel()
	objects, next, err := s.bucket.ListPage(ctx, token, 1000, &blob.ListOptions{Prefix: prefix})
	if err != nil {
		return nil, nil, classify(ctx, err)
	}
	for _, o := range objects {
		page = append(page, Object{Path: o.Key, Size: o.Size, Modified: o.ModTime})
	}
	return page, next, nil
}

// Backups lists the directories that hold a manifest, by name. Whether their manifests can be read, and the parts are whole, is seen by
// reading them.
func (s *Store) Backups(ctx context.Context) ([]string, error) {
	objects, err := s.List(ctx, "")
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, o := range objects {
		if dir, ok := strings.CutSuffix(o.Path, "/"+manifestName); ok && checkPath(dir) == nil {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs, nil
}

// DeleteBackup deletes what is in a directory: the manifest first, so that what is half deleted is never taken for a backup. It may be
// repeated, and deletes what a backup left that was never completed as well. If a store does not let go of the manifest (ErrNotAllowed), the
// backup stays whole.
func (s *Store) DeleteBackup(ctx context.Context, dir string) error {
	if err := checkPath(dir); err != nil {
		return fmt.Errorf("delete backup %q: %w", dir, err)
	}
	objects, err := s.List(ctx, dir+"/")
	if err != nil {
		return fmt.Errorf("delete backup %s: %w", dir, err)
	}
	manifest := dir + "/" + manifestName
	for _, o := range objects {
		if o.Path != manifest && strings.HasSuffix(o.Path, "/"+manifestName) {
			return fmt.Errorf("delete backup %s: there is another one inside, %s, which is not to go with it", dir, o.Path)
		}
	}
	// Also if it was not listed: some stores list late what they hold already.
	if err := s.remove(ctx, manifest); err != nil {
		return fmt.Errorf("delete backup %s: %w", dir, err)
	}
	for _, o := range objects {
		if o.Path == manifest {
			continue
		}
		if err := s.remove(ctx, o.Path); err != nil {
			return fmt.Errorf("delete backup %s: %w", dir, err)
		}
	}
	return nil
}

// Delete deletes one object. It is no error if there is none.
func (s *Store) Delete(ctx context.Context, path string) error {
	if err := checkPath(path); err != nil {
		return fmt.Errorf("delete %q: %w", path, err)
	}
	return s.remove(ctx, path)
}

func (s *Store) remove(ctx context.Context, path string) error {
	ctx, cancel := s.patient(ctx)
	defer cancel()
	err := classify(ctx, s.bucket.Delete(ctx, path))
	if errors.Is(err, ErrNotFound) {
		err = s.confirmMissing(ctx, path)
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", path, err)
	}
	return nil
}

// confirmMissing reads an object that is said not to be there when it is to be deleted. S3 is asked for it with HEAD then, and what is answered
// to that does not tell the store from a proxy in front of it: manifests would outlive their parts.
func (s *Store) confirmMissing(ctx context.Context, path string) error {
	_, err := s.get(ctx, path, 0)
	switch err = classify(ctx, err); {
	case err == nil, errors.Is(err, ErrDamaged):
		return errors.New("the store said that it is not there, and it is")
	case errors.Is(err, ErrNotFound):
		return nil
	}
	return err
}

// WriteManifest makes a backup of what was written to a directory, and is the last write. It checks that the parts are there with their
// sizes: ErrNotFound or ErrDamaged otherwise. ErrExists if the directory holds a manifest already, which stays as it is. The keys
// authenticate the manifest, and with it the parts, whose hashes it has.
func (s *Store) WriteManifest(ctx context.Context, dir string, m Manifest, k Keys) error {
	content, err := m.Encode(dir, k)
	if err != nil {
		return fmt.Errorf("write the manifest of %s: %w", dir, err)
	}
	if err := s.refuseComplete(ctx, dir); err != nil {
		return fmt.Errorf("write the manifest of %s: %w", dir, err)
	}
	if err := s.checkParts(ctx, dir, m.Parts); err != nil {
		return fmt.Errorf("write the manifest of %s: %w", dir, err)
	}
	path := dir + "/" + manifestName
	err = s.put(ctx, path, content, true)
	if errors.Is(err, ErrExists) {
		// An attempt whose answer was lost makes the next one find its own manifest.
		if there, readErr := s.Get(ctx, path, maxManifest); readErr == nil && bytes.Equal(there, content) {
			return nil
		}
	}
	return err
}

// refuseComplete returns ErrExists if a directory holds a manifest. The object is read, because the answer to a question for the mere
// existence does not tell a bucket that is missing from an object that is.
func (s *Store) refuseComplete(ctx context.Context, dir string) error {
	_, err := s.Get(ctx, dir+"/"+manifestName, 0)
	switch {
	case errors.Is(err, ErrNotFound), s.creates && errors.Is(err, ErrNoBucket):
		return nil
	case err == nil, errors.Is(err, ErrDamaged): // Empty, or larger than nothing.
		return fmt.Errorf("%s: %w", dir, ErrExists)
	}
	return err
}

func (s *Store) checkParts(ctx context.Context, dir string, parts []Part) error {
	objects, err := s.List(ctx, dir+"/")
	if err != nil {
		return err
	}
	sizes := make(map[string]int64, len(objects))
	for _, o := range objects {
		sizes[o.Path] = o.Size
	}
	for _, p := range parts {
		size, ok := sizes[dir+"/"+p.Name]
		if !ok {
			return fmt.Errorf("part %s: %w", p.Name, ErrNotFound)
		}
		if size != p.StoredSize {
			return fmt.Errorf("part %s: %w: it has %d bytes instead of %d", p.Name, ErrDamaged, size, p.StoredSize)
		}
	}
	return nil
}

// ReadManifest reads the manifest of a backup: ErrNotFound (so there is no backup), ErrDamaged, ErrTooNew, ErrNotEncrypted or
// ErrNotAuthentic. Without keys the store is trusted, which is enough to decide what is deleted there.
func (s *Store) ReadManifest(ctx context.Context, dir string, k Keys) (Manifest, error) {
	content, err := s.Get(ctx, dir+"/"+manifestName, maxManifest)
	if err != nil {
		return Manifest{}, err
	}
	m, err := DecodeManifest(content, dir, k)
	if err != nil {
		return Manifest{}, fmt.Errorf("read the manifest of %s: %w", dir, err)
	}
	return m, nil
}

// patient gives a small request its time.
func (s *Store) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.patience, fmt.Errorf("%w: it took longer than %s", ErrStalled, s.patience))
}
