package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/quorate/quorate/internal/backup/etcdhistory"
)

// Sealed is a store whose objects are compressed and, if there are recipients, encrypted, and which no manifest names: their content proves
// that it is whole, and if there are authentication keys, an HMAC proves that it is genuine.
type Sealed struct {
	Store *Store
	Keys  Keys
}

var _ etcdhistory.Store = Sealed{}

// Put stores what r gives. It is there as a whole or not at all.
func (s Sealed) Put(ctx context.Context, name string, r io.Reader) error {
	if err := checkPath(name); err != nil {
		return fmt.Errorf("write %q: %w", name, err)
	}
	_, err := s.Store.write(ctx, name, s.Keys, s.Keys.signer(purposeObject, name), func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
	return err
}

// List returns the objects whose names begin with the prefix.
func (s Sealed) List(ctx context.Context, prefix string) ([]etcdhistory.Object, error) {
	objects, err := s.Store.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	out := make([]etcdhistory.Object, len(objects))
	for i, o := range objects {
		out[i] = etcdhistory.Object{Name: o.Path, Size: o.Size}
	}
	return out, nil
}

// Open reads an object. What it returns is authentic only once io.EOF has been returned.
func (s Sealed) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := checkPath(name); err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	return s.Store.unpack(ctx, name, s.Keys)
}

// Delete removes an object. That it is not there is no error.
func (s Sealed) Delete(ctx context.Context, name string) error {
	err := s.Store.Delete(ctx, name)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// unpack reads an object whose size and hashes nobody knows.
func (s *Store) unpack(ctx context.Context, path string, k Keys) (io.ReadCloser, error) {
	u := &unpacked{down: &download{ctx: ctx, store: s, path: path}}
	u.source = &noted{from: &storedReader{digest: newDigest(&s.stored), from: u.down, limit: math.MaxInt64}}
	if err := u.open(bufio.NewReaderSize(u.source, aheadSize), path, k); err != nil {
		u.down.drop()
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return u, nil
}

// unpacked is the content of an object.
type unpacked struct {
	down   *download
	source *noted
	packed *zstd.Decoder
}

func (u *unpacked) open(buffer *bufio.Reader, path string, k Keys) (err error) {
	intro, err := buffer.Peek(len(ageIntro))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var opened io.Reader = buffer
	if string(intro) == ageIntro {
		if len(k.Identities) == 0 {
			return fmt.Errorf("%w: none is given", ErrKey)
		}
		opened, err = age.Decrypt(buffer, k.Identities...)
		if errors.As(err, new(*age.NoIdentityMatchError)) {
			return fmt.Errorf("%w: %w", ErrKey, err)
		}
		if err != nil {
			return u.source.because(err)
		}
	} else if len(k.Identities) > 0 {
		return ErrNotEncrypted
	}
	if k.proves() {
		opened = newProvenReader(opened, k.verifiers(purposeObject, path))
	}
	u.packed, err = zstd.NewReader(opened, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	return u.source.because(err)
}

// Read gives the content.
func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.packed.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = u.source.because(err)
	}
	return n, err
}

// Close ends the reading.
func (u *unpacked) Close() error {
	u.packed.Close()
	u.down.drop()
	return nil
}
