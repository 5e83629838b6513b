// Package clock tells the time of the API server, which is what the times of all objects are from. The clock of the machine that the operator
// runs on may be wrong, or be put right while it runs; by it, certificates would be issued that are not valid yet, and backups would seem to be old.
package clock

import (
	"net/http"
	"sync"
	"time"
)

// Tolerance is how far two clocks are apart before one of them is taken for wrong. The API server tells whole seconds.
const Tolerance = 2 * time.Second

// Clock begins with the time of the machine, and goes by that of an API server once it is apart from that. In between it goes like the
// machine's monotonic clock, so that it is nothing to it when somebody puts the machine's time of day right. It may be used concurrently.
type Clock struct {
	say func(ahead time.Duration)

	mu sync.Mutex
	// base is what it told at the moment from.
	base, from time.Time
}

// New makes a clock. say is called when it begins to go by an API server anew, with how far the machine is ahead of that.
func New(say func(ahead time.Duration)) *Clock {
	now := time.Now()
	return &Clock{say: say, base: now.Round(0), from: now}
}

// Now is the time. It has no monotonic reading.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at(time.Now())
}

// at is the time at a moment that the machine's clocks were read at.
func (c *Clock) at(moment time.Time) time.Time { return c.base.Add(moment.Sub(c.from)) }

// Ahead is how far the machine's time of day is ahead of it.
func (c *Clock) Ahead() time.Duration {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Round(0).Sub(c.at(now))
}

// Follow makes the clock go by the answers of an API server.
func (c *Clock) Follow(rt http.RoundTripper) http.RoundTripper { return follower{rt, c} }

type follower struct {
	http.RoundTripper
	*Clock
}

func (f follower) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := time.Now()
	answer, err := f.RoundTripper.RoundTrip(r)
	if err == nil {
		if told, wrong := http.ParseTime(answer.Header.Get("Date")); wrong == nil {
			f.heard(told, asked, time.Now())
		}
	}
	return answer, err
}

// WrappedRoundTripper lets client-go find the transport behind.
func (f follower) WrappedRoundTripper() http.RoundTripper { return f.RoundTripper }

// heard takes note of a time that was told, in whole seconds, between two moments. What took long says little.
func (c *Clock) heard(told, asked, answered time.Time) {
	took := answered.Sub(asked)
	if took > Tolerance {
		return
	}
	c.mu.Lock()
	apart := told.Add(time.Second / 2).Sub(c.at(asked.Add(took / 2)))
	if apart.Abs() <= Tolerance {
		c.mu.Unlock()
		return
	}
	c.base, c.from = c.at(answered).Add(apart), answered
	ahead := answered.Round(0).Sub(c.base)
	c.mu.Unlock()
	c.say(ahead)
}
