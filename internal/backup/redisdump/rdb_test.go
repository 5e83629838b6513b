package redisdump_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/backup/redisdump"
)

func TestSlotIsThatOfTheSpecification(t *testing.T) {
	for key, want := range map[string]int{
		"": 0, "123456789": 0x31c3, "foo": 12182, "{foo}bar": 12182, "bar{foo}x": 12182, "foo{}{bar}": redisdump.Slot([]byte("foo{}{bar}")),
	} {
		if got := redisdump.Slot([]byte(key)); got != want {
			t.Errorf("the slot of %q is %d, want %d", key, got, want)
		}
	}
	if redisdump.Slot([]byte("foo{{bar}}zap")) != redisdump.Slot([]byte("{bar")) {
		t.Error("the tag of foo{{bar}}zap is not {bar")
	}
	if redisdump.Slot([]byte("foo{}{bar}")) == redisdump.Slot([]byte("bar")) {
		t.Error("an empty tag counts")
	}
}

func TestScanFindsWhatAServerDumps(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		for name, args := range map[string][]string{
			"plain": nil, "lru": {"--maxmemory-policy", "allkeys-lru", "--maxmemory", "1gb"}, "lfu": {"--maxmemory-policy", "allkeys-lfu", "--maxmemory", "1gb"},
			"uncompressed": {"--rdbcompression", "no"}, "cluster": {"--cluster-enabled", "yes"},
		} {
			t.Run(name, func(t *testing.T) {
				p := start(t, engine, nil, args...)
				if name == "cluster" {
					p.must(t, "CLUSTER", "ADDSLOTSRANGE", 0, redisdump.SlotCount-1)
					eventually(t, "the cluster is up", func() error { return p.Set(t.Context(), "x", 1, 0).Err() })
				}
				p.fill(t)
				compareWithServer(t, p, p.save(t), name)
			})
		}
	})
}

