package redisdump_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/backup/redisdump"
)

func TestCompatibleIsWhatServersSay(t *testing.T) {
	var all []*process
	for _, engine := range engines {
		all = append(all, start(t, engine, nil))
	}
	refusals := 0
	for _, from := range all {
		from.must(t, "SET", "key", "value")
		rdb := from.save(t)
		var payload []byte
		s, err := redisdump.Scan(bytes.NewReader(rdb), func(e redisdump.Entry) error { payload = e.AppendPayload(nil); return nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range all {
			software, err := redisdump.SoftwareOf(t.Context(), to)
			if err != nil || !strings.HasPrefix(to.engine, software.Engine) {
				t.Fatalf("%s says it is %s (%v)", to.engine, software, err)
			}
			said := to.Do(t.Context(), "RESTORE", "restored", 0, payload, "REPLACE").Err()
			got := redisdump.Compatible(redisdump.Software{Engine: s.Engine, Version: s.ServerVersion}, s.Version, software)
			if (said == nil) != (got == nil) {
				t.Errorf("from %s to %s: the server says %v, Compatible %v", from.engine, to.engine, said, got)
			}
			if said == nil {
				continue
			}
			refusals++
			if !errors.Is(got, redisdump.ErrIncompatible) || !strings.Contains(got.Error(), "restore it into ") {
				t.Errorf("from %s to %s: %v", from.engine, to.engine, got)
			}
			to.must(t, "FLUSHALL")
			summary, err := redisdump.Load(t.Context(), []io.Reader{bytes.NewReader(rdb)}, redisdump.IntoServer(to.Client), redisdump.LoadOptions{})
			if n := to.DBSize(t.Context()).Val(); !errors.Is(err, redisdump.ErrIncompatible) || n != 0 || summary.Restored != 0 {
				t.Errorf("from %s to %s: %d keys were loaded: %v", from.engine, to.engine, n, err)
			}
		}
	}
	if refusals != 7 {
		t.Errorf("%d refusals", refusals)
	}
}

func TestCompatibleKnowsVersionsThatAreNotAtHand(t *testing.T) {
	for name, test := range map[string]struct {
		rdb  int
		to   redisdump.Software
		want string // part of the message; empty: it is taken
	}{
		"Redis 7.2 into 7.2":            {11, redisdump.Software{Engine: "redis", Version: "7.2.4"}, ""},
		"Redis 7.2 into Valkey 7.2":     {11, redisdump.Software{Engine: "valkey", Version: "7.2.11"}, ""},
		"Redis 8.6 into 8.4":            {13, redisdump.Software{Engine: "redis", Version: "8.4.0"}, "restore it into redis 8.6 or later"},
		"Redis 8.6 into a later one":    {13, redisdump.Software{Engine: "redis", Version: "9.0.0"}, ""},
		"Valkey 9.2 into 9.1":           {81, redisdump.Software{Engine: "valkey", Version: "9.1.0"}, "takes up to 11, and 80 to 80; restore it into valkey 9.2 or later"},
		"Redis 7.4 into Valkey 9.2":     {12, redisdump.Software{Engine: "valkey", Version: "9.2.0"}, "restore it into redis 7.4 or later"},
		"Redis 7.2 into 7.0":            {11, redisdump.Software{Engine: "redis", Version: "7.0.15"}, "redis 7.2 or later, or valkey 7.2 or later"},
		"into something old":            {9, redisdump.Software{Engine: "redis", Version: "6.2.0"}, "not supported"},
		"from the future":               {99, redisdump.Software{Engine: "valkey", Version: "9.1"}, "a later version"},
		"into a version without number": {10, redisdump.Software{Engine: "redis", Version: "unstable"}, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			err := redisdump.Compatible(redisdump.Software{Engine: "x"}, test.rdb, test.to)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestDataGoesWhereverItIsCompatible(t *testing.T) {
	for _, pair := range [][2]string{
		{"redis-7.0", "redis-8.0"}, {"redis-7.0", "valkey-8.1"}, {"redis-7.0", "valkey-9.1"}, {"valkey-8.1", "valkey-9.1"}, {"valkey-8.1", "redis-8.0"},
	} {
		t.Run(pair[0]+" to "+pair[1], func(t *testing.T) {
			from, to := start(t, pair[0], nil), startCluster(t, pair[1], 2)
			from.fill(t)
			want := digest(t, from.Client)
			summary, err := redisdump.Load(t.Context(), []io.Reader{bytes.NewReader(from.save(t))}, redisdump.IntoCluster(to.ClusterClient), redisdump.LoadOptions{})
			if got := to.digest(t); err != nil || got != want || summary.Restored != want.Keys || summary.Functions != 2 {
				t.Errorf("%+v %v, the digest is %s, want %s", brief(summary), err, got, want)
			}
		})
	}
}

func TestADigestSeesAnyDifference(t *testing.T) {
	p := start(t, "valkey-9.1", nil)
	p.fill(t)
	same := start(t, "valkey-9.1", p.save(t), "--hash-max-listpack-entries", "0", "--set-max-intset-entries", "0", "--zset-max-listpack-entries", "0")
	seen := map[redisdump.Digest]string{digest(t, p.Client): "nothing"}
	if _, equal := seen[digest(t, same.Client)]; !equal {
		t.Error("encodings make a difference")
	}
	for _, change := range [][]any{
		{"SET", "string:0", "y"},
		{"PEXPIRE", "string:1", 1 << 40},
		{"PERSIST", "expires"},
		{"HPERSIST", "hash:5", "FIELDS", 1, "number 1"},
		{"LSET", "list:5", 0, "z"},
		{"RPOPLPUSH", "list:600", "list:600"},
		{"SADD", "set:1", "z"},
		{"ZINCRBY", "zset:5", 0.25, "item 1 l"},
		{"HSET", "hash:1", "number 0", "z"},
		{"XACK", "stream:big", "g", "1001-4"},
		{"XADD", "stream:empty", "6-6", "a", "b"},
		{"XDEL", "stream:empty", "6-6"},
		{"XCLAIM", "stream:big", "g", "bob", 0, "1002-8", "JUSTID"},
		{"XGROUP", "SETID", "stream:big", "idle", "7-7"},
		{"SETBIT", "bits", 7, 1},
		{"RENAME", "set:1", "set:2"},
		{"XGROUP", "CREATECONSUMER", "stream:big", "g", "another"},
	} {
		p.must(t, change...)
		d := digest(t, p.Client)
		if before, known := seen[d]; known {
			t.Errorf("after %v the digest is as after %s", change, before)
		}
		seen[d] = change[0].(string)
	}
}
