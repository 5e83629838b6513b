package autoscale

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
)

var now = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

const (
	mib  = 1 << 20
	look = 15 * time.Second
)

// loads are those of n primaries that use so many percent of a gigabyte of memory, and carry out so many commands.
func loads(n int, percent, rate float64) []Load {
	out := make([]Load, n)
	for i := range out {
		out[i] = Load{Used: int64(percent * 1024 * mib / 100), Room: 1024 * mib, Rate: rate}
	}
	return out
}

// redis is a cluster of three shards that uses half of its memory, whose shards may be between 2 and 8.
func redis() State {
	return State{
		Name: "carts", Target: "RedisCluster carts", Mode: Auto, Now: now, Cluster: &Cluster{ResourceVersion: "7"},
		Shards: &Shards{Current: 3, Min: 2, Max: 8, MemoryPercent: 70, OutAfter: 2 * time.Minute, InAfter: time.Hour, Loads: loads(3, 60, 0)},
	}
}

// sized is a cluster whose servers have a limit and need another one, or the same.
func sized(limit, fit int64) State {
	s := redis()
	s.Shards = nil
	s.Memory = &Memory{
		Limit: limit * mib, Request: limit * mib / 2, Min: 128 * mib, Max: 4096 * mib, Fit: fit * mib, Apply: true,
		GrowAfter: 2 * time.Minute, ShrinkAfter: 24 * time.Hour,
	}
	return s
}

// etcd is a cluster whose quota is half of what a log leaves of a volume, up to 2 GiB.
func etcd(size, used int64) State {
	s := redis()
	s.Target, s.Shards = "EtcdCluster orders", nil
	s.Storage = &Storage{Size: size * mib, Max: 8192 * mib, Used: used * mib, FullPercent: 80, GrowPercent: 25, Quota: func(size int64) int64 {
		return min((size-384*mib)/2, 2048*mib)
	}}
	return s
}

// lasting looks at the same for a time, and returns what is planned at its end.
func lasting(s State, d time.Duration) cluster.Plan {
	var h History
	for end := s.Now.Add(d); !s.Now.After(end); s.Now = s.Now.Add(look) {
		h.Watch(&s)
	}
	return Next(s)
}

func with(s State, change func(s *State)) State {
	change(&s)
	return s
}

func full(n *Shards, percent float64) { n.Loads = loads(n.Current, percent, 0) }

// row is what a cluster looks like for some time, and what is planned then.
type row struct {
	state State
	// after so long looks at the same; 0: one look.
	after time.Duration
	// step as it is told, empty for none; says is part of the message.
	step, reason, says string
	stalled            bool
}

func (r row) check(t *testing.T) {
	t.Helper()
	p := lasting(r.state, r.after)
	step := ""
	if p.Step != nil {
		step, r.reason = p.Step.String(), p.Step.Meta().Reason
	}
	if step != r.step || p.Reason != r.reason || p.Stalled != r.stalled || !strings.Contains(p.Message, r.says) {
		t.Errorf("got %q %s stalled=%v %q, want %q %s %q", step, p.Reason, p.Stalled, p.Message, r.step, r.reason, r.says)
	}
}

// runRows checks every row in a subtest of its name.
func runRows(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, r := range rows {
		t.Run(name, r.check)
	}
}

func TestTheRequestKeepsWhatItIsOfTheLimit(t *testing.T) {
	for request, want := range map[int64]int64{0: 0, 512 * mib: 700 * mib, 1024 * mib: 1400 * mib} {
		s := sized(1024, 1400)
		s.Memory.Request = request
		if step, ok := lasting(s, time.Hour).Step.(SetMemory); !ok || step.Request != want || step.To != 1400*mib {
			t.Errorf("of a request of %d: %+v, want %d", request>>20, step, want>>20)
		}
	}
}

