package rediscluster

import (
	"crypto/tls"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/login"
	"github.com/quorate/quorate/internal/cluster/redis/anomalies"
	"github.com/quorate/quorate/internal/cluster/redis/history"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// memory is what the operator remembers of one cluster.
type memory struct {
	// primary is what was written last into the Service of the primary; nil: unknown. It is no expectation: it
	// outlives the stale cache, so that Ensure reverts external edits of that Service.
	primary atomic.Pointer[primaryRecord]
	// silence is which servers did not answer, for the time that the primary changes.
	silence silence
	// failed are the hand-overs that failed lately.
	failed model.FailedHandOvers
	// unused is since when Services are not announced any more (UID -> time.Time), so that they stay for a moment longer.
	unused sync.Map
	// unexposed says why pods are not to be reached from outside, as their Services could not be made; nil: they could.
	unexposed atomic.Pointer[string]
	// announced are the hosts outside that servers sent clients to when they were last asked; nil: unknown.
	announced atomic.Pointer[[]string]
	// unresizable are the pods that the API server does not resize (UID -> resizeRefusal). It says so again when it is asked again.
	unresizable sync.Map
	// idle is since when shards that are to go have owned nothing.
	idle history.Idle
	// processes are what was seen of the servers' processes.
	processes history.Processes
	// meter counts what has been moved.
	meter meter
	// scales are what slots weighed.
	scales scales
	// vigil is how the servers have been lately.
	vigil anomalies.Detector
	// hashed are the pod templates; nil: none was hashed.
	hashed atomic.Pointer[hashed]
	// vouching is how the operator knows its servers; nil: it has not met any.
	vouching atomic.Pointer[vouching]
	// refusals are the logins that servers without TLS refused.
	refusals login.Refusals
}

// vouching is how the operator connects to servers that an authority vouches for. Every look has connections of its own, and a server that is met
// again need not prove itself anew: one that was given another certificate has forgotten the session as well. (The servers keep sessions by
// default, and tls-session-caching is no setting of the user's.)
type vouching struct {
	// ca is the authority, PEM.
	ca     []byte
	config *tls.Config
}

// sessions is how many servers of a cluster are known from before.
const sessions = 1024

func newMemory() *memory { return &memory{idle: history.Idle{}, processes: history.Processes{}} }

// memory is what is remembered of a cluster.
func (k *Reconciler) memory(o *v1alpha1.RedisCluster) *memory { return k.memories.Get(o.UID, k.Now()) }
