package clock

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

const limit = time.Minute

// clock makes one that is ahead of the machine's, and what it was told to be ahead when it was outvoted.
func clock(ahead time.Duration) (*Clock, *[]time.Duration) {
	var outvoted []time.Duration
	c := New(limit, func(by time.Duration) { outvoted = append(outvoted, by.Round(Tolerance)) })
	c.base = c.base.Add(ahead)
	return c, &outvoted
}

// hears lets it hear an API server that is ahead of the machine, for so many seconds.
func (c *Clock) hears(ahead time.Duration, seconds int) {
	now := time.Now()
	for i := range seconds + 1 {
		at := now.Add(time.Duration(i) * time.Second)
		c.hear(at.Add(ahead).Truncate(time.Second), at.Add(-10*time.Millisecond), at)
	}
}

// What somebody does to the machine's clock is nothing to it, and neither is what an API server says alone.
func TestItGoesOnAsItBegan(t *testing.T) {
	for _, wrong := range []time.Duration{time.Hour, -time.Hour} {
		c, outvoted := clock(-wrong) // The machine is ahead.
		c.hears(-wrong, 100)
		if off := time.Until(c.Now()).Round(Tolerance); off != -wrong {
			t.Errorf("it is %s ahead of the machine, that is %s ahead of all others", off, wrong)
		}
		if ahead, ok := c.Ahead(); !ok || ahead.Round(Tolerance) != wrong {
			t.Errorf("the machine is %s ahead, and is told to be %s", wrong, ahead)
		}
		right, alone := clock(0)
		right.hears(wrong, 100)
		if len(*outvoted)+len(*alone) > 0 {
			t.Errorf("it counts as outvoted: %v %v", *outvoted, *alone)
		}
	}
	c, _ := clock(0)
	if now := c.Now(); now != now.Round(0) {
		t.Error("a time has a reading of the monotonic clock, which the times of objects have not")
	}
}

func TestTheOthersOutvoteIt(t *testing.T) {
	for name, tc := range map[string]struct {
		ahead time.Duration
		hear  func(*Clock)
		want  bool
	}{
		"for a while":      {time.Hour, func(c *Clock) { c.hears(0, 70) }, true},
		"behind":           {-time.Hour, func(c *Clock) { c.hears(0, 70) }, true},
		"for a moment":     {time.Hour, func(c *Clock) { c.hears(0, 55) }, false},
		"with objections":  {time.Hour, func(c *Clock) { c.hears(0, 30); c.hears(time.Hour, 0); c.hears(0, 55) }, false},
		"by a little":      {limit / 2, func(c *Clock) { c.hears(0, 70) }, false},
		"without a limit":  {time.Hour, func(c *Clock) { c.limit = 0; c.hears(0, 70) }, false},
		"but began anew":   {time.Hour, func(c *Clock) { c.Begin(); c.hears(0, 70) }, false},
		"by what is vague": {2 * limit, func(c *Clock) { slowly(c, 4*limit) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, outvoted := clock(tc.ahead)
			tc.hear(c)
			if (len(*outvoted) > 0) != tc.want || (tc.want && (*outvoted)[0] != tc.ahead) {
				t.Errorf("it was outvoted: %v", *outvoted)
			}
		})
	}
}

// slowly lets it hear answers that took so long that they may be as old as that.
func slowly(c *Clock, took time.Duration) {
	now := time.Now()
	for i := range 70 {
		at := now.Add(time.Duration(i) * time.Second)
		c.hear(at.Add(-took/2), at.Add(-took), at)
	}
}

func TestItListensToAPIServersOnly(t *testing.T) {
	code, date := http.StatusOK, ""
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", date)
		w.WriteHeader(code)
	}))
	defer api.Close()
	for _, tc := range []struct {
		code  int
		date  string
		heard bool
	}{
		{http.StatusOK, time.Now().UTC().Add(-time.Hour).Format(http.TimeFormat), true},
		{http.StatusForbidden, time.Now().UTC().Add(-time.Hour).Format(http.TimeFormat), true},
		{http.StatusBadGateway, time.Now().UTC().Add(-time.Hour).Format(http.TimeFormat), false},
		{http.StatusOK, "yesterday", false},
	} {
		code, date = tc.code, tc.date
		c, _ := clock(0)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&http.Client{Transport: c.Follow(http.DefaultTransport)}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if ahead, heard := c.Ahead(); heard != tc.heard || (heard && ahead.Round(Tolerance) != time.Hour) {
			t.Errorf("%d %q: heard is %t, and the machine is told to be %s ahead", tc.code, tc.date, heard, ahead)
		}
	}
}

// A connection is handed to a kubelet, whose answer it is.
func TestItDoesNotListenToWhomConnectionsAreHandedTo(t *testing.T) {
	c, _ := clock(0)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	answer, err := c.Follow(handsOver{}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if ahead, heard := c.Ahead(); heard {
		t.Errorf("the machine is told to be %s ahead", ahead)
	}
}

type handsOver struct{}

func (handsOver) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusSwitchingProtocols, Body: http.NoBody, Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}},
	}, nil
}

// What a slow API server says is worth something where an hour is at stake, and nothing where a second is.
func TestASlowAnswerTellsGreatDifferences(t *testing.T) {
	now, took := time.Now(), 20*time.Second
	for skew, heard := range map[time.Duration]bool{0: false, 5 * time.Second: false, time.Hour: true} {
		c, _ := clock(0)
		c.hear(now.Add(-took/2-skew), now.Add(-took), now)
		if ahead, ok := c.Ahead(); ok != heard || (ok && (ahead-skew).Abs() > Tolerance) {
			t.Errorf("%s: heard is %t, and the machine is told to be %s ahead", skew, ok, ahead)
		}
	}
}
