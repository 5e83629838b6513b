package steps

import (
	"context"
	"fmt"
)

// CountLoad makes servers count what commands for each slot take, or stop that.
type CountLoad struct {
	Pods []string
	On   bool
}

func (s CountLoad) String() string {
	verb := "stop counting"
	if s.On {
		verb = "count"
	}
	return fmt.Sprintf("%s the load of each slot on %s", verb, JoinItems(s.Pods, func(p string) string { return p }))
}

// Calls sends CONFIG SET.
func (s CountLoad) Calls() []Call {
	return calls(s.Pods, func(pod string) Call {
		return Call{pod, func(ctx context.Context, c Client) error { return c.CountLoad(ctx, s.On) }}
	})
}
