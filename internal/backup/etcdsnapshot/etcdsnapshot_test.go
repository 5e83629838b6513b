package etcdsnapshot_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/backup/etcdsnapshot"
)

func TestASnapshotOfARealServerIsWhole(t *testing.T) {
	eachServer(t, func(t *testing.T, s server, c *clientv3.Client) {
		t.Helper()
		revision := write(t, c, 200)
		dir := etcdsnapshot.Dir{Path: t.TempDir()}
		status, err := c.Status(t.Context(), c.Endpoints()[0])
		if err != nil {
			t.Fatal(err)
		}
		name, content, err := dir.Save(t.Context(), c, etcdsnapshot.Wanted{Version: s.version, Size: status.DbSize, Revision: revision})
		if err != nil {
			t.Fatal(err)
		}
		if name != fmt.Sprintf("%s-%d.db", s.version, revision) || content.Revision != revision {
			t.Errorf("%s, %+v; the newest revision is %d", name, content, revision)
		}
		again, err := etcdsnapshot.Verify(filepath.Join(dir.Path, name))
		if diff := cmp.Diff(content, again); err != nil || diff != "" {
			t.Errorf("%v (-saved +read back):\n%s", err, diff)
		}
		if got := files(t, dir.Path); !slices.Equal(got, []string{name}) {
			t.Errorf("the directory holds %v", got)
		}
		t.Logf("%s: %+v", name, content)
		restored := s.start(t, s.restore(t, filepath.Join(dir.Path, name)))
		got, err := restored.Get(t.Context(), "key-", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil || got.Count != 200 || got.Header.Revision != revision {
			t.Errorf("after a restore there are %d keys at revision %d, %v", got.Count, got.Header.Revision, err)
		}
	})
}

// The newest change of all may be a deletion that a compaction has thrown away.
func TestTheRevisionIsKnownAfterACompaction(t *testing.T) {
	eachServer(t, func(t *testing.T, s server, c *clientv3.Client) {
		t.Helper()
		write(t, c, 10)
		r, err := c.Delete(t.Context(), "key-", clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Compact(t.Context(), r.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
			t.Fatal(err)
		}
		_, content, err := etcdsnapshot.Dir{Path: t.TempDir()}.Save(t.Context(), c,
			etcdsnapshot.Wanted{Version: s.version, Revision: r.Header.Revision})
		if err != nil || content.Revision != r.Header.Revision {
			t.Errorf("%+v, %v; the newest revision is %d", content, err, r.Header.Revision)
		}
	})
}

func TestDamageIsFound(t *testing.T) {
	eachServer(t, func(t *testing.T, _ server, c *clientv3.Client) {
		t.Helper()
		write(t, c, 200)
		var whole bytes.Buffer
		if _, err := etcdsnapshot.Stream(t.Context(), c, &whole); err != nil {
			t.Fatal(err)
		}
		for name, harm := range map[string]func([]byte) []byte{
			"nothing":              func([]byte) []byte { return nil },
			"cut in the middle":    func(b []byte) []byte { return b[:len(b)/2] },
			"cut at a page":        func(b []byte) []byte { return b[:len(b)/2/4096*4096] },
			"cut to look complete": func(b []byte) []byte { return b[:len(b)/2/4096*4096+sha256.Size] },
			"without the checksum": func(b []byte) []byte { return b[:len(b)-sha256.Size] },
			"one byte short":       func(b []byte) []byte { return b[:len(b)-1] },
			"a flipped bit":        func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
			"a flipped first bit":  func(b []byte) []byte { b[0] ^= 1; return b },
			"a flipped last bit":   func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
			"every page twice":     func(b []byte) []byte { return sealed(doubled(b)) },
			"zeros from a page on": func(b []byte) []byte { clear(b[4096*8 : len(b)-sha256.Size]); return sealed(b) },
		} {
			bad := harm(bytes.Clone(whole.Bytes()))
			path := filepath.Join(t.TempDir(), "bad.db")
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := etcdsnapshot.Verify(path); !errors.Is(err, etcdsnapshot.ErrDamaged) {
				t.Errorf("%s: read back as %+v, %v", name, got, err)
			}
			dir := etcdsnapshot.Dir{Path: t.TempDir()}
			if file, _, err := dir.Save(t.Context(), recorded(bad), etcdsnapshot.Wanted{Version: "3.6.16"}); !errors.Is(err, etcdsnapshot.ErrDamaged) {
				t.Errorf("%s: saved as %s, %v", name, file, err)
			}
			if left := files(t, dir.Path); len(left) > 0 {
				t.Errorf("%s: %v is left", name, left)
			}
		}
	})
}

// sealed puts the right checksum behind wrong data, as a member with a damaged database would.
func sealed(b []byte) []byte {
	data := b[:len(b)-sha256.Size]
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

// doubled puts every other page in the place of the one before it, beyond the first four, which describe the others.
func doubled(b []byte) []byte {
	const page = 4096
	for i := 4 * page; i+2*page < len(b); i += 2 * page {
		copy(b[i:i+page], b[i+page:i+2*page])
	}
	return b
}

// recorded sends what was recorded, in pieces of odd sizes.
type recorded []byte

func (r recorded) SnapshotWithVersion(context.Context) (*clientv3.SnapshotResponse, error) {
	return &clientv3.SnapshotResponse{Snapshot: io.NopCloser(&pieces{rest: r})}, nil
}

type pieces struct {
	rest []byte
	n    int
}

func (p *pieces) Read(into []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	p.n++
	n := copy(into[:min(len(into), []int{1, 31, 32, 33, 700, 30_000}[p.n%6])], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func TestWhatIsNoDatabaseOfEtcdIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other")
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("key")); return err }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	_, _, err = etcdsnapshot.Dir{Path: t.TempDir()}.Save(t.Context(), recorded(append(raw, sum[:]...)), etcdsnapshot.Wanted{})
	if !errors.Is(err, etcdsnapshot.ErrDamaged) || !strings.Contains(err.Error(), "no buckets key and meta") {
		t.Errorf("%v", err)
	}
}

// database is a snapshot of an etcd that nobody has written to.
func database(t *testing.T) recorded {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err1 := tx.CreateBucket([]byte("key"))
		_, err2 := tx.CreateBucket([]byte("meta"))
		return errors.Join(err1, err2)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	return append(raw, sum[:]...)
}

func TestAnOldSnapshotIsRefused(t *testing.T) {
	_, _, err := etcdsnapshot.Dir{Path: t.TempDir()}.Save(t.Context(), database(t), etcdsnapshot.Wanted{Revision: 7})
	if !errors.Is(err, etcdsnapshot.ErrDamaged) || !strings.Contains(err.Error(), "ends at revision 1, and the member was at 7") {
		t.Errorf("%v", err)
	}
}

func TestTheChecksumOfStreamAndFileIsThatOfTheDatabase(t *testing.T) {
	whole := database(t)
	var copied bytes.Buffer
	got, err := etcdsnapshot.Stream(t.Context(), whole, &copied)
	if err != nil {
		t.Fatal(err)
	}
	want := etcdsnapshot.Content{Size: int64(len(whole)), SHA256: hex.EncodeToString(whole[len(whole)-sha256.Size:])}
	if diff := cmp.Diff(want, got); diff != "" || !bytes.Equal(whole, copied.Bytes()) {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheNewestTwoSnapshotsAreKept(t *testing.T) {
	dir := etcdsnapshot.Dir{Path: t.TempDir()}
	old(t, dir.Path, "3.5.35-1.db", 3*time.Hour)
	old(t, dir.Path, "3.6.16-2.db", 2*time.Hour)
	old(t, dir.Path, "3.6.16-3.db", time.Hour)
	old(t, dir.Path, "snapshot.part", time.Hour)
	old(t, dir.Path, "lost+found", time.Hour)
	if _, _, err := dir.Save(t.Context(), database(t), etcdsnapshot.Wanted{Version: "3.7.3"}); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, dir.Path), []string{"3.6.16-3.db", "3.7.3-1.db", "lost+found"}; !slices.Equal(got, want) {
		t.Errorf("%v instead of %v", got, want)
	}
}

func TestOldSnapshotsMakeRoom(t *testing.T) {
	dir := etcdsnapshot.Dir{Path: t.TempDir()}
	old(t, dir.Path, "3.5.35-1.db", 3*time.Hour)
	old(t, dir.Path, "3.6.16-2.db", 2*time.Hour)
	dir.Free = func(path string) (int64, error) { return int64(200<<20 - 60<<20*len(files(t, path))), nil }
	if _, _, err := dir.Save(t.Context(), database(t), etcdsnapshot.Wanted{Version: "3.7.3", Size: 100 << 20}); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, dir.Path), []string{"3.6.16-2.db", "3.7.3-1.db"}; !slices.Equal(got, want) {
		t.Errorf("%v instead of %v", got, want)
	}
}

func TestADiskThatIsTooSmallIsNamed(t *testing.T) {
	dir := etcdsnapshot.Dir{Path: t.TempDir(), Free: func(string) (int64, error) { return 50 << 20, nil }}
	_, _, err := dir.Save(t.Context(), database(t), etcdsnapshot.Wanted{Version: "3.7.3", Size: 100 << 20})
	if err == nil || !strings.Contains(err.Error(), "a database of 100 MiB needs 126 MiB, and 50 MiB are free") {
		t.Errorf("%v", err)
	}
}

// full is a member whose snapshot does not fit after all.
type full struct{}

func (full) SnapshotWithVersion(context.Context) (*clientv3.SnapshotResponse, error) {
	return nil, syscall.ENOSPC
}

func TestADiskThatGetsFullIsNamed(t *testing.T) {
	dir := etcdsnapshot.Dir{Path: t.TempDir(), Free: func(string) (int64, error) { return 200 << 20, nil }}
	_, _, err := dir.Save(t.Context(), full{}, etcdsnapshot.Wanted{Size: 100 << 20})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "the volume for snapshots is too small") {
		t.Errorf("%v", err)
	}
}

func old(t *testing.T, dir, name string, age time.Duration) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-age)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
