package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/quorate/quorate/internal/clock"
)

const (
	// clocksPoll is how often the API server is asked for its time while the clocks are apart, and clocksPatience for how long.
	clocksPoll     = time.Second
	clocksPatience = 20 * time.Second
	// clocksTimeout bounds one question.
	clocksTimeout = 5 * time.Second
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

// agree waits for a while until the clocks of this machine and of the API server say the same, and begins with that. What is done by a wrong time may
// never be undone. An API server that tells no time, or something before it that takes that away, is no reason not to begin.
func agree(ctx context.Context, cfg *rest.Config, c *clock.Clock, most time.Duration) error {
	if most == 0 {
		return nil
	}
	ask, err := asker(cfg)
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	var silent error
	for end := time.Now().Add(clocksPatience); ; {
		silent = ask(ctx)
		ahead, told := c.Ahead()
		if told && ahead.Abs() <= most {
			c.Begin()
			return nil
		}
		if time.Now().After(end) {
			switch {
			case told:
				return fmt.Errorf("the clock of this machine is %s that of the API server, which is more than --max-clock-skew=%s: nothing is done before they agree. "+
					"See to the time synchronisation of the nodes", apart(ahead), most)
			case silent != nil:
				return fmt.Errorf("ask the API server for the time: %w", silent)
			}
			ctrl.Log.Info("the API server does not tell the time, or is too slow for it to be worth anything: that of this machine is taken for right")
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(clocksPoll):
		}
	}
}

// asker returns what asks the API server for something that everybody may know.
func asker(cfg *rest.Config) (func(context.Context) error, error) {
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	url, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, clocksTimeout)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url.JoinPath("version").String(), http.NoBody)
		if err != nil {
			return err
		}
		answer, err := hc.Do(request)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}, nil
}

// apart is how far one clock is ahead of another one, in words.
func apart(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).Round(time.Second).String() + " behind"
	}
	return ahead.Round(time.Second).String() + " ahead of"
}
