package etcdhistory_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/quorate/quorate/internal/backup/etcdhistory"
)

const timeline = "cdf818194e3a8c32-1"

var began = time.Date(2026, 5, 1, 10, 0, 0, 123, time.UTC)

// put is a new key.
func put(revision, sub int64) etcdhistory.Record {
	return etcdhistory.Record{
		Kind: etcdhistory.Put, Revision: revision, Sub: sub, Time: began.Add(time.Duration(revision) * time.Second),
		KV: &mvccpb.KeyValue{
			Key: fmt.Appendf(nil, "key\x00%d-%d", revision, sub), Value: []byte{0, 0xff, byte(sub)},
			CreateRevision: revision, ModRevision: revision, Version: 1, Lease: 77 * (sub % 2),
		},
	}
}

// gone is a deleted one.
func gone(revision, sub int64) etcdhistory.Record {
	r := put(revision, sub)
	r.Kind, r.KV = etcdhistory.Delete, &mvccpb.KeyValue{Key: r.KV.Key}
	return r
}

func granted(after etcdhistory.Record, id, ttl int64) etcdhistory.Record {
	after.Kind, after.KV, after.Lease = etcdhistory.Granted, nil, etcdhistory.Lease{ID: id, TTL: ttl}
	return after
}

func small() []etcdhistory.Record {
	last := gone(12, 1)
	return []etcdhistory.Record{put(11, 0), put(11, 1), granted(put(11, 1), 77, 600), put(12, 0), last, granted(last, -5, 0)}
}

func header(from int64) etcdhistory.Header {
	return etcdhistory.Header{Timeline: timeline, From: from, Began: began}
}

// readAll returns what a segment holds.
func readAll(raw io.Reader) (h etcdhistory.Header, out []etcdhistory.Record, err error) {
	r, err := etcdhistory.NewReader(raw)
	if err != nil {
		return h, nil, err
	}
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Header(), out, nil
		}
		if err != nil {
			return h, out, err
		}
		out = append(out, record)
	}
}

func TestASegmentIsReadAsItWasWritten(t *testing.T) {
	raw := etcdhistory.Encode(t, header(10), small())
	for name, reader := range map[string]io.Reader{"at once": bytes.NewReader(raw), "bytewise": iotest.OneByteReader(bytes.NewReader(raw))} {
		h, got, err := readAll(reader)
		if diff := cmp.Diff(small(), got, protocmp.Transform()); err != nil || diff != "" || h != header(10) {
			t.Errorf("%s: %+v, %v (-written +read):\n%s", name, h, err, diff)
		}
	}
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	raw := etcdhistory.Encode(t, header(10), small())
	for i := range raw {
		for bit := range 8 {
			bad := bytes.Clone(raw)
			bad[i] ^= 1 << bit
			_, got, err := readAll(bytes.NewReader(bad))
			if !errors.Is(err, etcdhistory.ErrDamaged) && !errors.Is(err, etcdhistory.ErrNewer) {
				t.Fatalf("byte %d, bit %d of %d bytes: %v, %v", i, bit, len(raw), got, err)
			}
		}
	}
}

func TestASegmentThatIsCutOrContinuedIsFound(t *testing.T) {
	raw := etcdhistory.Encode(t, header(10), small())
	for n := range raw {
		if _, got, err := readAll(bytes.NewReader(raw[:n])); !errors.Is(err, etcdhistory.ErrDamaged) {
			t.Fatalf("%d of %d bytes: %v, %v", n, len(raw), got, err)
		}
	}
	for name, tail := range map[string][]byte{"a zero": {0}, "itself": raw} {
		if _, got, err := readAll(bytes.NewReader(append(bytes.Clone(raw), tail...))); !errors.Is(err, etcdhistory.ErrDamaged) {
			t.Errorf("followed by %s: %v, %v", name, got, err)
		}
	}
}

func TestAReadErrorIsNoDamage(t *testing.T) {
	raw := etcdhistory.Encode(t, header(10), small())
	broken := errors.New("connection reset")
	for n := range raw {
		_, _, err := readAll(io.MultiReader(bytes.NewReader(raw[:n]), iotest.ErrReader(broken)))
		if errors.Is(err, etcdhistory.ErrDamaged) || !errors.Is(err, broken) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

func TestAPromisedLengthTakesNoMemory(t *testing.T) {
	raw := append([]byte("QETCDLOG\x01H"), 0xff, 0xff, 0xff, 0x7f) // 256 MiB - 1
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := readAll(bytes.NewReader(raw))
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, etcdhistory.ErrDamaged) || used > 1<<20 {
		t.Errorf("%v, after %d bytes of memory", err, used)
	}
}

func TestRecordsThatEtcdWouldNotMakeAreRefused(t *testing.T) {
	for name, harm := range map[string]func(*mvccpb.KeyValue){
		"no key":              func(kv *mvccpb.KeyValue) { kv.Key = nil },
		"another revision":    func(kv *mvccpb.KeyValue) { kv.ModRevision++ },
		"created later":       func(kv *mvccpb.KeyValue) { kv.CreateRevision++ },
		"created never":       func(kv *mvccpb.KeyValue) { kv.CreateRevision = 0 },
		"no version":          func(kv *mvccpb.KeyValue) { kv.Version = 0 },
		"too late a version":  func(kv *mvccpb.KeyValue) { kv.Version = 2 },
		"too early a version": func(kv *mvccpb.KeyValue) { kv.CreateRevision-- },
	} {
		r := put(11, 0)
		harm(r.KV)
		if _, got, err := readAll(bytes.NewReader(etcdhistory.Encode(t, header(10), []etcdhistory.Record{r}))); !errors.Is(err, etcdhistory.ErrDamaged) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func FuzzReader(f *testing.F) {
	whole := etcdhistory.Encode(f, header(10), small())
	f.Add(whole)
	f.Add(whole[:len(whole)-20])
	f.Add(etcdhistory.Encode(f, header(0), nil))
	f.Add([]byte("QETCDLOG\x01H\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, records, err := readAll(bytes.NewReader(raw))
		if err != nil {
			if !errors.Is(err, etcdhistory.ErrDamaged) && !errors.Is(err, etcdhistory.ErrNewer) {
				t.Errorf("an error of no kind: %v", err)
			}
			return
		}
		// What is accepted is whole, and says the same when it is written again.
		_, again, err := readAll(bytes.NewReader(etcdhistory.Encode(t, h, records)))
		if diff := cmp.Diff(records, again, protocmp.Transform()); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}