func TestAChangeIsOfWhatWasSeen(t *testing.T) {
	p := lasting(with(redis(), func(s *State) { full(s.Shards, 90) }), time.Hour)
	if got, want := p.Step, (SetShards{Change{"7", 3, 4}}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestLimited(t *testing.T) {
	for name, tc := range map[string]struct {
		state  State
		status string
		reason string
	}{
		"enough":                      {redis(), "False", reasonWithin},
		"nothing measured":            {with(redis(), func(s *State) { s.Shards.Loads = nil }), "Unknown", "Unknown"},
		"more shards than may be":     {with(redis(), func(s *State) { s.Shards.Max = 3; full(s.Shards, 90) }), "True", reasonShards},
		"as many shards as may be":    {with(redis(), func(s *State) { s.Shards.Max = 4; full(s.Shards, 90) }), "False", reasonWithin},
		"more memory than may be":     {sized(1024, 5000), "True", reasonMemory},
		"a volume of the largest":     {with(etcd(1024, 320), func(s *State) { s.Storage.Max = 1024 * mib }), "True", reasonStorage},
		"a quota that does not grow":  {etcd(5000, 2040), "True", reasonQuota},
		"a quota with room":           {etcd(5000, 1000), "False", reasonWithin},
		"a volume that is to grow":    {etcd(1024, 320), "False", reasonWithin},
		"a cache, which is not asked": {with(sized(1024, 5000), func(s *State) { s.Memory.Unfit = "it evicts keys" }), "False", reasonWithin},
	} {
		t.Run(name, func(t *testing.T) {
			c := meta.FindStatusCondition(Conditions(tc.state, Next(tc.state), nil), v1alpha1.ConditionLimited)
			if c == nil || string(c.Status) != tc.status || c.Reason != tc.reason || c.Message == "" {
				t.Errorf("%+v, want %s %s", c, tc.status, tc.reason)
			}
		})
	}
}

func TestAModeIsTheReasonOfReady(t *testing.T) {
	for mode, want := range map[Mode]string{Auto: "Settled", DryRun: ReasonDryRun, Frozen: ReasonFrozen} {
		s := redis()
		s.Mode = mode
		c := meta.FindStatusCondition(Conditions(s, lasting(s, time.Hour), nil), v1alpha1.ConditionReady)
		if c.Status != "True" || c.Reason != want {
			t.Errorf("%s: %+v", mode, c)
		}
	}
}

// A dip or a peak within the window changes nothing; what was not looked at for a while counts no more.
func TestTheWindow(t *testing.T) {
	for name, tc := range map[string]struct {
		// percent of memory at a time.
		percent func(at time.Duration) float64
		during  time.Duration
		// blind is when nothing is known, busy when the cluster is on its way to something else.
		blind, busy func(at time.Duration) bool
		want        int
	}{
		"a dip holds it back": {
			percent: func(at time.Duration) float64 {
				if at == time.Minute {
					return 60
				}
				return 90
			}, during: 2 * time.Minute, want: 3,
		},
		"the least of it": {
			percent: func(at time.Duration) float64 { return 90 + at.Minutes()*30 }, during: 2 * time.Minute, want: 4,
		},
		"a peak keeps it": {
			percent: func(at time.Duration) float64 {
				if at == 30*time.Minute {
					return 60
				}
				return 20
			}, during: 80 * time.Minute, want: 3,
		},
		"and no longer than for the time": {
			percent: func(at time.Duration) float64 {
				if at == 30*time.Minute {
					return 60
				}
				return 20
			}, during: 91 * time.Minute, want: 2,
		},
		"a gap": {
			percent: func(time.Duration) float64 { return 90 }, during: 3 * time.Minute,
			blind: func(at time.Duration) bool { return at > 20*time.Second && at < 2*time.Minute+20*time.Second }, want: 3,
		},
		"a moment of blindness": {
			percent: func(time.Duration) float64 { return 90 }, during: 3 * time.Minute,
			blind: func(at time.Duration) bool { return at == time.Minute }, want: 4,
		},
		"a cluster that was busy": {
			percent: func(time.Duration) float64 { return 90 }, during: 3 * time.Minute,
			busy: func(at time.Duration) bool { return at == 2*time.Minute }, want: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var h History
			var s State
			for at := time.Duration(0); at <= tc.during; at += look {
				s = redis()
				s.Now = now.Add(at)
				full(s.Shards, tc.percent(at))
				if tc.blind != nil && tc.blind(at) {
					s.Shards.Loads = nil
				}
				if tc.busy != nil && tc.busy(at) {
					s.Cluster.Busy = "MovingSlots"
				}
				h.Watch(&s)
			}
			if s.Shards.Due != tc.want {
				t.Errorf("%d shards are due, want %d", s.Shards.Due, tc.want)
			}
		})
	}
}

func TestAnotherSpecificationBeginsAnew(t *testing.T) {
	var h History
	for i := range 20 {
		s := redis()
		s.Now = now.Add(time.Duration(i) * look)
		full(s.Shards, 90)
		if i == 19 {
			s.Generation = 2
		}
		h.Watch(&s)
		if i >= 8 && i < 19 && s.Shards.Due != 4 {
			t.Fatalf("look %d: %d", i, s.Shards.Due)
		}
		if i == 19 && s.Shards.Due != 3 {
			t.Errorf("%d", s.Shards.Due)
		}
	}
}

// world plays a cluster whose data, in shares of a shard's memory, follows a curve.
type world struct {
	h       History
	shards  *Shards
	changes []string
	busy    int
}

func (w *world) pass(at time.Duration, data float64, random *rand.Rand) error {
	s := redis()
	s.Now, s.Shards = now.Add(at), w.shards
	if w.busy > 0 {
		w.busy--
		s.Cluster.Busy = "MovingSlots"
	}
	full(w.shards, data*100/float64(w.shards.Current))
	if random != nil && random.IntN(50) == 0 {
		w.shards.Loads = nil
	}
	unknown, busy := w.shards.Loads == nil, s.Cluster.Busy != ""
	w.h.Watch(&s)
	step, ok := Next(s).Step.(SetShards)
	if !ok {
		return nil
	}
	to := int(step.To)
	switch {
	case unknown || busy:
		return fmt.Errorf("%s although nothing is known or it is busy", step)
	case to < w.shards.Min || to > w.shards.Max:
		return fmt.Errorf("%s, out of bounds", step)
	case to > 2*w.shards.Current || to < (w.shards.Current+1)/2:
		return fmt.Errorf("%s, too much at once", step)
	case to < w.shards.Current && data*100/float64(to) > float64(w.shards.MemoryPercent)+0.01:
		return fmt.Errorf("%s, too full afterwards", step)
	}
	w.changes = append(w.changes, fmt.Sprintf("%s: %s", at, step))
	w.shards.Current, w.busy = to, 4
	return nil
}

func TestRandomCurvesAreFollowedWithinBounds(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 7))
		least := 1 + random.IntN(4)
		w := &world{shards: &Shards{
			Current: least + random.IntN(3), Min: least, Max: least + 2 + random.IntN(10), MemoryPercent: int64(40 + random.IntN(50)),
			OutAfter: time.Duration(random.IntN(5)) * time.Minute, InAfter: time.Duration(1+random.IntN(40)) * time.Minute,
		}}
		data, drift, at := 1.0, 0.0, time.Duration(0)
		for range 2000 {
			if random.IntN(40) == 0 {
				drift = (random.Float64() - 0.5) / 20
			}
			data = min(max(data+drift, 0.05), 20)
			if err := w.pass(at, data, random); err != nil {
				t.Fatalf("seed %d, at %s: %v", seed, at, err)
			}
			at += look
		}
		before := 0
		for i := range 2000 {
			if err := w.pass(at, data, nil); err != nil {
				t.Fatalf("seed %d, at %s: %v", seed, at, err)
			}
			if i == 1500 {
				before = len(w.changes)
			}
			at += look
		}
		n := *w.shards
		full(&n, data*100/float64(n.Current))
		if len(w.changes) != before || n.Wanted() != n.Current {
			t.Errorf("seed %d: with %.2f of data at rest it does not come to rest: %d shards, wanted %d: %v", seed, data, n.Current, n.Wanted(), w.changes[max(0, len(w.changes)-4):])
		}
	}
}

