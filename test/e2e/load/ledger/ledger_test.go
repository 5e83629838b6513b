package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type fakeClock struct{ t time.Time }

func (c *fakeClock) now() time.Time          { return c.t }
func (c *fakeClock) forward(d time.Duration) { c.t = c.t.Add(d) }

func value(key string) string { return "value of " + key }

func TestTheLongestStallIsMeasuredForEveryLane(t *testing.T) {
	clock := &fakeClock{time.Unix(0, 0)}
	l := New("redis", []string{"a", "b"}, clock.now)
	for range 3 {
		clock.forward(time.Second)
		l.Ack("a", "k", Receipt{}, l.Begin())
	}
	clock.forward(500 * time.Millisecond)
	l.Ack("b", "k", Receipt{}, l.Begin())
	clock.forward(1500 * time.Millisecond)
	l.Close()
	s := l.Progress()
	l.Afresh()
	if again := l.Progress(); again.LongestStallMs != 0 || again.LaneStallMs["b"] != 0 {
		t.Errorf("measured afresh: %v", again)
	}
	if s.LongestStallMs != 1500 {
		t.Errorf("longest stall %d ms, want 1500", s.LongestStallMs)
	}
	if diff := cmp.Diff(map[string]int64{"a": 2000, "b": 3500}, s.LaneStallMs); diff != "" {
		t.Errorf("stall by lane (-want +got):\n%s", diff)
	}
}

func TestCheckFindsWhatIsMissingChangedOrTooOld(t *testing.T) {
	receipt := Receipt{Revision: 5, ClusterID: 0xab}
	tests := map[string]struct {
		found               map[string]Found
		last                int64
		lost, stale, turned int
	}{
		"everything is there":           {map[string]Found{"k": {value("k"), 5}}, 9, 0, 0, 0},
		"a later revision is fine":      {map[string]Found{"k": {value("k"), 8}}, 9, 0, 0, 0},
		"the key is gone":               {nil, 9, 1, 0, 0},
		"the value is another one":      {map[string]Found{"k": {"x", 5}}, 9, 1, 0, 0},
		"the revision is too old":       {map[string]Found{"k": {value("k"), 4}}, 9, 0, 1, 0},
		"the store fell back in time":   {map[string]Found{"k": {value("k"), 5}}, 4, 0, 1, 0},
		"an unknown write has happened": {map[string]Found{"k": {value("k"), 5}, "u": {value("u"), 6}}, 9, 0, 0, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := New("etcd", []string{""}, time.Now)
			l.Ack("", "k", receipt, l.Begin())
			l.Begin()
			l.Miss("", "u", Unknown, errors.New("timed out"))
			l.Begin()
			l.Miss("", "f", Failed, errors.New("refused"))
			s := l.Check(tc.found, value, tc.last)
			if s.Lost != tc.lost || s.Stale != tc.stale || s.UnknownPresent != tc.turned || len(s.LostKeys) != tc.lost {
				t.Errorf("got %+v", s)
			}
			if s.Written != 3 || s.Acked != 1 || s.Unknown != 1 || s.Failed != 1 || !s.Checked {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestAWriteThatIsGoneForAWhileIsReported(t *testing.T) {
	clock := &fakeClock{time.Unix(100, 0)}
	l := New("redis", []string{""}, clock.now)
	l.Ack("", "k", Receipt{}, l.Begin())
	there := map[string]Found{"k": {Value: value("k")}}
	for _, found := range []map[string]Found{there, nil, nil, there} {
		clock.forward(time.Second)
		l.Look([]string{"k"}, found, value)
	}
	s := l.Check(there, value, 0)
	want := []Loss{{Key: "k", AckedMs: 100_000, SeenMs: 101_000, MissedMs: 102_000}}
	if diff := cmp.Diff(want, s.Returns); s.Lost != 0 || s.Returned != 1 || diff != "" {
		t.Errorf("%d lost, %d returned (-want +got):\n%s", s.Lost, s.Returned, diff)
	}
}

func TestReasonsAreCounted(t *testing.T) {
	now := time.Unix(0, 0)
	l := New("redis", []string{""}, func() time.Time { return now })
	for i := range 2 {
		now = now.Add(time.Second)
		l.Miss("", "k", Unknown, fmt.Errorf("read tcp 10.0.0.1:%d->10.0.0.2:6379: i/o timeout", 4000+i))
	}
	for i := range 2 * maxReasons {
		l.Miss("", "k", Failed, fmt.Errorf("reason %d", i))
	}
	got := l.Progress()
	if want := (Miss{"read tcp 10.0.0.2:6379: i/o timeout", 2, 1000, 2000}); len(got.Misses) != maxReasons || got.Misses[0] != want {
		t.Errorf("%+v", got.Misses)
	}
	if want := `2 x "read tcp 10.0.0.2:6379: i/o timeout" (1000 to 2000 ms), 1 x "reason 0" (2000 to 2000 ms)`; !strings.Contains(got.String(), want) {
		t.Errorf("%s", got)
	}
}

func TestARevisionThatDoesNotGrowIsOutOfOrder(t *testing.T) {
	l := New("etcd", []string{""}, time.Now)
	early := l.Begin()
	l.Ack("", "a", Receipt{Revision: 7, ClusterID: 1}, l.Begin())
	l.Ack("", "b", Receipt{Revision: 6, ClusterID: 1}, early) // Overlapped with a: any order is fine.
	if got := l.Progress().OutOfOrder; got != 0 {
		t.Errorf("%d out of order, want 0", got)
	}
	l.Ack("", "c", Receipt{Revision: 7, ClusterID: 2}, l.Begin())
	s := l.Progress()
	if s.OutOfOrder != 1 {
		t.Errorf("%d out of order, want 1", s.OutOfOrder)
	}
	if diff := cmp.Diff([]string{"1", "2"}, s.ClusterIDs); diff != "" {
		t.Errorf("cluster ids (-want +got):\n%s", diff)
	}
}
