package etcdhistory_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/backup/etcdhistory"
)

// names of segments, from pairs of revisions.
func names(pairs ...int64) (out []etcdhistory.Name) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, etcdhistory.Name{Timeline: timeline, From: pairs[i], To: pairs[i+1]})
	}
	return out
}

func TestANameIsParsedAsItWasWritten(t *testing.T) {
	n := etcdhistory.Name{Timeline: timeline, From: 10, To: 0x1234567890}
	if got := n.String(); got != "log/cdf818194e3a8c32-1/000000000000000a-0000001234567890" {
		t.Errorf("%s", got)
	}
	if got, ok := etcdhistory.ParseName(n.String()); !ok || got != n {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, other := range []string{
		"", "log/a/1-2", "log//000000000000000a-000000000000000b", "log/a/000000000000000b-000000000000000a",
		"log/a/000000000000000a-000000000000000a", "log/../000000000000000a-000000000000000b", "log/a/b/000000000000000a-000000000000000b",
		"log/a/000000000000000a-ffffffffffffffff", "x/log/a/000000000000000a-000000000000000b", "log/a/000000000000000a-000000000000000b.tmp",
	} {
		if got, ok := etcdhistory.ParseName(other); ok {
			t.Errorf("%q is %+v", other, got)
		}
	}
}

func TestAChainLeadsFromASnapshotToARevision(t *testing.T) {
	for name, c := range map[string]struct {
		names    []etcdhistory.Name
		base, to int64
		want     []etcdhistory.Name
		gap      string
		latest   int64
	}{
		"one after the other":      {names: names(1, 10, 10, 20, 20, 30), base: 1, to: 30, want: names(1, 10, 10, 20, 20, 30), latest: 30},
		"in any order":             {names: names(20, 30, 1, 10, 10, 20), base: 1, want: names(1, 10, 10, 20, 20, 30), latest: 30},
		"only what is needed":      {names: names(1, 10, 10, 20, 20, 30), base: 12, to: 18, want: names(10, 20), latest: 30},
		"from a border":            {names: names(1, 10, 10, 20, 20, 30), base: 10, to: 20, want: names(10, 20), latest: 30},
		"nothing":                  {names: names(1, 10), base: 10, to: 10, latest: 10},
		"nothing, and none at all": {base: 10, latest: 10},
		"what is before the base":  {names: names(1, 10), base: 50, to: 20, latest: 50},
		"two recorders":            {names: names(1, 10, 3, 14, 10, 13, 14, 22), base: 1, to: 22, want: names(1, 10, 3, 14, 14, 22), latest: 22},
		"a merged one and parts":   {names: names(1, 10, 1, 30, 10, 20, 20, 30, 30, 40), base: 1, want: names(1, 30, 30, 40), latest: 40},
		"a hole":                   {names: names(1, 10, 12, 20), base: 1, to: 20, gap: "from 11 to 12", latest: 10},
		"a hole at the beginning":  {names: names(12, 20), base: 10, gap: "from 11 to 12", latest: 10},
		"too short":                {names: names(1, 10), base: 1, to: 12, gap: "from 11 to 12", latest: 10},
		"the newest one too late":  {names: names(1, 10, 15, 18), base: 1, to: 12, gap: "from 11 to 12", latest: 10},
	} {
		got, err := etcdhistory.Chain(c.names, c.base, c.to)
		if diff := cmp.Diff(c.want, got); diff != "" || (err != nil) != (c.gap != "") {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if c.gap != "" && (!errors.Is(err, etcdhistory.ErrGap) || !strings.Contains(err.Error(), c.gap)) {
			t.Errorf("%s: %v, want %s", name, err, c.gap)
		}
		if got := etcdhistory.Latest(c.names, c.base); got != c.latest {
			t.Errorf("%s: the latest is %d, want %d", name, got, c.latest)
		}
	}
}

// A chain is there if and only if each single revision is in some segment.
func TestAChainIsFoundWheneverThereIsOne(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		var all []etcdhistory.Name
		has := [60]bool{}
		for range random.IntN(12) {
			from := random.Int64N(50)
			to := from + 1 + random.Int64N(9)
			all = append(all, names(from, to)...)
			for r := from + 1; r <= to; r++ {
				has[r] = true
			}
		}
		base := random.Int64N(40)
		to := base + 1 + random.Int64N(15)
		want := true
		for r := base + 1; r <= to; r++ {
			want = want && has[r]
		}
		chain, err := etcdhistory.Chain(all, base, to)
		if want != (err == nil) {
			t.Fatalf("seed %d: from %d to %d in %v: %v, %v", seed, base, to, all, chain, err)
		}
		reached := base
		for _, n := range chain {
			if n.From > reached || n.To <= reached {
				t.Fatalf("seed %d: from %d to %d in %v: %v", seed, base, to, all, chain)
			}
			reached = n.To
		}
		if err == nil && reached < to {
			t.Fatalf("seed %d: from %d to %d in %v: %v", seed, base, to, all, chain)
		}
	}
}

func TestWhatNoBackupNeedsIsObsolete(t *testing.T) {
	got := etcdhistory.Obsolete(names(1, 10, 10, 20, 15, 25, 20, 30), 20)
	if diff := cmp.Diff(names(1, 10, 10, 20), got); diff != "" {
		t.Error(diff)
	}
}
