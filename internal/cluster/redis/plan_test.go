package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
)

// fixture builds a state of three shards with one replica each, which a test then spoils.
type fixture struct{ State }

// now is the time of all states; their servers have been running for an hour.
var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func id(pod string) string { return "id-" + pod }

// formed is a settled cluster.
func formed() *fixture {
	f := fresh()
	for i := range f.Pods {
		p := &f.Pods[i]
		p.Node.Peers = nil
		for j := range f.Pods {
			o := &f.Pods[j]
			peer := Peer{ID: o.Node.ID, Addr: o.Addr, Host: o.Name + ".c-peers", Myself: i == j, Epoch: bootstrapEpoch(o), Answered: now}
			if o.Ordinal == 0 {
				peer.Slots = Share(o.Shard, f.Spec.Shards)
			} else {
				peer.Replica, peer.PrimaryID = true, id(fmt.Sprintf("c-%d-0", o.Shard))
			}
			p.Node.Peers = append(p.Node.Peers, peer)
		}
		p.Node.StateOK, p.Node.LinkUp, p.Node.EverLinked = true, p.Ordinal > 0, p.Ordinal > 0
		p.Node.Keys, p.Node.Offset, p.Node.Admits, p.Node.OnDisk = 10, 1000, AdmitsForGood, true
	}
	return f
}

// fresh is a cluster whose servers have just started for the first time.
func fresh() *fixture {
	f := &fixture{State{Now: now, Spec: Spec{Name: "c", Shards: 3, Replicas: 1, Version: "8.0.2", NodeTimeout: 5 * time.Second, Persistent: true}}}
	for shard := range 3 {
		f.Sets = append(f.Sets, Set{Shard: shard, Replicas: 2})
		for ordinal := range 2 {
			name := cluster.Pod(cluster.ShardSet("c", shard), ordinal)
			addr := Address{IP: fmt.Sprintf("10.0.%d.%d", shard, ordinal), Port: ClientPort}
			f.Pods = append(f.Pods, Pod{
				Name: name, UID: "uid-" + name, Shard: shard, Ordinal: ordinal, Addr: addr, Ready: true, HasRun: true, Started: now.Add(-time.Hour),
				Node: &Node{ID: id(name), Version: "8.0.2", Clock: now, Peers: []Peer{{ID: id(name), Addr: addr, Host: name + ".c-peers", Myself: true}}},
			})
		}
	}
	return f
}

func (f *fixture) pod(name string) *Pod {
	for i := range f.Pods {
		if f.Pods[i].Name == name {
			return &f.Pods[i]
		}
	}
	panic("no pod " + name)
}

// unlink cuts a replica off from its primary, a minute ago. Its shard has been guarded since.
func (f *fixture) unlink(name string) {
	p := f.pod(name)
	p.Node.LinkUp, p.Node.LinkDown = false, time.Minute
	f.Sets[p.Shard].Guarded = true
}

// idleFor has the fourth shard own nothing for some time.
func (f *fixture) idleFor(time time.Duration) { f.Sets[3].IdleSince = f.Now.Add(-time) }

// mislead makes a replica that lost its primary some time ago ask for it at another address.
func (f *fixture) mislead(name string, ago time.Duration) {
	p := f.pod(name)
	p.Node.LinkUp, p.Node.LinkDown, p.Node.Asks = false, ago, Address{"10.9.9.9", 6379}
}

// loseNode is what the loss of the node that a pod runs on looks like a minute later.
func (f *fixture) loseNode(name string) {
	p := f.pod(name)
	p.Ready, p.Node = false, nil
	f.views(id(name), func(peer *Peer) { peer.Failed, peer.Answered = true, now.Add(-time.Minute) })
}

// views calls do on the line that every server has about a node.
func (f *fixture) views(node string, do func(*Peer)) {
	for i := range f.Pods {
		if n := f.Pods[i].Node; n != nil {
			for j := range n.Peers {
				if n.Peers[j].ID == node {
					do(&n.Peers[j])
				}
			}
		}
	}
}

// seenAsPrimary has others know a replica as the primary that it was.
func (f *fixture) seenAsPrimary(name string, by ...string) {
	for _, other := range by {
		n := f.pod(other).Node
		i := slices.IndexFunc(n.Peers, func(p Peer) bool { return p.ID == id(name) })
		n.Peers[i].Replica, n.Peers[i].PrimaryID = false, ""
	}
}

// replaceDisk makes a pod a new, isolated node, and its old id a ghost that the others know.
func (f *fixture) replaceDisk(name string) {
	p := f.pod(name)
	p.Addr.IP = "10.9.9.9"
	p.Node = &Node{ID: "new-" + name, Version: "8.0.2", Peers: []Peer{{ID: "new-" + name, Addr: p.Addr, Myself: true}}}
	f.views(id(name), func(peer *Peer) { peer.Failed = true })
}

// join puts a new node into the tables of all, and all into its own.
func (f *fixture) join(name string) {
	p := f.pod(name)
	self := p.Node.Self()
	for i := range f.Pods {
		o := &f.Pods[i]
		if o == p {
			continue
		}
		line := self
		line.Myself = false
		o.Node.Peers = append(o.Node.Peers, line)
		other := o.Node.Self()
		other.Myself = false
		p.Node.Peers = append(p.Node.Peers, other)
	}
	p.Node.StateOK = true
}

// strangers has two servers, which shake hands, not know each other yet.
func (f *fixture) strangers(name, other string) {
	a, b := f.pod(name), f.pod(other)
	a.Node.Peers = slices.DeleteFunc(a.Node.Peers, func(p Peer) bool { return p.ID == b.Node.ID })
	b.Node.Peers = slices.DeleteFunc(b.Node.Peers, func(p Peer) bool { return p.ID == a.Node.ID })
	a.Node.Peers = append(a.Node.Peers, Peer{ID: "handshake", Addr: b.Addr, Handshake: true})
}

// grow adds a fourth shard, whose two servers have met the others and own nothing.
func (f *fixture) grow() {
	f.Spec.Shards = 4
	f.Sets = append(f.Sets, Set{Shard: 3, Replicas: 2, UID: "set-3"})
	for ordinal := range 2 {
		name := fmt.Sprintf("c-3-%d", ordinal)
		addr := Address{IP: fmt.Sprintf("10.0.3.%d", ordinal), Port: ClientPort}
		f.Pods = append(f.Pods, Pod{
			Name: name, UID: "uid-" + name, Shard: 3, Ordinal: ordinal, Addr: addr, Ready: true, HasRun: true, Started: now.Add(-time.Hour),
			Node: &Node{
				ID: id(name), Version: "8.0.2", OnDisk: true, Admits: AdmitsForGood,
				Peers: []Peer{{ID: id(name), Addr: addr, Host: name + ".c-peers", Myself: true}},
			},
		})
		f.join(name)
	}
}

// pair makes the second server of the fourth shard a replica of the first.
func (f *fixture) pair() {
	f.views(id("c-3-1"), func(peer *Peer) { peer.Replica, peer.PrimaryID = true, id("c-3-0") })
	n := f.pod("c-3-1").Node
	n.LinkUp, n.EverLinked = true, true
}

// open says that slots are on their way from one server to another, as either sees it.
func (f *fixture) open(name string, slots Slots, other string, importing bool) {
	n := f.pod(name).Node
	for i := range n.Peers {
		if n.Peers[i].Myself {
			n.Peers[i].Open = append(n.Peers[i].Open, Open{slots, id(other), importing})
		}
	}
}

