package model

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// Unassigned are the slots that no server knows an owner of.
func (v *View) Unassigned() slots.Set {
	var owned []slots.Set
	for _, t := range v.Tables {
		owned = append(owned, t.owned())
	}
	return slots.Union(owned...).Missing()
}

// Claim returns the claim of a pod, nil for none.
func (v *View) Claim(p *Pod) *Claim {
	if i := slices.IndexFunc(v.Claims, func(c Claim) bool { return c.Shard == p.Shard && c.Ordinal == p.Ordinal }); i >= 0 {
		return &v.Claims[i]
	}
	return nil
}

// ReportedOwner tells whether some server takes a pod of the shard for the owner of slots.
func (v *View) ReportedOwner(shard int) bool {
	if v.claimed != nil {
		return v.claimed[shard]
	}
	v.claimed = map[int]bool{}
	for _, t := range v.Tables {
		for node := range t.Nodes() {
			peer := t.Line(node)
			if owner := v.ByID[peer.ID]; owner != nil && len(peer.Slots) > 0 {
				v.claimed[owner.Shard] = true
			}
		}
	}
	return v.claimed[shard]
}

// inTermsOfShards completes what servers say of themselves to what they would say in a cluster of one shard: who is a primary
// owns all slots, and everybody knows everybody.
func inTermsOfShards(s State) State {
	s.Pods = slices.Clone(s.Pods)
	at := map[Address]string{}
	for _, p := range s.Pods {
		if p.Node != nil {
			at[p.Addr] = p.Node.ID
		}
	}
	var peers []Peer
	for _, p := range s.Pods {
		if p.Node == nil {
			continue
		}
		self := Peer{ID: p.Node.ID, Addr: p.Addr, Host: p.Node.Self().Host, Replica: !p.Node.Replication.Primary}
		if self.Replica {
			self.PrimaryID = at[p.Node.Asks]
		} else {
			self.Slots = slots.Set{{From: 0, To: slots.Count - 1}}
		}
		peers = append(peers, self)
	}
	for i, p := range s.Pods {
		if p.Node == nil {
			continue
		}
		n := *p.Node
		n.Peers, n.report = slices.Clone(peers), nil
		for j := range n.Peers {
			n.Peers[j].Myself = n.Peers[j].ID == n.ID
		}
		s.Pods[i].Node = &n
	}
	return s
}

// markTerminating notes on a pod that its claim is being deleted.
func (v *View) markTerminating(p *Pod) {
	c := v.Claim(p)
	if c == nil || !c.Leaving || c.Lost != "" || !v.Spec.Persistent || p.Deleting {
		return
	}
	p.TerminatingClaim, p.Outdated = c.Name, true
}

// View is a state with the questions that rules ask of it answered once.
type View struct {
	State
	// ByID finds the pod of a node id.
	ByID map[string]*Pod
	// SetOf are the StatefulSets by shard.
	SetOf map[int]Set
	// Shards holds the pods of each shard that its StatefulSet has room for, by ordinal: of the
	// wanted shards, and of those that are to leave.
	Shards [][]*Pod
	// Leavers are the pods that no StatefulSet has room for any more: Kubernetes deletes them. To
	// the rules they are gone.
	Leavers []Pod
	// Readable are the pods whose server could be read and which are not being deleted.
	Readable []*Pod
	// HasOwners says that some slot has an owner, as far as any server knows.
	HasOwners bool
	// Complete says that every wanted pod exists and could be read, and that there is no other.
	Complete bool
	// Tables are those of the servers that could be read, each one once.
	Tables []*Table
	// LookingAhead says that the view is for the step that would be next if no primary had to be
	// held to min-replicas-to-write, see lookAhead in package planner. The view for the actual
	// decision has the requirements of that step instead. RelaxesLastReplica says that it takes the
	// last replica of the mode Replicated away. GuardLimits are how many replicas servers of the
	// mode Sharded may demand at most before it, by pod; nil: no limits.
	LookingAhead, RelaxesLastReplica bool
	GuardLimits                      map[string]int
	// OnlyRepairs says that only repairs are carried out: nothing is prepared for any other step.
	OnlyRepairs bool
	// Stood is a pod that would take its shard over, had it not stood for election lately; nil:
	// there is none.
	Stood *Pod
	// ownerships, claimed, departedNodes and mesh are computed on first use, because rules ask for
	// them once for each shard or server; nil: not yet.
	ownerships    map[*Table]string
	claimed       map[int]bool
	departedNodes *[]DepartedNode
	mesh          *bool
}

