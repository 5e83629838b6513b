package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

// Part describes one stored object of a backup. Sizes are in bytes, hashes in lower case hexadecimal digits.
type Part struct {
	// Name is the path of the object below the directory of the backup.
	Name string `json:"name"`
	// Size and SHA256 are those of the content.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// StoredSize and StoredSHA256 are those of the object as it is stored: compressed, and perhaps encrypted.
	StoredSize   int64  `json:"storedSize"`
	StoredSHA256 string `json:"storedSHA256"`
}

// errAborted is what the store's client is told of an upload whose source failed.
var errAborted = errors.New("the upload was given up")

// window is how far back zstd refers: so much memory is needed to read it, too.
const window = 4 << 20

// WritePart stores what fill writes as dir/name, compressed and, if there are recipients, encrypted. Nothing is visible under the name
// unless all of it went well: then the part is stored and its hashes are those of what was written. A part that is there already is
// replaced, until there is a manifest: then it is ErrExists.
//
// If fill fails, its error is what comes back. fill must end when its writer returns an error, as it does when ctx ends. Its writer has a
// method Sum as hash.Hash has, for the SHA-256 of what was written so far.
func (s *Store) WritePart(ctx context.Context, dir, name string, k Keys, fill func(w io.Writer) error) (Part, error) {
	path, err := partPath(dir, name)
	if err != nil {
		return Part{}, fmt.Errorf("write part %q: %w", name, err)
	}
	if err := s.refuseComplete(ctx, dir); err != nil {
		return Part{}, fmt.Errorf("write part %s: %w", name, err)
	}
	part, err := s.write(ctx, path, k, nil, fill)
	if err != nil {
		return Part{}, fmt.Errorf("write part %s: %w", name, err)
	}
	part.Name = name
	return part, nil
}

// write stores what fill writes, compressed and, if there are recipients, encrypted, as a whole or not at all. The object ends with the
// value of the HMAC, unless that is nil.
func (s *Store) write(ctx context.Context, path string, k Keys, mac hash.Hash, fill func(w io.Writer) error) (Part, error) {
	up := s.startUpload(ctx, path)
	complete := false
	defer func() {
		if !complete { // fill failed, or panicked.
			up.abort(errAborted)
		}
	}()
	plain, stored, err := s.encode(ctx, up, k, mac, fill)
	if err != nil {
		return Part{}, classify(ctx, err)
	}
	complete = true
	if err := up.Close(); err != nil {
		return Part{}, classify(ctx, err)
	}
	return Part{Size: plain.size, SHA256: plain.sum(), StoredSize: stored.size, StoredSHA256: stored.sum()}, nil
}

// encode leads what fill writes through hashes, compression and encryption.
func (s *Store) encode(
	ctx context.Context, to io.Writer, k Keys, mac hash.Hash, fill func(w io.Writer) error,
) (plain, stored *digest, err error) {
	out := &sink{digest: newDigest(&s.stored), to: to}
	var sealed io.WriteCloser = nopCloser{out}
	if len(k.Recipients) > 0 {
		if sealed, err = age.Encrypt(out, k.Recipients...); err != nil {
			return nil, nil, fmt.Errorf("encrypt: %w", err)
		}
	}
	proven := &provenWriter{to: sealed, mac: mac}
	packed, err := zstd.NewWriter(proven, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window),
		zstd.WithEncoderConcurrency(2), zstd.WithEncoderCRC(false)) // There are hashes. With its lower memory it moves the whole window for every block.
	if err != nil {
		return nil, nil, fmt.Errorf("compress: %w", err)
	}
	in := &sink{digest: newDigest(&s.plain), to: packed}
	err = fill(in)
	if err == nil {
		err = in.failed()
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		out.fail(err) // Nothing more goes out.
	}
	closed := errors.Join(packed.Close(), proven.finish(), sealed.Close()) // In any case: compression has goroutines.
	if first := out.failed(); first != nil {
		err = first // The store's own word, if it failed: compression and encryption wrap it or hold it back.
	}
	if err == nil {
		err = closed
	}
	return in.digest, out.digest, err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func (p Part) check() error {
	switch {
	case p.Size < 0 || p.StoredSize < 1:
		return fmt.Errorf("%w: its size is %d, and stored %d", ErrDamaged, p.Size, p.StoredSize)
	case !isHash(p.SHA256) || !isHash(p.StoredSHA256):
		return fmt.Errorf("%w: a hash is not one: %.70q, %.70q", ErrDamaged, p.SHA256, p.StoredSHA256)
	}
	return nil
}

func isHash(s string) bool {
	return len(s) == 64 && len(bytes.Trim([]byte(s), "0123456789abcdef")) == 0
}
