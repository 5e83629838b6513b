package anomaly

import "time"

const (
	// trendSpacing is the time between two samples of a trend, trendLength how long they are kept: several rounds of the
	// compaction of etcd that takes place every hour by default, between which every database seems to grow.
	trendSpacing = time.Minute
	trendLength  = 4 * time.Hour
	// trendMinimum is how much must have been seen before anything is foretold.
	trendMinimum = 15 * time.Minute
	// Something is told to run out when it does so within warnWithin and at least warnFrom of it is in use, and no longer
	// when that takes more than calmBeyond or less than calmBelow is in use. The alerts that come with etcd look
	// four hours ahead.
	warnWithin = 4 * time.Hour
	calmBeyond = 8 * time.Hour
	warnFrom   = 0.5
	calmBelow  = 0.45
	// It is told to be low above lowFrom of the limit, until it is below lowBelow.
	lowFrom  = 0.9
	lowBelow = 0.85
)

// Forecast is what becomes of something that grows if it goes on as it does.
type Forecast struct {
	// Low says that little is left.
	Low bool
	// RunsOut says that it is full within Left.
	RunsOut bool
	Left    time.Duration
}

// Trend remembers how a database or the memory of a server grew, which nobody else does. No step depends on it.
type Trend struct {
	samples []sample
	last    Forecast
}

type sample struct {
	at   time.Time
	used int64
}

// Next takes a sample, and foretells when the limit is reached. What it has once foretold it takes back only when things have
// become clearly better.
func (t *Trend) Next(now time.Time, used, limit int64) Forecast {
	if n := len(t.samples); n == 0 || now.Sub(t.samples[n-1].at) >= trendSpacing {
		t.samples = append(t.samples, sample{now, used})
		for now.Sub(t.samples[0].at) > trendLength {
			t.samples = t.samples[1:]
		}
	}
	share := float64(used) / float64(limit)
	left, grows := t.left(now, used, limit)
	within, from, low := warnWithin, warnFrom, lowFrom
	if t.last.RunsOut {
		within, from = calmBeyond, calmBelow
	}
	if t.last.Low {
		low = lowBelow
	}
	t.last = Forecast{Low: share >= low}
	if grows && left <= within && share >= from {
		t.last.RunsOut, t.last.Left = true, left
	}
	return t.last
}

// left is how long the rest lasts, by the straight line that fits the samples best. grows is false when it lasts for ever
// as far as can be told.
func (t *Trend) left(now time.Time, used, limit int64) (left time.Duration, grows bool) {
	if now.Sub(t.samples[0].at) < trendMinimum {
		return 0, false
	}
	n := float64(len(t.samples))
	var sumX, sumY, sumXY, sumXX float64
	for _, p := range t.samples {
		x, y := p.at.Sub(t.samples[0].at).Seconds(), float64(p.used)
		sumX, sumY, sumXY, sumXX = sumX+x, sumY+y, sumXY+x*y, sumXX+x*x
	}
	perSecond := (n*sumXY - sumX*sumY) / (n*sumXX - sumX*sumX)
	seconds := float64(limit-used) / perSecond
	if perSecond <= 0 || seconds > calmBeyond.Seconds() {
		return 0, false
	}
	return time.Duration(max(seconds, 0)) * time.Second, true
}
