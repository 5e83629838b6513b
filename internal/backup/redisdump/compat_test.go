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
			if !errors.Is(got, redisdump.ErrIncompatible) || !strings.Contains(got.Error(), "restore it into "+s.Engine) {
				t.Errorf("from %s to %s: %v", from.engine, to.engine, got)
			}
			to.must(t, "FLUSHALL")
			summary, err := redisdump.Load(t.Context(), []io.Reader{bytes.NewReader(rdb)}, redisdump.IntoServer(to.Client), redisdump.LoadOptions{})
			if n := to.DBSize(t.Context()).Val(); !errors.Is(err, redisdump.ErrIncompatible) || n != 0 || summary.Restored != 0 {
				t.Errorf("from %s to %s: %d keys were loaded: %v", from.engine, to.engine, n, err)
			}
		}
	}
	if refusals != 8 {
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
