// Package clock tells the time in such a way that nothing is destroyed by a clock that is wrong: certificates would be issued that are not valid yet, holds would
// be over before they began, and backups would seem to be old.
//
// There are three witnesses: what this process has told so far, the clock of its machine, and the API server's, which the times of all objects
// are from. A process begins with the time of its machine, and only where the API server agrees; from then on it counts seconds, so that it is nothing
// to it when somebody puts the machine's clock wrong, or right, or the API server's. When both others agree that it is wrong, it
// is to begin anew: there is no moment at which its time leaps.
package clock

import (
	"net/http"
	"sync"
	"time"
)

const (
	// Tolerance is how far clocks are apart that agree. The API server tells whole seconds.
	Tolerance = 2 * time.Second
	// outvotedFor is how long the other two have to agree with each other. It is long enough for what a process wants to see of a clock that leaps, and to do
	// about it, before it begins anew and knows nothing of it.
	outvotedFor = time.Minute
)

// Clock is the time of a process. It may be used concurrently.
type Clock struct {
	limit    time.Duration
	outvoted func(ahead time.Duration)
	// base is the time at the moment from, by the monotonic clock.
	base, from time.Time

	mu sync.Mutex // guards what follows
	// ahead see Ahead; heard says that it is known.
	ahead time.Duration
	heard bool
	// alone is since when the other two have agreed with each other, and not with it; zero: they do not.
	alone time.Time
}

// New makes a clock with the time of the machine. outvoted is called at every answer of an API server that has agreed with the machine for long, and is further apart
// from it than the limit: it is so much ahead of them. A limit of 0 is none.
func New(limit time.Duration, outvoted func(ahead time.Duration)) *Clock {
	c := &Clock{limit: limit, outvoted: outvoted}
	c.Begin()
	return c
}

// Begin makes it the time of the machine once more, which may have been put right since. Nobody may go by the clock yet.
func (c *Clock) Begin() {
	now := time.Now()
	c.base, c.from = now.Round(0), now
}

// Now is the time. It has no monotonic reading, and needs none: it does not leap.
func (c *Clock) Now() time.Time { return c.at(time.Now()) }

// at is the time at a moment that the machine's clocks were read at.
func (c *Clock) at(moment time.Time) time.Time { return c.base.Add(moment.Sub(c.from)) }

// Ahead is how far the machine's clock was ahead of the API server's at its last answer, and false before the first one.
func (c *Clock) Ahead() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead, c.heard
}

// Follow makes the clock listen to the answers of an API server.
func (c *Clock) Follow(rt http.RoundTripper) http.RoundTripper { return follower{rt, c} }

type follower struct {
	http.RoundTripper
	clock *Clock
}

// RoundTrip notes the time that an answer tells. What others than the API server may have written, such as a kubelet that a connection is
// handed to, or a load balancer that has no API server, is left out.
func (f follower) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := time.Now()
	answer, err := f.RoundTripper.RoundTrip(r)
	if err == nil && answer.StatusCode >= http.StatusOK && answer.StatusCode < http.StatusInternalServerError {
		if told, wrong := http.ParseTime(answer.Header.Get("Date")); wrong == nil {
			f.clock.hear(told, asked, time.Now())
		}
	}
	return answer, err
}

// WrappedRoundTripper lets client-go find the transport behind.
func (f follower) WrappedRoundTripper() http.RoundTripper { return f.RoundTripper }

// hear takes note of a time that was told, in whole seconds, between two moments.
func (c *Clock) hear(told, asked, answered time.Time) {
	took := answered.Sub(asked)
	unsure := Tolerance + took/2
	told = told.Add(time.Second/2 + took/2)
	ahead, off := answered.Round(0).Sub(told), c.at(answered).Sub(told)
	c.mu.Lock()
	if took <= Tolerance || ahead.Abs() > unsure {
		c.ahead, c.heard = ahead, true
	}
	switch {
	case c.limit == 0 || off.Abs() <= c.limit+unsure || ahead.Abs() > unsure:
		c.alone = time.Time{}
	case c.alone.IsZero():
		c.alone = answered
	}
	wrong := !c.alone.IsZero() && answered.Sub(c.alone) >= outvotedFor
	c.mu.Unlock()
	if wrong {
		c.outvoted(off)
	}
}