// tableOf changes what the table of one server alone says of another one.
func (f *fixture) tableOf(name, of string, change func(*Peer)) {
	n := f.pod(name).Node
	n.Peers = slices.Clone(n.Peers)
	change(&n.Peers[slices.IndexFunc(n.Peers, func(p Peer) bool { return p.ID == id(of) })])
}

// neverRan makes a pod one that nobody has heard of yet.
func (f *fixture) neverRan(name string) {
	f.pod(name).Node, f.pod(name).HasRun = nil, false
	for i := range f.Pods {
		if n := f.Pods[i].Node; n != nil {
			n.Peers = slices.DeleteFunc(slices.Clone(n.Peers), func(p Peer) bool { return p.ID == id(name) })
		}
	}
}

// moveOf is what a plan says that moves slots between two pods of the fixture.
func (f *fixture) moveOf(from, to string, slots Slots) SlotMove {
	return SlotMove{From: from, To: to, FromID: id(from), ToID: id(to), ToAddr: f.pod(to).Addr, Slots: slots, Patience: 5 * time.Second / 6}
}

// limited is a move that spares keys whose move would take longer than the others wait for a server.
func limited(m SlotMove) SlotMove {
	m.Limit = 10 << 20
	return m
}

// row is a state and what is planned for it.
type row struct {
	state *fixture
	spoil func(f *fixture)
	// step that is planned, or the reason for none.
	step    cluster.Step
	reason  string
	stalled bool
	// message is part of what is said.
	message string
}

func (r row) check(t *testing.T) {
	t.Helper()
	if r.spoil != nil {
		r.spoil(r.state)
	}
	got := Next(r.state.State)
	if diff := cmp.Diff(r.step, got.Step); diff != "" {
		t.Errorf("step (-want +got):\n%s\n%s", diff, got.Message)
	}
	if got.Step == nil && got.Reason != r.reason || got.Stalled != r.stalled {
		t.Errorf("reason %q, stalled %v; want %q, %v (%s)", got.Reason, got.Stalled, r.reason, r.stalled, got.Message)
	}
	if got.Message == "" || !strings.Contains(got.Message, r.message) {
		t.Errorf("the plan says %q, want %q", got.Message, r.message)
	}
}

