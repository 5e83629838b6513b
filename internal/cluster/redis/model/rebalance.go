package model

import (
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// Rebalance says by what slots are divided among shards.
type Rebalance struct {
	// By is what makes slots weigh; empty: nothing, and their number counts alone.
	By v1alpha1.RebalanceBy
	// Automatic says that nobody has to approve of a proposal, and Approved names the one that somebody has approved of.
	Automatic bool
	Approved  string
	// Threshold is by how many percent the heaviest shard may be above the mean.
	Threshold int
	// CoolDown is how long nothing is rebalanced after the last time, with Automatic.
	CoolDown time.Duration
}

// On tells whether slots have weights.
func (r Rebalance) On() bool { return r.By != "" }

// Proposal is what would make shards weigh alike. It is found once and then kept, so that what is approved is what was read.
type Proposal struct {
	// ID is its name: the same moves have the same one. It is empty when no move helps.
	ID    string
	By    v1alpha1.RebalanceBy
	Moves []slots.Move
	// Now and After are what shards weigh, in percent of their mean.
	Now, After []int
	// Bytes that would move, estimated.
	Bytes int64
	// Hot is a slot that alone is too heavy for any shard, and HotPercent what it weighs of all; with 0 there is none.
	Hot, HotPercent int
	// Tight says why the moves do not fit into memory, empty where they do.
	Tight string
	// Found is when.
	Found time.Time
}
