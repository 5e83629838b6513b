package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// server is an API server whose clock is ahead of this machine's. It is put right at the given request, before which it may not say what time it is.
func server(t *testing.T, ahead time.Duration, right int, silent bool) *rest.Config {
	t.Helper()
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			http.NotFound(w, r)
			return
		}
		if requests++; requests >= right {
			ahead, silent = 0, false
		}
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		if silent {
			w.Header().Set("Date", "")
		}
	}))
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}
}

func TestAManagerWaitsUntilTheClocksAgree(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ahead, most time.Duration
		right       int
		silent      bool
		want        string
	}{
		"they agree":            {0, time.Minute, 1000, false, ""},
		"they agree soon":       {time.Hour, time.Minute, 3, false, ""},
		"it is told late":       {time.Hour, time.Minute, 3, true, ""},
		"it is never told":      {time.Hour, time.Minute, 1000, true, ""},
		"nobody wants to know":  {time.Hour, 0, 1000, false, ""},
		"the machine is behind": {time.Hour, time.Minute, 1000, false, "is 1h0m0s behind that of the API server, which is more than --max-clock-skew=1m0s"},
		"the machine is ahead":  {-time.Hour, time.Minute, 1000, false, "is 1h0m0s ahead of that of the API server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancelCause(t.Context())
			cfg := server(t, tc.ahead, tc.right, tc.silent)
			err := agree(ctx, cfg, follow(cfg, tc.most, stop), tc.most)
			if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v", err)
			}
			if ctx.Err() != nil {
				t.Errorf("the manager is ended: %v", context.Cause(ctx))
			}
		})
	}
}

func TestAManagerDoesNotWaitForAnAPIServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	cfg := &rest.Config{Host: "http://127.0.0.1:1"}
	if err := agree(t.Context(), cfg, follow(cfg, time.Minute, func(error) {}), time.Minute); err == nil || !strings.Contains(err.Error(), "ask the API server") {
		t.Errorf("%v", err)
	}
}
