package anomaly_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/anomaly"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// poll is how often the operator looks at a settled cluster.
const poll = 15 * time.Second

// play gives a watch one score after the other, and returns when a finding came (+) and went (-), in readings.
func play(w *anomaly.Watch, m *anomaly.Measure, every time.Duration, scores []float64) (told []string, last anomaly.Report) {
	for i, score := range scores {
		last = w.Next(start.Add(time.Duration(i)*every), []anomaly.Reading{{Measure: m, Subject: "orders-0", Score: score, Figure: score}}, nil)
		for range last.Came {
			told = append(told, fmt.Sprintf("+%d", i))
		}
		for range last.Gone {
			told = append(told, fmt.Sprintf("-%d", i))
		}
	}
	return told, last
}

func times(n int, score float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = score
	}
	return out
}

func join(parts ...[]float64) []float64 {
	var out []float64
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func TestAFindingNeedsToLast(t *testing.T) {
	for name, tc := range map[string]struct {
		scores []float64
		want   []string
	}{
		"nothing unusual":                  {times(100, 0.3), nil},
		"one bad reading":                  {join(times(10, 0.3), times(1, 50), times(10, 0.3)), nil},
		"bad for less than three minutes":  {join(times(10, 0.3), times(10, 2), times(20, 0.3)), nil},
		"bad for long, and then good":      {join(times(10, 0.3), times(40, 2), times(60, 0.1)), []string{"+24", "-72"}},
		"bad, and then neither":            {join(times(40, 2), times(100, 0.8)), []string{"+12"}},
		"good again for a while only":      {join(times(40, 2), times(10, 0.1), times(40, 2)), []string{"+12"}},
		"every other reading is very good": {join(times(40, 2), alternate(80, 0.1, 2)), []string{"+12"}},
	} {
		t.Run(name, func(t *testing.T) {
			told, _ := play(&anomaly.Watch{}, anomaly.AnswerTime, poll, tc.scores)
			if diff := cmp.Diff(tc.want, told); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func alternate(n int, a, b float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = a
		if i%2 == 1 {
			out[i] = b
		}
	}
	return out
}

// Whatever goes to and fro around one of the limits changes a finding at most once.
func TestWhatGoesToAndFroAroundALimitDoesNotFlap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, m := range anomaly.Measures() {
		for range 30 {
			// The amplitude leaves the other limit alone, and the start is on either side.
			upper := random.IntN(2) == 0
			limit, most := m.Clear, (1-m.Clear)*0.99
			first := times(80, 2)
			if upper {
				limit, first = 1, times(80, 0)
			}
			amplitude := most * random.Float64()
			scores := first
			for range 400 {
				scores = append(scores, limit+amplitude*(2*random.Float64()-1))
			}
			told, _ := play(&anomaly.Watch{}, m, time.Minute, scores)
			changes := len(told)
			if !upper {
				changes-- // It came at the start.
			}
			if changes > 1 || changes < 0 {
				t.Fatalf("%s: %v with readings within %.2f of %.2f", m.Finding, told, amplitude, limit)
			}
		}
	}
}

// However readings come and whatever they say, a finding comes and goes in turn, and never twice within its times.
func TestFindingsComeAndGoInTurn(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		m := anomaly.Measures()[random.IntN(len(anomaly.Measures()))]
		var w anomaly.Watch
		now, open, level := start, false, 1.0
		var came time.Time
		for range 500 {
			now = now.Add(time.Duration(random.Int64N(int64(time.Minute))))
			if random.IntN(20) == 0 {
				level = 2 * random.Float64()
			}
			r := w.Next(now, []anomaly.Reading{{Measure: m, Score: level * (0.8 + 0.4*random.Float64())}}, nil)
			if len(r.Came) > 0 {
				if open {
					t.Fatalf("%s came twice", m.Finding)
				}
				open, came = true, now
			}
			if len(r.Gone) > 0 {
				if !open || now.Sub(came) < m.ClearFor {
					t.Fatalf("%s went %s after it came", m.Finding, now.Sub(came))
				}
				open = false
			}
			if (len(r.Open) > 0) != open {
				t.Fatalf("%s: open %v, told %v", m.Finding, len(r.Open) > 0, open)
			}
		}
	}
}

func TestLittleIsUnknownUntilItIsClear(t *testing.T) {
	key := anomaly.Key{Measure: anomaly.AnswerTime, Subject: "orders-0"}
	at := func(w *anomaly.Watch, i int, score float64) []string {
		r := w.Next(start.Add(time.Duration(i)*poll), []anomaly.Reading{{Measure: key.Measure, Subject: key.Subject, Score: score}}, []anomaly.Key{key})
		return r.Unknown
	}
	var good, doubtful, never anomaly.Watch
	if got := at(&good, 0, 0.2); got != nil {
		t.Errorf("a good reading leaves %v unknown", got)
	}
	for i := range 40 {
		if got := at(&doubtful, i, 0.8); (got == nil) != (i > 32) {
			t.Errorf("after %d doubtful readings %v is unknown", i+1, got)
		}
	}
	if r := never.Next(start, nil, []anomaly.Key{key, key}); !cmp.Equal(r.Unknown, []string{"orders-0"}) {
		t.Errorf("without a reading %v is unknown", r.Unknown)
	}
}

func TestWhatIsNotReadAnyMoreIsUnknown(t *testing.T) {
	var w anomaly.Watch
	key := anomaly.Key{Measure: anomaly.AnswerTime, Subject: "orders-0"}
	if told, _ := play(&w, anomaly.AnswerTime, poll, times(40, 2)); len(told) != 1 {
		t.Fatal(told)
	}
	end := start.Add(39 * poll)
	if r := w.Next(end.Add(4*time.Minute), nil, []anomaly.Key{key}); len(r.Open) != 1 || len(r.Unknown) != 0 {
		t.Errorf("after four minutes: %+v", r)
	}
	r := w.Next(end.Add(6*time.Minute), nil, []anomaly.Key{key})
	if len(r.Open) != 0 || len(r.Gone) != 1 || !cmp.Equal(r.Unknown, []string{"orders-0"}) {
		t.Errorf("after six minutes: %+v", r)
	}
}

// A figure that moves a little with every reading does not change what is said.
func TestWhatIsSaidChangesSeldom(t *testing.T) {
	var w anomaly.Watch
	last, changes := "", 0
	for i := range 2000 {
		wobble := 0.2 * (1 + 0.3*float64(i%7)/7)
		if i >= 1000 {
			wobble = 3 * float64(1+i%2) // To and fro, and much more.
		}
		r := w.Next(start.Add(time.Duration(i)*poll), []anomaly.Reading{anomaly.FsyncTime.Of("orders-1", wobble, 0.1)}, nil)
		if text := r.String(); text != last {
			last = text
			changes++
		}
	}
	if changes > 3 {
		t.Errorf("%d changes of what is said", changes)
	}
	if !strings.HasPrefix(last, "SlowDisk: 99 % of the fsyncs of orders-1 take up to about ") || !strings.HasSuffix(last, ": every write waits for it") {
		t.Errorf("it says %q", last)
	}
}

func TestTheWorstIsToldFirst(t *testing.T) {
	var w anomaly.Watch
	var r anomaly.Report
	for i := range 200 {
		readings := []anomaly.Reading{anomaly.MemoryWaste.Of("carts-0-0", 2, 1), anomaly.BytesBehind.Of("carts-0-1", 1<<30, 64<<20)}
		for n := range 7 {
			readings = append(readings, anomaly.MemberChanges.Of(fmt.Sprintf("carts-%d-0", n), 6, 5))
		}
		r = w.Next(start.Add(time.Duration(i)*poll), readings, nil)
	}
	if diff := cmp.Diff([]anomaly.Finding{"FlappingMember", "ReplicationLag", "Fragmented"}, r.Findings()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text := r.String()
	for _, part := range []string{
		"FlappingMember: carts-0-0 was lost about 6 times within an hour, ", "carts-4-0 was lost", ", and others: see why",
		". ReplicationLag: carts-0-1 is about 1000 MiB behind: ", ". Fragmented: ",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
}

// Every measure can be found, is over again, and says so with what to do.
func TestEveryMeasureIsFound(t *testing.T) {
	for _, m := range anomaly.Measures() {
		told, _ := play(&anomaly.Watch{}, m, time.Minute, join(times(10, 0), times(60, 1.5), times(90, 0)))
		if len(told) != 2 || told[0][0] != '+' || told[1][0] != '-' {
			t.Errorf("%s: %v", m.Finding, told)
		}
		_, r := play(&anomaly.Watch{}, m, time.Minute, times(60, 3))
		if len(r.Open) != 1 || r.Open[0].Text == "" || r.Open[0].Advice == "" || strings.Contains(r.String(), "%!") {
			t.Errorf("%s says %q", m.Finding, r.String())
		}
		if m.What == "" || m.Up == "" || m.Down == "" {
			t.Errorf("%s is not documented", m.Finding)
		}
	}
}

// The memory of a watch does not grow with time.
func TestMemoryIsFlat(t *testing.T) {
	var w anomaly.Watch
	next := func(i int) {
		w.Next(start.Add(time.Duration(i)*poll), []anomaly.Reading{{Measure: anomaly.AnswerTime, Subject: fmt.Sprint("orders-", i), Score: 2}}, nil)
	}
	for i := range 10000 {
		next(i)
	}
	if n := w.Len(); n > 50 {
		t.Errorf("%d series of servers, of which most are gone", n)
	}
}
