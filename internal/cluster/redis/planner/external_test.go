package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/redis/config"
	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// announcing is a settled cluster whose servers announce what they are to announce: their pods.
func announcing() *fixture {
	f := formed()
	for i := range f.Pods {
		p := &f.Pods[i]
		p.Announce = model.Announcement{}.Parameters(p.Name+".c-peers", p.Addr.IP)
		p.Node.Announces = model.Announcement{}.Parameters(p.Name+".c-peers", p.Addr.IP)
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
		f.Exposed = append(f.Exposed, model.Exposure{Name: p.Name + "-announced", Pod: p.Name, Inside: model.Address{IP: d.IP, Port: d.TLSPort}, Wanted: true})
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

func door(p *model.Pod) model.Door {
	n := 10*p.Shard + p.Ordinal
	return model.Door{Pod: p.Name, NodePort: 31000 + n, Announcement: model.Announcement{Host: "outside.example.com", IP: fmt.Sprintf("10.96.0.%d", n), TLSPort: 31000 + n}}
}

// announced lets a server have what it is to have, and all others know of it.
func (f *fixture) announced(p *model.Pod) {
	p.Node.Announces = p.Announce
	addr, _ := p.Node.Announced()
	f.views(p.Node.ID, func(peer *model.Peer) { peer.Addr, peer.Host = addr, p.Announce[model.AnnounceHost] })
}

// unused are the Services of a pod that are not asked for any more.
func unused(since time.Time) []model.Exposure {
	return []model.Exposure{
		{Name: "c-0-0-external", Pod: "c-0-0", Unused: since},
		{Name: "c-0-0-announced", Pod: "c-0-0", Inside: model.Address{IP: "10.96.0.0", Port: 31000}, Unused: since},
	}
}

// TestADepartedNodeIsKnownByItsEndpoint: the pod that a departed node ran in follows from the
// address that it announced.
func TestADepartedNodeIsKnownByItsEndpoint(t *testing.T) {
	f := entered()
	f.Doors = append(f.Doors, model.Door{Pod: "c-2-1", Announcement: model.Announcement{Host: "c-2-1.lb.example.com"}})
	v := model.NewView(f.State)
	for name, tc := range map[string]struct {
		peer model.Peer
		want string
	}{
		"the name of the pod":           {model.Peer{Host: "c-1-1.c-peers.ns.svc"}, "c-1-1"},
		"the address inside":            {model.Peer{Host: "outside.example.com", Addr: model.Address{IP: "10.96.0.11", Port: 31011}}, "c-1-1"},
		"another port of it":            {model.Peer{Host: "outside.example.com", Addr: model.Address{IP: "10.96.0.11", Port: 6379}}, ""},
		"the host of a load balancer":   {model.Peer{Host: "c-2-1.lb.example.com", Addr: model.Address{IP: "10.0.2.9", Port: 6379}}, "c-2-1"},
		"a host that leads to them all": {model.Peer{Host: "outside.example.com", NoAddr: true}, ""},
		"nothing":                       {model.Peer{}, ""},
	} {
		if got := v.PodBehind(tc.peer); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestAnnouncementsAreReadBack(t *testing.T) {
	d := door(formed().pod("c-1-1"))
	text, err := config.Announcements([]model.Door{d, {Pod: "c-2-1", Announcement: model.Announcement{Host: "unproven"}, Problem: "no certificate"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := config.ReadAnnouncements([]byte(text))
	if diff := cmp.Diff(map[string]model.Announcement{"c-1-1": d.Announcement}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// A server behind ports of the nodes that is replaced leaves nothing behind that tells its pod.
func TestANodeOfAnUnknownPodIsGoneWhenNoPodOfItsShardHasIt(t *testing.T) {
	f := formed()
	f.pod("c-2-1").Node = nil // That some other shard has a pod which does not answer is no matter.
	v := model.NewView(f.State)
	g := model.DepartedNode{ID: "gone", Replicas: []*model.Pod{v.Shards[1][1]}}
	if out := facts.OutageOf(v, g); !out.Fenced || out.Returns {
		t.Errorf("all pods of its shard were read: %+v", out)
	}
	if home := facts.ShardOfDeparted(v, g); home != 1 {
		t.Errorf("it is at home in shard %d", home)
	}
	f.pod("c-1-0").Node = nil
	v = model.NewView(f.State)
	if out := facts.OutageOf(v, model.DepartedNode{ID: "gone", Replicas: []*model.Pod{v.PodNamed("c-1-1")}}); out.Fenced {
		t.Errorf("it may be in the pod that does not answer: %+v", out)
	}
}