// NewView returns the view of a state. Pods that their StatefulSet has no room for become Leavers.
// In the mode Replicated it completes what servers report to what they would in a cluster of one
// shard.
func NewView(s State) *View {
	if s.Spec.Replicated {
		s = inTermsOfShards(s)
	}
	v := &View{State: s, ByID: map[string]*Pod{}, SetOf: map[int]Set{}, ownerships: map[*Table]string{}, Shards: make([][]*Pod, s.shards())}
	for _, set := range s.Sets {
		v.SetOf[set.Shard] = set
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
		v.Pods[i].HomeAddr = v.Pods[i].Addr
		if addr, ok := v.Pods[i].Node.Announced(); ok {
			v.Pods[i].Addr = addr
		}
		v.add(&v.Pods[i])
	}
	v.HasOwners = slices.ContainsFunc(v.Tables, func(t *Table) bool { return len(t.owned()) > 0 })
	v.Complete = len(v.Readable) == v.PodCount() && len(v.Pods) == v.PodCount() && !v.LayoutDiffers()
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

// Unwanted tells whether a shard is to give its slots away and go.
func (v *View) Unwanted(shard int) bool { return shard >= v.Spec.Shards }

// setAside keeps a pod that leaves out of the way of the rules. Its node exists as long as it does.
func (v *View) setAside(p Pod) bool {
	if p.Shard < 0 || p.Shard >= len(v.Shards) || p.Ordinal < v.Size(p.Shard) {
		return false
	}
	v.Leavers = append(v.Leavers, p)
	if p.Node != nil {
		v.ByID[p.Node.ID] = &p
	}
	return true
}

func (v *View) add(p *Pod) {
	if p.Shard >= 0 && p.Shard < len(v.Shards) {
		v.Shards[p.Shard] = append(v.Shards[p.Shard], p)
	}
	if p.Node == nil {
		return
	}
	v.ByID[p.Node.ID] = p
	if p.Deleting {
		return
	}
	v.Readable = append(v.Readable, p)
	if _, seen := v.ownerships[p.Node.report.Table]; !seen {
		v.ownerships[p.Node.report.Table] = ""
		v.Tables = append(v.Tables, p.Node.report.Table)
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

// Size is the number of pods that a shard has or is about to get: at least those that are asked for, and more until the
// others have left.
func (v *View) Size(shard int) int { return max(v.SetOf[shard].Replicas, v.Spec.Copies()) }

// PodCount is the number of pods of all shards.
func (v *View) PodCount() int {
	n := 0
	for shard := range v.Shards {
		n += v.Size(shard)
	}
	return n
}

// maxShards is more than any cluster has.
const maxShards = 1024

// BootstrapEpoch is the config epoch that a pod of a fresh cluster starts with: distinct for all pods, whatever the numbers of
// shards and replicas are and become.
func BootstrapEpoch(p *Pod) uint64 {
	return uint64(p.Ordinal*maxShards + p.Shard + 1) //nolint:gosec // small positive numbers
}

// LayoutDiffers tells whether there is not just one StatefulSet for each shard.
func (v *View) LayoutDiffers() bool {
	return len(v.Sets) != len(v.Shards)
}

// Owners are the pods of a shard whose servers say that they are primaries with slots.
func (v *View) Owners(shard int) []*Pod {
	var out []*Pod
	for _, p := range v.Shards[shard] {
		if p.Node != nil && !p.Deleting && p.OwnsSlots() {
			out = append(out, p)
		}
	}
	return out
}

// Primary is the one owner of a shard's slots; nil when there is none, or more than one says so.
func (v *View) Primary(shard int) *Pod {
	if o := v.Owners(shard); len(o) == 1 {
		return o[0]
	}
	return nil
}

// Idle tells whether a shard is to go and has given everything away: nobody needs its servers any more, whatever they hold or copy.
func (v *View) Idle(shard int) bool { return v.Unwanted(shard) && v.Unowned(shard) }

// Unowned tells whether nobody says that a shard owns slots. All of its servers could be read.
func (v *View) Unowned(shard int) bool {
	return len(v.Shards[shard]) > 0 && !v.ReportedOwner(shard) && !v.MayHaveLost(shard) &&
		!slices.ContainsFunc(v.Shards[shard], func(p *Pod) bool { return p.Node == nil || p.Deleting || p.Node.Loading || p.OwnsSlots() })
}

// Slotless tells whether a shard owns nothing and never did in the eyes of anybody: it is new, or has given everything away. It
// may hold keys of slots that others own: a replica that is elected while slots move has not heard of the last ones.
func (v *View) Slotless(shard int) bool {
	return v.Unowned(shard) && !slices.ContainsFunc(v.Shards[shard], func(p *Pod) bool {
		primary := v.ByID[p.Node.Self().PrimaryID]
		stranger := p.Node.Self().Replica && (primary == nil || primary.Shard != shard)
		return stranger || (p.Node.Keys > 0 && len(v.Unassigned()) > 0)
	})
}

// Importer is the server of a shard without slots that has been told to expect some.
func (v *View) Importer(shard int) *Pod {
	for _, p := range v.Shards[shard] {
		if p.Node != nil && !p.Deleting && !p.Node.Self().Replica && slices.ContainsFunc(p.Node.Self().Open, func(o Open) bool { return o.Importing }) {
			return p
		}
	}
	return nil
}

// MayHaveLost tells whether a node that no server answers for owns slots and is of a shard, as far as can be told. One of a shard that nobody
// knows is of one without an owner.
func (v *View) MayHaveLost(shard int) bool {
	return slices.ContainsFunc(v.DepartedNodes(), func(g DepartedNode) bool {
		of := v.ShardOf(g.ID)
		return len(g.Slots) > 0 && (of == shard || (of < 0 && len(v.Owners(shard)) == 0))
	})
}

// DesignatedPrimary is the server that the others of a shard copy: the owner of its slots, or in a shard without slots the one that is to get
// some. It is nil when there is none, or when that is not certain.
func (v *View) DesignatedPrimary(shard int) *Pod {
	if len(v.Owners(shard)) > 0 {
		return v.Primary(shard)
	}
	if p := v.Importer(shard); p != nil || !v.Slotless(shard) {
		return p
	}
	var first *Pod
	for _, p := range v.Shards[shard] {
		switch {
		case p.Node.Self().Replica:
		case slices.ContainsFunc(v.Shards[shard], func(o *Pod) bool { return o.Node.Self().PrimaryID == p.Node.ID }):
			return p
		case first == nil || p.Node.Keys > first.Node.Keys:
			first = p
		}
	}
	return first
}

// OwnsSlots reports whether the server of a pod is a primary with slots, by its own account. The
// pod must have a Node.
func (p *Pod) OwnsSlots() bool {
	self := p.Node.Self()
	return !self.Replica && len(self.Slots) > 0
}

// PodNames lists pods by name.
func PodNames(pods []*Pod) []string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = p.Name
	}
	return out
}

// EveryPod lists all pods, those that no StatefulSet has room for any more included.
func (v *View) EveryPod() []*Pod {
	var out []*Pod
	for _, pods := range [][]Pod{v.Pods, v.Leavers} {
		for i := range pods {
			out = append(out, &pods[i])
		}
	}
	return out
}

// PodNamed is a pod of the cluster, also one that leaves; nil when there is none.
func (v *View) PodNamed(name string) *Pod {
	for _, p := range v.EveryPod() {
		if p.Name == name {
			return p
		}
	}
	return nil
}
