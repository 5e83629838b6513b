// Package backup keeps backups where users want them: parts that are hashed, compressed and encrypted while they flow, a manifest that
// makes them a backup, and the pure rules of when one is taken and which ones go. docs/backup-format.md describes what is stored.
//
// It knows nothing of Kubernetes and nothing of how a data store is read: see the packages below it.
package backup

import (
	"context"
	"errors"
	"io"
	"time"

	"filippo.io/age"
)

// Location says where backups are kept and with what credentials.
type Location struct {
	// URL is one of s3://bucket/prefix?region=..&endpoint=..&path-style=true, gs://bucket/prefix, azblob://container/prefix?account=..,
	// file:///directory.
	URL string
	// Credentials is the directory that a Secret is mounted at, with a file for each key. Empty: those of the environment (workload identity).
	Credentials string
}

// CheckURL tells what is wrong with a URL and what to do about it, without any I/O.
func CheckURL(url string) error { return errors.ErrUnsupported }

// Store is one place for backups.
type Store struct{}

// Open prepares a store. It does not use the network.
func Open(ctx context.Context, l Location) (*Store, error) { return nil, errors.ErrUnsupported }

// Close ends it.
func (s *Store) Close() error { return nil }

// Keys encrypt and decrypt. The zero value does neither.
type Keys struct {
	Recipients []age.Recipient
	Identities []age.Identity
}

// ReadKeys reads the files "identity" and "recipients" of a mounted Secret.
func ReadKeys(dir string) (Keys, error) { return Keys{}, errors.ErrUnsupported }

// Part is one stored object of a backup. Sizes are in bytes.
type Part struct {
	Name         string `json:"name"`
	Size         int64  `json:"size"`
	SHA256       string `json:"sha256"`
	StoredSize   int64  `json:"storedSize"`
	StoredSHA256 string `json:"storedSHA256"`
}

// WritePart stores what fill writes under dir/name.
func (s *Store) WritePart(ctx context.Context, dir, name string, k Keys, fill func(w io.Writer) error) (Part, error) {
	return Part{}, errors.ErrUnsupported
}

// ReadPart hands the plain content of a part to use.
func (s *Store) ReadPart(ctx context.Context, dir string, p Part, k Keys, use func(r io.Reader) error) error {
	return errors.ErrUnsupported
}

// WriteManifest makes a backup complete.
func (s *Store) WriteManifest(ctx context.Context, dir string, m Manifest) error {
	return errors.ErrUnsupported
}

// ReadManifest reads the manifest of a backup.
func (s *Store) ReadManifest(ctx context.Context, dir string) (Manifest, error) {
	return Manifest{}, errors.ErrUnsupported
}

// Put stores a small object.
func (s *Store) Put(ctx context.Context, path string, content []byte) error {
	return errors.ErrUnsupported
}

// Get reads a small object of at most limit bytes.
func (s *Store) Get(ctx context.Context, path string, limit int64) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

// Object is something that is stored.
type Object struct {
	Path     string
	Size     int64
	Modified time.Time
}

// List lists the objects whose path begins with prefix.
func (s *Store) List(ctx context.Context, prefix string) ([]Object, error) {
	return nil, errors.ErrUnsupported
}

// Backups lists the directories that hold a manifest, by name.
func (s *Store) Backups(ctx context.Context) ([]string, error) { return nil, errors.ErrUnsupported }

// DeleteBackup deletes a backup, its manifest first.
func (s *Store) DeleteBackup(ctx context.Context, dir string) error { return errors.ErrUnsupported }

// Progress counts the bytes of parts that have flowed so far. It may be asked at any time.
func (s *Store) Progress() (plain, stored int64) { return 0, 0 }

// What callers tell apart.
var (
	ErrDamaged     = errors.New("the backup is damaged")
	ErrTooNew      = errors.New("the backup has a newer format")
	ErrNotFound    = errors.New("not found")
	ErrExists      = errors.New("exists already")
	ErrNotAllowed  = errors.New("not allowed")
	ErrCredentials = errors.New("the credentials are refused")
	// ErrNoBucket: there is no such bucket. It is not ErrNotFound, because nothing is known of what was in it.
	ErrNoBucket = errors.New("there is no such bucket")
	// ErrFull: the store has no room.
	ErrFull = errors.New("the store is full")
	// ErrKey: a part is encrypted, and none of the identities opens it.
	ErrKey = errors.New("no identity opens it")
)
