package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"gocloud.dev/blob/memblob"
)

// Every byte of every object of a small backup, changed in several ways, and every length below its own.
func TestEveryChangedByteOfABackupIsFound(t *testing.T) {
	t.Parallel()
	content := append(bytes.Repeat([]byte("key and value, "), 40), bytesOf(t, noise(3, 200))...)
	for name, k := range map[string]Keys{"plain": {}, "encrypted": newKeys(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inMemory(t)
			writeBackup(t, s, "b", k, func(w io.Writer) error { _, err := w.Write(content); return err })
			objects, err := s.List(t.Context(), "b/")
			if err != nil || len(objects) != 2 {
				t.Fatalf("there is %v, %v", objects, err)
			}
			for _, o := range objects {
				whole, err := s.Get(t.Context(), o.Path, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				if err := readAll(t, s, "b", k, content); err != nil {
					t.Fatalf("the backup is not whole to begin with: %v", err)
				}
				for i := range whole {
					for _, flip := range []byte{0x01, 0x20, 0x80, 0xff} {
						damaged := bytes.Clone(whole)
						damaged[i] ^= flip
						mustBeFound(t, s, k, o.Path, damaged, content)
					}
					mustBeFound(t, s, k, o.Path, whole[:i], content)
				}
				mustBeFound(t, s, k, o.Path, append(bytes.Clone(whole), 0), content)
				mustBeFound(t, s, k, o.Path, append(bytes.Clone(whole), whole...), content)
				if err := s.Put(t.Context(), o.Path, whole); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func mustBeFound(t *testing.T, s *Store, k Keys, path string, damaged, content []byte) {
	t.Helper()
	if err := s.Put(t.Context(), path, damaged); err != nil {
		t.Fatal(err)
	}
	if err := readAll(t, s, "b", k, content); !errors.Is(err, ErrDamaged) {
		t.Errorf("%s with %d bytes: damage is not found: %v", path, len(damaged), err)
	}
}

// readAll restores a backup as a restore does, and complains if it succeeds with other content.
func readAll(t *testing.T, s *Store, dir string, k Keys, content []byte) error {
	t.Helper()
	m, err := s.ReadManifest(t.Context(), dir, k)
	if err != nil {
		return err
	}
	for _, p := range m.Parts {
		var got []byte
		if err := s.ReadPart(t.Context(), dir, p, k, func(r io.Reader) (err error) {
			got, err = io.ReadAll(r)
			return err
		}); err != nil {
			return err
		}
		if !bytes.Equal(got, content) {
			t.Errorf("part %s is read without an error, and is another one", p.Name)
		}
	}
	return nil
}

// A use that ignores errors, or reads nothing, or stops early, makes nothing good.
func TestDamageIsFoundWhateverTheCallerReads(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(io.Reader) error{
		"nothing":           func(io.Reader) error { return nil },
		"the beginning":     func(r io.Reader) error { _, _ = r.Read(make([]byte, 10)); return nil },
		"all, and no error": func(r io.Reader) error { _, _ = io.Copy(io.Discard, r); return nil },
		"all, and fails":    func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return errors.Join(errors.New("mine"), err) },
		"all, and fails of its own": func(r io.Reader) error {
			if _, err := io.Copy(io.Discard, r); err == nil {
				return nil
			}
			return errors.New("cannot parse")
		},
	} {
		s := inMemory(t)
		part, err := s.WritePart(t.Context(), "b", "p", Keys{}, noise(1, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		stored, err := s.Get(t.Context(), "b/p", 2<<20)
		if err != nil {
			t.Fatal(err)
		}
		stored[len(stored)/2] ^= 1
		if err := s.Put(t.Context(), "b/p", stored); err != nil {
			t.Fatal(err)
		}
		if err := s.ReadPart(t.Context(), "b", part, Keys{}, use); !errors.Is(err, ErrDamaged) {
			t.Errorf("the caller reads %s: %v", name, err)
		}
	}
}

// What somebody else compressed so that it becomes far more than the manifest says, or refers back farther than there is memory for.
func TestAPartGivesNoMoreThanItsSize(t *testing.T) {
	t.Parallel()
	s := inMemory(t)
	for name, c := range map[string]struct {
		size    int64
		options []zstd.EOption
	}{
		"a bomb":        {100 << 20, nil},
		"a wide window": {100, []zstd.EOption{zstd.WithWindowSize(512 << 20), zstd.WithSingleSegment(false)}},
	} {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, c.options...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, io.LimitReader(zeros{}, 100<<20)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), "b/p", b.Bytes()); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b.Bytes())
		part := Part{Name: "p", Size: 1000, SHA256: exampleHash, StoredSize: int64(b.Len()), StoredSHA256: hex.EncodeToString(sum[:])}
		var got int64
		err = s.ReadPart(t.Context(), "b", part, Keys{}, func(r io.Reader) error {
			n, err := io.Copy(io.Discard, r)
			got = n
			return err
		})
		if !errors.Is(err, ErrDamaged) || got > 1000 {
			t.Errorf("%s: %d bytes, %v", name, got, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAWriterThatDiesLeavesNoPart(t *testing.T) {
	t.Parallel()
	died := errors.New("the source died")
	for name, s := range map[string]*Store{"memory": inMemory(t), "directory": openStore(t, "file://"+t.TempDir(), "")} {
		for _, k := range []Keys{{}, newKeys(t)} {
			for _, size := range []int64{0, 1, 100000, 20 << 20} {
				if _, err := s.WritePart(t.Context(), "b", "p", k, func(w io.Writer) error { return errors.Join(noise(1, size)(w), died) }); !errors.Is(err, died) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = s.WritePart(t.Context(), "b", "p", Keys{}, func(w io.Writer) error { _ = noise(1, 1000)(w); panic("the source is broken") })
		}()
		if _, err := s.Get(t.Context(), "b/p", 1<<30); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: a part is there: %v", name, err)
		}
		// And an attempt that fails leaves the former one as it is.
		part, err := s.WritePart(t.Context(), "b", "p", Keys{}, noise(2, 1000))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = s.WritePart(t.Context(), "b", "p", Keys{}, func(w io.Writer) error { return errors.Join(noise(1, 5000)(w), died) })
		if err := s.ReadPart(t.Context(), "b", part, Keys{}, func(io.Reader) error { return nil }); err != nil {
			t.Errorf("%s: the part of before is damaged: %v", name, err)
		}
	}
}

func TestKeysAreReadFromASecret(t *testing.T) {
	t.Parallel()
	const identity = "AGE-SECRET-KEY-184JMZMVQH3E6U0PSL869004Y3U2NYV7R30EU99CSEDNPH02YUVFSZW44VU"
	const recipient = "age1cy0su9fwf3gf9mw868g5yut09p6nytfmmnktexz2ya5uqg9vl9sss4euqm"
	for name, c := range map[string]struct {
		content                map[string]string
		recipients, identities int
		fails                  bool
	}{
		"both":           {map[string]string{"identity": identity + "\n", "recipients": "# ours\n" + recipient + "\n"}, 1, 1, false},
		"identity alone": {map[string]string{"identity": identity}, 1, 1, false},
		"public alone":   {map[string]string{"recipients": recipient}, 1, 0, false},
		"neither":        {nil, 0, 0, true},
		"authentication": {map[string]string{"recipients": recipient, "authentication": "# since 2026\n" + exampleHash + "\n"}, 1, 0, false},
		"nothing else":   {map[string]string{"authentication": exampleHash}, 0, 0, true},
		"a short key":    {map[string]string{"recipients": recipient, "authentication": "secret"}, 0, 0, true},
		"mixed up":       {map[string]string{"recipients": identity}, 0, 0, true},
		"empty":          {map[string]string{"identity": ""}, 0, 0, true},
	} {
		k, err := ReadKeys(secret(t, c.content))
		if (err != nil) != c.fails || len(k.Recipients) != c.recipients || len(k.Identities) != c.identities {
			t.Errorf("%s: got %d recipients, %d identities, %v", name, len(k.Recipients), len(k.Identities), err)
		}
		if err != nil && bytes.Contains([]byte(err.Error()), []byte(identity[16:40])) {
			t.Errorf("%s: the error holds the key: %v", name, err)
		}
	}
	if _, err := ReadKeys("/does/not/exist"); err == nil {
		t.Error("a Secret that is not mounted gives no keys, and so backups that are not encrypted")
	}
	if k, err := ReadKeys(""); err != nil || !cmp.Equal(len(k.Recipients)+len(k.Identities), 0) {
		t.Errorf("no Secret: %v, %v", k, err)
	}
}

func FuzzReadPart(f *testing.F) {
	seed := newStoreOf(f, nil)
	for size := range int64(3) {
		if _, err := seed.WritePart(f.Context(), "b", "p", Keys{}, noise(1, size*1000)); err != nil {
			f.Fatal(err)
		}
		stored, err := seed.Get(f.Context(), "b/p", 1<<20)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(stored, size*1000)
	}
	f.Add([]byte("age-encryption.org/v1\n-> X25519 abc\ndef\n--- ghi\n"), int64(0))
	f.Add([]byte{}, int64(-1))
	f.Fuzz(func(t *testing.T, stored []byte, size int64) {
		s := newStoreOf(t, stored)
		sums, keys := [][32]byte{sha256.Sum256(stored), {}}, fuzzKeys
		if !bytes.HasPrefix(stored, []byte(ageIntro)) {
			keys = Keys{} // An identity rejects it at its beginning.
		}
		for _, sum := range sums {
			p := Part{Name: "p", Size: size, SHA256: exampleHash, StoredSize: int64(len(stored)), StoredSHA256: hex.EncodeToString(sum[:])}
			var n int64
			err := s.ReadPart(t.Context(), "b", p, keys, func(r io.Reader) (err error) {
				n, err = io.Copy(io.Discard, r)
				return err
			})
			switch {
			case n > max(size, 0):
				t.Errorf("%d bytes come out of a part of %d", n, size)
			case err == nil && (size != 0 || sum == [32]byte{}):
				t.Error("a part with another hash is taken for good")
			case err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrKey) && !errors.Is(err, ErrNotEncrypted):
				t.Errorf("%v is none of the errors that callers know", err)
			}
		}
	})
}

// fuzzKeys only read, so that what is fuzzed may be taken for encrypted.
var fuzzKeys, fuzzRecipients = func() (Keys, []age.Recipient) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		panic(err)
	}
	return Keys{Identities: []age.Identity{identity}}, []age.Recipient{identity.Recipient()}
}()

// newStoreOf is a store in memory with one part, nil: without.
func newStoreOf(tb testing.TB, part []byte) *Store {
	tb.Helper()
	s := newStore(memblob.OpenBucket(nil))
	tb.Cleanup(func() { _ = s.Close() })
	if part == nil {
		return s
	}
	if err := s.Put(tb.Context(), "b/p", part); err != nil {
		tb.Fatal(err)
	}
	return s
}
