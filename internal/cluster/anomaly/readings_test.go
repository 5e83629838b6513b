package anomaly_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/anomaly"
)

func TestQuantile(t *testing.T) {
	bounds := []float64{0.1, 0.2, 0.4}
	for name, tc := range map[string]struct {
		counts []uint64
		share  float64
		want   float64
	}{
		"all in the first":          {[]uint64{100, 100, 100, 100}, 0.5, 0.05},
		"half in the first":         {[]uint64{50, 100, 100, 100}, 0.75, 0.15},
		"one hundredth in the last": {[]uint64{0, 99, 100, 100}, 0.99, 0.2},
		"beyond all bounds":         {[]uint64{0, 0, 0, 100}, 0.99, 0.4},
	} {
		t.Run(name, func(t *testing.T) {
			got := anomaly.Histogram{Bounds: bounds, Counts: tc.counts}.Quantile(tc.share)
			if math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("%g, want %g", got, tc.want)
			}
		})
	}
}

func TestOneSlowWriteIsNoSlowDisk(t *testing.T) {
	slow := func(n, of uint64) float64 {
		return anomaly.Histogram{Bounds: []float64{0.01, 1}, Counts: []uint64{of - n, of, of}}.Slow()
	}
	for _, of := range []uint64{20, 50, 99, 100, 150, 1000} {
		if got := slow(1, of); got > 0.01 {
			t.Errorf("one of %d: %g", of, got)
		}
	}
	if got := slow(2, 20); got < 0.1 {
		t.Errorf("two of 20: %g", got)
	}
	if got := slow(50, 1000); got < 0.1 {
		t.Errorf("50 of 1000: %g", got)
	}
}

func TestAProcessThatStartedAnewHasNoDifference(t *testing.T) {
	h := func(counts ...uint64) anomaly.Histogram {
		return anomaly.Histogram{Bounds: []float64{1}, Counts: counts}
	}
	if added, ok := h(5, 9).Since(h(2, 4)); !ok || added.Counts[0] != 3 || added.Total() != 5 {
		t.Errorf("%+v, %v", added, ok)
	}
	for name, former := range map[string]anomaly.Histogram{"of more": h(6, 7), "of nothing": {}, "of other bounds": {Bounds: []float64{2}, Counts: []uint64{0, 0}}} {
		if _, ok := h(5, 9).Since(former); ok {
			t.Errorf("there is a difference to one %s", name)
		}
	}
}

func TestChangesAreCountedForAnHour(t *testing.T) {
	var c anomaly.Changes
	at := func(minute int, what string, excused bool) int {
		return c.Next(start.Add(time.Duration(minute)*time.Minute), what, excused)
	}
	for i, step := range []struct {
		minute  int
		what    string
		excused bool
		want    int
	}{
		{0, "", false, 0},
		{1, "a", false, 0},
		{2, "a", false, 0},
		{3, "", false, 1},
		{4, "b", false, 1}, // Lost, and there again as another one: once.
		{5, "c", false, 2},
		{6, "c", true, 2},
		{7, "", false, 2},
		{8, "d", false, 2}, // It was to be restarted.
		{62, "d", false, 2},
		{64, "d", false, 1},
		{70, "d", false, 0},
	} {
		if got := at(step.minute, step.what, step.excused); got != step.want {
			t.Errorf("step %d: %d, want %d", i, got, step.want)
		}
	}
	for i := range 500 {
		if got := at(100, string(rune('a'+i%2)), false); got > 50 {
			t.Fatalf("%d changes are remembered", got)
		}
	}
}

func TestClocksAreApartByWhatIsCertain(t *testing.T) {
	clock := func(name string, ahead, took time.Duration) anomaly.Clock {
		// The server looked at its clock somewhere between the two.
		looked := time.Duration(rand.Int64N(int64(took) + 1))
		return anomaly.ClockOf(name, start.Add(looked+ahead).Truncate(time.Second), time.Second, start, start.Add(took))
	}
	for range 1000 {
		ahead := time.Duration(rand.Int64N(int64(10 * time.Second)))
		r := anomaly.Apart([]anomaly.Clock{
			clock("orders-0", 0, 200*time.Millisecond), clock("orders-1", ahead, 300*time.Millisecond), clock("orders-2", ahead/2, time.Second),
		})
		if len(r) != 1 || r[0].Figure > ahead.Seconds() || r[0].Figure < ahead.Seconds()-2.5 {
			t.Fatalf("%+v, but they are %s apart", r, ahead)
		}
		if r[0].Figure > 0 && r[0].Detail != "orders-1 and orders-0" {
			t.Fatalf("it is about %s", r[0].Detail)
		}
	}
	if r := anomaly.Apart([]anomaly.Clock{clock("orders-0", time.Hour, 0)}); len(r) != 0 {
		t.Errorf("one clock: %+v", r)
	}
}

func TestSlowIsWhoIsSlowerThanThePeers(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		took map[string]time.Duration
		want string
	}{
		"one of three":    {map[string]time.Duration{"a": 3 * ms, "b": 2 * ms, "c": 400 * ms}, "c"},
		"one of two":      {map[string]time.Duration{"a": 3 * ms, "c": 400 * ms}, "c"},
		"all of them":     {map[string]time.Duration{"a": 300 * ms, "b": 500 * ms, "c": 400 * ms}, ""},
		"by little":       {map[string]time.Duration{"a": 3 * ms, "b": 2 * ms, "c": 40 * ms}, ""},
		"the only member": {map[string]time.Duration{"c": time.Second}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range anomaly.Answers(tc.took) {
				if (r.Score >= 1) != (r.Subject == tc.want) {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

func TestAShardIsHotComparedWithTheOthers(t *testing.T) {
	hot := func(amounts map[string]float64) (out string) {
		for _, r := range anomaly.Shards(anomaly.ShardLoad, amounts, 3, 1000) {
			if r.Score >= 1 {
				out += r.Subject
			}
		}
		return out
	}
	for name, tc := range map[string]struct {
		amounts map[string]float64
		want    string
	}{
		"one of three":         {map[string]float64{"a": 9000, "b": 1000, "c": 2000}, "a"},
		"the others have none": {map[string]float64{"a": 9000, "b": 0}, "a"},
		"all have as much":     {map[string]float64{"a": 9000, "b": 9500, "c": 8000}, ""},
		"little":               {map[string]float64{"a": 900, "b": 1, "c": 1}, ""},
		"one shard":            {map[string]float64{"a": 9000}, ""},
	} {
		if got := hot(tc.amounts); got != tc.want {
			t.Errorf("%s: %q is hot", name, got)
		}
	}
}