// What goes to and fro within the tolerance changes nothing, and a step is followed by one change.
func TestCurves(t *testing.T) {
	for name, tc := range map[string]struct {
		data func(minute float64) float64
		want int
		ends int
	}{
		"to and fro within the tolerance": {func(m float64) float64 {
			if int(m)%2 == 0 {
				return 3 * 0.7 * 1.09
			}
			return 3 * 0.7 * 0.92
		}, 0, 3},
		"to and fro every minute, and far": {func(m float64) float64 {
			if int(m)%2 == 0 {
				return 3 * 0.95
			}
			return 3 * 0.3
		}, 0, 3},
		"a step up": {func(m float64) float64 {
			if m < 30 {
				return 3 * 0.6
			}
			return 3 * 1.1
		}, 1, 5},
		"a step down": {func(m float64) float64 {
			if m < 30 {
				return 3 * 0.6
			}
			return 2 * 0.6
		}, 1, 2},
		"a day in the life of": {func(m float64) float64 {
			if m < 30 || m > 60 {
				return 3 * 0.6
			}
			return 3 * 0.9
		}, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{shards: redis().Shards}
			for i := range 4 * 600 {
				if err := w.pass(time.Duration(i)*look, tc.data(float64(i)/4), nil); err != nil {
					t.Fatal(err)
				}
			}
			if len(w.changes) != tc.want || w.shards.Current != tc.ends {
				t.Errorf("%d shards after %v, want %d after %d changes", w.shards.Current, w.changes, tc.ends, tc.want)
			}
		})
	}
}

func TestAChangeTellsWhatItHasTakenAway(t *testing.T) {
	if former, left, ok := Removed(SetShards{Change{From: 6, To: 3}}.String()); !ok || former != 6 || left != 3 {
		t.Errorf("%d, %d, %t", former, left, ok)
	}
	for _, other := range []string{SetShards{Change{From: 3, To: 6}}.String(), SetMemory{Change: Change{From: 6 << 20, To: 3 << 20}}.String(), ""} {
		if _, _, ok := Removed(other); ok {
			t.Errorf("%q takes shards away", other)
		}
	}
}
