package backup

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

const sharedKey = "4f9e0d5b7a6c3e2f1d0c9b8a79685746"

// keysOf reads the keys of a Secret.
func keysOf(t *testing.T, content map[string]string) Keys {
	t.Helper()
	k, err := ReadKeys(secret(t, content))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// ageKeys returns the secret and the public key of a new pair.
func ageKeys(t *testing.T) (identity, recipient string) {
	t.Helper()
	i, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return i.String(), i.Recipient().String()
}

// The writer of a store has the recipients, which are public, and no other key.
func TestWhoeverMayWriteTheStoreCannotForgeABackup(t *testing.T) {
	t.Parallel()
	identity, recipient := ageKeys(t)
	_, foreign := ageKeys(t)
	content := bytesOf(t, noise(1, 10_000))
	for name, c := range map[string]struct {
		writer, reader map[string]string
		want           error
	}{
		"identity alone":                        {map[string]string{"identity": identity}, map[string]string{"identity": identity}, nil},
		"the writer has recipients and the key": {map[string]string{"recipients": recipient, "authentication": sharedKey}, map[string]string{"identity": identity, "authentication": sharedKey}, nil},
		"the key was changed": {
			map[string]string{"recipients": recipient, "authentication": sharedKey},
			map[string]string{"identity": identity, "authentication": exampleHash + "\n" + sharedKey},
			nil,
		},
		"the reader has a key since then": {map[string]string{"identity": identity}, map[string]string{"identity": identity, "authentication": sharedKey}, nil},
		"public keys alone":               {map[string]string{"recipients": recipient}, map[string]string{"identity": identity}, ErrNotAuthentic},
		"a key of the attacker": {
			map[string]string{"recipients": recipient, "authentication": exampleHash},
			map[string]string{"identity": identity, "authentication": sharedKey},
			ErrNotAuthentic,
		},
		"the store is trusted": {map[string]string{"recipients": recipient}, map[string]string{"identity": identity, "authentication": "none"}, nil},
		"the store is trusted, with another key": {
			map[string]string{"recipients": recipient, "authentication": sharedKey}, map[string]string{"identity": identity, "authentication": "none"}, nil,
		},
		"others can read it too":        {map[string]string{"identity": identity, "recipients": recipient + "\n" + foreign}, map[string]string{"identity": identity}, nil},
		"not encrypted":                 {nil, map[string]string{"identity": identity}, ErrNotAuthentic},
		"not encrypted, store trusted":  {nil, map[string]string{"identity": identity, "authentication": "none"}, ErrNotEncrypted},
		"neither encrypts":              {nil, nil, nil},
		"the reader has no secret keys": {map[string]string{"recipients": recipient}, nil, ErrKey},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var writer, reader Keys
			if c.writer != nil {
				writer = keysOf(t, c.writer)
			}
			if c.reader != nil {
				reader = keysOf(t, c.reader)
			}
			s := inMemory(t)
			writeBackup(t, s, "b", writer, func(w io.Writer) error { _, err := w.Write(content); return err })
			if err := readAll(t, s, "b", reader, content); !errors.Is(err, c.want) {
				t.Errorf("a backup: %v instead of %v", err, c.want)
			}
			if err := (Sealed{s, writer}).Put(t.Context(), "log/a1/1", bytes.NewReader(content)); err != nil {
				t.Fatal(err)
			}
			want := c.want
			if writer.Recipients == nil && reader.Identities != nil {
				want = ErrNotEncrypted // No manifest comes first.
			}
			if got, err := readObject(t, Sealed{s, reader}, "log/a1/1"); !errors.Is(err, want) || (want == nil && !bytes.Equal(got, content)) {
				t.Errorf("an object with changes: %d bytes, %v instead of %v", len(got), err, want)
			}
		})
	}
}

