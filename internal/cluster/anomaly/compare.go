package anomaly

import (
	"maps"
	"slices"
	"time"
)

// Clock is how far the clock of a server is ahead of ours: at least Least and at most Most. How exactly that is known depends on how long the
// answer took, and on what the server rounds to.
type Clock struct {
	Server      string
	Least, Most time.Duration
}

// ClockOf compares what a server called the time, rounded down to a unit, with when it was asked and had answered.
func ClockOf(server string, told time.Time, unit time.Duration, asked, answered time.Time) Clock {
	return Clock{server, told.Sub(answered), told.Add(unit).Sub(asked)}
}

// Apart reads how far the clocks of two servers are apart at least. There is no reading of fewer than two.
func Apart(clocks []Clock) []Reading {
	if len(clocks) < 2 {
		return nil
	}
	ahead, behind := clocks[0], clocks[0]
	for _, c := range clocks {
		if c.Least > ahead.Least {
			ahead = c
		}
		if c.Most < behind.Most {
			behind = c
		}
	}
	r := Skew.Of("", max(0, ahead.Least-behind.Most).Seconds(), SkewLimit.Seconds())
	r.Detail = ahead.Server + " and " + behind.Server
	return []Reading{r}
}

// Answers reads how long servers take to answer, compared with each other. One that has no peers is slow compared to nobody.
func Answers(took map[string]time.Duration) []Reading {
	out, sorted := make([]Reading, 0, len(took)), slices.Sorted(maps.Values(took))
	for name, own := range took {
		r := Reading{Measure: AnswerTime, Subject: name, Figure: own.Seconds()}
		if len(took) > 1 {
			// The median of all but this one.
			i := (len(sorted) - 1) / 2
			if own <= sorted[i] {
				i++
			}
			peers := max(sorted[i], time.Millisecond)
			r.Score = Both(own.Seconds(), AnswerLimit.Seconds(), own.Seconds(), AnswerRatio*peers.Seconds())
		}
		out = append(out, r)
	}
	return out
}

// Shards reads how much more than the mean of the others each shard has of something. Both limits have to be reached: so many times as much,
// and so much more.
func Shards(m *Measure, amounts map[string]float64, ratio, more float64) []Reading {
	if len(amounts) < 2 {
		return nil
	}
	sum := 0.0
	for _, v := range amounts {
		sum += v
	}
	out := make([]Reading, 0, len(amounts))
	for name, v := range amounts {
		mean := (sum - v) / float64(len(amounts)-1)
		times := v / max(mean, 1)
		out = append(out, Reading{Measure: m, Subject: name, Score: Both(times, ratio, max(0, v-mean), more), Figure: times})
	}
	return out
}
