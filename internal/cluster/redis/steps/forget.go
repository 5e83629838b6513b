package steps

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// ReasonForeign is the reason of Part, and of waiting and of refusing where it is not possible.
const ReasonForeign = "ForeignServers"

// Part makes servers forget all nodes of another cluster.
type Part struct{ IDs, Pods []string }

func (s Part) String() string {
	return fmt.Sprintf("forget the foreign nodes %s on %s", JoinItems(s.IDs, model.ShortID), JoinItems(s.Pods, func(name string) string { return name }))
}

// Calls sends CLUSTER FORGET.
func (s Part) Calls() []Call {
	return calls(s.Pods, func(pod string) Call {
		return Call{pod, func(ctx context.Context, c Client) error {
			for _, id := range s.IDs {
				if err := c.Forget(ctx, id); err != nil {
					return err
				}
			}
			return nil
		}}
	})
}
