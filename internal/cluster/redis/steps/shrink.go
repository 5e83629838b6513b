package steps

import (
	"fmt"
)

// A StatefulSet gives up its pods from the highest ordinal down, so those are the ones that leave:
//
//	c-0-0 replica        c-0-0 primary        c-0-0 primary
//	c-0-1 replica   ──>  c-0-1 replica   ──>  c-0-1 replica
//	c-0-2 primary        c-0-2 replica        its node is forgotten, and its claim goes or stays
//	         a failover             the set is scaled
//
// More pods are simpler: the set gets them when it is applied, and they are servers without a place in the cluster like any
// other, see reintroduce and attachReplicas.

// ScaleShards changes the number of pods of StatefulSets, of those that still are the ones that were decided on.
type ScaleShards struct{ Sets []SetSize }

// SetSize is the StatefulSet of a shard, with the number of pods that it has and that it gets.
type SetSize struct {
	Shard, From, To      int
	UID, ResourceVersion string
}

// ReasonScaleShards is the reason of ScaleShards.
const ReasonScaleShards = "ScalingShards"

func (s ScaleShards) String() string {
	return "scale " + JoinItems(s.Sets, func(c SetSize) string { return fmt.Sprintf("shard %d from %d pods to %d", c.Shard, c.From, c.To) })
}
