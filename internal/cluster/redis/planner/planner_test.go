package planner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// fixture builds a state of three shards with one replica each, which a test then spoils.
type fixture struct{ model.State }

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
			peer := model.Peer{ID: o.Node.ID, Addr: o.Addr, Host: o.Name + ".c-peers", Myself: i == j, Epoch: model.BootstrapEpoch(o), Answered: now}
			if o.Ordinal == 0 {
				peer.Slots = slots.Share(o.Shard, f.Spec.Shards)
			} else {
				peer.Replica, peer.PrimaryID = true, id(fmt.Sprintf("c-%d-0", o.Shard))
			}
			p.Node.Peers = append(p.Node.Peers, peer)
		}
		p.Node.StateOK, p.Node.LinkUp, p.Node.EverLinked = true, p.Ordinal > 0, p.Ordinal > 0
		p.Node.Keys, p.Node.Offset, p.Node.Admits, p.Node.OnDisk = 10, 1000, model.AdmitsForGood, true
	}
	return f
}

// fresh is a cluster whose servers have just started for the first time.
func fresh() *fixture {
	f := &fixture{model.State{Now: now, Spec: model.Spec{Name: "c", Shards: 3, Replicas: 1, Version: "8.0.2", NodeTimeout: 5 * time.Second, Persistent: true}}}
	for shard := range 3 {
		f.Sets = append(f.Sets, model.Set{Shard: shard, Replicas: 2})
		for ordinal := range 2 {
			name := cluster.Pod(cluster.ShardSet("c", shard), ordinal)
			addr := model.Address{IP: fmt.Sprintf("10.0.%d.%d", shard, ordinal), Port: model.ClientPort}
			f.Pods = append(f.Pods, model.Pod{
				Name: name, UID: "uid-" + name, Shard: shard, Ordinal: ordinal, Addr: addr, Ready: true, HasRun: true, Started: now.Add(-time.Hour),
				Node: &model.Node{ID: id(name), Version: "8.0.2", Clock: now, Peers: []model.Peer{{ID: id(name), Addr: addr, Host: name + ".c-peers", Myself: true}}},
			})
		}
	}
	return f
}

func (f *fixture) pod(name string) *model.Pod {
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
	p.Node.LinkUp, p.Node.LinkDown, p.Node.Asks = false, ago, model.Address{IP: "10.9.9.9", Port: 6379}
}

// loseNode is what the loss of the node that a pod runs on looks like a minute later.
func (f *fixture) loseNode(name string) {
	p := f.pod(name)
	p.Ready, p.Node = false, nil
	f.views(id(name), func(peer *model.Peer) { peer.Failed, peer.Answered = true, now.Add(-time.Minute) })
}

// views calls do on the line that every server has about a node.
func (f *fixture) views(node string, do func(*model.Peer)) {
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
		i := slices.IndexFunc(n.Peers, func(p model.Peer) bool { return p.ID == id(name) })
		n.Peers[i].Replica, n.Peers[i].PrimaryID = false, ""
	}
}

