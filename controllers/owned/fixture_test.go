package owned

import (
	"time"

	"github.com/quorate/quorate/test/fakeapi"
)

func newChildren(w *fakeapi.API) *Client {
	c := &Client{
		Domain: "cluster.local", AgentImage: "agent:1", Dial: DialDirect,
		Now: func() time.Time { return time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC) },
	}
	now := clockOf(c)
	c.Client, c.Direct = Cached(w, now), PastCache(w, now)
	return c
}

// clockOf returns the clock of c, also after a test has replaced it.
func clockOf(c *Client) func() time.Time { return func() time.Time { return c.Now() } }
