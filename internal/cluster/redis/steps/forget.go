package steps

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// One CLUSTER MEET makes one cluster of two. Each side gossips the other's nodes, and of two
// primaries that own a slot the one with the lower epoch loses it. It deletes the keys of that slot,
// or becomes a replica of the other primary if it lost all of its slots
// (clusterHandleConfigEpochCollision and clusterUpdateSlotsConfigWith in the servers' source). A
// reused pod address is enough where neither certificates nor a NetworkPolicy separate the clusters.
//
// CLUSTER FORGET parts them. A server ignores the gossip of a sender that it does not know, and
// bans a forgotten node for a minute, so that all servers forget all foreign nodes in one step. A
// replica cannot forget its primary. It is elected in place of that primary, with the keys that it
// still has, once the primary does not answer: see takeOver.

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