// compareWithServer compares what is read with what DUMP and others tell of each key.
func compareWithServer(t *testing.T, p *process, rdb []byte, policy string) {
	t.Helper()
	keys := int64(0)
	s, err := redisdump.Scan(iotest.HalfReader(bytes.NewReader(rdb)), func(e redisdump.Entry) error {
		keys++
		want, err := p.Dump(t.Context(), string(e.Key)).Result()
		if err != nil {
			return fmt.Errorf("DUMP %q: %w", e.Key, err)
		}
		if got := e.AppendPayload(nil); !bytes.Equal(got, []byte(want)) {
			t.Errorf("the payload of %.50q, of type %d and %d bytes, differs from that of DUMP: %s",
				e.Key, e.Type, len(got), cmp.Diff([]byte(want)[max(0, len(want)-20):], got[max(0, len(got)-20):]))
		}
		expiry, err := p.Do(t.Context(), "PEXPIRETIME", e.Key).Int64()
		if err != nil || max(0, expiry) != e.ExpireAt {
			t.Errorf("%q expires at %d, want %d (%v)", e.Key, e.ExpireAt, expiry, err)
		}
		if (policy == "lru") != (e.Idle >= 0) || (policy == "lfu") != (e.Freq >= 0) {
			t.Errorf("%q has idle time %d and frequency %d", e.Key, e.Idle, e.Freq)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	size, err := p.DBSize(t.Context()).Result()
	if err != nil || size != keys || size != s.Keys || s.Functions != 2 || !s.Checked || s.Bytes != int64(len(rdb)) || s.Expires != 2 {
		t.Errorf("of %d keys (%v) and %d bytes, %d were read: %+v", size, err, len(rdb), keys, counts(s))
	}
	if name, _, _ := strings.Cut(p.engine, "-"); s.Engine != name || !strings.HasPrefix(s.ServerVersion, strings.TrimPrefix(p.engine, name+"-")) {
		t.Errorf("it was written by %s %s", s.Engine, s.ServerVersion)
	}
	if policy == "cluster" {
		for slot, n := range s.KeysPerSlot {
			if want, err := p.ClusterCountKeysInSlot(t.Context(), slot).Result(); err != nil || want != n {
				t.Fatalf("slot %d has %d keys, want %d (%v)", slot, n, want, err)
			}
		}
	}
	counted, err := redisdump.Count(iotest.OneByteReader(bytes.NewReader(rdb)))
	if diff := cmp.Diff(s, counted); err != nil || diff != "" {
		t.Errorf("counted without values (%v):\n%s", err, diff)
	}
}

// counts is a summary without the slots.
func counts(s redisdump.Summary) redisdump.Summary {
	s.KeysPerSlot = nil
	return s
}

func TestAnyFlippedByteAndAnyMissingEndIsFound(t *testing.T) {
	eachEngine(t, func(t *testing.T, engine string) {
		t.Helper()
		p := start(t, engine, nil)
		p.must(t, "SET", "a", strings.Repeat("ab", 30), "PX", 100000)
		p.must(t, "HSET", "h", "f", "v", "g", 12)
		p.must(t, "RPUSH", "l", 1, 2, "three")
		p.must(t, "XADD", "x", "*", "f", "v")
		p.must(t, "XGROUP", "CREATE", "x", "g", 0)
		rdb := p.save(t)
		if _, err := redisdump.Count(bytes.NewReader(rdb)); err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(rdb)
		for i := range bad {
			for _, bit := range []byte{1, 0x10, 0x80, 0xff} {
				bad[i] ^= bit
				if _, err := redisdump.Count(bytes.NewReader(bad)); !errors.Is(err, redisdump.ErrDamaged) && !errors.Is(err, redisdump.ErrUnsupported) {
					t.Errorf("byte %d of %d xor %#x: %v", i, len(bad), bit, err)
				}
				c := redisdump.NewCounter(io.Discard)
				_, _ = c.Write(bad)
				if _, err := c.Finish(); err == nil {
					t.Errorf("byte %d of %d xor %#x is not seen by a Counter", i, len(bad), bit)
				}
				bad[i] ^= bit
			}
			if _, err := redisdump.Count(bytes.NewReader(rdb[:i])); !errors.Is(err, redisdump.ErrDamaged) {
				t.Errorf("only %d bytes of %d: %v", i, len(bad), err)
			}
		}
		if _, err := redisdump.Count(bytes.NewReader(append(bad, 0))); !errors.Is(err, redisdump.ErrDamaged) {
			t.Errorf("a byte more: %v", err)
		}
	})
}

func TestWithoutChecksumNothingIsClaimed(t *testing.T) {
	p := start(t, "redis-8.0", nil, "--rdbchecksum", "no")
	p.must(t, "SET", "a", 1)
	s, err := redisdump.Count(bytes.NewReader(p.save(t)))
	if err != nil || s.Checked || s.Keys != 1 {
		t.Errorf("%+v %v", counts(s), err)
	}
}

func TestWhatIsNotKnownIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		rdb, want string
		is        error
	}{
		"version of Redis":     {"REDIS0015", "RDB version 15 of redis", redisdump.ErrUnsupported},
		"version of Valkey":    {"VALKEY099", "RDB version 99 of valkey", redisdump.ErrUnsupported},
		"magic":                {"MYSQL0011", "does not begin", redisdump.ErrDamaged},
		"no version":           {"REDIS00x1", "version", redisdump.ErrDamaged},
		"type":                 {"REDIS0013\x1a\x01k", "type 26 (stream of Redis 8.6) in RDB version 13 of redis", redisdump.ErrUnsupported},
		"part":                 {"REDIS0012\xf2", "part 242 of RDB version 12", redisdump.ErrUnsupported},
		"metadata":             {"REDIS0013\xf3\x01", "metadata", redisdump.ErrUnsupported},
		"older than Redis 2.6": {"REDIS0004", "RDB version 4 of redis is not between 5 and", redisdump.ErrUnsupported},
		"mark of diskless replication": {
			"REDIS0011\xff\x00\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("0123456789abcdef", 3)[:40],
			"mark of diskless replication", redisdump.ErrDamaged,
		},
		"something else of 40 bytes": {"REDIS0011\xff\x00\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("z", 40), "something follows", redisdump.ErrDamaged},
		"more than a mark":           {"REDIS0011\xff\x00\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("0", 41), "something follows", redisdump.ErrDamaged},
		"length":                     {"REDIS0012\xfa\x85", "a length that begins with 0x85", redisdump.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := redisdump.Count(strings.NewReader(test.rdb))
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestModulesArePassedOverAndNamed(t *testing.T) {
	// A value and data besides values of the type "ReJSON-RL", version 3, with one part of each kind.
	const id = "\x81\x46\x01\x2b\x92\xff\xa2\xfb\x00" // Any nine characters.
	parts := "\x01\x05\x02\x41\x00\x03abcd\x04abcdefgh\x05\x03str\x05\xc3\x06\x0a\x01aa\xe0\x00\x00"
	rdb := "REDIS0012" + "\xf7" + id + "\x02\x01" + parts + "\x00" + "\x07\x01k" + id + parts + "\x00" + "\xff" + strings.Repeat("\x00", 8)
	var values []string
	s, err := redisdump.Scan(strings.NewReader(rdb), func(e redisdump.Entry) error {
		values = append(values, string(e.Value))
		return nil
	})
	if err != nil || len(values) != 1 || values[0] != id+parts+"\x00" || len(s.Modules) != 1 {
		t.Errorf("%v %+v %q", err, counts(s), values)
	}
}

func TestLengthsThatLieCostNothing(t *testing.T) {
	huge := "\x81\x0f\xff\xff\xff\xff\xff\xff\xff"
	for name, rdb := range map[string]string{
		"key": "\x00" + huge, "value": "\x00\x01k" + huge, "list": "\x01\x01k" + huge, "function": "\xf5" + huge, "aux": "\xfa\x09redis-ver" + huge,
		"compressed key": "\x00\xc3" + huge + huge, "little that expands": "\x00\xc3\x02" + huge + "\x00a",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := redisdump.Scan(strings.NewReader("REDIS0012"+rdb), func(redisdump.Entry) error { return nil })
			runtime.ReadMemStats(&after)
			if !errors.Is(err, redisdump.ErrDamaged) {
				t.Error(err)
			}
			// The buffer and the slots are all that is needed.
			if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 1<<20 {
				t.Errorf("it allocates %d bytes", bytes)
			}
		})
	}
}

func FuzzScan(f *testing.F) {
	for _, engine := range engines {
		p := start(f, engine, nil)
		f.Add(p.save(f))
		p.must(f, "SET", "a", strings.Repeat("ab", 30), "PX", 100000)
		p.must(f, "HSET", "h", "f", "v", "g", 12)
		p.must(f, "ZADD", "z", 1.5, "m")
		p.must(f, "RPUSH", "l", 1, 2, "three")
		p.must(f, "SADD", "s", 1, 2)
		p.must(f, "XADD", "x", "*", "f", "v")
		p.must(f, "XGROUP", "CREATE", "x", "g", 0)
		p.must(f, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">")
		p.must(f, "FUNCTION", "LOAD", "#!lua name=first\nredis.register_function('one', function(keys, args) return 1 end)")
		f.Add(p.save(f))
	}
	f.Fuzz(func(t *testing.T, rdb []byte) {
		size := 0
		s, err := redisdump.Scan(bytes.NewReader(rdb), func(e redisdump.Entry) error {
			size += len(e.Value)
			if payload := e.AppendPayload(nil); len(payload) != len(e.Value)+11 {
				t.Errorf("a payload of %d bytes for a value of %d", len(payload), len(e.Value))
			}
			return nil
		})
		if size > len(rdb) {
			t.Errorf("values of %d bytes in %d", size, len(rdb))
		}
		counted, countErr := redisdump.Count(bytes.NewReader(rdb))
		if (err == nil) != (countErr == nil) {
			t.Errorf("with values %v, without %v", err, countErr)
		}
		if err == nil && (s.Bytes != int64(len(rdb)) || !cmp.Equal(s, counted)) {
			t.Errorf("of %d bytes: %+v, without values %+v", len(rdb), counts(s), counts(counted))
		}
	})
}
