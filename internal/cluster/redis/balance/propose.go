package balance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// leastBytes and leastLoad (in microseconds of CPU time a second) are by how much a shard has to be above the mean for anything
// to be done about it.
const leastBytes = 16 << 20

const leastLoad = 50_000

// slackParts is the part of the threshold above the mean down to which shards are brought, so that they stay below it for a while.
const slackParts = 4

// Propose returns what would make shards weigh alike; nil: nothing has to. former is what it returned last. As long as that is being
// carried out, or would still help, it stands. ended says that it has been carried out.
func Propose(s model.State, former *model.Proposal) (p *model.Proposal, ended bool) {
	if !isFor(former, s.Spec) {
		former = nil
	}
	s.Proposal = former
	v := model.NewView(s)
	if !s.Spec.Rebalance.On() || !v.Complete || !v.HasOwners || !facts.SettledShards(v) {
		return former, false
	}
	owned := facts.Layout(v)
	if former != nil && facts.HasBegun(former, owned) {
		if len(facts.Remaining(former, owned)) == 0 {
			return nil, true
		}
		if facts.Approved(v) {
			return former, false
		}
		former = nil // Somebody else has moved slots.
	}
	if v.Weights == nil || len(facts.Balance(v)) > 0 || !facts.AtRest(v) {
		return former, false
	}
	if fresh := propose(v, owned); !standsFor(former, fresh, owned, v.Weights, s.Spec.Rebalance.Threshold) {
		return fresh, false
	}
	return former, false
}

// isFor tells whether the proposal, which may be nil, is about what is wanted.
func isFor(p *model.Proposal, s model.Spec) bool {
	return p != nil && p.By == s.Rebalance.By && len(p.Now) == s.Shards
}

// standsFor tells whether the proposal, which may be nil, is as good as one that is found now.
func standsFor(p *model.Proposal, fresh *model.Proposal, owned []slots.Set, weights []int64, threshold int) bool {
	return p != nil && fresh != nil && (p.ID == fresh.ID && p.Hot == fresh.Hot || helps(p, owned, weights, threshold))
}

// propose looks for moves that are worth it.
func propose(v *model.View, owned []slots.Set) *model.Proposal {
	load, by := slots.Loads(owned, v.Weights), v.Spec.Rebalance.By
	mean, top := slots.MeanOf(load), slices.Max(load)
	limit, least := mean*int64(v.Spec.Rebalance.Threshold)/100, int64(leastBytes)
	if by == v1alpha1.RebalanceByLoad {
		least = leastLoad
	}
	if top-mean <= max(limit, least) {
		return nil
	}
	p := &model.Proposal{By: by, Now: slots.Percent(load, mean), Found: v.Now}
	moves := slots.Level(owned, v.Weights, limit/slackParts)
	after := slots.Loads(slots.Carry(owned, moves), v.Weights)
	if rest := slices.Max(after); rest-mean > limit {
		hot(p, slots.Carry(owned, moves)[slices.Index(after, rest)], v.Weights, mean)
	}
	if top-slices.Max(after) < max(limit, least)/slackParts {
		moves, after = nil, load // Not worth it.
	}
	if why := facts.TightTarget(v, moves); why != "" {
		moves, after, p.Tight = nil, load, why
	}
	p.Moves, p.After = moves, slots.Percent(after, mean)
	for _, m := range moves {
		p.Bytes += facts.BytesOf(v, v.Primary(m.From), m.Slots)
	}
	if len(moves) > 0 {
		p.ID = proposalID(by, moves)
	}
	return p
}

// proposalID tells proposals apart.
func proposalID(by v1alpha1.RebalanceBy, moves []slots.Move) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %v", by, moves))
	return hex.EncodeToString(sum[:])[:6]
}

// hot names the heaviest slot of a shard when it is too heavy for any.
func hot(p *model.Proposal, slots slots.Set, weights []int64, mean int64) {
	top, total := -1, mean*int64(len(p.Now))
	for slot := range slots.All() {
		if top < 0 || weights[slot] > weights[top] {
			top = slot
		}
	}
	if top >= 0 && weights[top] > mean/2 {
		p.Hot, p.HotPercent = top, int(weights[top]*100/max(1, total))
	}
}

// helps tells whether no shard would be too heavy after the proposal, going by what slots weigh now.
func helps(p *model.Proposal, owned []slots.Set, weights []int64, threshold int) bool {
	if p.ID == "" {
		return false
	}
	after := slots.Loads(slots.Carry(owned, p.Moves), weights)
	mean := slots.MeanOf(after)
	return slices.Max(after)-mean <= mean*int64(threshold)/100
}
