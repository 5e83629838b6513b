package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster"
)

// One CLUSTER MEET makes one cluster of two. Each side gossips the other's nodes, and of two
// primaries that own a slot the one with the lower epoch loses it. It deletes the keys of that slot,
// or becomes a replica of the other primary if it lost all of its slots
// (clusterHandleConfigEpochCollision and clusterUpdateSlotsConfigWith in the servers' source). A
// reused pod address is enough where neither certificates nor a NetworkPolicy separate the clusters.
//
// CLUSTER FORGET parts them. A server ignores the gossip of a sender that it does not know, and
// bans a forgotten node for a minute, so that all servers forget all foreign nodes in one step. A
// replica cannot forget its primary. It is elected in place of that primary, with the keys that it
// still has, once the primary does not answer: see takeOver.

// ReasonForeign is the reason of Part, and of waiting and of refusing where it is not possible.
const ReasonForeign = "ForeignServers"

// Part makes servers forget all nodes of another cluster.
type Part struct{ IDs, Pods []string }

func (s Part) String() string {
	return fmt.Sprintf("forget the foreign nodes %s on %s", list(s.IDs, short), list(s.Pods, func(name string) string { return name }))
}

// Calls sends CLUSTER FORGET.
func (s Part) Calls() []Call {
	return calls(s.Pods, func(pod string) Call {
		return Call{pod, func(ctx context.Context, c Client) error {
			for _, id := range s.IDs {
				if err := c.Forget(ctx, id); err != nil {
					return err
				}
			}
			return nil
		}}
	})
}

// foreignHost returns the cluster of the pod that a host name belongs to, as "NAME in namespace
// NAMESPACE"; empty for this cluster, and for a name that is not that of a pod, see cluster.PodHost.
func (v *view) foreignHost(host string) string {
	parts := strings.SplitN(host, ".", 5)
	if len(parts) < 4 || parts[3] != "svc" {
		return ""
	}
	name, peers := strings.CutSuffix(parts[1], cluster.PeersService(""))
	if own := name == v.Spec.Name && (v.Spec.Namespace == "" || parts[2] == v.Spec.Namespace); own || !peers {
		return ""
	}
	return ClusterOf(name, parts[2])
}

// ClusterOf returns what a cluster is called in messages about another one.
func ClusterOf(name, namespace string) string {
	return fmt.Sprintf("%s in namespace %s", name, namespace)
}

// answers reports whether a node that no pod has has answered one of the servers within the node
// timeout. A departed node does not.
func (v *view) answers(g ghost) bool { return !g.dead && g.heard && g.silent < v.Spec.NodeTimeout }

// owner returns the other cluster that a node belongs to; empty: unknown. The host name is lost when
// that cluster forgets this one: its servers answer a node that they do not know without the
// extensions of a PING, one of which is the host name. A node with the name of an own pod is not
// foreign, also if a copy of the volumes gave the same node ids to another cluster.
func (v *view) owner(g ghost) string {
	if g.pod != "" {
		return ""
	}
	if of := v.Neighbours[g.id]; of != "" {
		return of
	}
	if v.answers(g) {
		return v.foreignHost(g.host)
	}
	return ""
}

// foreign reports whether a node that answers is the server of no pod of this cluster: that of
// another cluster, or one that announces none of the names of this one.
func (v *view) foreign(g ghost) bool {
	return v.complete && v.answers(g) && g.pod == ""
}

// forgetForeignNodes parts the cluster from another one whose nodes are in its tables. All pods have to be
// read first: a node that no pod has is not the node of a pod that does not answer. While a pod
// follows a foreign node, refuseForeign decides.
func forgetForeignNodes(v *view) (cluster.Plan, bool) {
	if !v.complete || !v.formed {
		return cluster.Pass()
	}
	var step Part
	var first ghost
	for _, g := range v.ghosts() {
		if v.owner(g) == "" {
			continue
		}
		if len(g.replicas) > 0 {
			return cluster.Pass()
		}
		if len(step.IDs) == 0 {
			first = g
		}
		step.IDs, step.Pods = append(step.IDs, g.id), append(step.Pods, g.knownBy...)
	}
	if len(step.IDs) == 0 {
		return cluster.Pass()
	}
	slices.Sort(step.Pods)
	step.Pods = slices.Compact(step.Pods)
	plan, ok := cluster.Do(step, "%d nodes are servers of another cluster, %s, the first one at %s: a CLUSTER MEET joined the clusters, or a pod address was reused. "+
		"They are forgotten. A slot that both clusters owned has lost its keys on one side. Separate the clusters by spec.tls or a NetworkPolicy",
		len(step.IDs), v.owner(first), first.addr)
	plan.After = soon
	return plan, ok
}

// refuseForeign stops at slots that belong to a foreign node that answers. They are not lost, and
// their owner may not be replaced while it answers: that would take the slots from the other cluster.
func (v *view) refuseForeign(g ghost, slots Slots) (cluster.Plan, bool) {
	what := fmt.Sprintf("slots %s belong to node %s at %s, which answers and is the server of no pod of this cluster", slots, short(g.id), g.addr)
	if of := v.owner(g); of != "" {
		what = fmt.Sprintf("slots %s belong to node %s at %s, a server of the cluster %s", slots, short(g.id), g.addr, of)
	}
	if len(g.replicas) == 0 {
		return cluster.Wait(ReasonForeign, later, "%s. Separate the clusters by spec.tls or a NetworkPolicy. Nothing changes about these slots while it answers", what)
	}
	keys := list(g.replicas, func(p *Pod) string { return fmt.Sprintf("%s with %d keys", p.Name, p.Node.Keys) })
	return cluster.Refuse(ReasonForeign, "%s. %s copy it, or would if its password let them: do not delete their pods or claims. Separate the clusters with a "+
		"NetworkPolicy: once the node does not answer, a replica takes the slots over with the keys that it has", what, keys)
}
