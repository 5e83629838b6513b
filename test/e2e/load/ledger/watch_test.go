package ledger

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWhatAWatcherSawIsCompared(t *testing.T) {
	type event struct {
		key      string
		revision int64
	}
	tests := map[string]struct {
		events      []event
		interrupted bool
		want        WatchSummary
	}{
		"all of it, and one more":    {events: []event{{"a", 5}, {"b", 6}, {"unknown", 7}}, want: WatchSummary{Events: 3}},
		"one is missing":             {events: []event{{"b", 6}}, want: WatchSummary{Events: 1, Missing: 1}},
		"one comes twice":            {events: []event{{"a", 5}, {"b", 6}, {"a", 7}}, want: WatchSummary{Events: 3, Duplicate: 1}},
		"they come in another order": {events: []event{{"b", 6}, {"a", 5}}, want: WatchSummary{Events: 2, Unordered: 1}},
		"one at another revision":    {events: []event{{"a", 4}, {"b", 6}}, want: WatchSummary{Events: 2, Differing: 1}},
		"its history was gone":       {events: []event{{"a", 5}, {"b", 6}}, interrupted: true, want: WatchSummary{Events: 2, Interrupted: 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := New("etcd", []string{""}, time.Now)
			l.Follow()
			for i, key := range []string{"a", "b"} {
				l.Ack("", key, Receipt{Revision: int64(5 + i), ClusterID: 1}, l.Begin())
			}
			for _, e := range tc.events {
				l.Watched(e.key, e.revision)
			}
			if tc.interrupted {
				l.Interrupted()
			}
			found := map[string]Found{"a": {value("a"), 5}, "b": {value("b"), 6}}
			got := l.Check(found, value, 9).Watch
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if broken := tc.want != (WatchSummary{Events: tc.want.Events}); got.Broken() != broken {
				t.Errorf("broken: %t", got.Broken())
			}
		})
	}
}

func TestLongStallsAndLossesHaveTheirTimes(t *testing.T) {
	clock := &fakeClock{time.UnixMilli(1000)}
	l := New("redis", []string{"a", "b"}, clock.now)
	for i, pause := range []time.Duration{100, 700, 300} {
		clock.forward(pause * time.Millisecond)
		l.Ack("a", string(rune('a'+i)), Receipt{}, l.Begin())
		l.Miss("b", "z", Failed, errors.New("refused"))
	}
	l.Close()
	s := l.Check(nil, value, 0)
	want := []Stall{{"a", 1100, 1800, ""}, {"b", 1000, 2100, `3 x "refused" (100 to 1100 ms)`}}
	if diff := cmp.Diff(want, s.Stalls); diff != "" {
		t.Errorf("stalls (-want +got):\n%s", diff)
	}
	losses := []Loss{{"a", 1100, 1100, 2100}, {"b", 1800, 1800, 2100}, {"c", 2100, 2100, 2100}}
	if diff := cmp.Diff(losses, s.Losses); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
}

func TestWritesAreFoundByTheirAge(t *testing.T) {
	clock := &fakeClock{time.UnixMilli(1000)}
	l := New("redis", []string{""}, clock.now)
	for _, key := range []string{"c", "a", "b"} {
		l.Ack("", key, Receipt{}, l.Begin())
		clock.forward(time.Second)
	}
	for within, want := range map[time.Duration][]string{0: {}, time.Second: {"b"}, 2500 * time.Millisecond: {"a", "b"}, time.Minute: {"c", "a", "b"}} {
		if diff := cmp.Diff(want, l.Recent(within)); diff != "" {
			t.Errorf("within %s (-want +got):\n%s", within, diff)
		}
	}
	for from, want := range [][]string{{"c", "a"}, {"a", "b"}, {"b"}, {}, {}} {
		if diff := cmp.Diff(want, l.From(from, 2)); diff != "" {
			t.Errorf("after %d (-want +got):\n%s", from, diff)
		}
	}
}

func TestALossHasTheTimeAtWhichItHappened(t *testing.T) {
	clock := &fakeClock{time.UnixMilli(1000)}
	l := New("redis", []string{""}, clock.now)
	keys := []string{"back", "lost", "stays"}
	for _, key := range keys {
		l.Ack("", key, Receipt{}, l.Begin())
	}
	all := map[string]Found{"back": {Value: value("back")}, "lost": {Value: value("lost")}, "stays": {Value: value("stays")}}
	for _, found := range []map[string]Found{all, {"stays": all["stays"]}, {"back": all["back"], "stays": all["stays"]}} {
		clock.forward(time.Second)
		l.Look(keys, found, value)
	}
	clock.forward(time.Second)
	s := l.Check(map[string]Found{"back": all["back"], "lost": {Value: "of somebody else"}, "stays": all["stays"]}, value, 0)
	if diff := cmp.Diff([]Loss{{"lost", 1000, 2000, 3000}}, s.Losses); diff != "" || s.Lost != 1 {
		t.Errorf("%d lost (-want +got):\n%s", s.Lost, diff)
	}
}