// readObject reads all of an object.
func readObject(t *testing.T, s Sealed, name string) ([]byte, error) {
	t.Helper()
	r, err := s.Open(t.Context(), name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(r)
}

func TestAGenuineManifestIsRejectedInAnotherDirectory(t *testing.T) {
	t.Parallel()
	identity, _ := ageKeys(t)
	k, s := keysOf(t, map[string]string{"identity": identity}), inMemory(t)
	content := bytesOf(t, noise(1, 100))
	writeBackup(t, s, "shop/orders-1", k, func(w io.Writer) error { _, err := w.Write(content); return err })
	for to, want := range map[string]error{"shop/orders-2": ErrNotAuthentic, "elsewhere/orders-1": nil} {
		for _, name := range []string{"etcd.db", manifestName} {
			object, err := s.Get(t.Context(), "shop/orders-1/"+name, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Put(t.Context(), to+"/"+name, object); err != nil {
				t.Fatal(err)
			}
		}
		if err := readAll(t, s, to, k, content); !errors.Is(err, want) {
			t.Errorf("copied to %s: %v instead of %v", to, err, want)
		}
	}
}

func TestAPlainPartIsRejectedAlthoughItsManifestSaysThatItIsEncrypted(t *testing.T) {
	t.Parallel()
	identity, _ := ageKeys(t)
	k, s := keysOf(t, map[string]string{"identity": identity, "authentication": "none"}), inMemory(t)
	part, err := s.WritePart(t.Context(), "b", "etcd.db", Keys{}, noise(1, 100))
	if err != nil {
		t.Fatal(err)
	}
	m := exampleManifest(part)
	m.Encrypted = true
	if err := s.WriteManifest(t.Context(), "b", m, Keys{}); err != nil {
		t.Fatal(err)
	}
	if err := readAll(t, s, "b", k, bytesOf(t, noise(1, 100))); !errors.Is(err, ErrNotEncrypted) {
		t.Errorf("it is read: %v", err)
	}
}

func TestEveryChangedByteOfAnAuthenticatedManifestIsFound(t *testing.T) {
	t.Parallel()
	k := Keys{Authentication: [][]byte{[]byte(sharedKey)}}
	stored, err := redisManifest().Encode("b", k)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeManifest(stored, "b", k); err != nil {
		t.Fatal(err)
	}
	content, err := openEnvelope(stored)
	if err != nil {
		t.Fatal(err)
	}
	for i := range content {
		changed := bytes.Clone(content)
		changed[i] ^= 1
		// The attacker corrects the SHA-256.
		if _, err := DecodeManifest(envelope(string(changed)), "b", k); !errors.Is(err, ErrNotAuthentic) && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrTooNew) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
}

func TestAnAuthenticatedObjectCanBeNeitherCutNorRenamedNorExtended(t *testing.T) {
	t.Parallel()
	k, s := Keys{Authentication: [][]byte{[]byte(sharedKey)}}, inMemory(t)
	one, two := bytesOf(t, noise(1, 5000)), bytesOf(t, noise(2, 5000))
	stored := map[string][]byte{}
	for name, content := range map[string][]byte{"log/a1/1": one, "log/a1/2": two} {
		if err := (Sealed{s, k}).Put(t.Context(), name, bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		var err error
		if stored[name], err = s.Get(t.Context(), name, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	if plain, err := decompress(stored["log/a1/1"]); err != nil || !bytes.Equal(plain, one) {
		t.Errorf("a decoder of zstd does not pass over the HMAC: %v", err)
	}
	frame := stored["log/a1/1"][:len(stored["log/a1/1"])-proofSize]
	for name, c := range map[string]struct {
		path   string
		stored []byte
	}{
		"renamed":          {"log/a1/1", stored["log/a1/2"]},
		"without its HMAC": {"log/a1/1", frame},
		"one after the other": {
			"log/a1/1", append(bytes.Clone(frame), stored["log/a1/1"]...),
		},
		"a byte more": {"log/a1/1", append(bytes.Clone(stored["log/a1/1"]), 0)},
		"cut":         {"log/a1/1", stored["log/a1/1"][:100]},
		"empty":       {"log/a1/1", nil},
	} {
		if err := s.Put(t.Context(), c.path, c.stored); err != nil {
			t.Fatal(err)
		}
		if _, err := readObject(t, Sealed{s, k}, c.path); !errors.Is(err, ErrNotAuthentic) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func decompress(stored []byte) ([]byte, error) {
	r, err := zstd.NewReader(bytes.NewReader(stored))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func TestOpenSSLVerifiesAManifest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, "file://"+dir, "")
	k := Keys{Authentication: [][]byte{[]byte(sharedKey)}}
	writeBackup(t, s, "b", k, noise(1, 100))
	out, err := runScript(t, dir+"/b", strings.Join([]string{
		"set -e",
		`given=$(jq -r .manifest.hmac manifest.json)`,
		`manifest() { head -c -2 manifest.json | tail -c +89 | sed "s/^\(.\{20\}\)$given/\1$(printf '0%.0s' $(seq 64))/"; }`,
		`{ printf 'quorate/manifest\0%s\0' "$(basename "$PWD")"; manifest; } | openssl dgst -sha256 -hmac ` + sharedKey + ` | grep -q "$given"`,
	}, "\n"))
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
