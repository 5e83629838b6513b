package redis

import (
	"cmp"
	"slices"
)

// view is a state with the questions that rules ask of it answered once.
type view struct {
	State
	// byID finds the pod of a node id.
	byID map[string]*Pod
	// sets are the StatefulSets by shard.
	sets map[int]Set
	// shards holds the pods of each wanted shard that its StatefulSet has room for, by ordinal.
	shards [][]*Pod
	// leavers are the pods that no StatefulSet has room for any more: Kubernetes deletes them. To the rules they are gone.
	leavers []Pod
	// read are the pods whose server could be read and which are not on their way out.
	read []*Pod
	// formed says that some slot has an owner, as far as any server knows.
	formed bool
	// complete says that every wanted pod exists and could be read, and that there is no other.
	complete bool
}

func look(s State) *view {
	v := &view{State: s, byID: map[string]*Pod{}, sets: map[int]Set{}, shards: make([][]*Pod, s.Spec.Shards)}
	for _, set := range s.Sets {
		v.sets[set.Shard] = set
	}
	v.Pods = slices.Clone(s.Pods)
	slices.SortFunc(v.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	v.Pods = slices.DeleteFunc(v.Pods, v.setAside)
	for i := range v.Pods {
		v.Pods[i].Node = v.Pods[i].Node.indexed()
		v.add(&v.Pods[i])
	}
	v.complete = len(v.read) == v.pods() && len(v.Pods) == v.pods() && !v.layoutDiffers()
	return v
}

// setAside keeps a pod that leaves out of the way of the rules. Its node exists as long as it does.
func (v *view) setAside(p Pod) bool {
	if p.Shard < 0 || p.Shard >= len(v.shards) || p.Ordinal < v.size(p.Shard) {
		return false
	}
	v.leavers = append(v.leavers, p)
	if p.Node != nil {
		v.byID[p.Node.ID] = &p
	}
	return true
}

func (v *view) add(p *Pod) {
	if p.Shard >= 0 && p.Shard < len(v.shards) {
		v.shards[p.Shard] = append(v.shards[p.Shard], p)
	}
	if p.Node == nil {
		return
	}
	v.byID[p.Node.ID] = p
	if p.Deleting {
		return
	}
	v.read = append(v.read, p)
	for _, peer := range p.Node.Peers {
		v.formed = v.formed || len(peer.Slots) > 0
	}
}

// Copies is the number of pods of a shard.
func (s Spec) Copies() int { return 1 + s.Replicas }

// size is the number of pods that a shard has or is about to get: at least those that are asked for, and more until the
// others have left.
func (v *view) size(shard int) int { return max(v.sets[shard].Replicas, v.Spec.Copies()) }

// pods is the number of pods of all wanted shards.
func (v *view) pods() int {
	n := 0
	for shard := range v.shards {
		n += v.size(shard)
	}
	return n
}

// bootstrapEpoch is the config epoch that a pod of a fresh cluster starts with: distinct for all pods, and for the
// first pod of a shard the same whatever the number of replicas.
func (s Spec) bootstrapEpoch(p *Pod) uint64 {
	return uint64(p.Ordinal)*uint64(s.Shards) + uint64(p.Shard) + 1 //nolint:gosec // small positive numbers
}

// layoutDiffers tells whether there is not just one StatefulSet for each shard of the specification.
func (v *view) layoutDiffers() bool {
	for _, set := range v.Sets {
		if set.Shard >= v.Spec.Shards {
			return true
		}
	}
	return len(v.Sets) != v.Spec.Shards
}

// owners are the pods of a shard whose servers say that they are primaries with slots.
func (v *view) owners(shard int) []*Pod {
	var out []*Pod
	for _, p := range v.shards[shard] {
		if p.Node != nil && !p.Deleting && p.ownsSlots() {
			out = append(out, p)
		}
	}
	return out
}

// primary is the one owner of a shard's slots; nil when there is none, or more than one says so.
func (v *view) primary(shard int) *Pod {
	if o := v.owners(shard); len(o) == 1 {
		return o[0]
	}
	return nil
}

func (p *Pod) ownsSlots() bool {
	self := p.Node.Self()
	return !self.Replica && len(self.Slots) > 0
}

// ghost is a node that servers know and that no pod has.
type ghost struct {
	id string
	// slots that it owns in the eyes of some server.
	slots Slots
	// replicas are the pods that still call it their primary.
	replicas []*Pod
	// dead says that every server that knows it has found that it does not answer.
	dead bool
	// failed says that some server has heard that the majority of the primaries holds it for dead.
	failed bool
	// host is the DNS name that it announced.
	host string
	// noAddr says that some server found another one at its address. Such a node is never voted to have failed: the
	// servers do not call on it any more (clusterCron skips nodes without an address).
	noAddr bool
	// knownBy are the pods that have it in their table.
	knownBy []string
}

// ghosts lists the nodes that no pod has. What it says is final only when the view is complete.
func (v *view) ghosts() []ghost {
	found := map[string]*ghost{}
	for _, p := range v.read {
		for _, peer := range p.Node.Peers {
			if peer.Handshake || v.byID[peer.ID] != nil {
				continue
			}
			g := found[peer.ID]
			if g == nil {
				g = &ghost{id: peer.ID, dead: true}
				found[peer.ID] = g
			}
			g.knownBy = append(g.knownBy, p.Name)
			g.slots = Union(g.slots, peer.Slots)
			g.noAddr = g.noAddr || peer.NoAddr
			g.failed = g.failed || peer.Failed
			g.host = cmp.Or(g.host, peer.Host)
			g.dead = g.dead && (peer.Failing || peer.Failed || peer.NoAddr)
		}
	}
	for _, p := range v.read {
		if g := found[p.Node.Self().PrimaryID]; g != nil {
			g.replicas = append(g.replicas, p)
		}
	}
	out := make([]ghost, 0, len(found))
	for _, g := range found {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b ghost) int { return cmp.Compare(a.id, b.id) })
	return out
}

// knowEachOther tells whether every server knows every other one by its id.
func (v *view) knowEachOther() bool {
	for _, p := range v.read {
		for _, other := range v.read {
			if _, ok := p.Node.Peer(other.Node.ID); !ok {
				return false
			}
		}
	}
	return true
}

// names lists pods by name.
func names(pods []*Pod) []string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = p.Name
	}
	return out
}
