package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
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
	Moves []Move
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

const (
	// notice is how long before it begins a proposal is told.
	notice = 10 * time.Minute
	// leastBytes and leastLoad (in microseconds of CPU time a second) are by how much a shard has to be above the mean for anything
	// to be done about it.
	leastBytes = 16 << 20
	leastLoad  = 50_000
	// slackParts is the part of the threshold above the mean down to which shards are brought, so that they stay below it for a while.
	slackParts = 4
)

// Reasons of rebalancing.
const (
	ReasonRebalance  = "Rebalancing"
	ReasonProposed   = "RebalanceProposed"
	ReasonHotSlot    = "HotSlot"
	ReasonImmovable  = "NoMoveHelps"
	ReasonBalanced   = "Balanced"
	ReasonWeighing   = "WeighingSlots"
	ReasonLoadUntold = "LoadUnknown"
	ReasonCountLoad  = "CountingLoad"
)

// Propose returns what would make shards weigh alike; nil: nothing has to. former is what it returned last. As long as that is being
// carried out, or would still help, it stands. ended says that it has been carried out.
func Propose(s State, former *Proposal) (p *Proposal, ended bool) {
	if !former.isFor(s.Spec) {
		former = nil
	}
	s.Proposal = former
	v := look(s)
	if !s.Spec.Rebalance.On() || !v.complete || !v.formed || !v.settledShards() {
		return former, false
	}
	owned := v.layout()
	if former != nil && former.begun(owned) {
		if len(former.left(owned)) == 0 {
			return nil, true
		}
		if v.approved() {
			return former, false
		}
		former = nil // Somebody else has moved slots.
	}
	if v.Weights == nil || len(v.balance()) > 0 || !v.atRest() {
		return former, false
	}
	if fresh := v.propose(owned); !former.standsFor(fresh, owned, v.Weights, s.Spec.Rebalance.Threshold) {
		return fresh, false
	}
	return former, false
}

// isFor tells whether the proposal, which may be nil, is about what is wanted.
func (p *Proposal) isFor(s Spec) bool {
	return p != nil && p.By == s.Rebalance.By && len(p.Now) == s.Shards
}

// standsFor tells whether the proposal, which may be nil, is as good as one that is found now.
func (p *Proposal) standsFor(fresh *Proposal, owned []Slots, weights []int64, threshold int) bool {
	return p != nil && fresh != nil && (p.ID == fresh.ID && p.Hot == fresh.Hot || p.helps(owned, weights, threshold))
}

// settledShards tells whether every shard has one primary, and none is to go.
func (v *view) settledShards() bool {
	for shard := range v.shards {
		if v.unwanted(shard) || v.primary(shard) == nil {
			return false
		}
	}
	return true
}

// propose looks for moves that are worth it.
func (v *view) propose(owned []Slots) *Proposal {
	load, by := loads(owned, v.Weights), v.Spec.Rebalance.By
	mean, top := meanOf(load), slices.Max(load)
	limit, least := mean*int64(v.Spec.Rebalance.Threshold)/100, int64(leastBytes)
	if by == v1alpha1.RebalanceByLoad {
		least = leastLoad
	}
	if top-mean <= max(limit, least) {
		return nil
	}
	p := &Proposal{By: by, Now: percent(load, mean), Found: v.Now}
	moves := Level(owned, v.Weights, limit/slackParts)
	after := loads(carry(owned, moves), v.Weights)
	if rest := slices.Max(after); rest-mean > limit {
		p.hot(carry(owned, moves)[slices.Index(after, rest)], v.Weights, mean)
	}
	if top-slices.Max(after) < max(limit, least)/slackParts {
		moves, after = nil, load // Not worth it.
	}
	if why := v.tightTarget(moves); why != "" {
		moves, after, p.Tight = nil, load, why
	}
	p.Moves, p.After = moves, percent(after, mean)
	for _, m := range moves {
		p.Bytes += v.bytesOf(v.primary(m.From), m.Slots)
	}
	if len(moves) > 0 {
		p.ID = proposalID(by, moves)
	}
	return p
}

// proposalID tells proposals apart.
func proposalID(by v1alpha1.RebalanceBy, moves []Move) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %v", by, moves))
	return hex.EncodeToString(sum[:])[:6]
}

