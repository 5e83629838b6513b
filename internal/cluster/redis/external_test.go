package redis

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
)

// announcing is a settled cluster whose servers announce what they are to announce: their pods.
func announcing() *fixture {
	f := formed()
	for i := range f.Pods {
		p := &f.Pods[i]
		p.Announce = Announcement{}.Parameters(p.Name+".c-peers", p.Addr.IP)
		p.Node.Announces = Announcement{}.Parameters(p.Name+".c-peers", p.Addr.IP)
	}
	return f
}

// opened is one that is to be reached by node ports.
func opened() *fixture {
	f := announcing()
	for i := range f.Pods {
		p := &f.Pods[i]
		d := door(p)
		f.Doors = append(f.Doors, d)
		f.Exposed = append(f.Exposed, Exposure{Name: p.Name + "-announced", Pod: p.Name, Inside: Address{d.IP, d.TLSPort}, Wanted: true})
		p.Announce = d.Parameters(p.Name+".c-peers", p.Addr.IP)
	}
	return f
}

// entered is one that is.
func entered() *fixture {
	f := opened()
	for i := range f.Pods {
		f.announced(&f.Pods[i])
	}
	return f
}

func door(p *Pod) Door {
	n := 10*p.Shard + p.Ordinal
	return Door{Pod: p.Name, NodePort: 31000 + n, Announcement: Announcement{Host: "outside.example.com", IP: fmt.Sprintf("10.96.0.%d", n), TLSPort: 31000 + n}}
}

// announced lets a server have what it is to have, and all others know of it.
func (f *fixture) announced(p *Pod) {
	p.Node.Announces = p.Announce
	addr, _ := p.Node.Announced()
	f.views(p.Node.ID, func(peer *Peer) { peer.Addr, peer.Host = addr, p.Announce[announceHost] })
}

// unused are the Services of a pod that are not asked for any more.
func unused(since time.Time) []Exposure {
	return []Exposure{
		{Name: "c-0-0-external", Pod: "c-0-0", Unused: since},
		{Name: "c-0-0-announced", Pod: "c-0-0", Inside: Address{"10.96.0.0", 31000}, Unused: since},
	}
}

