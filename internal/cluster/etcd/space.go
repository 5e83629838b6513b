package etcd

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
)

// Reasons of the condition SpaceHealthy.
const (
	// ReasonSpaceLeft says that no database is about to be full.
	ReasonSpaceLeft = "SpaceLeft"
	// ReasonSpaceLow says that little is left of the quota.
	ReasonSpaceLow = "SpaceLow"
	// ReasonSpaceRunsOut says that the quota is reached soon if the database goes on to grow as it does.
	ReasonSpaceRunsOut = "SpaceRunsOut"
)

const (
	// trendSpacing is the time between two samples of a trend, trendLength how long they are kept: several rounds of the
	// compaction that takes place every hour by default, between which every database seems to grow.
	trendSpacing = time.Minute
	trendLength  = 4 * time.Hour
	// trendMinimum is how much must have been seen before anything is foretold.
	trendMinimum = 15 * time.Minute
	// A database is told to run out of space when it does so within warnWithin and at least warnFrom of it is in use, and
	// no longer when that takes more than calmBeyond or less than calmBelow is in use. The alerts that come with etcd look
	// four hours ahead.
	warnWithin = 4 * time.Hour
	calmBeyond = 8 * time.Hour
	warnFrom   = 0.5
	calmBelow  = 0.45
	// It is told to be low on space above lowFrom of the quota, until it is below lowBelow.
	lowFrom  = 0.9
	lowBelow = 0.85
)

// Forecast is what becomes of a database if it goes on to grow as it does.
type Forecast struct {
	// Low says that little is left.
	Low bool
	// RunsOut says that it is full within Left.
	RunsOut bool
	Left    time.Duration
}

// Trend remembers how a database grew, which nobody else does. It is the only memory of the operator that a human gets to
// see; no step depends on it.
type Trend struct {
	samples []sample
	last    Forecast
}

type sample struct {
	at    time.Time
	inUse int64
}

// Next takes a sample, and foretells when the quota is reached. What it has once foretold it takes back only when things have
// become clearly better.
func (t *Trend) Next(now time.Time, inUse, quota int64) Forecast {
	if n := len(t.samples); n == 0 || now.Sub(t.samples[n-1].at) >= trendSpacing {
		t.samples = append(t.samples, sample{now, inUse})
		for now.Sub(t.samples[0].at) > trendLength {
			t.samples = t.samples[1:]
		}
	}
	share := float64(inUse) / float64(quota)
	left, grows := t.left(now, inUse, quota)
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

// left is how long the quota lasts, by the straight line that fits the samples best. grows is false when it lasts for ever
// as far as can be told.
func (t *Trend) left(now time.Time, inUse, quota int64) (left time.Duration, grows bool) {
	if now.Sub(t.samples[0].at) < trendMinimum {
		return 0, false
	}
	n := float64(len(t.samples))
	var sumX, sumY, sumXY, sumXX float64
	for _, p := range t.samples {
		x, y := p.at.Sub(t.samples[0].at).Seconds(), float64(p.inUse)
		sumX, sumY, sumXY, sumXX = sumX+x, sumY+y, sumXY+x*y, sumXX+x*x
	}
	perSecond := (n*sumXY - sumX*sumY) / (n*sumXX - sumX*sumX)
	seconds := float64(quota-inUse) / perSecond
	if perSecond <= 0 || seconds > calmBeyond.Seconds() {
		return 0, false
	}
	return time.Duration(max(seconds, 0)) * time.Second, true
}

// spaceHealthy says whether databases are full or about to be.
func spaceHealthy(s State) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionSpaceHealthy, Status: metav1.ConditionFalse}
	answered := false
	for _, p := range s.Pods {
		answered = answered || p.View != nil
	}
	quota, forecast := bytes(s.Want.Maintenance.Quota), s.Upkeep.Forecast
	const cure = "delete keys, keep less history (spec.config.autoCompactionRetention), or raise spec.config.quotaBackendBytes"
	switch {
	case s.hibernates():
		return asleep(c.Type, metav1.ConditionUnknown)
	case !answered:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "no member answers"
	case s.raised(AlarmNoSpace) != nil:
		c.Reason, c.Message = ReasonAlarm, "a database has reached its quota of "+quota
	case forecast.RunsOut:
		c.Reason = ReasonSpaceRunsOut
		c.Message = fmt.Sprintf("at the rate of the last hours the quota of %s is reached in less than %s: %s", quota, hours(forecast.Left), cure)
	case forecast.Low:
		c.Reason, c.Message = ReasonSpaceLow, fmt.Sprintf("little is left of the quota of %s: %s", quota, cure)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, ReasonSpaceLeft, "no database is about to reach its quota"
	}
	return c
}

// hours rounds a time up so that it changes seldom: to 1, 2, 4 and 8 hours.
func hours(d time.Duration) string {
	n := 1
	for time.Duration(n)*time.Hour < d {
		n *= 2
	}
	return fmt.Sprintf("%dh", n)
}