// hot names the heaviest slot of a shard when it is too heavy for any.
func (p *Proposal) hot(slots Slots, weights []int64, mean int64) {
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

func percent(load []int64, mean int64) []int {
	out := make([]int, len(load))
	for i, l := range load {
		out[i] = int(l * 100 / max(1, mean))
	}
	return out
}

// carry is what shards own after moves.
func carry(owned []Slots, moves []Move) []Slots {
	out := slices.Clone(owned)
	for _, m := range moves {
		out[m.From], out[m.To] = out[m.From].Minus(m.Slots), Union(out[m.To], m.Slots)
	}
	return out
}

// left is what of the proposal is yet to be carried out.
func (p *Proposal) left(owned []Slots) []Move {
	var out []Move
	for _, m := range p.Moves {
		if m.From < len(owned) && m.To < len(owned) {
			if slots := m.Slots.And(owned[m.From]); len(slots) > 0 {
				out = append(out, Move{m.From, m.To, slots})
			}
		}
	}
	return out
}

// begun tells whether some of its slots are not where they were.
func (p *Proposal) begun(owned []Slots) bool { return slotsOf(p.left(owned)) < slotsOf(p.Moves) }

// helps tells whether no shard would be too heavy after the proposal, going by what slots weigh now.
func (p *Proposal) helps(owned []Slots, weights []int64, threshold int) bool {
	if p.ID == "" {
		return false
	}
	after := loads(carry(owned, p.Moves), weights)
	mean := meanOf(after)
	return slices.Max(after)-mean <= mean*int64(threshold)/100
}

// begins is when a proposal is carried out without approval.
func (v *view) begins() time.Time {
	at, cooled := v.Proposal.Found.Add(notice), v.Rebalanced.Add(v.Spec.Rebalance.CoolDown)
	if cooled.After(at) {
		return cooled
	}
	return at
}

// approved tells whether the proposal may be carried out.
func (v *view) approved() bool {
	r := v.Spec.Rebalance
	if !r.On() || v.Proposal == nil || v.Proposal.ID == "" {
		return false
	}
	return r.Approved == v.Proposal.ID || (r.Automatic && !v.Now.Before(v.begins()))
}

// rebalance moves slots because of what they weigh. It begins when there is nothing else to do.
func rebalance(v *view) (cluster.Plan, bool) {
	if v.Untold != "" {
		return cluster.Refuse(ReasonLoadUntold,
			"spec.rebalance.by is Load, and %s does not tell the load of a slot: set it to Memory, or upgrade to redis 8.2 or valkey 8", v.Untold)
	}
	if !v.approved() {
		return cluster.Pass()
	}
	moves := v.Proposal.left(v.layout())
	if why := v.tightTarget(moves); why != "" {
		return cluster.Refuse(ReasonNoRoom, "%s", why)
	}
	return v.moveOrMigrate(moves, "%d slots are to move so that shards weigh alike by %s (proposal %s)", slotsOf(moves), strings.ToLower(string(v.Proposal.By)), v.Proposal.ID)
}

// bytesOf is about what slots take on their server.
func (v *view) bytesOf(from *Pod, slots Slots) int64 {
	if v.Spec.Rebalance.By == v1alpha1.RebalanceByMemory && v.Weights != nil {
		return weightOf(slots, v.Weights)
	}
	mem := from.Node.Memory
	return (mem.Used - mem.Empty) * int64(slots.Count()) / int64(max(1, from.Node.Self().Slots.Count()))
}

func describeMoves(moves []Move) string {
	return list(moves, func(m Move) string { return fmt.Sprintf("slots %s of shard %d to shard %d", m.Slots, m.From, m.To) })
}

// balanced says whether a shard is too heavy, and what would help.
func (v *view) balanced() metav1.Condition {
	r, p, by := v.Spec.Rebalance, v.Proposal, strings.ToLower(string(v.Spec.Rebalance.By))
	c := metav1.Condition{Type: v1alpha1.ConditionBalanced, Status: metav1.ConditionFalse}
	if p == nil {
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, ReasonWeighing, "it is not known yet what slots weigh by "+by
		if v.Weights != nil {
			c.Status, c.Reason = metav1.ConditionTrue, ReasonBalanced
			c.Message = fmt.Sprintf("no shard is more than %d %% heavier than the mean by %s, or by so little that it does not matter", r.Threshold, by)
		}
		return c
	}
	now := fmt.Sprintf("by %s, the heaviest shard weighs %d %% of the mean", by, slices.Max(p.Now))
	moves := fmt.Sprintf("moving %d slots (about %d MiB: %s) would make that %d %%", slotsOf(p.Moves), p.Bytes>>20, describeMoves(p.Moves), slices.Max(p.After))
	hot := ""
	if p.HotPercent > 0 {
		hot = fmt.Sprintf(". Slot %d alone weighs %d %% of all slots, and no move of slots can divide it: spread its keys over other hash tags, divide a large key, or have clients cache a hot one",
			p.Hot, p.HotPercent)
	}
	switch {
	case v.approved():
		c.Reason, c.Message = ReasonRebalance, fmt.Sprintf("%s; proposal %s is being carried out: %s%s", now, p.ID, moves, hot)
	case p.Tight != "":
		c.Reason, c.Message = ReasonNoRoom, now+"; "+p.Tight+hot
	case p.ID != "" && r.Automatic:
		c.Reason, c.Message = ReasonProposed, fmt.Sprintf("%s; %s, which begins at %s%s", now, moves, v.begins().UTC().Format(time.RFC3339), hot)
	case p.ID != "":
		c.Reason = ReasonProposed
		c.Message = fmt.Sprintf("%s; %s: %s%s", now, moves, v.annotate(v1alpha1.AnnotationRebalance, p.ID), hot)
	case hot != "":
		c.Reason, c.Message = ReasonHotSlot, now+hot
	default:
		c.Reason, c.Message = ReasonImmovable, now+", and no move of slots is worth it"
	}
	return c
}

// rebalancing is the proposal in the status.
func (v *view) rebalancing() *v1alpha1.RedisRebalancingStatus {
	p := v.Proposal
	if p == nil || !v.Spec.Rebalance.On() {
		return nil
	}
	out := &v1alpha1.RedisRebalancingStatus{Proposal: p.ID, Slots: int32(slotsOf(p.Moves)), Bytes: p.Bytes} //nolint:gosec // at most 16384
	for shard, now := range p.Now {
		out.Shards = append(out.Shards, v1alpha1.RedisShardWeight{
			Name: cluster.ShardSet(v.Spec.Name, shard), Now: int32(now), After: int32(p.After[shard]), //nolint:gosec // percent of a mean of at most 500 shards
		})
	}
	if p.HotPercent > 0 {
		out.HotSlot = &v1alpha1.RedisHotSlot{Slot: int32(p.Hot), Percent: int32(p.HotPercent)} //nolint:gosec // a slot and a percentage
	}
	return out
}

// SlotStatsParameter makes a server count what commands for each slot take, which costs a little with every command. It is in no
// configuration file: a server that does not know it would not start, and one that has restarted is told anew.
const SlotStatsParameter = "cluster-slot-stats-enabled"

// CountLoad makes servers count what commands for each slot take, or stop that.
type CountLoad struct {
	Pods []string
	On   bool
}

func (s CountLoad) String() string {
	verb := "stop counting"
	if s.On {
		verb = "count"
	}
	return fmt.Sprintf("%s the load of each slot on %s", verb, list(s.Pods, func(p string) string { return p }))
}

// Calls sends CONFIG SET.
func (s CountLoad) Calls() []Call {
	return calls(s.Pods, func(pod string) Call {
		return Call{pod, func(ctx context.Context, c Client) error { return c.CountLoad(ctx, s.On) }}
	})
}

// countLoad has all servers that can count what slots take do so, while that is what they are to be divided by: a replica may be the
// next primary.
func countLoad(v *view) (cluster.Plan, bool) {
	step := CountLoad{On: v.Spec.Rebalance.By == v1alpha1.RebalanceByLoad}
	for _, p := range v.read {
		if counts, ok := p.Node.Config[SlotStatsParameter]; ok && (counts != "no") != step.On {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "spec.rebalance.by says whether the load of slots is of interest")
}
