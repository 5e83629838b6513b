package steps

import (
	"fmt"
)

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
