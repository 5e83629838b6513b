package clock

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestItGoesByTheServer(t *testing.T) {
	var server time.Duration // How far its clock is ahead of ours.
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(server).UTC().Format(http.TimeFormat))
	}))
	defer api.Close()
	var said []time.Duration
	c := New(func(ahead time.Duration) { said = append(said, ahead.Round(Tolerance)) })
	hc := &http.Client{Transport: c.Follow(http.DefaultTransport)}
	for i, tc := range []struct {
		server, want time.Duration
		says         bool
	}{
		{0, 0, false},
		{time.Second, 0, false}, // Whole seconds tell no better.
		{time.Hour, time.Hour, true},
		{time.Hour, time.Hour, false},
		{-365 * 24 * time.Hour, -365 * 24 * time.Hour, true},
		{0, 0, true},
	} {
		said, server = nil, tc.server
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if off := time.Until(c.Now()).Round(Tolerance); off != tc.want {
			t.Errorf("step %d: it is %s ahead, and was to be %s", i, off, tc.want)
		}
		if ahead := c.Ahead().Round(Tolerance); ahead != -tc.want {
			t.Errorf("step %d: the machine is told to be %s ahead", i, ahead)
		}
		if says := len(said) == 1 && said[0] == -tc.want; says != tc.says {
			t.Errorf("step %d: it says %v", i, said)
		}
	}
}

// The machine's time of day is put forward by an hour, and its monotonic clock is not.
func TestWhatIsDoneToTheMachineIsNothingToIt(t *testing.T) {
	c := New(func(time.Duration) { t.Error("it says that it goes by a server") })
	c.base = c.base.Add(-time.Hour)
	before := c.Now()
	if got := c.Ahead().Round(Tolerance); got != time.Hour {
		t.Errorf("the machine is told to be %s ahead", got)
	}
	if passed := c.Now().Sub(before); passed < 0 || passed > time.Minute {
		t.Errorf("%s have passed", passed)
	}
	if before != before.Round(0) {
		t.Error("a time has a reading of the monotonic clock, which later ones are not compared by")
	}
}

func TestWhatTookLongSaysNothing(t *testing.T) {
	c := New(func(time.Duration) { t.Error("it says that it goes by a server") })
	now := time.Now()
	c.heard(now.Add(time.Hour), now.Add(-2*Tolerance), now)
	if off := time.Until(c.Now()).Round(Tolerance); off != 0 {
		t.Errorf("it is %s ahead", off)
	}
}
