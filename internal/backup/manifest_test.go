package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const exampleHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func redisManifest() Manifest {
	m := exampleManifest(Part{Name: "0.rdb", Size: 10, SHA256: exampleHash, StoredSize: 5, StoredSHA256: exampleHash},
		Part{Name: "1.rdb", Size: 1 << 40, SHA256: exampleHash, StoredSize: 1 << 39, StoredSHA256: exampleHash})
	m.Kind, m.Engine, m.EngineVersion, m.Encrypted, m.Etcd = KindRedis, "valkey", "9.1.2", true, nil
	counts := make([]uint32, Slots)
	counts[1], counts[7000], counts[Slots-1] = 1, 1<<32-1, 300
	at := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
	m.Redis = &RedisContent{Skew: 12 * time.Millisecond, RDBVersion: 11, Users: []string{"user app on #0123 ~* +@all"}, Shards: []RedisShard{
		{Index: 0, Part: "0.rdb", Node: "ab12", Slots: "0-5460,7000", Epoch: 4, ReplicationID: "cd34", Offset: 100, PrimaryOffset: 101, Keys: 9, Expires: 2, KeysPerSlot: counts, Began: at, Ended: at.Add(time.Minute)},
		{Index: 1, Part: "1.rdb", Slots: "5461-6999,7001-16383", KeysPerSlot: SlotCounts{3}},
	}}
	return m
}

func encoded(tb testing.TB, m Manifest) []byte {
	tb.Helper()
	stored, err := m.Encode("b", Keys{})
	if err != nil {
		tb.Fatal(err)
	}
	return stored
}

func TestManifestsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]Manifest{"etcd": exampleManifest(), "redis": redisManifest()} {
		stored := encoded(t, m)
		got, err := DecodeManifest(stored, "b", Keys{})
		if err != nil || !cmp.Equal(got, m) {
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(m, got))
		}
		if !json.Valid(stored) {
			t.Errorf("%s: what is stored is no JSON", name)
		}
	}
	if n := len(encoded(t, redisManifest())); n > 3000 {
		t.Errorf("a manifest with few keys has %d bytes", n)
	}
}

// What version 1 looks like does not change any more: backups of years have to be read. Another look is another Format.
func TestTheFormatOfManifestsStays(t *testing.T) {
	t.Parallel()
	content := `{"format":1,"id":"orders-20260101","kind":"EtcdCluster","namespace":"shop","cluster":"orders","clusterUID":"0b6f","engine":"etcd",` +
		`"engineVersion":"3.6.16","started":"2026-01-01T02:30:00Z","finished":"2026-01-01T02:30:07.123456789Z","encrypted":false,` +
		`"parts":[{"name":"etcd.db","size":10,"sha256":"` + exampleHash + `","storedSize":5,"storedSHA256":"` + exampleHash + `"}],` +
		`"etcd":{"timeline":"cdf818194e3a8c32","revision":4711,"member":"orders-2","newest":4715,"taken":"2026-01-01T02:30:01Z"}}`
	want := exampleManifest(Part{Name: "etcd.db", Size: 10, SHA256: exampleHash, StoredSize: 5, StoredSHA256: exampleHash})
	got, err := DecodeManifest(envelope(content), "b", Keys{})
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v\n%s", err, cmp.Diff(want, got))
	}
	if stored := encoded(t, want); !bytes.Equal(stored, envelope(content)) {
		t.Errorf("it is written as\n%s", stored)
	}
}

// envelope is made here by other means than by the code that is tested.
func envelope(content string) []byte {
	return fmt.Appendf(nil, "{\"sha256\":\"%x\",\"manifest\":%s}\n", sha256.Sum256([]byte(content)), content)
}

func TestEveryChangedByteOfAManifestIsFound(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]Manifest{"etcd": exampleManifest(), "redis": redisManifest()} {
		stored := encoded(t, m)
		for i := range stored {
			for _, flip := range []byte{0x01, 0x20, 0x80, 0xff} {
				stored[i] ^= flip
				if _, err := DecodeManifest(stored, "b", Keys{}); !errors.Is(err, ErrDamaged) {
					t.Errorf("%s: byte %d of %d, %#x: %v", name, i, len(stored), flip, err)
				}
				stored[i] ^= flip
			}
			if _, err := DecodeManifest(stored[:i], "b", Keys{}); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: cut to %d bytes: %v", name, i, err)
			}
		}
		for _, more := range []string{" ", "\n", "{}", "\x00"} {
			if _, err := DecodeManifest(append(bytes.Clone(stored), more...), "b", Keys{}); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %q behind it: %v", name, more, err)
			}
		}
	}
}