func TestNext(t *testing.T) {
	tests := map[string]row{
		"a settled cluster is left alone": {state: formed()},
		"a settled cluster does not mind a claim that no pod has": {
			state: formed(), spoil: func(f *fixture) { f.Claims = []Claim{{Name: "data-c-1-2", Shard: 1, Ordinal: 2}} },
		},
		"no replica is elected while the claim of a pod that is not wanted may have more": {
			state: formed(), spoil: func(f *fixture) {
				f.replaceDisk("c-1-0")
				f.join("c-1-0")
				f.Claims = []Claim{{Name: "data-c-1-2", Shard: 1, Ordinal: 2}}
			},
			reason: ReasonRetained, stalled: true,
		},
		"a shard that is not wanted any more is not lost while its claims are there": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Shards, f.Sets, f.Pods = 2, f.Sets[:2], f.Pods[:4]
				f.Claims = []Claim{{Name: "data-c-2-0", Shard: 2}, {Name: "data-c-2-1", Shard: 2, Ordinal: 1}}
			},
			reason: ReasonRetained, stalled: true,
		},
		"a new cluster is not made beside a claim of a larger one": {
			state: fresh(), spoil: func(f *fixture) { f.Claims = []Claim{{Name: "data-c-3-0", Shard: 3}} },
			reason: ReasonRetained, stalled: true,
		},
		"a new cluster is not made of claims that are being deleted": {
			state: fresh(), spoil: func(f *fixture) { f.Claims = []Claim{{Name: "data-c-0-0", Leaving: true}} },
			reason: ReasonStarting,
		},
		"the claims of wanted pods are in nobody's way": {
			state: formed(), spoil: func(f *fixture) {
				f.replaceDisk("c-1-0")
				f.join("c-1-0")
				f.Claims = []Claim{{Name: "data-c-1-0", Shard: 1}, {Name: "data-c-1-1", Shard: 1, Ordinal: 1}}
			},
			reason: ReasonElection,
		},
		"fresh nodes get epochs first": {
			state: fresh(),
			step: SetConfigEpochs{[]NodeEpoch{
				{"c-0-0", 1}, {"c-0-1", 1025}, {"c-1-0", 2}, {"c-1-1", 1026}, {"c-2-0", 3}, {"c-2-1", 1027},
			}},
		},
		"a bootstrap waits for the last server": {
			state: fresh(), spoil: func(f *fixture) { f.pod("c-2-1").Node = nil }, reason: ReasonStarting,
		},
		"a bootstrap waits for the last pod": {
			state: fresh(), spoil: func(f *fixture) { f.Pods = f.Pods[:5] }, reason: ReasonStarting,
		},
		"a bootstrap goes on with the epochs that are missing": {
			state: fresh(), spoil: func(f *fixture) {
				for i := range 5 {
					f.Pods[i].Node.Peers[0].Epoch = bootstrapEpoch(&f.Pods[i])
				}
			},
			step: SetConfigEpochs{[]NodeEpoch{{"c-2-1", 1027}}},
		},
		"slots that are missing after an interrupted assignment are assigned": {
			state: formed(), spoil: func(f *fixture) {
				unreplicate(f)
				f.views(id("c-1-0"), func(p *Peer) { p.Slots = nil })
			},
			step: AddSlots{[]Ownership{{"c-1-0", Share(1, 3)}}},
		},
		"slots without an owner are not assigned once there are replicas": {
			state: formed(), spoil: func(f *fixture) { f.views(id("c-1-0"), func(p *Peer) { p.Slots = nil }) },
			reason: ReasonSlotsUnassigned, stalled: true,
		},
		"slots without an owner are served empty where that is allowed": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.AssignEmpty = true
				f.views(id("c-1-0"), func(p *Peer) { p.Slots = nil })
			},
			step: AddSlots{[]Ownership{{"c-1-0", Share(1, 3)}}},
		},
		"slots without an owner wait for a server that has met the other primaries": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.AssignEmpty = true
				f.views(id("c-1-0"), func(p *Peer) { p.Slots = nil })
				f.strangers("c-1-0", "c-0-0")
			},
			reason: ReasonSlotsUnassigned, message: "no shard that is to have them has a primary that knows the others",
		},
		"slots without an owner may be on a volume that is not in use": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.AssignEmpty, f.Spec.Persistent = true, true
				f.Claims = []Claim{{Name: "data-c-1-5", Shard: 1, Ordinal: 5}}
				f.views(id("c-1-0"), func(p *Peer) { p.Slots = nil })
			},
			reason: ReasonRetained, stalled: true,
		},
		"slots without an owner go to the shards that are to have them": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.AssignEmpty = true
				f.views(id("c-1-0"), func(p *Peer) { p.Slots = nil })
				f.views(id("c-2-0"), func(p *Peer) { p.Slots = Slots{{From: 16000, To: 16383}} })
			},
			step: AddSlots{[]Ownership{{"c-1-0", Share(1, 3)}, {"c-2-0", Slots{{From: 10923, To: 15999}}}}},
		},
		"slots without an owner are not assigned to a node that came later": {
			state: formed(), spoil: func(f *fixture) {
				unreplicate(f)
				f.views(id("c-1-0"), func(p *Peer) { p.Slots, p.Epoch = nil, 7 })
			},
			reason: ReasonSlotsUnassigned, stalled: true,
		},
		"slots without an owner are not assigned to a node that holds keys": {
			state: formed(), spoil: func(f *fixture) {
				unreplicate(f)
				f.views(id("c-1-0"), func(p *Peer) { p.Slots = nil })
				f.pod("c-1-0").Node.Keys = 5
			},
			reason: ReasonSlotsUnassigned, stalled: true,
		},
		"replicas are attached after the slots": {
			state: formed(), spoil: unreplicate,
			step: Replicate{[]Following{
				{"c-0-1", "c-0-0", id("c-0-0")}, {"c-1-1", "c-1-0", id("c-1-0")}, {"c-2-1", "c-2-0", id("c-2-0")},
			}},
		},
		"a replica of another shard is brought home": {
			state: formed(), spoil: func(f *fixture) {
				f.views(id("c-2-1"), func(p *Peer) { p.PrimaryID = id("c-0-0") })
			},
			step: Replicate{[]Following{{"c-2-1", "c-2-0", id("c-2-0")}}},
		},
		"two nodes that both moved are introduced": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-0-0").Addr.IP = "10.9.0.1"
				f.pod("c-2-1").Addr.IP = "10.9.0.2"
			},
			step: Meet{[]Introduction{{"c-0-0", "c-2-1", Address{"10.9.0.2", ClientPort}, 0, id("c-2-1")}}},
		},
		"a node that lost its disk is introduced": {
			state: formed(), spoil: func(f *fixture) { f.replaceDisk("c-1-1") },
			step: Meet{[]Introduction{
				{"c-0-0", "c-1-1", Address{"10.9.9.9", ClientPort}, 0, "new-c-1-1"},
				{"c-0-1", "c-1-1", Address{"10.9.9.9", ClientPort}, 0, "new-c-1-1"},
				{"c-1-0", "c-1-1", Address{"10.9.9.9", ClientPort}, 0, "new-c-1-1"},
				{"c-1-1", "c-2-0", Address{"10.0.2.0", ClientPort}, 0, id("c-2-0")},
				{"c-1-1", "c-2-1", Address{"10.0.2.1", ClientPort}, 0, id("c-2-1")},
			}},
		},
		"a replica that lost its disk is attached again": {
			state: formed(), spoil: func(f *fixture) { f.replaceDisk("c-1-1"); f.join("c-1-1") },
			step: Replicate{[]Following{{"c-1-1", "c-1-0", id("c-1-0")}}},
		},
		"a replica that looks for its primary at an address that this has left is told once more": {
			state: formed(), spoil: func(f *fixture) { f.mislead("c-1-1", 10*time.Second) },
			step: Replicate{[]Following{{"c-1-1", "c-1-0", id("c-1-0")}}},
		},
		"a replica that does not take the address of its primary is restarted": {
			state: formed(), spoil: func(f *fixture) { f.mislead("c-1-1", time.Minute) },
			step: Restart{Cause: ReasonRestart, Pods: []PodRef{{"c-1-1", "uid-c-1-1"}}}, message: "at 10.9.9.9:6379, where it is no more",
		},
		"a replica that does not know better has to hear of it first": {
			state: formed(), spoil: func(f *fixture) {
				f.mislead("c-1-1", time.Minute)
				f.Sets[1].Guarded = true
				for i, p := range f.pod("c-1-1").Node.Peers {
					if p.ID == id("c-1-0") {
						f.pod("c-1-1").Node.Peers[i].Addr.IP = "10.9.9.9"
					}
				}
			},
			reason: ReasonSync,
		},
		"an empty node does not get in the way of an election": {
			state: formed(), spoil: func(f *fixture) { f.replaceDisk("c-1-0"); f.join("c-1-0") },
			reason: ReasonElection,
		},
		"a shard without a copy is reported and left alone": {
			state: formed(), spoil: func(f *fixture) {
				f.replaceDisk("c-1-0")
				f.replaceDisk("c-1-1")
				f.pod("c-1-1").Addr.IP, f.pod("c-1-1").Node.Peers[0].Addr.IP = "10.9.9.8", "10.9.9.8"
				f.join("c-1-0")
				f.join("c-1-1")
			},
			reason: ReasonShardLost, stalled: true,
		},
		"a replica that never had a copy is not elected": {
			state: formed(), spoil: func(f *fixture) {
				f.replaceDisk("c-1-0")
				f.join("c-1-0")
				n := f.pod("c-1-1").Node
				n.EverLinked, n.LinkUp, n.Keys = false, false, 0
			},
			reason: ReasonShardLost, stalled: true,
		},
		"a replica with an old copy is elected when it does not stand by itself": {
			state: formed(), spoil: func(f *fixture) {
				f.replaceDisk("c-1-0")
				f.join("c-1-0")
				n := f.pod("c-1-1").Node
				n.EverLinked, n.LinkUp = false, false
			},
			step: Elect{1, id("c-1-0"), "c-1-1"},
		},
		"a replica is elected when another server has its primary's address": {
			state: formed(), spoil: func(f *fixture) {
				f.replaceDisk("c-1-0")
				f.join("c-1-0")
				f.views(id("c-1-0"), func(p *Peer) { p.Failed, p.NoAddr = false, true })
				f.pod("c-1-1").Node.LinkUp = false
			},
			step: Elect{1, id("c-1-0"), "c-1-1"},
		},
		"a replica that copied an empty server at its primary's address is not elected": {
			state: formed(), spoil: func(f *fixture) {
				f.replaceDisk("c-1-0")
				f.join("c-1-0")
				f.views(id("c-1-0"), func(p *Peer) { p.Failed, p.NoAddr = false, true })
				f.pod("c-1-1").Node.Keys = 0
			},
			reason: ReasonShardLost, stalled: true,
		},
		"a primary that started empty and restarted in place admits replicas again": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Node.Admits, f.pod("c-1-1").Node.LinkUp = AdmitsNobody, false
			},
			step: AdmitReplicas{[]string{"c-1-0"}, AdmitsForNow},
		},
		"one that holds keys admits replicas while another pod is unknown": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Node.Admits, f.pod("c-1-1").Node = AdmitsNobody, nil
			},
			step: AdmitReplicas{[]string{"c-1-0"}, AdmitsForNow},
		},
		"a few keys more on the replica do not matter": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Node.Admits, f.pod("c-1-1").Node.Keys = AdmitsNobody, 12
			},
			step: AdmitReplicas{[]string{"c-1-0"}, AdmitsForNow},
		},
		"a replica admits replicas": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-1").Node.Admits = AdmitsNobody },
			step: AdmitReplicas{[]string{"c-1-1"}, AdmitsForNow},
		},
		"servers are copied for good once their disks hold what they do": {
			state: formed(), spoil: func(f *fixture) {
				for _, name := range []string{"c-0-0", "c-1-0", "c-1-1"} {
					f.pod(name).Node.Admits = AdmitsForNow
				}
				f.pod("c-1-1").Node.OnDisk = false
			},
			step: AdmitReplicas{[]string{"c-0-0", "c-1-0"}, AdmitsForGood},
		},
		"an empty primary of an empty shard admits replicas": {
			state: formed(), spoil: func(f *fixture) {
				n := f.pod("c-1-0").Node
				n.Admits, n.Keys, f.pod("c-1-1").Node.Keys = AdmitsNobody, 0, 0
			},
			step: AdmitReplicas{[]string{"c-1-0"}, AdmitsForNow},
		},
		"an empty primary does not admit replicas that may hold more": {
			state: formed(), spoil: func(f *fixture) {
				n := f.pod("c-1-0").Node
				n.Admits, n.Keys, f.pod("c-1-1").Node = AdmitsNobody, 0, nil
			},
			reason: ReasonUnreachable,
		},
		"a node without slots admits nobody": {
			state: fresh(), spoil: func(f *fixture) { f.Pods = f.Pods[:5] }, reason: ReasonStarting,
		},
		"an empty primary does not admit the one before it, which holds more and does not know yet": {
			state: formed(), spoil: func(f *fixture) {
				n, old := f.pod("c-1-0").Node, f.pod("c-1-1").Node
				n.Admits, n.Keys = AdmitsNobody, 0
				old.Peers[3].Replica, old.Peers[3].PrimaryID, old.Peers[3].Slots = false, "", Share(1, 3)
			},
			reason: ReasonGossip,
		},
		"a primary that came back empty in place is deposed": {
			state: formed(), spoil: func(f *fixture) {
				n := f.pod("c-1-0").Node
				n.Admits, n.Keys, f.pod("c-1-1").Node.LinkUp = AdmitsNobody, 0, false
			},
			step: Elect{1, id("c-1-0"), "c-1-1"},
		},
		"so is one when there is no majority to vote on that": {
			state: formed(), spoil: func(f *fixture) {
				n := f.pod("c-1-0").Node
				n.Admits, n.Keys, f.pod("c-1-1").Node.LinkUp = AdmitsNobody, 0, false
				for _, name := range []string{"c-0-0", "c-0-1", "c-2-0", "c-2-1"} {
					f.pod(name).Node = nil
				}
			},
			step: TakeOver{1, id("c-1-0"), "c-1-1"},
		},
		"a primary that came back empty is deposed without a vote when half of the primaries can vote": {
			state: formed(), spoil: func(f *fixture) {
				f.pair2()
				n := f.pod("c-1-0").Node
				n.Admits, n.Keys, f.pod("c-1-1").Node.LinkUp = AdmitsNobody, 0, false
				f.pod("c-0-0").Node, f.pod("c-0-1").Node = nil, nil
			},
			step: TakeOver{1, id("c-1-0"), "c-1-1"}, message: "only 1 of 2 primaries can vote on that",
		},
		"a replica that half of the primaries know as one is not elected": {
			state: formed(), spoil: func(f *fixture) {
				f.pair2()
				n := f.pod("c-1-0").Node
				n.Admits, n.Keys, f.pod("c-1-1").Node.LinkUp = AdmitsNobody, 0, false
				f.seenAsPrimary("c-1-1", "c-0-0")
			},
			reason: ReasonSync,
		},
		"so is one that took writes meanwhile": {
			state: formed(), spoil: func(f *fixture) {
				n := f.pod("c-1-0").Node
				n.Admits, n.Keys, f.pod("c-1-1").Node.LinkUp = AdmitsNobody, 2, false
			},
			step: Elect{1, id("c-1-0"), "c-1-1"},
		},
		"a replica with a very old copy is elected when it does not stand by itself": {
			state: formed(), spoil: func(f *fixture) {
				f.replaceDisk("c-1-0")
				f.join("c-1-0")
				f.unlink("c-1-1")
				f.pod("c-1-1").Node.LinkDown = 2 * time.Hour
			},
			step: Elect{1, id("c-1-0"), "c-1-1"},
		},
		"a replica that loads its data is waited for": {
			state: formed(), spoil: func(f *fixture) {
				f.replaceDisk("c-1-0")
				f.join("c-1-0")
				n := f.pod("c-1-1").Node
				n.Loading, n.EverLinked, n.LinkUp, n.Keys = true, false, false, 0
			},
			reason: ReasonSync,
		},
		"a primary on a lost node is replaced by a replica of its own accord": {
			state: formed(), spoil: func(f *fixture) { f.silence("c-1-0", 10*time.Second, true) }, reason: ReasonUnreachable,
		},
		"a replica that was never connected does not replace a primary on a lost node": {
			state: formed(), spoil: func(f *fixture) {
				f.loseNode("c-1-0")
				n := f.pod("c-1-1").Node
				n.EverLinked, n.LinkUp = false, false
			},
			reason: ReasonNotElected, stalled: true,
		},
		"nor does one with a very old copy": {
			state: formed(), spoil: func(f *fixture) {
				f.loseNode("c-1-0")
				f.unlink("c-1-1")
				f.pod("c-1-1").Node.LinkDown = 2 * time.Hour
			},
			reason: ReasonNotElected, stalled: true,
		},
		"a primary that is about to come back is waited for": {
			state: formed(), spoil: func(f *fixture) {
				f.loseNode("c-1-0")
				f.views(id("c-1-0"), func(peer *Peer) { peer.Answered = now.Add(-10 * time.Second) })
				p := f.pod("c-1-1")
				p.Node.EverLinked, p.Node.LinkUp = false, false
			},
			reason: ReasonUnreachable,
		},
		"a primary whose data goes with its pod is replaced by whoever has most": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Persistent = false
				f.loseNode("c-1-0")
				f.pod("c-1-0").Deleting = true
				n := f.pod("c-1-1").Node
				n.EverLinked, n.LinkUp = false, false
			},
			step: Elect{1, id("c-1-0"), "c-1-1"},
		},
		"a dead node without slots and replicas is forgotten": {
			state: formed(), spoil: ghostOfReplica,
			step: Forget{"ghost", []string{"c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0", "c-2-1"}},
		},
		"a replica that was away while others got what its primary had follows those": {
			state: formed(), spoil: func(f *fixture) {
				ghostOfReplica(f)
				f.views(id("c-1-1"), func(p *Peer) { p.PrimaryID = "ghost" })
				f.unlink("c-1-1")
			},
			step: Replicate{[]Following{{"c-1-1", "c-1-0", id("c-1-0")}}}, message: "others own what node ghost had",
		},
		"unless it may do so by itself": {
			state: formed(), spoil: func(f *fixture) {
				ghostOfReplica(f)
				f.views(id("c-1-1"), func(p *Peer) { p.PrimaryID = "ghost" })
				f.unlink("c-1-1")
				f.pod("c-1-1").Node.LinkDown = 10 * time.Second
			},
			reason: ReasonGossip, message: "the nodes have yet to learn who took over from node ghost",
		},
		"a node that may be alive is not forgotten": {
			state: formed(), spoil: func(f *fixture) {
				ghostOfReplica(f)
				f.pod("c-0-0").Node.Peers[6].Failed = false
			},
			reason: ReasonGossip,
		},
		"nobody is forgotten while a server is unknown": {
			state: formed(), spoil: func(f *fixture) { ghostOfReplica(f); f.pod("c-2-1").Node = nil },
			reason: ReasonUnreachable,
		},
		"two clusters with data are not merged": {
			state: formed(), spoil: func(f *fixture) {
				for i := range f.Pods {
					n := f.Pods[i].Node
					var own []Peer
					for _, p := range n.Peers {
						if (f.Pods[i].Shard == 2) == (p.ID == id("c-2-0") || p.ID == id("c-2-1")) {
							own = append(own, p)
						}
					}
					n.Peers = own
				}
			},
			reason: ReasonIslands, stalled: true,
		},
		"a cluster is not settled while a server does not agree": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-2-1").Node.Peers[0].Slots = nil }, reason: ReasonGossip,
		},
		"a cluster is not settled before its replicas are in sync": {
			state: formed(), spoil: func(f *fixture) { f.unlink("c-2-1") }, reason: ReasonSync,
		},
		"evictions are kept from shards with ready replicas that are not in sync, all at once": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-1").Node.LinkUp, f.pod("c-2-1").Node.LinkUp = false, false
			},
			step: Guard{Protect: []int{1, 2}},
		},
		"an empty shard need not be guarded": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Node.Keys, f.pod("c-1-1").Node.Keys, f.pod("c-1-1").Node.LinkUp = 0, 0, false
			},
			reason: ReasonSync,
		},
		"a budget counts a replica that is not ready by itself": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-1").Node.LinkUp, f.pod("c-1-1").Ready = false, false }, reason: ReasonSync,
		},
		"evictions are allowed again when all replicas are in sync": {
			state: formed(), spoil: func(f *fixture) { f.Sets[1].Guarded = true }, step: Guard{Release: []int{1}},
		},
		"evictions are not allowed while a replica is unknown": {
			state: formed(), spoil: func(f *fixture) { f.Sets[1].Guarded, f.pod("c-1-1").Node = true, nil }, reason: ReasonUnreachable,
		},
		"a cluster is not settled before its pods are ready": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-2-1").Ready = false }, reason: ReasonStarting,
		},
		"the first replica to be restarted has to prove the new template alone": {
			state: formed(), spoil: outdate,
			step: Restart{Cause: ReasonRestart, Pods: []PodRef{{"c-0-1", "uid-c-0-1"}}},
		},
		"then replicas are restarted, one of each shard": {
			state: formed(), spoil: func(f *fixture) { outdate(f); f.pod("c-0-1").Outdated = false },
			step: Restart{Cause: ReasonRestart, Pods: []PodRef{{"c-1-1", "uid-c-1-1"}, {"c-2-1", "uid-c-2-1"}}},
		},
		"no replica is restarted before the last one is back": {
			state: formed(), spoil: func(f *fixture) {
				outdate(f)
				f.pod("c-1-1").Outdated = false
				f.unlink("c-1-1")
			}, reason: ReasonSync,
		},
		"an outdated replica that is not in sync is restarted": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-1").Outdated = true; f.unlink("c-1-1") },
			step: Restart{Cause: ReasonRestart, Pods: []PodRef{{"c-1-1", "uid-c-1-1"}}},
		},
		"an outdated replica is given time to get into sync": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-1").Outdated = true
				f.unlink("c-1-1")
				f.pod("c-1-1").Node.LinkDown = 2 * time.Second
			}, reason: ReasonSync,
		},
		"an outdated replica that neither answers nor is ready is restarted": {
			state: formed(), spoil: func(f *fixture) {
				p := f.pod("c-1-1")
				p.Outdated, p.Ready, p.Node = true, false, nil
			},
			step: Restart{Cause: ReasonRestart, Pods: []PodRef{{"c-1-1", "uid-c-1-1"}}},
		},
		"an outdated replica that is ready is not restarted because it cannot be reached": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-1").Outdated, f.pod("c-1-1").Node = true, nil },
			reason: ReasonUnreachable,
		},
		"an outdated replica is not restarted while its primary is not well": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-1").Outdated, f.pod("c-1-0").Node.StateOK = true, false
				f.unlink("c-1-1")
			},
			reason: ReasonGossip,
		},
		"the wrong version that was set back is rolled back": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-0-1").Outdated, f.pod("c-0-1").Node.Version = true, "8.2.1" },
			step: Restart{Cause: ReasonRestart, Pods: []PodRef{{"c-0-1", "uid-c-0-1"}}},
		},
		"the wrong version is not rolled out": {
			state: formed(), spoil: func(f *fixture) {
				outdate(f)
				f.pod("c-0-1").Outdated, f.pod("c-0-1").Node.Version = false, "8.2.1"
			},
			reason: ReasonVersion, stalled: true,
		},
		"an outdated primary hands over": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-0").Outdated = true },
			step: Failover{1, "c-1-0", "c-1-1"},
		},
		"an outdated primary waits for a replica that is far behind": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Outdated = true
				f.pod("c-1-0").Node.Offset = 1000 + maxLag + 1
			},
			reason: ReasonSync,
		},
		"an outdated primary waits for a replica that most primaries do not know as one yet": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Outdated = true
				f.seenAsPrimary("c-1-1", "c-0-0", "c-2-0")
			},
			reason: ReasonSync, message: "no replica of c-1-0 has caught up and is known to the other primaries as one",
		},
		"one of three does not matter": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-0").Outdated = true; f.seenAsPrimary("c-1-1", "c-2-0") },
			step: Failover{1, "c-1-0", "c-1-1"},
		},
		"an outdated primary waits for a replica whose copy is not on disk yet": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Outdated, f.pod("c-1-1").Node.OnDisk = true, false
			},
			reason: ReasonDisk,
		},
		"no replica is restarted while its shard has data that is not on disk": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-1").Outdated, f.pod("c-1-0").Node.OnDisk = true, false
			},
			reason: ReasonDisk,
		},
		"a failed rewrite of an append-only file is named, with its cure": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-1").Outdated, f.pod("c-1-0").Node.OnDisk, f.pod("c-1-0").Node.RewriteFailed = true, false, true
			},
			reason: ReasonDisk, message: "run BGREWRITEAOF on it",
		},
		"a replica is restarted whatever the disks of other shards do": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-1").Outdated, f.pod("c-0-0").Node.OnDisk = true, false
			},
			step: Restart{Cause: ReasonRestart, Pods: []PodRef{{"c-1-1", "uid-c-1-1"}}},
		},
		"a cluster is settled while copies are written to disk": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-1").Node.OnDisk = false },
		},
		"a replica that is far behind is not in sync": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-0").Node.Offset = 1000 + farBehind + 1 }, reason: ReasonSync,
		},
		"a replica that is behind by what a busy primary writes in a moment is": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-0").Node.Offset = 1000 + farBehind },
		},
		"a pod that cannot start is replaced when it is outdated": {
			state: formed(), spoil: func(f *fixture) {
				p := f.pod("c-1-1")
				p.Node, p.Started, p.Outdated, p.Stuck = nil, time.Time{}, true, "ImagePullBackOff"
			},
			step: Restart{Cause: ReasonReplaceStuck, Pods: []PodRef{{"c-1-1", "uid-c-1-1"}}},
		},
		"pods whose servers run are not replaced for what else is wrong with them": {
			state: formed(), spoil: func(f *fixture) {
				for i := range f.Pods {
					f.Pods[i].Node, f.Pods[i].Outdated, f.Pods[i].Stuck = nil, true, "ImagePullBackOff"
				}
			},
			reason: ReasonUnreachable,
		},
		"a pod that cannot start is left alone when it is current": {
			state: formed(), spoil: func(f *fixture) {
				p := f.pod("c-1-1")
				p.Node, p.Stuck = nil, "ImagePullBackOff"
			},
			reason: ReasonUnreachable,
		},
		"the only copy on an ephemeral volume is not deleted to replace a stuck pod": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Persistent = false
				p := f.pod("c-1-0")
				p.Node, p.Started, p.Outdated, p.Stuck = nil, time.Time{}, true, "CrashLoopBackOff"
			},
			reason: ReasonUnsafeRestart, stalled: true,
		},
		"slots of a shard that is to leave move to the others": {
			state: formed(), spoil: func(f *fixture) { f.Spec.Shards = 2 },
			step: MoveSlots{For: moveFor, Moves: []SlotMove{{
				From: "c-2-0", To: "c-1-0", FromID: id("c-2-0"), ToID: id("c-1-0"), ToAddr: Address{"10.0.1.0", ClientPort}, Slots: Slots{{10923, 13653}}, Limit: 10 << 20, Patience: 5 * time.Second / 6,
			}}},
			reason: ReasonMoveSlots,
		},
		"a source waits less for its target where it is taken for dead sooner": {
			state: formed(), spoil: func(f *fixture) { f.Spec.Shards, f.Spec.NodeTimeout = 2, 2*time.Second },
			step: MoveSlots{For: moveFor, Moves: []SlotMove{{
				From: "c-2-0", To: "c-1-0", FromID: id("c-2-0"), ToID: id("c-1-0"), ToAddr: Address{"10.0.1.0", ClientPort}, Slots: Slots{{10923, 13653}}, Limit: 4 << 20,
				Patience: time.Second / 3,
			}}},
			reason: ReasonMoveSlots,
		},
		"a shard that is wanted and not made yet is waited for": {
			state: formed(), spoil: func(f *fixture) { f.Spec.Shards = 4 }, reason: ReasonStarting, message: "6 of 8 pods exist",
		},
		"so is a StatefulSet that somebody deleted without its pods": {
			state: formed(), spoil: func(f *fixture) { f.Sets = f.Sets[:2] }, reason: ReasonStarting, message: "2 of 3 StatefulSets exist",
		},
		"a server of a new shard copies its first": {
			state: formed(), spoil: func(f *fixture) { f.grow() },
			step: Replicate{[]Following{{"c-3-1", "c-3-0", id("c-3-0")}}}, reason: ReasonReplicate,
		},
		"a new shard gets slots when it has its copies, whatever becomes of disks that are not its own": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.pair()
				f.Claims = []Claim{
					{Name: "data-c-3-2", Shard: 3, Ordinal: 2, Leaving: true}, {Name: "data-c-3-1", Shard: 3, Ordinal: 1}, {Name: "data-c-2-2", Shard: 2, Ordinal: 2, Leaving: true},
				}
			},
			step: MoveSlots{For: moveFor, Moves: []SlotMove{
				{From: "c-0-0", To: "c-3-0", FromID: id("c-0-0"), ToID: id("c-3-0"), ToAddr: Address{"10.0.3.0", ClientPort}, Slots: Slots{{4096, 5461}}, Limit: 10 << 20, Patience: 5 * time.Second / 6},
				{From: "c-1-0", To: "c-3-0", FromID: id("c-1-0"), ToID: id("c-3-0"), ToAddr: Address{"10.0.3.0", ClientPort}, Slots: Slots{{5462, 6826}}, Limit: 10 << 20, Patience: 5 * time.Second / 6},
				{From: "c-2-0", To: "c-3-0", FromID: id("c-2-0"), ToID: id("c-3-0"), ToAddr: Address{"10.0.3.0", ClientPort}, Slots: Slots{{15019, 16383}}, Limit: 10 << 20, Patience: 5 * time.Second / 6},
			}},
			reason: ReasonMoveSlots, message: "4096 slots are to move so that 4 shards share them evenly",
		},
		"and none before": {
			state: formed(), spoil: func(f *fixture) { f.grow(); f.pair(); f.unlink("c-3-1"); f.Sets[3].Guarded = false },
			reason: ReasonSync, message: "c-3-1 receives the data of c-3-0",
		},
		"a slot that is open is moved to the end, wherever it is to be": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", Slots{{7, 8}}, "c-1-0", false)
				f.open("c-1-0", Slots{{7, 8}}, "c-0-0", true)
			},
			step:   MoveSlots{For: moveFor, Moves: []SlotMove{formed().moveOf("c-0-0", "c-1-0", Slots{{7, 8}})}},
			reason: ReasonMoveSlots,
		},
		"slots do not move to where there is no room for their keys": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Shards = 2
				for i := range f.Pods {
					f.Pods[i].Node.Memory = Memory{Used: 601 << 20, Empty: 1 << 20, Max: 800 << 20}
				}
			},
			reason: ReasonNoRoom, stalled: true,
			message: "2 shards would need about 900 MiB of memory on c-0-0, which may use 800 MiB: raise spec.config.maxMemory",
		},
		"but to a cache they do": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Shards, f.Spec.MemoryLimit = 2, 800<<20
				for i := range f.Pods {
					f.Pods[i].Node.Memory = Memory{Used: 601 << 20, Empty: 1 << 20, Evicts: true}
				}
			},
			step: MoveSlots{For: moveFor, Moves: []SlotMove{limited(formed().moveOf("c-2-0", "c-1-0", Slots{{10923, 13653}}))}}, reason: ReasonMoveSlots,
		},
		"the limit of the container counts where there is no other": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Shards, f.Spec.MemoryLimit = 2, 800<<20
				for i := range f.Pods {
					f.Pods[i].Node.Memory = Memory{Used: 601 << 20, Empty: 1 << 20}
				}
			},
			reason: ReasonNoRoom, stalled: true,
		},
		"also when the primary that sent it has been replaced": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", Slots{{7, 8}}, "c-1-0", false)
				f.open("c-1-0", Slots{{7, 8}}, "c-0-1", true)
			},
			step:   MoveSlots{For: moveFor, Moves: []SlotMove{formed().moveOf("c-0-0", "c-1-0", Slots{{7, 8}})}},
			reason: ReasonMoveSlots,
		},
		"whoever has replaced it is told of it at once, whoever else is missing": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", Slots{{7, 7}}, "c-1-0", false)
				f.open("c-1-0", Slots{{7, 8}}, "c-0-1", true)
				f.pod("c-0-1").Node, f.pod("c-2-1").Node = nil, nil
			},
			step:   OpenSlots{"c-0-0", id("c-0-0"), Slots{{8, 8}}, SlotMigrating, id("c-1-0")},
			reason: ReasonMoveSlots,
		},
		"who awaits the slots is not told of one that it takes for a replica, which it would refuse": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-1-0", Slots{{7, 8}}, "c-0-1", true)
				f.tableOf("c-1-0", "c-0-0", func(peer *Peer) { peer.Replica, peer.Slots = true, nil })
				f.pod("c-0-1").Node = nil
			},
			step:   OpenSlots{"c-0-0", id("c-0-0"), Slots{{7, 8}}, SlotMigrating, id("c-1-0")},
			reason: ReasonMoveSlots,
		},
		"slots are not on their way within a shard": {
			state: formed(), spoil: func(f *fixture) {
				f.views(id("c-0-1"), func(peer *Peer) { peer.Replica, peer.PrimaryID = false, "" })
				f.open("c-0-1", Slots{{7, 8}}, "c-0-0", true)
				f.pod("c-0-1").Node.Keys = 0
			},
			step: Replicate{[]Following{{"c-0-1", "c-0-0", id("c-0-0")}}}, reason: ReasonReplicate,
		},
		"and who awaits the slots, whose they are": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-1-0", Slots{{5461, 5461}}, "c-0-1", true)
				f.tableOf("c-1-0", "c-0-0", func(peer *Peer) { peer.Slots = Slots{{0, 5460}} })
				f.pod("c-0-1").Node = nil
			},
			step:   OpenSlots{"c-1-0", id("c-1-0"), Slots{{5461, 5461}}, SlotOwner, id("c-0-0")},
			reason: ReasonMoveSlots,
		},
		"and before anything restarts": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", Slots{{7, 8}}, "c-1-0", false)
				f.open("c-1-0", Slots{{7, 8}}, "c-0-1", true)
				f.pod("c-2-1").Outdated = true
			},
			step:   MoveSlots{For: moveFor, Moves: []SlotMove{formed().moveOf("c-0-0", "c-1-0", Slots{{7, 8}})}},
			reason: ReasonMoveSlots,
		},
		"a slot that has arrived is not on its way": {
			state: formed(), spoil: func(f *fixture) { f.open("c-1-0", Slots{{7, 8}}, "c-0-0", false) },
			step: CloseSlots{"c-1-0", Slots{{7, 8}}}, reason: ReasonCloseSlots,
		},
		"a slot does not go to a node that nobody knows": {
			state: formed(), spoil: func(f *fixture) { f.open("c-1-0", Slots{{6000, 6001}}, "stranger", false) },
			step: CloseSlots{"c-1-0", Slots{{6000, 6001}}}, reason: ReasonCloseSlots,
		},
		"the primary closes a slot that is open on its replica alone": {
			state: formed(), spoil: func(f *fixture) { f.open("c-0-1", Slots{{7, 8}}, "c-1-0", false) },
			step: CloseSlots{"c-0-0", Slots{{7, 8}}}, reason: ReasonCloseSlots,
		},
		"a former primary that did not follow its successor awaits no slots": {
			state: formed(), spoil: func(f *fixture) {
				f.views(id("c-1-0"), func(p *Peer) { p.Slots = nil })
				f.views(id("c-1-1"), func(p *Peer) { p.Replica, p.PrimaryID, p.Slots, p.Epoch = false, "", Share(1, 3), 3000 })
				f.open("c-1-0", Slots{{6000, 6001}}, "c-0-0", true)
				f.Sets[1].Guarded, f.pod("c-1-0").Node.Keys = true, 1
			},
			step: CloseSlots{"c-1-0", Slots{{6000, 6001}}}, message: "slots 6000-6001 are not on their way to or from c-1-0 any more, whose shard c-1-1 leads",
		},
		"slots that are being sent to it go to its successor first": {
			state: formed(), spoil: func(f *fixture) {
				f.views(id("c-1-0"), func(p *Peer) { p.Slots = nil })
				f.views(id("c-1-1"), func(p *Peer) { p.Replica, p.PrimaryID, p.Slots, p.Epoch = false, "", Share(1, 3), 3000 })
				f.Sets[1].Guarded, f.pod("c-1-0").Node.Keys = true, 1
				f.open("c-1-0", Slots{{7, 8}}, "c-0-0", true)
				f.open("c-0-0", Slots{{7, 8}}, "c-1-0", false)
			},
			step: MoveSlots{For: moveFor, Moves: []SlotMove{formed().moveOf("c-0-0", "c-1-1", Slots{{7, 8}})}},
		},
		"a slot that is open on a primary and its replica is moved to the end": {
			state: formed(), spoil: func(f *fixture) {
				f.open("c-0-0", Slots{{7, 8}}, "c-1-0", false)
				f.open("c-0-1", Slots{{7, 8}}, "c-1-0", false)
			},
			step:   MoveSlots{For: moveFor, Moves: []SlotMove{formed().moveOf("c-0-0", "c-1-0", Slots{{7, 8}})}},
			reason: ReasonMoveSlots,
		},
		"a shard that has given everything away goes": {
			state: formed(), spoil: func(f *fixture) { f.grow(); f.pair(); f.Spec.Shards = 3; f.idleFor(courtesy) },
			step: DropShard{3, "set-3"}, reason: ReasonDropShard,
		},
		"and goes all the way when it becomes wanted again too late for its disks": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.pair()
				f.Claims = []Claim{{Name: "data-c-3-1", Shard: 3, Ordinal: 1, Leaving: true}}
			},
			step: DropShard{3, "set-3"}, reason: ReasonDropShard, message: "starts anew",
		},
		"but not for that while it is on its way out for the first time": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.pair()
				f.Spec.Shards = 3
				f.idleFor(courtesy - time.Second)
				f.Claims = []Claim{{Name: "data-c-3-1", Shard: 3, Ordinal: 1, Leaving: true}}
			},
			reason: ReasonLeaving, message: "shard 3 owns nothing any more",
		},
		"also when some of its servers could not be started": {
			state: formed(), spoil: func(f *fixture) { f.grow(); f.Spec.Shards = 3; f.neverRan("c-3-1") },
			step: DropShard{3, "set-3"}, reason: ReasonDropShard, message: "1 of its 2 servers have not been started",
		},
		"not when an earlier pod of theirs may have got keys": {
			state: formed(), spoil: func(f *fixture) { f.grow(); f.Spec.Shards = 3; f.pod("c-3-1").Node, f.pod("c-3-1").HasRun = nil, false },
			reason: ReasonUnreachable,
		},
		"nor while a pod that is too many may hold some": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.Spec.Shards = 3
				f.neverRan("c-3-1")
				third := *f.pod("c-3-0")
				node := *third.Node
				node.ID = "third"
				third.Name, third.Ordinal, third.Node = "c-3-2", 2, &node
				f.Pods = append(f.Pods, third)
			},
			reason: ReasonUnreachable,
		},
		"nor while a slot is on its way to it": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.Spec.Shards = 3
				f.neverRan("c-3-1")
				f.open("c-0-0", Slots{{7, 8}}, "c-3-0", false)
			},
			reason: ReasonUnreachable,
		},
		"whichever it is": {
			state: formed(), spoil: func(f *fixture) { f.grow(); f.Spec.Shards = 3; f.neverRan("c-3-0") },
			step: DropShard{3, "set-3"}, reason: ReasonDropShard,
		},
		"not when one that has been does not answer": {
			state: formed(), spoil: func(f *fixture) { f.grow(); f.Spec.Shards = 3; f.pod("c-3-1").Node = nil },
			reason: ReasonUnreachable,
		},
		"nor while an owner of slots cannot be read": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.Spec.Shards = 3
				f.neverRan("c-3-1")
				f.pod("c-1-0").Node = nil
			},
			reason: ReasonUnreachable,
		},
		"but stays for a moment for clients that have not heard of it": {
			state: formed(), spoil: func(f *fixture) { f.grow(); f.pair(); f.Spec.Shards = 3; f.idleFor(courtesy - time.Second) },
			reason: ReasonLeaving, message: "shard 3 owns nothing any more",
		},
		"and as long as it is not known for how long it has done so": {
			state: formed(), spoil: func(f *fixture) { f.grow(); f.pair(); f.Spec.Shards = 3 },
			reason: ReasonLeaving, message: "shard 3 owns nothing any more",
		},
		"and does not restart before": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.pair()
				f.Spec.Shards = 3
				f.idleFor(courtesy)
				f.pod("c-3-1").Outdated = true
			},
			step: DropShard{3, "set-3"}, reason: ReasonDropShard,
		},
		"a shard that awaits a slot stays until it has passed that on": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.pair()
				f.Spec.Shards = 3
				f.open("c-0-0", Slots{{7, 8}}, "c-3-0", false)
				f.open("c-3-0", Slots{{7, 8}}, "c-0-0", true)
			},
			step: MoveSlots{For: moveFor, Moves: []SlotMove{
				{From: "c-0-0", To: "c-3-0", FromID: id("c-0-0"), ToID: id("c-3-0"), ToAddr: Address{"10.0.3.0", ClientPort}, Slots: Slots{{7, 8}}, Patience: 5 * time.Second / 6},
			}},
			reason: ReasonMoveSlots,
		},
		"nothing restarts a server that awaits slots, however new it is": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.pair()
				f.open("c-0-0", Slots{{7, 8}}, "c-3-0", false)
				f.open("c-3-0", Slots{{7, 8}}, "c-0-0", true)
				f.pod("c-3-0").Outdated, f.pod("c-3-0").Node.Version = true, "8.4.0"
			},
			step: MoveSlots{For: moveFor, Moves: []SlotMove{
				{From: "c-0-0", To: "c-3-0", FromID: id("c-0-0"), ToID: id("c-3-0"), ToAddr: Address{"10.0.3.0", ClientPort}, Slots: Slots{{7, 8}}, Patience: 5 * time.Second / 6},
			}},
			reason: ReasonMoveSlots,
		},
		"the primary of a shard without slots is replaced by its replica": {
			state: formed(), spoil: func(f *fixture) {
				f.grow()
				f.pair()
				f.replaceDisk("c-3-0")
				f.join("c-3-0")
			},
			step: TakeOver{3, id("c-3-0"), "c-3-1"}, reason: ReasonElect,
		},
		"two servers that share the slots of a shard become one owner": {
			state: formed(), spoil: func(f *fixture) {
				f.views(id("c-0-0"), func(peer *Peer) { peer.Slots = Slots{{0, 5400}} })
				f.views(id("c-0-1"), func(peer *Peer) { peer.Replica, peer.PrimaryID, peer.Slots = false, "", Slots{{5401, 5461}} })
			},
			step:   MoveSlots{For: moveFor, Moves: []SlotMove{formed().moveOf("c-0-1", "c-0-0", Slots{{5401, 5461}})}},
			reason: ReasonMoveSlots,
		},
		"the one that gets them is told first whose they are": {
			state: formed(), spoil: func(f *fixture) {
				f.views(id("c-0-0"), func(peer *Peer) { peer.Slots = Slots{{0, 5400}} })
				f.views(id("c-0-1"), func(peer *Peer) { peer.Replica, peer.PrimaryID, peer.Slots = false, "", Slots{{5401, 5461}} })
				f.tableOf("c-0-0", "c-0-1", func(peer *Peer) { peer.Slots = Slots{{5401, 5460}} })
			},
			step:   OpenSlots{"c-0-0", id("c-0-0"), Slots{{5461, 5461}}, SlotOwner, id("c-0-1")},
			reason: ReasonMoveSlots,
		},
		"slots that a server was given right before it died go to its successor": {
			state: formed(), spoil: func(f *fixture) {
				f.replaceDisk("c-0-0")
				f.join("c-0-0")
				f.views(id("c-0-0"), func(peer *Peer) { peer.Slots = Slots{{5460, 5461}} })
				f.views(id("c-0-1"), func(peer *Peer) { peer.Replica, peer.PrimaryID, peer.Slots = false, "", Slots{{0, 5459}} })
				f.views("new-c-0-0", func(peer *Peer) { peer.Replica, peer.PrimaryID = true, id("c-0-1") })
				f.pod("c-0-0").Node.LinkUp, f.pod("c-0-0").Node.Admits = true, AdmitsForGood
			},
			step: Adopt{"c-0-1", id("c-0-1"), id("c-0-0"), Slots{{5460, 5461}}}, reason: ReasonMoveSlots,
		},
		"a pod that is being deleted is named": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-1").Deleting = true }, reason: ReasonUnreachable, message: "c-1-1 is being deleted",
		},
		"a shard whose slots only others know of is waited for": {
			state: formed(), spoil: func(f *fixture) {
				n := f.pod("c-1-0").Node
				for i := range n.Peers {
					if n.Peers[i].Myself {
						n.Peers[i].Slots = nil
					}
				}
			},
			reason: ReasonGossip,
		},
		"another patch version is rolled out": {
			state: formed(), spoil: func(f *fixture) { f.Spec.Version = "8.0.3"; f.pod("c-0-1").Outdated = true },
			step: Restart{Cause: ReasonRestart, Pods: []PodRef{{"c-0-1", "uid-c-0-1"}}},
		},
		"another storage is refused": {
			state: formed(), spoil: func(f *fixture) { f.Spec.StorageChanged = true }, reason: ReasonStorage, stalled: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, tc.check)
	}
}

