package planner

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// One CLUSTER MEET makes one cluster of two. Each side gossips the other's nodes, and of two
// primaries that own a slot the one with the lower epoch loses it. It deletes the keys of that
// slot, or becomes a replica of the other primary if it lost all of its slots
// (clusterHandleConfigEpochCollision and clusterUpdateSlotsConfigWith in the servers' source). A
// reused pod address is enough where neither certificates nor a NetworkPolicy separate the
// clusters.
//
// CLUSTER FORGET parts them. A server ignores the gossip of a sender that it does not know, and
// bans a forgotten node for a minute, so that all servers forget all foreign nodes in one step. A
// replica cannot forget its primary. It is elected in place of that primary, with the keys that it
// still has, once the primary does not answer: see takeOver.

// owner returns the other cluster that a node belongs to; empty: unknown. The host name is lost when
// that cluster forgets this one: its servers answer a node that they do not know without the
// extensions of a PING, one of which is the host name. A node with the name of an own pod is not
// foreign, also if a copy of the volumes gave the same node ids to another cluster.
func owner(v *model.View, g model.DepartedNode) string {
	if g.Pod != "" {
		return ""
	}
	if of := v.Neighbours[g.ID]; of != "" {
		return of
	}
	if facts.StillAnswers(v, g) {
		return v.ForeignHost(g.Host)
	}
	return ""
}

// forgetForeignNodes parts the cluster from another one whose nodes are in its tables. All pods have to be
// read first: a node that no pod has is not the node of a pod that does not answer. While a pod
// follows a foreign node, refuseForeign decides.
func forgetForeignNodes(v *model.View) (cluster.Plan, bool) {
	if !v.Complete || !v.HasOwners {
		return cluster.Pass()
	}
	var step steps.Part
	var first model.DepartedNode
	for _, g := range v.DepartedNodes() {
		if owner(v, g) == "" {
			continue
		}
		if len(g.Replicas) > 0 {
			return cluster.Pass()
		}
		if len(step.IDs) == 0 {
			first = g
		}
		step.IDs, step.Pods = append(step.IDs, g.ID), append(step.Pods, g.KnownBy...)
	}
	if len(step.IDs) == 0 {
		return cluster.Pass()
	}
	slices.Sort(step.Pods)
	step.Pods = slices.Compact(step.Pods)
	plan, ok := cluster.Do(step, "%d nodes are servers of another cluster, %s, the first one at %s: a CLUSTER MEET joined the clusters, or a pod address was reused. "+
		"They are forgotten. A slot that both clusters owned has lost its keys on one side. Separate the clusters by spec.tls or a NetworkPolicy",
		len(step.IDs), owner(v, first), first.Addr)
	plan.After = facts.Soon
	return plan, ok
}

// refuseForeign stops at slots that belong to a foreign node that answers. They are not lost, and
// their owner may not be replaced while it answers: that would take the slots from the other cluster.
func refuseForeign(v *model.View, g model.DepartedNode, slots slots.Set) (cluster.Plan, bool) {
	what := fmt.Sprintf("slots %s belong to node %s at %s, which answers and is the server of no pod of this cluster", slots, model.ShortID(g.ID), g.Addr)
	if of := owner(v, g); of != "" {
		what = fmt.Sprintf("slots %s belong to node %s at %s, a server of the cluster %s", slots, model.ShortID(g.ID), g.Addr, of)
	}
	if len(g.Replicas) == 0 {
		return cluster.Wait(steps.ReasonForeign, facts.Later, "%s. Separate the clusters by spec.tls or a NetworkPolicy. Nothing changes about these slots while it answers", what)
	}
	keys := steps.JoinItems(g.Replicas, func(p *model.Pod) string { return fmt.Sprintf("%s with %d keys", p.Name, p.Node.Keys) })
	return cluster.Refuse(steps.ReasonForeign, "%s. %s copy it, or would if its password let them: do not delete their pods or claims. Separate the clusters with a "+
		"NetworkPolicy: once the node does not answer, a replica takes the slots over with the keys that it has", what, keys)
}
