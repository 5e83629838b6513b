package redis

import (
	"cmp"
	"slices"
	"time"
)

// view is a state with the questions that rules ask of it answered once.
type view struct {
	State
	// byID finds the pod of a node id.
	byID map[string]*Pod
	// sets are the StatefulSets by shard.
	sets map[int]Set
	// shards holds the pods of each shard that its StatefulSet has room for, by ordinal: of the wanted ones, and of those that are
	// to leave.
	shards [][]*Pod
	// leavers are the pods that no StatefulSet has room for any more: Kubernetes deletes them. To the rules they are gone.
	leavers []Pod
	// read are the pods whose server could be read and which are not on their way out.
	read []*Pod
	// formed says that some slot has an owner, as far as any server knows.
	formed bool
	// complete says that every wanted pod exists and could be read, and that there is no other.
	complete bool
	// tables are those of the servers that could be read, each one once.
	tables []*table
	// ahead says that the view is looked at for what would be decided if no primary had to be held to min-replicas-to-write, see
	// lookAhead. unguards and limits say what that is: a step that takes the last replica of the mode Replicated away, and how many
	// replicas servers of the mode Sharded may ask for at most.
	ahead, unguards bool
	limits          map[string]int
	// stood is a pod that would take its shard over, had it not stood for election lately; nil: there is none.
	stood *Pod
	// What follows is found out with the first question, because rules ask for it once for each shard or
	// server; nil: nobody has asked yet.
	ownerships map[*table]string
	claimed    map[int]bool
	departed   *[]ghost
	mesh       *bool
}

func look(s State) *view {
	if s.Spec.Replicated {
		s = inTermsOfShards(s)
	}
	v := &view{State: s, byID: map[string]*Pod{}, sets: map[int]Set{}, ownerships: map[*table]string{}, shards: make([][]*Pod, s.shards())}
	for _, set := range s.Sets {
		v.sets[set.Shard] = set
	}
	v.Pods = slices.Clone(s.Pods)
	slices.SortFunc(v.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	literal := NewTopology()
	for i := range v.Pods {
		v.Pods[i].Node = literal.reported(v.Pods[i].Node)
	}
	v.Pods = slices.DeleteFunc(v.Pods, v.setAside)
	for i := range v.Pods {
		v.markTerminating(&v.Pods[i])
		v.Pods[i].home = v.Pods[i].Addr
		if addr, ok := v.Pods[i].Node.Announced(); ok {
			v.Pods[i].Addr = addr
		}
		v.add(&v.Pods[i])
	}
	v.formed = slices.ContainsFunc(v.tables, func(t *table) bool { return len(t.owned()) > 0 })
	v.complete = len(v.read) == v.pods() && len(v.Pods) == v.pods() && !v.layoutDiffers()
	return v
}

// shards is how many shards there are: those that are wanted, and those that are to leave.
func (s State) shards() int {
	n := s.Spec.Shards
	for _, set := range s.Sets {
		n = max(n, set.Shard+1)
	}
	return n
}

// unwanted tells whether a shard is to give its slots away and go.
func (v *view) unwanted(shard int) bool { return shard >= v.Spec.Shards }

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
	if _, seen := v.ownerships[p.Node.report.table]; !seen {
		v.ownerships[p.Node.report.table] = ""
		v.tables = append(v.tables, p.Node.report.table)
	}
}

// Formed reports whether the cluster has begun: a slot has an owner, or a primary was appointed. The data
// of an earlier cluster matters before that only.
func (s State) Formed() bool {
	if s.Spec.Replicated {
		return s.Appointed.Pod != ""
	}
	return slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.Node != nil && !p.Deleting && p.Node.seesOwners() })
}

// seesOwners reports whether some slot has an owner by the table of a node.
func (n *Node) seesOwners() bool {
	for p := range n.All() {
		if len(p.Slots) > 0 {
			return true
		}
	}
	return false
}

// Copies is the number of pods of a shard.
func (s Spec) Copies() int { return 1 + s.Replicas }

// size is the number of pods that a shard has or is about to get: at least those that are asked for, and more until the
// others have left.
func (v *view) size(shard int) int { return max(v.sets[shard].Replicas, v.Spec.Copies()) }

