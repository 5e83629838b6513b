package model

import (
	"math"
	"time"
)

// In the mode Replicated there is one primary with copies, and no cluster protocol: the servers decide nothing among
// themselves, so that the operator is the arbiter. What keeps the data safe:
//
//   - A server starts as a replica of nobody. It takes writes only when it is told to, and nobody copies it before, so that one
//     that comes back, empty or outdated, harms nobody.
//   - Clients get to a primary only through the Service <name>-primary, which names one pod. That name is the record of who has
//     the newest data, and outlives all pods. Another one is named before it is promoted, so that whoever takes itself for the
//     primary and is not named is a former one, or was handed over to by the one that is.
//   - A primary that has a copy takes writes only while a copy acknowledges them (min-replicas-to-write). Once nobody does, it
//     stops by itself, and another one may be made primary even though nobody can reach it to tell.
//
// To the rules that the modes share, such a cluster is one shard whose primary owns all slots, see inTermsOfShards.

// Appointment is who takes the writes, as the Service of the primary says.
type Appointment struct {
	// Pod is the name of the pod.
	Pod string
	// History is the replication id of its server since it became the primary: who was connected to it has the same.
	History string
	// Guard is for how long it takes writes at most after the last replica has acknowledged any; 0: for as long as it likes.
	Guard time.Duration
}

// FailoverCandidate is a pod that is about to take over from the appointed one: the Service of the primary names it already.
type FailoverCandidate struct {
	// Pod is the name of the pod; empty: there is none.
	Pod string
	// History is the replication id that its server was chosen by, to be promoted; empty: the appointed primary hands over to it.
	History string
	// Since is when the Service was led to a pod that is handed over to.
	Since time.Time
}

// Planned tells whether a primary is to hand over to the candidate.
func (c FailoverCandidate) Planned() bool { return c.Pod != "" && c.History == "" }

// Replication is how a server stands to the others.
type Replication struct {
	// Primary says that the server takes writes.
	Primary bool
	// ID of the history that the server has, and of the one that it went on from. A process that starts has one of its own.
	ID, FormerID string
	// HandsOver says that the server, a primary until then, has given the one that it asks all that it has and waits for its word.
	HandsOver bool
	// Silence is how long ago a replica last heard from the server that it asks, in whole seconds; Never: it never did.
	Silence time.Duration
}

// Never is the silence of a replica that was never connected to the server that it asks.
const Never time.Duration = math.MaxInt64

// Nobody is the address that a server asks that has not been told whom to ask: its own, at a port that nobody listens at.
var Nobody = Address{IP: "127.0.0.1", Port: 1}

// maxHandOverPause is the longest pause between two hand-overs that failed.
const maxHandOverPause = 15 * time.Second

// FailedHandOvers are the hand-overs of the mode Replicated that failed since one succeeded, as far as the running operator has
// carried them out. One that has just started knows of none, and tries again.
type FailedHandOvers struct {
	Count int
	// Last is when the last one ended.
	Last time.Time
}

// Pause is how long to wait before the next hand-over: each one that fails has held the writes of clients for a while.
func (f FailedHandOvers) Pause(now time.Time) time.Duration {
	if f.Count == 0 {
		return 0
	}
	return min(time.Second<<min(f.Count-1, 10), maxHandOverPause) - now.Sub(f.Last)
}

// The labels of pods, see v1alpha1.LabelRole.
const (
	RolePrimary = "primary"
	RoleReplica = "replica"
)
