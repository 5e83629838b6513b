package controllers

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis"
)

// memory is what the operator remembers of one cluster. With a restart it is lost, and read or measured anew.
type memory struct {
	// seen is when the cluster was last looked at.
	seen time.Time
	// budgets are the shards that were guarded last (number -> whether they were). The cache may not have heard of it yet, and to
	// apply what it says would undo the step.
	budgets sync.Map
	// scaled is how many pods each StatefulSet was given last, for the same reason (scaledKey -> scaledSet).
	scaled sync.Map
	// appointment is who was made primary last, for the same reason; nil: unknown.
	appointment atomic.Pointer[redis.Appointment]
	// unused is since when Services are not announced any more (UID -> time.Time), so that they stay for a moment longer.
	unused sync.Map
	// unexposed says why pods are not to be reached from outside, as their Services could not be made; nil: they could.
	unexposed atomic.Pointer[string]
	// announced are the hosts outside that servers sent clients to when they were last asked; nil: unknown.
	announced atomic.Pointer[[]string]
	// unresizable are the pods that the API server does not resize (UID -> resizeRefusal). It says so again when it is asked again.
	unresizable sync.Map
	// idle is since when shards that are to go have owned nothing.
	idle redis.Idle
	// processes are what was seen of the servers' processes.
	processes redis.Processes
	// meter counts what has been moved.
	meter meter
	// scales are what slots weighed.
	scales scales
	// vigil is how the servers have been lately.
	vigil redis.Vigil
}

// memories are those of all clusters, by UID.
type memories struct {
	mu       sync.Mutex
	clusters map[types.UID]*memory
}

// of is what is remembered of a cluster. Those that nobody has looked at for long are gone, and are forgotten.
func (m *memories) of(uid types.UID, now time.Time) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, c := range m.clusters {
		if now.Sub(c.seen) > forgetAfter {
			delete(m.clusters, id)
		}
	}
	if m.clusters == nil {
		m.clusters = map[types.UID]*memory{}
	}
	if m.clusters[uid] == nil {
		m.clusters[uid] = &memory{idle: redis.Idle{}, processes: redis.Processes{}}
	}
	m.clusters[uid].seen = now
	return m.clusters[uid]
}

// memory is what is remembered of a cluster.
func (k *RedisKind) memory(o *v1alpha1.RedisCluster) *memory { return k.memories.of(o.UID, k.Now()) }