func TestExternal(t *testing.T) {
	change := func(p *Pod) PodSettings {
		d := door(p)
		return PodSettings{p.Name, map[string]string{
			announceHost: d.Host, announceIP: d.IP, announceTLSPort: fmt.Sprint(d.TLSPort),
		}}
	}
	pod := func(name string) *Pod { return opened().pod(name) }
	tests := map[string]row{
		"servers that announce what they are to announce are left alone": {state: announcing()},
		"also those that are reached from outside":                       {state: entered()},
		"servers that are to be reached elsewhere move one by one, replicas first": {
			state: opened(), step: Announce{[]PodSettings{change(pod("c-0-1"))}}, message: "the others are told where c-0-1 is reached",
		},
		"the next one waits for the others to have heard of the first": {
			state: opened(), spoil: func(f *fixture) {
				f.announced(f.pod("c-0-1"))
				was := Address{"10.0.0.1", ClientPort}
				for i := range f.pod("c-2-0").Node.Peers {
					if p := &f.pod("c-2-0").Node.Peers[i]; p.ID == id("c-0-1") {
						p.Addr = was
					}
				}
			}, reason: ReasonGossip, message: "c-2-0 has yet to hear that clients are sent to outside.example.com, port 31001, for c-0-1",
		},
		"and to know its new address, even if the port is the same": {
			state: opened(), spoil: func(f *fixture) {
				f.announced(f.pod("c-0-1"))
				for i := range f.pod("c-2-0").Node.Peers {
					if p := &f.pod("c-2-0").Node.Peers[i]; p.ID == id("c-0-1") {
						p.Addr.IP = "10.96.9.9"
					}
				}
			}, reason: ReasonGossip, message: "c-2-0 does not know yet that c-0-1 is at 10.96.0.1:31001",
		},
		"and then moves": {
			state: opened(), spoil: func(f *fixture) { f.announced(f.pod("c-0-1")) }, step: Announce{[]PodSettings{change(pod("c-1-1"))}},
		},
		"it waits for the first to be reached there": {
			state: opened(), spoil: func(f *fixture) {
				f.announced(f.pod("c-0-1"))
				f.views(id("c-0-1"), func(p *Peer) { p.Failing = !p.Myself })
			}, reason: ReasonGossip,
		},
		"primaries come last": {
			state: opened(), spoil: func(f *fixture) {
				for _, name := range []string{"c-0-1", "c-1-1", "c-2-1"} {
					f.announced(f.pod(name))
				}
			}, step: Announce{[]PodSettings{change(pod("c-0-0"))}},
		},
		"a host alone is changed everywhere at once": {
			state: announcing(), spoil: func(f *fixture) {
				for _, name := range []string{"c-0-0", "c-2-1"} {
					f.pod(name).Announce = Announcement{Host: name + ".example.com"}.Parameters(name+".c-peers", f.pod(name).Addr.IP)
				}
			}, step: Announce{[]PodSettings{
				{"c-0-0", map[string]string{announceHost: "c-0-0.example.com"}}, {"c-2-1", map[string]string{announceHost: "c-2-1.example.com"}},
			}}, message: "2 servers are reached elsewhere than they say",
		},
		"but not before the certificate vouches for it": {
			state: announcing(), spoil: func(f *fixture) {
				f.Spec.Certificate = "new"
				for i := range f.Pods {
					f.Pods[i].Node.Certificate = "new"
				}
				p := f.pod("c-0-0")
				p.Announce, p.Node.Certificate = Announcement{Host: "c-0-0.example.com"}.Parameters("c-0-0.c-peers", p.Addr.IP), "old"
			}, step: ReloadCertificates{[]string{"c-0-0"}},
		},
		"nor before the others know, for slots that are to move": {
			state: announcing(), spoil: func(f *fixture) {
				f.pod("c-0-0").Announce = Announcement{Host: "c-0-0.example.com"}.Parameters("c-0-0.c-peers", f.pod("c-0-0").Addr.IP)
				f.pod("c-0-0").Node.Announces = f.pod("c-0-0").Announce
			}, reason: ReasonGossip, message: "has yet to hear that clients are sent to c-0-0.example.com, port 6379, for c-0-0",
		},
		"nor before they know at which port, as another server may have the same host": {
			state: announcing(), spoil: func(f *fixture) {
				i := slices.IndexFunc(f.pod("c-1-0").Node.Peers, func(p Peer) bool { return p.ID == id("c-0-0") })
				f.pod("c-1-0").Node.Peers[i].Addr.Port = 31999
			}, reason: ReasonGossip, message: "c-1-0 has yet to hear that clients are sent to",
		},
		"a server that says that it is where no Service is any more is corrected at once": {
			state: entered(), spoil: func(f *fixture) {
				p := f.pod("c-1-0")
				p.Node.Announces = Announcement{Host: "outside.example.com", IP: "10.96.9.9", TLSPort: 31999}.Parameters(p.Name+".c-peers", "10.0.1.0")
			}, step: Announce{[]PodSettings{{"c-1-0", map[string]string{announceIP: "10.96.0.10", announceTLSPort: "31010"}}}},
		},
		"what a server does not know it is not told": {
			state: opened(), spoil: func(f *fixture) {
				for i := range f.Pods {
					f.Pods[i].Node.Announces = nil
				}
			},
		},
		"servers are looked for where they say that they are": {
			state: entered(), spoil: func(f *fixture) {
				f.pod("c-0-1").Node.Asks, f.pod("c-0-1").Node.LinkUp = Address{"10.96.0.0", 31000}, true
			},
		},
		"what is missing is told last, and stops nothing": {
			state: announcing(), spoil: func(f *fixture) { f.Spec.Unannounced = "Service c-0-0-external has no load balancer yet" },
			reason: ReasonExternal, message: "c-0-0-external has no load balancer yet",
		},
		"Services that are not asked for any more go": {
			state: announcing(), spoil: func(f *fixture) {
				f.Exposed = append(unused(now.Add(-time.Hour)), Exposure{Name: "c-0-1-external", Pod: "c-0-1", Wanted: true})
			}, step: Withdraw{unused(now.Add(-time.Hour))},
		},
		"those of a pod that is gone at once": {
			state: announcing(), spoil: func(f *fixture) { f.Exposed = []Exposure{{Name: "c-0-2-external", Pod: "c-0-2"}} },
			step: Withdraw{[]Exposure{{Name: "c-0-2-external", Pod: "c-0-2"}}},
		},
		"but not while clients may not have heard of it": {
			state: announcing(), spoil: func(f *fixture) { f.Exposed = unused(now.Add(-50 * time.Second)) },
		},
		"nor while nobody knows whether it is announced": {
			state: announcing(), spoil: func(f *fixture) { f.Exposed = unused(time.Time{}) },
		},
		"but none at which a server is looked for": {
			state: announcing(), spoil: func(f *fixture) {
				f.Exposed = unused(now.Add(-time.Hour))[1:]
				f.pod("c-0-1").Node.Asks = Address{"10.96.0.0", 31000}
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, tc.check)
	}
}

// TestAGhostIsKnownByItsDoor: which pod a node was the server of is found out by where it was reached.
func TestAGhostIsKnownByItsDoor(t *testing.T) {
	f := entered()
	f.Doors = append(f.Doors, Door{Pod: "c-2-1", Announcement: Announcement{Host: "c-2-1.lb.example.com"}})
	v := look(f.State)
	for name, tc := range map[string]struct {
		peer Peer
		want string
	}{
		"the name of the pod":           {Peer{Host: "c-1-1.c-peers.ns.svc"}, "c-1-1"},
		"the address inside":            {Peer{Host: "outside.example.com", Addr: Address{"10.96.0.11", 31011}}, "c-1-1"},
		"another port of it":            {Peer{Host: "outside.example.com", Addr: Address{"10.96.0.11", 6379}}, ""},
		"the host of a load balancer":   {Peer{Host: "c-2-1.lb.example.com", Addr: Address{"10.0.2.9", 6379}}, "c-2-1"},
		"a host that leads to them all": {Peer{Host: "outside.example.com", NoAddr: true}, ""},
		"nothing":                       {Peer{}, ""},
	} {
		if got := v.podBehind(tc.peer); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestAServerIsKnownByTheNameOfItsPod(t *testing.T) {
	n := Node{Peers: []Peer{{Myself: true, Host: "outside.example.com"}}, Announces: map[string]string{announceName: "c-0-1.c-peers.ns.svc.cluster.local"}}
	if !n.RunsIn("c-0-1", "c", "ns") || n.RunsIn("c-0-0", "c", "ns") {
		t.Error("the name of the pod does not tell who answers")
	}
}

func TestAnnouncementsAreReadBack(t *testing.T) {
	d := door(formed().pod("c-1-1"))
	text, err := Announcements([]Door{d, {Pod: "c-2-1", Announcement: Announcement{Host: "unproven"}, Problem: "no certificate"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadAnnouncements([]byte(text))
	if diff := cmp.Diff(map[string]Announcement{"c-1-1": d.Announcement}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestEndpointsOutside(t *testing.T) {
	doors := []Door{
		{Pod: "c-1-0", Announcement: Announcement{Host: "10.1.1.1", TLSPort: 31010}, NodePort: 31010},
		{Pod: "c-0-0", Announcement: Announcement{Host: "lb.example.com"}},
		{Pod: "c-0-1", Problem: "no address"},
	}
	want := []v1alpha1.RedisExternalEndpoint{{Name: "c-0-0", Address: "lb.example.com:6379"}, {Name: "c-1-0", Address: "10.1.1.1:31010"}}
	if diff := cmp.Diff(want, Endpoints(doors)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got := Connection(testCluster(v1alpha1.EngineValkey, "9.1.2"), "cluster.local", UserDefault, "secret", nil, doors)
	if string(got["external-nodes"]) != "lb.example.com:6379,10.1.1.1:31010" || string(got["external-uri"]) != "rediss://default:secret@lb.example.com:6379" {
		t.Errorf("external-nodes %s, external-uri %s", got["external-nodes"], got["external-uri"])
	}
}

// A server behind ports of the nodes that is replaced leaves nothing behind that tells its pod.
func TestANodeOfAnUnknownPodIsGoneWhenNoPodOfItsShardHasIt(t *testing.T) {
	f := formed()
	f.pod("c-2-1").Node = nil // That some other shard has a pod which does not answer is no matter.
	v := look(f.State)
	g := ghost{id: "gone", replicas: []*Pod{v.shards[1][1]}}
	if out := v.outageOf(g); !out.fenced || out.returns {
		t.Errorf("all pods of its shard were read: %+v", out)
	}
	if home := v.homeOf(g); home != 1 {
		t.Errorf("it is at home in shard %d", home)
	}
	f.pod("c-1-0").Node = nil
	v = look(f.State)
	if out := v.outageOf(ghost{id: "gone", replicas: []*Pod{v.podNamed("c-1-1")}}); out.fenced {
		t.Errorf("it may be in the pod that does not answer: %+v", out)
	}
}
