package slots

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSharesCoverAllSlotsOnce(t *testing.T) {
	for shards := 1; shards <= 1000; shards++ {
		var all Set
		for shard := range shards {
			share := Share(shard, shards)
			if n := share.Count(); n != Count/shards && n != Count/shards+1 {
				t.Fatalf("shard %d of %d gets %d slots", shard, shards, n)
			}
			if all.Overlaps(share) {
				t.Fatalf("shard %d of %d gets slots %s that another one has", shard, shards, share)
			}
			all = Union(all, share)
		}
		if diff := cmp.Diff(Set{{0, Count - 1}}, all); diff != "" {
			t.Fatalf("%d shards (-want +got):\n%s", shards, diff)
		}
	}
}

func TestSlots(t *testing.T) {
	tests := map[string]struct {
		ranges  []Range
		text    string
		count   int
		missing string
	}{
		"none":                   {nil, "", 0, "0-16383"},
		"all":                    {[]Range{{0, 16383}}, "0-16383", 16384, ""},
		"touching ranges join":   {[]Range{{11, 20}, {0, 10}}, "0-20", 21, "21-16383"},
		"overlapping ones, too":  {[]Range{{0, 10}, {5, 7}, {9, 12}}, "0-12", 13, "13-16383"},
		"single slots":           {[]Range{{7, 7}, {16383, 16383}}, "7 16383", 2, "0-6 8-16382"},
		"a hole in the middle":   {[]Range{{0, 5460}, {10923, 16383}}, "0-5460 10923-16383", 10922, "5461-10922"},
		"the first slot missing": {[]Range{{1, 16383}}, "1-16383", 16383, "0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := New(tc.ranges...)
			if s.String() != tc.text || s.Count() != tc.count || s.Missing().String() != tc.missing {
				t.Errorf("%q, %d slots, missing %q; want %q, %d, %q", s, s.Count(), s.Missing(), tc.text, tc.count, tc.missing)
			}
		})
	}
}
