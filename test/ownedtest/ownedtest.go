// Package ownedtest makes the client of package owned for tests of controllers.
package ownedtest

import (
	"time"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/test/fakeapi"
)

// New returns a client that reads and writes api. Its clock stands still at fakeapi.Now; a test may replace it.
func New(api *fakeapi.API) *owned.Client {
	c := &owned.Client{
		Domain: "cluster.local", AgentImage: "agent:1", Dial: owned.DialDirect,
		Now: func() time.Time { return fakeapi.Now },
	}
	now := ClockOf(c)
	c.Client, c.Direct = owned.Cached(api, now), owned.PastCache(api, now)
	return c
}

// ClockOf returns the clock of c, also after a test has replaced it.
func ClockOf(c *owned.Client) func() time.Time { return func() time.Time { return c.Now() } }
