package config

import (
	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// Evicts tells whether servers are to throw any key away when there is no more room.
func Evicts(spec v1alpha1.RedisClusterSpec) bool {
	return spec.Config != nil && spec.Config.MaxMemoryPolicy != nil && model.EvictsAny(*spec.Config.MaxMemoryPolicy)
}

// Limits tells whether servers have a maxmemory that the specification names, or that follows from their limit.
func Limits(spec v1alpha1.RedisClusterSpec) bool {
	return MemoryLimit(spec.Resources) > 0 || (spec.Config != nil && spec.Config.MaxMemory != nil)
}

// What a server may use follows from the limit of its container where spec.config does not say it:
//
//	limit ─┬─ backlog: 1 %, at least 10 MiB or, of a small limit, 1/32, and at most 256 MiB
//	       └─ of the rest ─┬─ 3/4: maxmemory, the keys and what is counted with them
//	                       └─ 1/4: pages that are written while a fork writes the file or a copy, buffers of clients and
//	                               replicas, keys on their way to another server, fragmentation
//
// Neither is part of the file that servers start with: they are told once it is certain that nothing is lost by it.
const (
	backlogLeast = 10 << 20
	BacklogMost  = 256 << 20
)

// DerivedBacklog is the size of the replication backlog of a server with a limit, in bytes.
func DerivedBacklog(limit int64) int64 {
	return min(max(limit/100, min(backlogLeast, limit/32)), BacklogMost)
}

// DerivedMaxMemory is what the data of a server with a limit and a backlog may take, in bytes.
func DerivedMaxMemory(limit, backlog int64) int64 { return max(limit-backlog, 0) / 4 * 3 }
