package etcdsnapshot_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/internal/backup/etcdsnapshot"
)

func TestASnapshotOfARealServerIsWhole(t *testing.T) {
	eachServer(t, func(t *testing.T, s server, c *clientv3.Client) {
		t.Helper()
		revision := write(t, c, 200)
		var whole bytes.Buffer
		content, err := etcdsnapshot.Stream(t.Context(), c, &whole)
		if err != nil {
			t.Fatal(err)
		}
		if content.Size != int64(whole.Len()) {
			t.Errorf("%d bytes arrived of %+v", whole.Len(), content)
		}
		path := filepath.Join(t.TempDir(), "snapshot.db")
		if err := os.WriteFile(path, whole.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		restored := s.start(t, s.restore(t, path))
		got, err := restored.Get(t.Context(), "key-", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil || got.Count != 200 || got.Header.Revision != revision {
			t.Errorf("after a restore there are %d keys at revision %d, %v", got.Count, got.Header.Revision, err)
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
		} {
			got, err := etcdsnapshot.Stream(t.Context(), recorded(harm(bytes.Clone(whole.Bytes()))), io.Discard)
			if !errors.Is(err, etcdsnapshot.ErrDamaged) {
				t.Errorf("%s: copied as %+v, %v", name, got, err)
			}
		}
	})
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

func TestTheChecksumIsThatOfTheDatabase(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	sum := sha256.Sum256(data)
	whole := append(data, sum[:]...)
	var copied bytes.Buffer
	got, err := etcdsnapshot.Stream(t.Context(), recorded(whole), &copied)
	if err != nil {
		t.Fatal(err)
	}
	want := etcdsnapshot.Content{Size: int64(len(whole)), SHA256: hex.EncodeToString(sum[:])}
	if diff := cmp.Diff(want, got); diff != "" || !bytes.Equal(whole, copied.Bytes()) {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
