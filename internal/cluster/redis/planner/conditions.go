package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/backup/planner"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/software"
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
func Conditions(s model.State, p cluster.Plan, err error) []metav1.Condition {
	v := model.NewView(s)
	if s.Spec.Replicated {
		conditions := append(cluster.Progress(p, err), cluster.Ready(p, err, fmt.Sprintf(
			"the primary takes writes, and %d replicas are in sync", s.Spec.Replicas)), led(v), memoryHealthy(v), timeoutHealthy(v))
		return append(conditions, cluster.PerformanceHealthy(s.Anomalies)...)
	}
	ready := cluster.Ready(p, err, fmt.Sprintf(
		"%d shards with %d replicas each serve all slots, and every replica is in sync", s.Spec.Shards, s.Spec.Replicas))
	conditions := append(cluster.Progress(p, err), ready, available(v), covered(v), memoryHealthy(v), timeoutHealthy(v))
	conditions = append(conditions, cluster.PerformanceHealthy(s.Anomalies)...)
	if v.Spec.Rebalance.On() {
		conditions = append(conditions, balanced(v))
	}
	return conditions
}

// available is True while every slot is served by a primary that answers, whatever else goes on.
func available(v *model.View) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: ReasonServing,
		Message: "all slots are served by a primary that answers",
	}
	if v.Spec.Name == "" {
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "the state could not be read"
		return c
	}
	if unfit := facts.Unfit(v.Restore); unfit != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, planner.ReasonRestoring, unfit
		return c
	}
	var served []slots.Set
	for shard := range v.Shards {
		for _, p := range v.Owners(shard) {
			if p.Node.StateOK && !p.Node.Loading {
				served = append(served, p.Node.Self().Slots)
			}
		}
	}
	if missing := slots.Union(served...).Missing(); len(missing) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, ReasonNotServing
		c.Message = fmt.Sprintf("slots %s are not served by a primary that answers", missing)
	}
	return c
}

// covered is True while all servers agree on one owner for every slot.
func covered(v *model.View) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionSlotsCovered, Status: metav1.ConditionFalse}
	switch {
	case len(v.Readable) == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "no server could be read"
	case !v.HasOwners:
		c.Reason, c.Message = ReasonNotFormed, "slots are not assigned yet"
	case !facts.Agreed(v):
		c.Reason, c.Message = ReasonDisagreement, "the servers do not agree on who owns which slots"
	default:
		owned := agreedSlots(v)
		if missing := owned.Missing(); len(missing) > 0 {
			c.Reason, c.Message = ReasonNotCovered, fmt.Sprintf("slots %s have no living owner", missing)
			return c
		}
		c.Status, c.Reason = metav1.ConditionTrue, ReasonCovered
		c.Message = fmt.Sprintf("all %d slots have one owner", slots.Count)
	}
	return c
}

// agreedSlots are the slots of nodes that nobody found to have failed.
func agreedSlots(v *model.View) slots.Set {
	var owned []slots.Set
	for peer := range v.Readable[0].Node.All() {
		if !peer.Failed {
			owned = append(owned, peer.Slots)
		}
	}
	return slots.Union(owned...)
}

// Status fills in what a cluster's status says about its servers. It holds nothing that changes on every pass.
func Status(s model.State, out *v1alpha1.RedisClusterStatus) {
	if s.Spec.Name == "" {
		return // Nothing was observed: what was last seen stands, and the conditions say so.
	}
	v := model.NewView(s)
	out.Shards, out.ShardCount = nil, 0
	ready, covered := 0, []slots.Set{}
	for shard, pods := range v.Shards {
		row := v1alpha1.RedisShardStatus{Name: cluster.ShardSet(v.Spec.Name, shard)}
		if p := v.Primary(shard); p != nil {
			row.Primary = p.Name
			out.ShardCount++
			if !v.Spec.Replicated {
				row.Slots = p.Node.Self().Slots.String()
				covered = append(covered, p.Node.Self().Slots)
			}
		}
		for _, p := range pods {
			n := nodeStatus(v, p)
			row.Nodes = append(row.Nodes, n)
			if n.Ready {
				ready++
			}
		}
		out.Shards = append(out.Shards, row)
	}
	out.Resharding, out.Rebalancing = resharding(v), rebalancing(v)
	out.Ready = fmt.Sprintf("%d/%d", ready, v.PodCount())
	if !v.Spec.Replicated {
		out.Slots = fmt.Sprintf("%d/%d", slots.Union(covered...).Count(), slots.Count)
	}
	out.CurrentVersion = cmp.Or(lowestVersion(v), out.CurrentVersion)
}

func nodeStatus(v *model.View, p *model.Pod) v1alpha1.RedisNodeStatus {
	n := v1alpha1.RedisNodeStatus{Name: p.Name, Role: v1alpha1.RedisRoleUnknown, Message: cmp.Or(p.Stuck, p.Error, p.Gate)}
	if p.Node == nil {
		return n
	}
	n.ID, n.Version = p.Node.ID, p.Node.Version
	n.Message = p.Gate
	self := p.Node.Self()
	primary := v.Primary(p.Shard)
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

func lowestVersion(v *model.View) string {
	var all []string
	for _, p := range v.Readable {
		all = append(all, p.Node.Version)
	}
	if len(all) == 0 {
		return ""
	}
	return slices.MinFunc(all, software.CompareVersions)
}

// A server does nothing else while it forks, for its append-only file or for a new replica, and the more so the more memory it has. One that
// is silent for cluster-node-timeout is called failed by the others, although it is well. In the mode Replicated a primary takes no writes then, and
// is replaced soon after.
//
// The timeout is not raised for that by itself: it is how long a dead primary goes unnoticed, which is for the user to say, and all servers
// should have the same.

// longFork is the part of cluster-node-timeout that a fork may take: the silence before and after it counts as well, because healthy servers
// call on each other no more than once in half of the timeout.
const longFork = 2

// Reasons of the condition TimeoutHealthy.
const (
	ReasonTimeoutFits = "ForksAreShort"
	ReasonLongFork    = "ForkNearTimeout"
)

// timeoutHealthy says whether healthy servers are silent for so long that the others may call them failed. It changes with the next fork.
func timeoutHealthy(v *model.View) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionTimeoutHealthy, Status: metav1.ConditionTrue, Reason: ReasonTimeoutFits}
	outcome, cure := "the others call it failed after %s", "divide the data among more shards"
	if v.Spec.Replicated {
		outcome, cure = "a primary that is silent for %s takes no writes and is replaced", "keep less data"
	}
	var worst *model.Pod
	for _, p := range v.Readable {
		if worst == nil || p.Node.Fork > worst.Node.Fork {
			worst = p
		}
	}
	switch {
	case worst == nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "no server could be read"
	case worst.Node.Fork*longFork >= v.Spec.NodeTimeout:
		c.Status, c.Reason = metav1.ConditionFalse, ReasonLongFork
		c.Message = fmt.Sprintf(
			"the last fork of %s took %s, during which it answers nobody, and %s: set spec.config.nodeTimeout to %s or more, or %s",
			worst.Name, worst.Node.Fork.Round(10*time.Millisecond), fmt.Sprintf(outcome, v.Spec.NodeTimeout),
			(worst.Node.Fork*(longFork+1)).Truncate(time.Second)+time.Second, cure)
	default:
		c.Message = "forks of servers are short compared to spec.config.nodeTimeout"
	}
	return c
}