// replaceDisk makes a pod a new, isolated node, and its old id a departed node that the others
// know.
func (f *fixture) replaceDisk(name string) {
	p := f.pod(name)
	p.Addr.IP = "10.9.9.9"
	p.Node = &model.Node{ID: "new-" + name, Version: "8.0.2", Peers: []model.Peer{{ID: "new-" + name, Addr: p.Addr, Myself: true}}}
	f.views(id(name), func(peer *model.Peer) { peer.Failed = true })
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

// loseDisk gives a pod a new disk. All know the new node, and the former one as failed.
func (f *fixture) loseDisk(name string) {
	f.replaceDisk(name)
	f.join(name)
}

// disown takes the slots of a node away, in the tables of all.
func (f *fixture) disown(name string) {
	f.views(id(name), func(p *model.Peer) { p.Slots = nil })
}

// emptyInPlace has the primary of shard 1 restart under its id without data. Its replica has lost the link.
func (f *fixture) emptyInPlace() {
	n := f.pod("c-1-0").Node
	n.Admits, n.Keys, f.pod("c-1-1").Node.LinkUp = model.AdmitsNobody, 0, false
}

// strangers has two servers, which shake hands, not know each other yet.
func (f *fixture) strangers(name, other string) {
	a, b := f.pod(name), f.pod(other)
	a.Node.Peers = slices.DeleteFunc(a.Node.Peers, func(p model.Peer) bool { return p.ID == b.Node.ID })
	b.Node.Peers = slices.DeleteFunc(b.Node.Peers, func(p model.Peer) bool { return p.ID == a.Node.ID })
	a.Node.Peers = append(a.Node.Peers, model.Peer{ID: "handshake", Addr: b.Addr, Handshake: true})
}

// grow adds a fourth shard, whose two servers have met the others and own nothing.
func (f *fixture) grow() {
	f.Spec.Shards = 4
	f.Sets = append(f.Sets, model.Set{Shard: 3, Replicas: 2, UID: "set-3"})
	for ordinal := range 2 {
		name := fmt.Sprintf("c-3-%d", ordinal)
		addr := model.Address{IP: fmt.Sprintf("10.0.3.%d", ordinal), Port: model.ClientPort}
		f.Pods = append(f.Pods, model.Pod{
			Name: name, UID: "uid-" + name, Shard: 3, Ordinal: ordinal, Addr: addr, Ready: true, HasRun: true, Started: now.Add(-time.Hour),
			Node: &model.Node{
				ID: id(name), Version: "8.0.2", OnDisk: true, Admits: model.AdmitsForGood,
				Peers: []model.Peer{{ID: id(name), Addr: addr, Host: name + ".c-peers", Myself: true}},
			},
		})
		f.join(name)
	}
}

// pair makes the second server of the fourth shard a replica of the first.
func (f *fixture) pair() {
	f.views(id("c-3-1"), func(peer *model.Peer) { peer.Replica, peer.PrimaryID = true, id("c-3-0") })
	n := f.pod("c-3-1").Node
	n.LinkUp, n.EverLinked = true, true
}

// shardToDrop adds a fourth shard that owns nothing and is not wanted.
func (f *fixture) shardToDrop() {
	f.grow()
	f.pair()
	f.Spec.Shards = 3
}

// open says that slots are on their way from one server to another, as either sees it.
func (f *fixture) open(name string, slots slots.Set, other string, importing bool) {
	n := f.pod(name).Node
	for i := range n.Peers {
		if n.Peers[i].Myself {
			n.Peers[i].Open = append(n.Peers[i].Open, model.Open{Slots: slots, Other: id(other), Importing: importing})
		}
	}
}

// tableOf changes what the table of one server alone says of another one.
func (f *fixture) tableOf(name, of string, change func(*model.Peer)) {
	n := f.pod(name).Node
	n.Peers = slices.Clone(n.Peers)
	change(&n.Peers[slices.IndexFunc(n.Peers, func(p model.Peer) bool { return p.ID == id(of) })])
}

// neverRan makes a pod one that nobody has heard of yet.
func (f *fixture) neverRan(name string) {
	f.pod(name).Node, f.pod(name).HasRun = nil, false
	for i := range f.Pods {
		if n := f.Pods[i].Node; n != nil {
			n.Peers = slices.DeleteFunc(slices.Clone(n.Peers), func(p model.Peer) bool { return p.ID == id(name) })
		}
	}
}

// moveOf is what a plan says that moves slots between two pods of the fixture.
func (f *fixture) moveOf(from, to string, slots slots.Set) steps.SlotMove {
	return steps.SlotMove{From: from, To: to, FromID: id(from), ToID: id(to), ToAddr: f.pod(to).Addr, Slots: slots, Patience: 5 * time.Second / 6}
}

// limited is a move that spares keys whose move would take longer than the others wait for a server.
func limited(m steps.SlotMove) steps.SlotMove {
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

func (r row) Check(t *testing.T) {
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

func TestWaitingIsBusyOnlyAfterAStart(t *testing.T) {
	for since, want := range map[time.Duration]time.Duration{5 * time.Second: facts.Soon, time.Minute: facts.Slowly} {
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
		f.views(p.Node.ID, func(peer *model.Peer) { peer.Replica, peer.PrimaryID = false, "" })
		p.Node.LinkUp, p.Node.Keys = false, 0
	}
}

func outdate(f *fixture) {
	for i := range f.Pods {
		f.Pods[i].Outdated = true
	}
}

func departedReplica(f *fixture) {
	for i := range f.Pods {
		f.Pods[i].Node.Peers = append(f.Pods[i].Node.Peers, model.Peer{ID: "ghost", Replica: true, PrimaryID: id("c-1-0"), Failed: true})
	}
}

func TestTheReplicaThatGotFurthest(t *testing.T) {
	replica := func(name string, offset, keys int64, change ...func(*model.Node)) *model.Pod {
		p := &model.Pod{Name: name, Node: &model.Node{Offset: offset, Keys: keys, EverLinked: true}}
		for _, do := range change {
			do(p.Node)
		}
		return p
	}
	loading := func(n *model.Node) { n.Loading = true }
	neverLinked := func(n *model.Node) { n.EverLinked = false }
	for name, tc := range map[string]struct {
		replicas []*model.Pod
		want     string
	}{
		"the highest offset":                      {[]*model.Pod{replica("a", 9, 1), replica("b", 10, 1), replica("c", 8, 1)}, "b"},
		"the most keys of the same offset":        {[]*model.Pod{replica("a", 9, 1), replica("b", 9, 2)}, "b"},
		"the first of equals":                     {[]*model.Pod{replica("a", 9, 1), replica("b", 9, 1)}, "a"},
		"not one that loads, whatever its offset": {[]*model.Pod{replica("a", 9, 1), replica("b", 10, 2, loading)}, "a"},
		"none where all load":                     {[]*model.Pod{replica("a", 9, 1, loading)}, ""},
		"not one that never had a copy":           {[]*model.Pod{replica("a", 9, 0, neverLinked), replica("b", 0, 0)}, "b"},
		"what one loaded from its disk is a copy": {[]*model.Pod{replica("a", 0, 5, neverLinked)}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if best := facts.Furthest(tc.replicas); best != nil {
				got = best.Name
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
