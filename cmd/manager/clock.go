package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/clock"
)

const (
	// clocksPoll is how often the API server is asked for its time while the clocks are apart, and clocksPatience for how long.
	clocksPoll     = time.Second
	clocksPatience = 20 * time.Second
)

// follow makes the clock of the manager, which listens to what the API server answers. The manager ends, and begins anew, when both that and the
// machine say that it is another time.
func follow(cfg *rest.Config, most time.Duration, stop context.CancelCauseFunc) *clock.Clock {
	c := clock.New(most, func(ahead time.Duration) {
		stop(fmt.Errorf("this manager began with a time that is %s the one that its machine and the API server have now: it begins anew", apart(ahead)))
	})
	cfg.Wrap(c.Follow)
	return c
}

// agree waits for a while until the clocks of this machine and of the API server say the same. What is done by a wrong time may never be undone.
func agree(ctx context.Context, cfg *rest.Config, c *clock.Clock, most time.Duration) error {
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	url, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	ask := func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url.JoinPath("version").String(), http.NoBody)
		if err != nil {
			return err
		}
		answer, err := hc.Do(request)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	for end := time.Now().Add(clocksPatience); ; {
		if err := ask(); err != nil {
			return fmt.Errorf("ask the API server for the time: %w", err)
		}
		ahead, _ := c.Ahead()
		switch {
		case most == 0 || ahead.Abs() <= most:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("the clock of this machine is %s that of the API server, which is more than --max-clock-skew=%s: nothing is done before they agree. "+
				"See to the time synchronisation of the nodes", apart(ahead), most)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(clocksPoll):
		}
	}
}

// apart is how far one clock is ahead of another one, in words.
func apart(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).Round(time.Second).String() + " behind"
	}
	return ahead.Round(time.Second).String() + " ahead of"
}
