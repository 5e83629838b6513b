package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// meet puts a living node of another cluster, or of none, into the tables of all servers.
func (f *fixture) meet(host string, slots slots.Set) {
	f.Spec.Namespace = "shop"
	for i := range f.Pods {
		n := f.Pods[i].Node
		n.Clock = now
		n.Peers = append(n.Peers, model.Peer{ID: "foreign", Addr: model.Address{IP: "10.7.0.1", Port: model.ClientPort}, Host: host, Answered: now, Epoch: 99, Slots: slots})
	}
}

// lostTo gives the slots of the second shard to the node that was met: its primary has none left.
func (f *fixture) lostTo(host string) {
	slots := f.pod("c-1-0").Node.Self().Slots
	f.meet(host, slots)
	f.views(id("c-1-0"), func(p *model.Peer) { p.Slots = nil })
}

func TestServersOfAnotherClusterAreParted(t *testing.T) {
	all := []string{"c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0", "c-2-1"}
	const theirs = "b-0-0.b-peers.shop.svc.cluster.local"
	for name, tc := range map[string]row{
		"all servers forget a node of another cluster in one step": {
			state: formed(), spoil: func(f *fixture) { f.meet(theirs, nil) }, step: steps.Part{IDs: []string{"foreign"}, Pods: all}, message: "another cluster, b in namespace shop, the first one at 10.7.0.1:6379",
		},
		"the same name in another namespace is another cluster": {
			state: formed(), spoil: func(f *fixture) { f.meet("c-0-0.c-peers.other.svc.cluster.local", nil) }, step: steps.Part{IDs: []string{"foreign"}, Pods: all}, message: "c in namespace other",
		},
		"a node that has taken slots is forgotten as well": {
			state: formed(), spoil: func(f *fixture) { f.lostTo(theirs) }, step: steps.Part{IDs: []string{"foreign"}, Pods: all},
		},
		"a pod that follows a node of another cluster keeps its data": {
			state: formed(), spoil: func(f *fixture) {
				f.lostTo(theirs)
				for _, name := range []string{"c-1-0", "c-1-1"} {
					f.views(id(name), func(p *model.Peer) { p.Replica, p.PrimaryID = true, "foreign" })
				}
			},
			reason: steps.ReasonForeign, stalled: true, message: "c-1-0 with 10 keys, c-1-1 with 10 keys copy it, or would if its password let them: do not delete their pods or claims",
		},
		"no server is forgotten while a pod cannot be read": {
			state: formed(), spoil: func(f *fixture) { f.meet(theirs, nil); f.pod("c-2-1").Node = nil }, reason: ReasonUnreachable,
		},
		"a node of another cluster that announces no host and does not answer is known by its id": {
			state: formed(), spoil: func(f *fixture) {
				f.lostTo("")
				f.views("foreign", func(p *model.Peer) { p.Answered, p.Failed = now.Add(-time.Hour), true })
				f.Neighbours = map[string]string{"foreign": model.ClusterOf("b", "shop")}
			},
			step: steps.Part{IDs: []string{"foreign"}, Pods: all}, message: "b in namespace shop",
		},
		"a replica of a foreign node takes over once that does not answer": {
			state: formed(), spoil: func(f *fixture) {
				f.lostTo("")
				for _, name := range []string{"c-1-0", "c-1-1"} {
					f.views(id(name), func(p *model.Peer) { p.Replica, p.PrimaryID = true, "foreign" })
				}
				f.pod("c-1-0").Node.Offset++
				f.views("foreign", func(p *model.Peer) { p.Answered, p.Failed = now.Add(-time.Hour), true })
				f.Neighbours = map[string]string{"foreign": model.ClusterOf("b", "shop")}
			},
			step: steps.TakeOver{Shard: 1, PrimaryID: "foreign", To: "c-1-0"},
		},
		"slots of a living node that announces no host are not called lost": {
			state: formed(), spoil: func(f *fixture) { f.lostTo(""); f.Spec.AssignEmpty = true }, reason: steps.ReasonForeign, message: "which answers and is the server of no pod",
		},
	} {
		t.Run(name, tc.Check)
	}
}

func TestADepartedNodeIsNotForeign(t *testing.T) {
	for name, spoil := range map[string]func(f *fixture){
		"a node with the name of a pod of this cluster": func(f *fixture) { f.meet("c-9-0.c-peers.shop.svc.cluster.local", nil) },
		"a node that has not answered for an hour": func(f *fixture) {
			f.meet("b-0-0.b-peers.shop.svc.cluster.local", nil)
			f.views("foreign", func(p *model.Peer) { p.Answered = now.Add(-time.Hour) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := formed()
			spoil(f)
			if plan, ok := forgetForeignNodes(model.NewView(f.State)); ok {
				t.Errorf("it is foreign: %v", plan)
			}
		})
	}
}

func TestAnIntroductionIsOfTheServerThatAnswers(t *testing.T) {
	addr, elsewhere := model.Address{IP: "10.0.0.1", Port: model.ClientPort}, model.Address{IP: "10.0.0.2", Port: model.ClientPort}
	i := steps.Introduction{Pod: "c-0-0", Other: "c-0-1", Addr: addr, ID: "expected"}
	for name, tc := range map[string]struct {
		node *model.Node
		at   model.Address
		want bool
	}{
		"the expected server at the address":            {&model.Node{ID: "expected"}, addr, true},
		"another server at the address":                 {&model.Node{ID: "other"}, addr, false},
		"the expected server at another address":        {&model.Node{ID: "expected"}, elsewhere, false},
		"the expected server that announces an address": {&model.Node{ID: "expected", Announces: map[string]string{model.AnnounceIP: addr.IP}}, elsewhere, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := i.Verify(tc.node, tc.at); (err == nil) != tc.want {
				t.Errorf("Verify: %v", err)
			}
		})
	}
}
