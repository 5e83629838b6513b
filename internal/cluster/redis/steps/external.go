package steps

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Announce tells servers where they are reached.
type Announce struct{ Pods []PodSettings }

func (s Announce) String() string {
	return "announce " + JoinItems(s.Pods, func(p PodSettings) string {
		parts := make([]string, 0, len(p.Values))
		for _, name := range slices.Sorted(maps.Keys(p.Values)) {
			parts = append(parts, name+" "+p.Values[name])
		}
		return fmt.Sprintf("%s (%s)", p.Pod, JoinItems(parts, func(s string) string { return s }))
	})
}

// Calls sends CONFIG SET.
func (s Announce) Calls() []Call {
	return calls(s.Pods, func(p PodSettings) Call {
		return Call{p.Pod, func(ctx context.Context, c Client) error { return c.Configure(ctx, p.Values) }}
	})
}

// Withdraw deletes Services that nobody is sent to any more.
type Withdraw struct{ Services []model.Exposure }

func (s Withdraw) String() string {
	return "delete Services " + JoinItems(s.Services, func(e model.Exposure) string { return e.Name })
}
