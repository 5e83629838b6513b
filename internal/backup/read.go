package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
	"github.com/klauspost/readahead"
)

const (
	// aheadPieces of aheadSize bytes each are read and hashed while earlier ones are decompressed.
	aheadPieces = 4
	aheadSize   = 256 << 10
	// maxWindow is how far back a part may refer: 8 MiB is what every decoder of zstd has to know (RFC 8878, 3.1.1.1.2).
	maxWindow = 8 << 20
	// ageIntro is what files of age begin with (https://c2sp.org/age).
	ageIntro = "age-encryption.org/"
	// smallPart is up to what stored size, in bytes, a part is read to its end to find out why no identity opens it.
	smallPart = 64 << 20
)

// ReadPart hands the content of a part to use, which must not act on it finally before ReadPart has returned nil: only then are the sizes
// and both hashes proven. A use that reads to the end is told there already, by ErrDamaged in the place of io.EOF; one that reads less, or
// nothing, is fine, and the rest is read nevertheless. What is stored is never believed: a part gives at most p.Size bytes, and memory
// use does not depend on what is in it.
//
// ErrDamaged if anything differs from p, ErrNotFound, ErrKey, ErrNotEncrypted. An error of use comes back as it is; whether the content is to blame for it
// is told by another ReadPart whose use reads nothing.
func (s *Store) ReadPart(ctx context.Context, dir string, p Part, k Keys, use func(r io.Reader) error) error {
	path, err := partPath(dir, p.Name)
	if err != nil {
		return fmt.Errorf("read part %q: %w: %w", p.Name, ErrDamaged, err)
	}
	if err := p.check(); err != nil {
		return fmt.Errorf("read part %s: %w", p.Name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	down := &download{ctx: ctx, store: s, path: path}
	r, err := newPartReader(p, down, &s.plain, &s.stored)
	if err != nil {
		return fmt.Errorf("read part %s: %w", p.Name, err)
	}
	defer func() {
		cancel() // It ends a read that goes on, which is waited for.
		r.close()
		down.drop()
	}()
	if err := r.open(k); err != nil {
		return fmt.Errorf("read part %s: %w", p.Name, s.missing(ctx, err))
	}
	err = use(r)
	if r.err != nil && !errors.Is(r.err, io.EOF) {
		err = r.err // What use made of it says less.
	}
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	if err != nil {
		return fmt.Errorf("read part %s: %w", p.Name, err)
	}
	return nil
}

// storedReader hashes the object as it is stored, and reads no more of it than there was.
type storedReader struct {
	*digest
	from  io.Reader
	limit int64
}

func (r *storedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.add(p[:n])
	if r.size > r.limit {
		err = fmt.Errorf("%w: what is stored is longer than %d bytes", ErrDamaged, r.limit)
	}
	return n, err
}

// noted keeps the first error of a reader, io.EOF included: decryption and decompression wrap it or hold it back.
type noted struct {
	from io.Reader
	err  error
}

func (r *noted) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.from.Read(p)
	r.err = err
	return n, err
}

// partReader gives the content of a part, and its end only if all of it was as it should be.
//
//	store --stored--> ahead --source--> buffer --> decryption --> packed --plain--> whoever reads
type partReader struct {
	part   Part
	stored *storedReader // Of a goroutine of its own until source has an error.
	ahead  io.ReadCloser
	source *noted
	buffer *bufio.Reader
	packed *zstd.Decoder
	plain  *digest
	err    error
}

func newPartReader(p Part, from io.Reader, plain, stored *atomic.Int64) (*partReader, error) {
	r := &partReader{part: p, plain: newDigest(plain)}
	r.stored = &storedReader{digest: newDigest(stored), from: from, limit: p.StoredSize}
	var err error
	if r.ahead, err = readahead.NewReaderSize(r.stored, aheadPieces, aheadSize); err != nil {
		return nil, err
	}
	r.source = &noted{from: r.ahead}
	r.buffer = bufio.NewReader(r.source)
	return r, nil
}

// open reads as far as is needed to know how the part is stored.
func (r *partReader) open(k Keys) error {
	intro, err := r.buffer.Peek(len(ageIntro))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var opened io.Reader = r.buffer
	if string(intro) == ageIntro {
		if opened, err = r.decrypt(k); err != nil {
			return err
		}
	} else if len(k.Identities) > 0 {
		return r.refuse(ErrNotEncrypted)
	}
	r.packed, err = zstd.NewReader(opened, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return r.source.because(err)
	}
	return nil
}

func (r *partReader) decrypt(k Keys) (io.Reader, error) {
	if len(k.Identities) == 0 {
		return nil, fmt.Errorf("%w: none is given", ErrKey)
	}
	opened, err := age.Decrypt(r.buffer, k.Identities...)
	if !errors.As(err, new(*age.NoIdentityMatchError)) {
		return opened, r.source.because(err)
	}
	return nil, r.refuse(fmt.Errorf("%w: %w", ErrKey, err))
}

// refuse returns the reason why a part is not opened, or ErrDamaged for a small part that is not as it was stored: a damaged header looks
// like that of another recipient, or of no encryption.
func (r *partReader) refuse(reason error) error {
	if r.part.StoredSize > smallPart {
		return reason
	}
	if _, err := io.Copy(io.Discard, r.buffer); err != nil {
		return r.source.because(err)
	}
	if err := r.checkStored(); err != nil {
		return err
	}
	return reason
}

// because tells a store that failed from content that makes no sense.
func (r *noted) because(err error) error {
	switch {
	case err == nil:
		return nil
	case r.err != nil && !errors.Is(r.err, io.EOF):
		return r.err
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrNotAuthentic):
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

func (r *partReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.packed.Read(p)
	if r.plain.size+int64(n) > r.part.Size {
		n, err = 0, fmt.Errorf("%w: the content is longer than %d bytes", ErrDamaged, r.part.Size)
	}
	r.plain.add(p[:n])
	switch {
	case errors.Is(err, io.EOF):
		r.err = r.finish()
	case err != nil:
		r.err = r.source.because(err)
	}
	return n, r.err
}

// finish returns io.EOF if everything was as it should be.
func (r *partReader) finish() error {
	// Decoders end where their format does. Whatever is behind that is no part of it.
	if _, err := io.Copy(io.Discard, r.buffer); err != nil {
		return r.source.because(err)
	}
	if err := r.checkStored(); err != nil {
		return err
	}
	if r.plain.size != r.part.Size || r.plain.sum() != r.part.SHA256 {
		return fmt.Errorf("%w: the content has %d bytes with the SHA-256 %s, and had %d with %s", ErrDamaged,
			r.plain.size, r.plain.sum(), r.part.Size, r.part.SHA256)
	}
	return io.EOF
}

func (r *partReader) checkStored() error {
	if r.stored.size != r.part.StoredSize || r.stored.sum() != r.part.StoredSHA256 {
		return fmt.Errorf("%w: what is stored has %d bytes with the SHA-256 %s, and had %d with %s", ErrDamaged,
			r.stored.size, r.stored.sum(), r.part.StoredSize, r.part.StoredSHA256)
	}
	return nil
}

func (r *partReader) close() {
	if r.packed != nil {
		r.packed.Close()
	}
	_ = r.ahead.Close() // It only waits.
}