// pods is the number of pods of all shards.
func (v *view) pods() int {
	n := 0
	for shard := range v.shards {
		n += v.size(shard)
	}
	return n
}

// maxShards is more than any cluster has.
const maxShards = 1024

// bootstrapEpoch is the config epoch that a pod of a fresh cluster starts with: distinct for all pods, whatever the numbers of
// shards and replicas are and become.
func bootstrapEpoch(p *Pod) uint64 {
	return uint64(p.Ordinal*maxShards + p.Shard + 1) //nolint:gosec // small positive numbers
}

// layoutDiffers tells whether there is not just one StatefulSet for each shard.
func (v *view) layoutDiffers() bool {
	return len(v.Sets) != len(v.shards)
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

// idle tells whether a shard is to go and has given everything away: nobody needs its servers any more, whatever they hold or copy.
func (v *view) idle(shard int) bool { return v.unwanted(shard) && v.unowned(shard) }

// unowned tells whether nobody says that a shard owns slots. All of its servers could be read.
func (v *view) unowned(shard int) bool {
	return len(v.shards[shard]) > 0 && !v.believed(shard) && !v.mayHaveLost(shard) &&
		!slices.ContainsFunc(v.shards[shard], func(p *Pod) bool { return p.Node == nil || p.Deleting || p.Node.Loading || p.ownsSlots() })
}

// slotless tells whether a shard owns nothing and never did in the eyes of anybody: it is new, or has given everything away. It
// may hold keys of slots that others own: a replica that is elected while slots move has not heard of the last ones.
func (v *view) slotless(shard int) bool {
	return v.unowned(shard) && !slices.ContainsFunc(v.shards[shard], func(p *Pod) bool {
		primary := v.byID[p.Node.Self().PrimaryID]
		stranger := p.Node.Self().Replica && (primary == nil || primary.Shard != shard)
		return stranger || (p.Node.Keys > 0 && len(v.unassigned()) > 0)
	})
}

// importer is the server of a shard without slots that has been told to expect some.
func (v *view) importer(shard int) *Pod {
	for _, p := range v.shards[shard] {
		if p.Node != nil && !p.Deleting && !p.Node.Self().Replica && slices.ContainsFunc(p.Node.Self().Open, func(o Open) bool { return o.Importing }) {
			return p
		}
	}
	return nil
}

// mayHaveLost tells whether a node that no server answers for owns slots and is of a shard, as far as can be told. One of a shard that nobody
// knows is of one without an owner.
func (v *view) mayHaveLost(shard int) bool {
	return slices.ContainsFunc(v.ghosts(), func(g ghost) bool {
		of := v.shardOf(g.id)
		return len(g.slots) > 0 && (of == shard || (of < 0 && len(v.owners(shard)) == 0))
	})
}

// head is the server that the others of a shard copy: the owner of its slots, or in a shard without slots the one that is to get
// some. It is nil when there is none, or when that is not certain.
func (v *view) head(shard int) *Pod {
	if len(v.owners(shard)) > 0 {
		return v.primary(shard)
	}
	if p := v.importer(shard); p != nil || !v.slotless(shard) {
		return p
	}
	var first *Pod
	for _, p := range v.shards[shard] {
		switch {
		case p.Node.Self().Replica:
		case slices.ContainsFunc(v.shards[shard], func(o *Pod) bool { return o.Node.Self().PrimaryID == p.Node.ID }):
			return p
		case first == nil || p.Node.Keys > first.Node.Keys:
			first = p
		}
	}
	return first
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
	// primary says that some server takes it for one, with slots or without.
	primary bool
	// replicas are the pods that still call it their primary.
	replicas []*Pod
	// dead says that every server that knows it has found that it does not answer.
	dead bool
	// failed says that some server has heard that the majority of the primaries holds it for dead.
	failed bool
	// pod is the one that it was the server of; empty: unknown.
	pod string
	// host is the DNS name that it announces, and addr its address, as the first server has them that does.
	host string
	addr Address
	// silent is for how long no server has heard from it, and heard says that some server has since it was started.
	silent time.Duration
	heard  bool
	// noAddr says that some server found another one at its address. Such a node is never voted to have failed: the
	// servers do not call on it any more (clusterCron skips nodes without an address).
	noAddr bool
	// knownBy are the pods that have it in their table.
	knownBy []string
}

// sinceStart is how long after the start of its container a server has read its table at the latest.
const sinceStart = 3 * time.Second

// hear takes note of when a server last heard from a ghost. One that has been started since says that this was when it read its table
// (clusterLoadConfig in the servers' source), and is believed only where nobody knows better.
func (g *ghost) hear(p *Pod, peer Peer) {
	silent, heard := p.Node.Clock.Sub(peer.Answered), p.heard(peer)
	if len(g.knownBy) == 1 || (heard && !g.heard) || (heard == g.heard && silent < g.silent) {
		g.silent, g.heard = silent, heard
	}
}

// heard tells whether a server has heard from another one since it was started.
func (p *Pod) heard(peer Peer) bool { return peer.Answered.After(p.Started.Add(sinceStart)) }

// ghosts lists the nodes that no pod has. What it says is final only when the view is complete.
func (v *view) ghosts() []ghost {
	if v.departed == nil {
		found := v.findGhosts()
		v.departed = &found
	}
	return slices.Clone(*v.departed) // Callers delete from it in place.
}

// unknown returns the nodes in each table that no pod has.
func (v *view) unknown() map[*table][]int {
	out := map[*table][]int{}
	for _, t := range v.tables {
		for node := range t.nodes() {
			if v.byID[t.line(node).ID] == nil {
				out[t] = append(out[t], node)
			}
		}
	}
	return out
}

func (v *view) findGhosts() []ghost {
	unknown, found := v.unknown(), map[string]*ghost{}
	for _, p := range v.read {
		for _, node := range unknown[p.Node.report.table] {
			peer := p.Node.report.peer(node)
			g := found[peer.ID]
			if g == nil {
				g = &ghost{id: peer.ID, dead: true, addr: peer.Addr}
				found[peer.ID] = g
			}
			g.knownBy = append(g.knownBy, p.Name)
			g.slots = Union(g.slots, peer.Slots)
			g.primary, g.noAddr = g.primary || !peer.Replica, g.noAddr || peer.NoAddr
			g.failed = g.failed || peer.Failed
			g.pod, g.host = cmp.Or(g.pod, v.podBehind(peer)), cmp.Or(g.host, peer.Host)
			g.hear(p, peer)
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
	for _, t := range v.tables {
		if slices.ContainsFunc(v.read, func(p *Pod) bool { return t.number(p.Node.ID) < 0 }) {
			return false
		}
	}
	return true
}

// meshed tells whether every server knows every other one, where it is, and as one that has not failed. Rules that compare every server with every
// other one have nothing to find then.
func (v *view) meshed() bool {
	if v.mesh != nil {
		return *v.mesh
	}
	meshed := !slices.ContainsFunc(v.tables, func(t *table) bool {
		return slices.ContainsFunc(v.read, func(p *Pod) bool {
			node := t.number(p.Node.ID)
			return node < 0 || !t.line(node).reaches(p)
		})
	})
	v.mesh = &meshed
	return meshed
}

// reaches tells whether a line of a table has a server where it is, and as one that has not failed.
func (p *Peer) reaches(pod *Pod) bool {
	return !p.NoAddr && !p.Failing && !p.Failed && p.Addr == pod.Addr
}

// ownership is who owns which slots as a server reports it, comparable between servers.
func (v *view) ownership(n *Node) string {
	t := n.report.table
	if v.ownerships[t] == "" {
		v.ownerships[t] = t.ownership()
	}
	return v.ownerships[t]
}

// names lists pods by name.
func names(pods []*Pod) []string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = p.Name
	}
	return out
}

// everyPod lists all pods, those that no StatefulSet has room for any more included.
func (v *view) everyPod() []*Pod {
	var out []*Pod
	for _, pods := range [][]Pod{v.Pods, v.leavers} {
		for i := range pods {
			out = append(out, &pods[i])
		}
	}
	return out
}

// podNamed is a pod of the cluster, also one that leaves; nil when there is none.
func (v *view) podNamed(name string) *Pod {
	for _, p := range v.everyPod() {
		if p.Name == name {
			return p
		}
	}
	return nil
}
