package restore

import (
	"time"

	"github.com/quorate/quorate/controllers/owned"
	"github.com/quorate/quorate/test/fakeapi"
)

func newChildren(w *fakeapi.API) *owned.Client {
	c := &owned.Client{
		Domain: "cluster.local", AgentImage: "agent:1", Dial: owned.DialDirect,
		Now: func() time.Time { return time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC) },
	}
	now := clockOf(c)
	c.Client, c.Direct = owned.Cached(w, now), owned.PastCache(w, now)
	return c
}

// clockOf returns the clock of c, also after a test has replaced it.
func clockOf(c *owned.Client) func() time.Time { return func() time.Time { return c.Now() } }