func TestManifestsThatCannotBeMeantAreRefused(t *testing.T) {
	t.Parallel()
	good := string(encoded(t, exampleManifest(Part{Name: "p", Size: 1, SHA256: exampleHash, StoredSize: 1, StoredSHA256: exampleHash})))
	good = strings.TrimSuffix(good[strings.Index(good, `"manifest":`)+len(`"manifest":`):], "}\n")
	for name, c := range map[string]struct {
		old, replacement string
		want             error
	}{
		"a later format":             {`"format":1`, `"format":3,"invented":{"later":[1]}`, ErrTooNew},
		"an HMAC without its format": {`"format":1`, `"format":1,"hmac":"` + noHMAC + `"`, ErrDamaged},
		"its format without an HMAC": {`"format":1`, `"format":2`, ErrDamaged},
		"no format":                  {`"format":1,`, ``, ErrDamaged},
		"a field nobody knows":       {`"format":1`, `"format":1,"invented":1`, ErrDamaged},
		"a field of a part":          {`"size":1`, `"size":1,"invented":1`, ErrDamaged},
		"something behind it":        {`"taken":"2026-01-01T02:30:01Z"}}`, `"taken":"2026-01-01T02:30:01Z"}} {}`, ErrDamaged},
		"another kind":               {`"EtcdCluster"`, `"RedisCluster"`, ErrDamaged},
		"a negative size":            {`"size":1`, `"size":-1`, ErrDamaged},
		"a size beyond all":          {`"size":1`, `"size":99999999999999999999`, ErrDamaged},
		"nothing stored":             {`"storedSize":1`, `"storedSize":0`, ErrDamaged},
		"a hash in capitals":         {exampleHash, strings.ToUpper(exampleHash), ErrDamaged},
		"a path that leads away":     {`"name":"p"`, `"name":"../p"`, ErrDamaged},
		"an absolute path":           {`"name":"p"`, `"name":"/p"`, ErrDamaged},
		"a time that is none":        {`"2026-01-01T02:30:00Z"`, `"yesterday"`, ErrDamaged},
		"text in place of number":    {`"revision":4711`, `"revision":"4711"`, ErrDamaged},
		"not an object":              {good, `[]`, ErrDamaged},
		"nothing at all":             {good, ``, ErrDamaged},
		"deeper than any":            {good, strings.Repeat(`[`, 1<<20), ErrDamaged},
	} {
		changed := strings.Replace(good, c.old, c.replacement, 1)
		if changed == good {
			t.Fatalf("%s: nothing is changed in %s", name, good)
		}
		if _, err := DecodeManifest(envelope(changed), "b", Keys{}); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	for name, change := range map[string]func(*Manifest){
		"a part twice":         func(m *Manifest) { m.Parts[1] = m.Parts[0] },
		"a slot in two shards": func(m *Manifest) { m.Redis.Shards[1].Slots = "5460" },
		"a slot beyond all":    func(m *Manifest) { m.Redis.Shards[1].Slots = "16384" },
		"slots that are none":  func(m *Manifest) { m.Redis.Shards[1].Slots = "9000-8000" },
		"a shard without part": func(m *Manifest) { m.Redis.Shards[1].Part = "2.rdb" },
		"counts beyond slots": func(m *Manifest) {
			m.Redis.Shards[1].KeysPerSlot = make(SlotCounts, Slots, Slots+1)
			m.Redis.Shards[1].KeysPerSlot = append(m.Redis.Shards[1].KeysPerSlot, 1)
		},
		"content of both kinds": func(m *Manifest) { m.Etcd = &EtcdContent{} },
	} {
		m := redisManifest()
		change(&m)
		if _, err := m.Encode("b", Keys{}); err == nil {
			t.Errorf("%s is written", name)
		}
	}
}

func TestNumbersOfKeysThatClaimMuchTakeNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a run beyond all slots": "AP////8P", "many runs": strings.Repeat("AP9/", 2000), "cut off": "gA", "no base64": "%%", "zeros at the end": "AQAA",
	} {
		var c SlotCounts
		if err := c.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%s: %d numbers are read", name, len(c))
		}
	}
}

func FuzzDecodeManifest(f *testing.F) {
	for _, m := range []Manifest{exampleManifest(), redisManifest()} {
		stored := encoded(f, m)
		f.Add(stored, false)
		f.Add(stored[bytes.Index(stored, []byte(`"manifest":`))+len(`"manifest":`):len(stored)-2], true)
	}
	f.Fuzz(func(t *testing.T, content []byte, wrap bool) {
		if wrap { // Past the hash, which keeps out nearly everything else.
			content = envelope(string(content))
		}
		m, err := DecodeManifest(content, "b", Keys{})
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrTooNew) {
				t.Errorf("%v is none of the errors that callers know", err)
			}
			return
		}
		again, err := m.Encode("b", Keys{})
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		got, err := DecodeManifest(again, "b", Keys{})
		if err != nil || len(got.Parts) != len(m.Parts) || got.ID != m.ID {
			t.Errorf("it is another one the second time: %v", err)
		}
	})
}
