package steps

import (
	"fmt"
	"strings"
)

// Guard changes which shards may lose a pod to an eviction, in Kubernetes alone: no server is
// called.
type Guard struct{ Protect, Release []int }

// ReasonGuard is the reason of Guard.
const ReasonGuard = "GuardingShards"

func (g Guard) String() string {
	var parts []string
	number := func(shard int) string { return fmt.Sprint(shard) }
	if len(g.Protect) > 0 {
		parts = append(parts, "allow no evictions in shards "+JoinItems(g.Protect, number))
	}
	if len(g.Release) > 0 {
		parts = append(parts, "allow evictions in shards "+JoinItems(g.Release, number))
	}
	return strings.Join(parts, "; ")
}
