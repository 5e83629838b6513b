package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"gocloud.dev/blob/memblob"
)

func newKeys(t *testing.T) Keys {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return Keys{Recipients: []age.Recipient{identity.Recipient()}, Identities: []age.Identity{identity}}
}

// inMemory is a store without latency.
func inMemory(t *testing.T) *Store {
	t.Helper()
	s := newStore(memblob.OpenBucket(nil))
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// writeBackup writes a whole backup of an etcd cluster with one part.
func writeBackup(t *testing.T, s *Store, dir string, k Keys, fill func(io.Writer) error) Manifest {
	t.Helper()
	part, err := s.WritePart(t.Context(), dir, "etcd.db", k, fill)
	if err != nil {
		t.Fatal(err)
	}
	m := exampleManifest(part)
	m.Encrypted = len(k.Recipients) > 0
	if err := s.WriteManifest(t.Context(), dir, m, k); err != nil {
		t.Fatal(err)
	}
	return m
}

func exampleManifest(parts ...Part) Manifest {
	return Manifest{
		Format: Format, ID: "orders-20260101", Kind: KindEtcd, Namespace: "shop", Cluster: "orders", ClusterUID: "0b6f", Engine: "etcd", EngineVersion: "3.6.16",
		Started: time.Date(2026, 1, 1, 2, 30, 0, 0, time.UTC), Finished: time.Date(2026, 1, 1, 2, 30, 7, 123456789, time.UTC), Parts: parts,
		Etcd: &EtcdContent{Timeline: "cdf818194e3a8c32", Revision: 4711, Member: "orders-2", Newest: 4715, Taken: time.Date(2026, 1, 1, 2, 30, 1, 0, time.UTC)},
	}
}

// lifeOfABackup is written, found, read and deleted, and what must not be done on the way is refused.
func lifeOfABackup(t *testing.T, s *Store, k Keys) {
	t.Helper()
	ctx, content := t.Context(), bytes.Repeat([]byte("all work and no play "), 10000)
	fill := func(w io.Writer) error { _, err := w.Write(content); return err }
	empty, err := s.WritePart(ctx, "team/one", "empty", k, func(io.Writer) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	part, err := s.WritePart(ctx, "team/one", "shards/0.rdb", k, noise(9, 100)) // Replaced by the next attempt.
	if err != nil {
		t.Fatal(err)
	}
	m := exampleManifest(empty, part)
	m.Encrypted = len(k.Recipients) > 0
	if part, err = s.WritePart(ctx, "team/one", "shards/0.rdb", k, fill); err != nil {
		t.Fatal(err)
	}
	if dirs, err := s.Backups(ctx); err != nil || len(dirs) != 0 {
		t.Errorf("there is a backup without a manifest: %v, %v", dirs, err)
	}
	if err := s.WriteManifest(ctx, "team/one", m, k); !errors.Is(err, ErrDamaged) {
		t.Errorf("a manifest for another part than the one that is there: %v", err)
	}
	if err := s.WriteManifest(ctx, "team/one", exampleManifest(empty, Part{Name: "missing", StoredSize: 5, SHA256: part.SHA256, StoredSHA256: part.SHA256}), k); !errors.Is(err, ErrNotFound) {
		t.Errorf("a manifest for a part that is not there: %v", err)
	}
	m.Parts[1] = part
	if err := s.WriteManifest(ctx, "team/one", m, k); err != nil {
		t.Fatal(err)
	}
	readBack(t, s, m, k, content)
	refusals(t, s, m, k)
	if err := s.Put(ctx, "team/state", []byte("one")); err != nil {
		t.Error(err)
	}
	if err := s.Put(ctx, "team/state", []byte("three")); err != nil {
		t.Error(err)
	}
	if state, err := s.Get(ctx, "team/state", 5); err != nil || string(state) != "three" {
		t.Errorf("the state is %q, %v", state, err)
	}
	if _, err := s.Get(ctx, "team/state", 4); !errors.Is(err, ErrDamaged) {
		t.Errorf("more than the limit: %v", err)
	}
	for range 2 {
		if err := s.DeleteBackup(ctx, "team/one"); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := s.List(ctx, "")
	if err != nil || len(objects) != 1 || objects[0].Path != "team/state" || objects[0].Size != 5 {
		t.Errorf("what is left is %+v, %v", objects, err)
	}
	for range 2 {
		if err := s.Delete(ctx, "team/state"); err != nil {
			t.Error(err)
		}
	}
}

func readBack(t *testing.T, s *Store, m Manifest, k Keys, content []byte) {
	t.Helper()
	ctx := t.Context()
	if dirs, err := s.Backups(ctx); err != nil || !cmp.Equal(dirs, []string{"team/one"}) {
		t.Errorf("the backups are %v, %v", dirs, err)
	}
	if got, err := s.ReadManifest(ctx, "team/one", k); err != nil || !cmp.Equal(got, m) {
		t.Errorf("the manifest comes back otherwise: %v\n%s", err, cmp.Diff(m, got))
	}
	for i, want := range [][]byte{nil, content} {
		var got []byte
		if err := s.ReadPart(ctx, "team/one", m.Parts[i], k, func(r io.Reader) (err error) {
			got, err = io.ReadAll(r)
			return err
		}); err != nil || !bytes.Equal(got, want) {
			t.Errorf("part %s comes back with %d bytes: %v", m.Parts[i].Name, len(got), err)
		}
	}
}

func refusals(t *testing.T, s *Store, m Manifest, k Keys) {
	t.Helper()
	ctx := t.Context()
	if err := s.WriteManifest(ctx, "team/one", m, k); !errors.Is(err, ErrExists) {
		t.Errorf("a manifest is replaced: %v", err)
	}
	if _, err := s.WritePart(ctx, "team/one", "more", k, noise(1, 1)); !errors.Is(err, ErrExists) {
		t.Errorf("a part is added to what is complete: %v", err)
	}
	if err := s.DeleteBackup(ctx, "team"); err == nil {
		t.Error("a directory with somebody else's backups is deleted")
	}
	if _, err := s.ReadManifest(ctx, "team/two", k); !errors.Is(err, ErrNotFound) {
		t.Errorf("a manifest that is not there: %v", err)
	}
	missing := m.Parts[1]
	missing.Name = "shards/1.rdb"
	if err := s.ReadPart(ctx, "team/one", missing, k, func(io.Reader) error { return nil }); !errors.Is(err, ErrNotFound) {
		t.Errorf("a part that is not there: %v", err)
	}
	refused := errors.New("no")
	if err := s.ReadPart(ctx, "team/one", m.Parts[1], k, func(io.Reader) error { return refused }); !errors.Is(err, refused) || errors.Is(err, ErrDamaged) {
		t.Errorf("the error of use does not come back: %v", err)
	}
	if len(k.Recipients) > 0 {
		for name, other := range map[string]Keys{"none": {}, "another": newKeys(t)} {
			if err := s.ReadPart(ctx, "team/one", m.Parts[1], other, func(io.Reader) error { return nil }); !errors.Is(err, ErrKey) {
				t.Errorf("read with %s key: %v", name, err)
			}
		}
	}
}

func TestABackupLivesInMemoryAndInADirectory(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]Keys{"plain": {}, "encrypted": newKeys(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lifeOfABackup(t, inMemory(t), keys)
			store := openStore(t, "file://"+t.TempDir()+"/made/when/needed", "")
			if _, err := store.List(t.Context(), ""); !errors.Is(err, ErrNoBucket) {
				t.Errorf("a directory that is not there: %v", err)
			}
			lifeOfABackup(t, store, keys)
		})
	}
}

func TestPathsThatLeadElsewhereAreRefused(t *testing.T) {
	t.Parallel()
	s := inMemory(t)
	hash := exampleHash
	for _, path := range []string{"", ".", "..", "a/../b", "../a", "/etc/passwd", "a/", "a//b", `a\b`, "a\x00b", "a\nb", "ä", "a b", "-rf", ".hidden", "a/.b", "~", "c:"} {
		if _, err := s.WritePart(t.Context(), "b", path, Keys{}, noise(1, 1)); err == nil {
			t.Errorf("a part %q is written", path)
		}
		if _, err := s.WritePart(t.Context(), path, "p", Keys{}, noise(1, 1)); err == nil {
			t.Errorf("a backup %q is written", path)
		}
		p := Part{Name: path, Size: 1, StoredSize: 1, SHA256: hash, StoredSHA256: hash}
		if err := s.ReadPart(t.Context(), "b", p, Keys{}, func(io.Reader) error { return nil }); !errors.Is(err, ErrDamaged) {
			t.Errorf("a part %q is read: %v", path, err)
		}
		if _, err := exampleManifest(p).Encode("b", Keys{}); err == nil {
			t.Errorf("a manifest names the part %q", path)
		}
		for name, err := range map[string]error{"DeleteBackup": s.DeleteBackup(t.Context(), path), "Put": s.Put(t.Context(), path, nil), "Delete": s.Delete(t.Context(), path)} {
			if err == nil {
				t.Errorf("%s takes %q", name, path)
			}
		}
	}
	for _, name := range []string{"manifest.json", "a/manifest.json"} {
		if _, err := s.WritePart(t.Context(), "b", name, Keys{}, noise(1, 1)); err == nil {
			t.Errorf("a part %s is written", name)
		}
	}
}

// A manifest whose write succeeded and whose answer was lost is found by the next attempt of the same request.
func TestAManifestWhoseAnswerWasLostIsNotTakenForAnotherOne(t *testing.T) {
	t.Parallel()
	s := openStore(t, "file://"+t.TempDir(), "")
	part, err := s.WritePart(t.Context(), "b", "p", Keys{}, noise(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	m := exampleManifest(part)
	for name, c := range map[string]struct {
		there Manifest
		want  error
	}{"the same": {there: m}, "another": {there: func() Manifest { m := m; m.ID = "other"; return m }(), want: ErrExists}} {
		content, err := c.there.Encode("b", Keys{})
		if err != nil {
			t.Fatal(err)
		}
		// Between the look and the write.
		racing := &Store{bucket: s.bucket, patience: patience, stall: stall, tune: func(func(any) bool) error { return nil }}
		first := true
		racing.tune = func(func(any) bool) error {
			if first {
				first = false
				return s.bucket.WriteAll(context.WithoutCancel(t.Context()), "b/manifest.json", content, nil)
			}
			return nil
		}
		if err := racing.WriteManifest(t.Context(), "b", m, Keys{}); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if err := s.Delete(t.Context(), "b/manifest.json"); err != nil {
			t.Fatal(err)
		}
	}
}