func TestWaitingIsBusyOnlyAfterAStart(t *testing.T) {
	for since, want := range map[time.Duration]time.Duration{5 * time.Second: soon, time.Minute: slowly} {
		f := formed()
		f.unlink("c-2-1")
		f.pod("c-0-1").Started = now.Add(-since)
		if got := Next(f.State); got.Reason != ReasonSync || got.After != want {
			t.Errorf("%s after a start: %s again in %s, want %s", since, got.Reason, got.After, want)
		}
	}
}

func unreplicate(f *fixture) {
	for i := range f.Pods {
		p := &f.Pods[i]
		f.views(p.Node.ID, func(peer *Peer) { peer.Replica, peer.PrimaryID = false, "" })
		p.Node.LinkUp, p.Node.Keys = false, 0
	}
}

func outdate(f *fixture) {
	for i := range f.Pods {
		f.Pods[i].Outdated = true
	}
}

func ghostOfReplica(f *fixture) {
	for i := range f.Pods {
		f.Pods[i].Node.Peers = append(f.Pods[i].Node.Peers, Peer{ID: "ghost", Replica: true, PrimaryID: id("c-1-0"), Failed: true})
	}
}

func TestTheReplicaThatGotFurthest(t *testing.T) {
	replica := func(name string, offset, keys int64, change ...func(*Node)) *Pod {
		p := &Pod{Name: name, Node: &Node{Offset: offset, Keys: keys, EverLinked: true}}
		for _, do := range change {
			do(p.Node)
		}
		return p
	}
	loading := func(n *Node) { n.Loading = true }
	neverLinked := func(n *Node) { n.EverLinked = false }
	for name, tc := range map[string]struct {
		replicas []*Pod
		want     string
	}{
		"the highest offset":                      {[]*Pod{replica("a", 9, 1), replica("b", 10, 1), replica("c", 8, 1)}, "b"},
		"the most keys of the same offset":        {[]*Pod{replica("a", 9, 1), replica("b", 9, 2)}, "b"},
		"the first of equals":                     {[]*Pod{replica("a", 9, 1), replica("b", 9, 1)}, "a"},
		"not one that loads, whatever its offset": {[]*Pod{replica("a", 9, 1), replica("b", 10, 2, loading)}, "a"},
		"none where all load":                     {[]*Pod{replica("a", 9, 1, loading)}, ""},
		"not one that never had a copy":           {[]*Pod{replica("a", 9, 0, neverLinked), replica("b", 0, 0)}, "b"},
		"what one loaded from its disk is a copy": {[]*Pod{replica("a", 0, 5, neverLinked)}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if best := furthest(tc.replicas); best != nil {
				got = best.Name
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
