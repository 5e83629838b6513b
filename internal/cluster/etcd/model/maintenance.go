package model

import (
	"time"

	"github.com/quorate/quorate/internal/cluster/anomaly"
)

// ObservedRevision is a revision that a cluster was seen to have.
type ObservedRevision struct {
	Revision int64
	At       time.Time
}

// Maintenance is what was observed for maintenance beside what the members say. All but Since, Forecast and Newest is of use with an alarm only.
type Maintenance struct {
	// Since is from when on the operator remembers what it began, zero: from the beginning.
	Since time.Time
	// Elsewhere is how many other clusters are being defragmented.
	Elsewhere int
	// Compacted says that there is no history left to throw away, nil when that is unknown.
	Compacted *bool
	// LastCompaction that the operator asked for, zero when it remembers none.
	LastCompaction time.Time
	// Largest groups of keys.
	Largest  []KeyGroup
	Forecast anomaly.Forecast
	// Newest is what was last seen of a cluster with a leader, for a human to judge what is lost with a quorum.
	Newest ObservedRevision
}

// Defragmentation is one that this operator began.
type Defragmentation struct {
	Begin time.Time
	// End is zero while it lasts.
	End           time.Time
	Before, After int64
	Err           error
}
