package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/test/redistest"
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
	got := Connection(redistest.Cluster(v1alpha1.EngineValkey, "9.1.2"), "cluster.local", UserDefault, "secret", nil, doors)
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
