package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
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
)

// rebalance moves slots because of what they weigh. It begins when there is nothing else to do.
func rebalance(v *model.View) (cluster.Plan, bool) {
	if v.Untold != "" {
		return cluster.Refuse(ReasonLoadUntold,
			"spec.rebalance.by is Load, and %s does not tell the load of a slot: set it to Memory, or upgrade to redis 8.2 or valkey 8", v.Untold)
	}
	if !facts.Approved(v) {
		return cluster.Pass()
	}
	moves := facts.Remaining(v.Proposal, facts.Layout(v))
	if why := facts.TightTarget(v, moves); why != "" {
		return cluster.Refuse(ReasonNoRoom, "%s", why)
	}
	return moveOrMigrate(v, moves, "%d slots are to move so that shards weigh alike by %s (proposal %s)", facts.SlotsOf(moves), strings.ToLower(string(v.Proposal.By)), v.Proposal.ID)
}

func describeMoves(moves []slots.Move) string {
	return steps.JoinItems(moves, func(m slots.Move) string {
		return fmt.Sprintf("slots %s of shard %d to shard %d", m.Slots, m.From, m.To)
	})
}

// balanced says whether a shard is too heavy, and what would help.
func balanced(v *model.View) metav1.Condition {
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
	moves := fmt.Sprintf("moving %d slots (about %d MiB: %s) would make that %d %%", facts.SlotsOf(p.Moves), p.Bytes>>20, describeMoves(p.Moves), slices.Max(p.After))
	hot := ""
	if p.HotPercent > 0 {
		hot = fmt.Sprintf(". Slot %d alone weighs %d %% of all slots, and no move of slots can divide it: spread its keys over other hash tags, divide a large key, or have clients cache a hot one",
			p.Hot, p.HotPercent)
	}
	switch {
	case facts.Approved(v):
		c.Reason, c.Message = ReasonRebalance, fmt.Sprintf("%s; proposal %s is being carried out: %s%s", now, p.ID, moves, hot)
	case p.Tight != "":
		c.Reason, c.Message = ReasonNoRoom, now+"; "+p.Tight+hot
	case p.ID != "" && r.Automatic:
		c.Reason, c.Message = ReasonProposed, fmt.Sprintf("%s; %s, which begins at %s%s", now, moves, facts.RebalanceBegins(v).UTC().Format(time.RFC3339), hot)
	case p.ID != "":
		c.Reason = ReasonProposed
		c.Message = fmt.Sprintf("%s; %s: %s%s", now, moves, facts.ApprovalCommand(v, v1alpha1.AnnotationRebalance, p.ID), hot)
	case hot != "":
		c.Reason, c.Message = ReasonHotSlot, now+hot
	default:
		c.Reason, c.Message = ReasonImmovable, now+", and no move of slots is worth it"
	}
	return c
}

// rebalancing is the proposal in the status.
func rebalancing(v *model.View) *v1alpha1.RedisRebalancingStatus {
	p := v.Proposal
	if p == nil || !v.Spec.Rebalance.On() {
		return nil
	}
	out := &v1alpha1.RedisRebalancingStatus{Proposal: p.ID, Slots: int32(facts.SlotsOf(p.Moves)), Bytes: p.Bytes} //nolint:gosec // at most 16384
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

// countLoad has all servers that can count what slots take do so, while that is what they are to be divided by: a replica may be the
// next primary.
func countLoad(v *model.View) (cluster.Plan, bool) {
	step := steps.CountLoad{On: v.Spec.Rebalance.By == v1alpha1.RebalanceByLoad}
	for _, p := range v.Readable {
		if counts, ok := p.Node.Config[config.SlotStatsParameter]; ok && (counts != "no") != step.On {
			step.Pods = append(step.Pods, p.Name)
		}
	}
	if len(step.Pods) == 0 {
		return cluster.Pass()
	}
	return cluster.Do(step, "spec.rebalance.by says whether the load of slots is of interest")
}
