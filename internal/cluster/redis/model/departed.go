package model

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// PodBehind is the pod that a node was the server of, as far as it tells; empty: it does not.
func (v *View) PodBehind(p Peer) string {
	if pod := podOfHost(p.Host); v.isPod(pod) && v.ForeignHost(p.Host) == "" {
		return pod
	}
	if i := slices.IndexFunc(v.Exposed, func(e Exposure) bool { return e.Inside.IP != "" && e.Inside == p.Addr }); i >= 0 {
		return v.Exposed[i].Pod
	}
	own := func(d Door) bool { return d.NodePort == 0 && d.Host != "" && d.Host == p.Host } // That of a load balancer is for one pod.
	if i := slices.IndexFunc(v.Doors, own); i >= 0 {
		return v.Doors[i].Pod
	}
	return ""
}

func (v *View) isPod(name string) bool {
	_, _, ok := ParsePod(v.Spec.Name, name)
	return ok
}

// ForeignHost returns the cluster of the pod that a host name belongs to, as "NAME in namespace
// NAMESPACE"; empty for this cluster, and for a name that is not that of a pod, see cluster.PodHost.
func (v *View) ForeignHost(host string) string {
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

// ShardOf is the shard that a node belongs to, or did when it was alive: it announced the name of its pod. It is negative when
// nobody knows.
func (v *View) ShardOf(id string) int {
	if p := v.ByID[id]; p != nil {
		return p.Shard
	}
	for _, p := range v.Readable {
		peer, _ := p.Node.Peer(id)
		if shard, _, ok := ParsePod(v.Spec.Name, v.PodBehind(peer)); ok {
			return shard
		}
	}
	return -1
}

// DepartedNode is a node that servers know and that no pod has.
type DepartedNode struct {
	ID string
	// Slots that it owns according to some server.
	Slots slots.Set
	// Primary says that some server lists it as a primary, with slots or without.
	Primary bool
	// Replicas are the pods that still report it as their primary.
	Replicas []*Pod
	// Dead says that every server that knows it has found that it does not answer.
	Dead bool
	// Failed says that some server has heard that the majority of the primaries lists it as failed.
	Failed bool
	// Pod is the one that it was the server of; empty: unknown.
	Pod string
	// Host is the DNS name that it announces, and Addr its address, both from the first server that
	// reports one.
	Host string
	Addr Address
	// Silent is for how long no server has heard from it, and Heard says that some server has since
	// that server was started.
	Silent time.Duration
	Heard  bool
	// NoAddr says that some server found another node at its address. Such a node is never voted to
	// have failed: the servers do not connect to it any more (clusterCron skips nodes without an
	// address).
	NoAddr bool
	// KnownBy are the pods that have it in their table.
	KnownBy []string
}

// sinceStart is how long after the start of its container a server has read its table at the latest.
const sinceStart = 3 * time.Second

// hear notes when a server last heard from a departed node. A server that has been started since
// reports when it read its table instead (clusterLoadConfig in the servers' source), which counts
// only where no other server reports more.
func (g *DepartedNode) hear(p *Pod, peer Peer) {
	silent, heard := p.Node.Clock.Sub(peer.Answered), p.Heard(peer)
	if len(g.KnownBy) == 1 || (heard && !g.Heard) || (heard == g.Heard && silent < g.Silent) {
		g.Silent, g.Heard = silent, heard
	}
}

// Heard tells whether a server has heard from another one since it was started.
func (p *Pod) Heard(peer Peer) bool { return peer.Answered.After(p.Started.Add(sinceStart)) }

// DepartedNodes lists the nodes that no pod has. What it says is final only when the view is complete.
func (v *View) DepartedNodes() []DepartedNode {
	if v.departedNodes == nil {
		found := v.findDepartedNodes()
		v.departedNodes = &found
	}
	return slices.Clone(*v.departedNodes) // Callers delete from it in place.
}

// unknown returns the nodes in each table that no pod has.
func (v *View) unknown() map[*Table][]int {
	out := map[*Table][]int{}
	for _, t := range v.Tables {
		for node := range t.Nodes() {
			if v.ByID[t.Line(node).ID] == nil {
				out[t] = append(out[t], node)
			}
		}
	}
	return out
}

func (v *View) findDepartedNodes() []DepartedNode {
	unknown, found := v.unknown(), map[string]*DepartedNode{}
	for _, p := range v.Readable {
		for _, node := range unknown[p.Node.report.Table] {
			peer := p.Node.report.peer(node)
			g := found[peer.ID]
			if g == nil {
				g = &DepartedNode{ID: peer.ID, Dead: true, Addr: peer.Addr}
				found[peer.ID] = g
			}
			g.KnownBy = append(g.KnownBy, p.Name)
			g.Slots = slots.Union(g.Slots, peer.Slots)
			g.Primary, g.NoAddr = g.Primary || !peer.Replica, g.NoAddr || peer.NoAddr
			g.Failed = g.Failed || peer.Failed
			g.Pod, g.Host = cmp.Or(g.Pod, v.PodBehind(peer)), cmp.Or(g.Host, peer.Host)
			g.hear(p, peer)
			g.Dead = g.Dead && (peer.Failing || peer.Failed || peer.NoAddr)
		}
	}
	for _, p := range v.Readable {
		if g := found[p.Node.Self().PrimaryID]; g != nil {
			g.Replicas = append(g.Replicas, p)
		}
	}
	out := make([]DepartedNode, 0, len(found))
	for _, g := range found {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b DepartedNode) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
