package redis

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
)

// Reasons of the conditions.
const (
	ReasonServing      = "Serving"
	ReasonNotServing   = "NotServing"
	ReasonCovered      = "AllSlotsCovered"
	ReasonNotCovered   = "SlotsNotCovered"
	ReasonDisagreement = "NodesDisagree"
	ReasonNotFormed    = "NotFormed"
)

// Conditions says how a cluster is, given what was decided about it and what went wrong.
func Conditions(s State, p cluster.Plan, err error) []metav1.Condition {
	v := look(s)
	if s.Spec.Replicated {
		conditions := append(cluster.Progress(p, err), cluster.Ready(p, err, fmt.Sprintf(
			"the primary takes writes, and %d replicas are in sync", s.Spec.Replicas)), v.led(), v.memoryHealthy(), v.timeoutHealthy())
		return append(conditions, cluster.PerformanceHealthy(s.Anomalies)...)
	}
	ready := cluster.Ready(p, err, fmt.Sprintf(
		"%d shards with %d replicas each serve all slots, and every replica is in sync", s.Spec.Shards, s.Spec.Replicas))
	conditions := append(cluster.Progress(p, err), ready, v.available(), v.covered(), v.memoryHealthy(), v.timeoutHealthy())
	conditions = append(conditions, cluster.PerformanceHealthy(s.Anomalies)...)
	if v.Spec.Rebalance.On() {
		conditions = append(conditions, v.balanced())
	}
	return conditions
}

// available is True while every slot is served by a primary that answers, whatever else goes on.
func (v *view) available() metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: ReasonServing,
		Message: "all slots are served by a primary that answers",
	}
	if v.Spec.Name == "" {
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "the state could not be read"
		return c
	}
	if unfit := v.Restore.unfit(); unfit != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, planner.ReasonRestoring, unfit
		return c
	}
	var served []Slots
	for shard := range v.shards {
		for _, p := range v.owners(shard) {
			if p.Node.StateOK && !p.Node.Loading {
				served = append(served, p.Node.Self().Slots)
			}
		}
	}
	if missing := Union(served...).Missing(); len(missing) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, ReasonNotServing
		c.Message = fmt.Sprintf("slots %s are not served by a primary that answers", missing)
	}
	return c
}

// covered is True while all servers agree on one owner for every slot.
func (v *view) covered() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionSlotsCovered, Status: metav1.ConditionFalse}
	switch {
	case len(v.read) == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "no server could be read"
	case !v.formed:
		c.Reason, c.Message = ReasonNotFormed, "slots are not assigned yet"
	case !v.agreed():
		c.Reason, c.Message = ReasonDisagreement, "the servers do not agree on who owns which slots"
	default:
		owned := v.agreedSlots()
		if missing := owned.Missing(); len(missing) > 0 {
			c.Reason, c.Message = ReasonNotCovered, fmt.Sprintf("slots %s have no living owner", missing)
			return c
		}
		c.Status, c.Reason = metav1.ConditionTrue, ReasonCovered
		c.Message = fmt.Sprintf("all %d slots have one owner", SlotCount)
	}
	return c
}

func (v *view) agreed() bool {
	first := v.ownership(v.read[0].Node)
	for _, p := range v.read {
		if v.ownership(p.Node) != first {
			return false
		}
	}
	return true
}

// agreedSlots are the slots of nodes that nobody found to have failed.
func (v *view) agreedSlots() Slots {
	var owned []Slots
	for peer := range v.read[0].Node.All() {
		if !peer.Failed {
			owned = append(owned, peer.Slots)
		}
	}
	return Union(owned...)
}

// Status fills in what a cluster's status says about its servers. It holds nothing that changes on every pass.
func Status(s State, out *v1alpha1.RedisClusterStatus) {
	if s.Spec.Name == "" {
		return // Nothing was observed: what was last seen stands, and the conditions say so.
	}
	v := look(s)
	out.Shards, out.ShardCount = nil, 0
	ready, covered := 0, []Slots{}
	for shard, pods := range v.shards {
		row := v1alpha1.RedisShardStatus{Name: cluster.ShardSet(v.Spec.Name, shard)}
		if p := v.primary(shard); p != nil {
			row.Primary = p.Name
			out.ShardCount++
			if !v.Spec.Replicated {
				row.Slots = p.Node.Self().Slots.String()
				covered = append(covered, p.Node.Self().Slots)
			}
		}
		for _, p := range pods {
			n := v.nodeStatus(p)
			row.Nodes = append(row.Nodes, n)
			if n.Ready {
				ready++
			}
		}
		out.Shards = append(out.Shards, row)
	}
	out.Resharding, out.Rebalancing = v.resharding(), v.rebalancing()
	out.Ready = fmt.Sprintf("%d/%d", ready, v.pods())
	if !v.Spec.Replicated {
		out.Slots = fmt.Sprintf("%d/%d", Union(covered...).Count(), SlotCount)
	}
	out.CurrentVersion = cmp.Or(v.lowestVersion(), out.CurrentVersion)
}

func (v *view) nodeStatus(p *Pod) v1alpha1.RedisNodeStatus {
	n := v1alpha1.RedisNodeStatus{Name: p.Name, Role: v1alpha1.RedisRoleUnknown, Message: cmp.Or(p.Stuck, p.Error, p.Gate)}
	if p.Node == nil {
		return n
	}
	n.ID, n.Version = p.Node.ID, p.Node.Version
	n.Message = p.Gate
	self := p.Node.Self()
	primary := v.primary(p.Shard)
	switch {
	case p.Deleting:
		n.Message = "the pod is being deleted"
	case self.Replica:
		n.Role = v1alpha1.RedisReplica
		n.Ready = p.Ready && p.Node.LinkUp && primary != nil && self.PrimaryID == primary.Node.ID
		if !n.Ready && primary != nil && !p.Node.LinkUp {
			n.Message = "not in sync with its primary"
		}
	case len(self.Slots) > 0:
		n.Role = v1alpha1.RedisPrimary
		n.Ready = p.Ready && p.Node.StateOK
		if !p.Node.StateOK {
			n.Message = "cut off from the majority of the cluster"
		}
	default:
		n.Message = cmp.Or(p.Gate, "not part of the cluster yet")
	}
	return n
}

func (v *view) lowestVersion() string {
	var all []string
	for _, p := range v.read {
		all = append(all, p.Node.Version)
	}
	if len(all) == 0 {
		return ""
	}
	return slices.MinFunc(all, compareVersions)
}
