package planner

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextMovesServersToExternalAddresses(t *testing.T) {
	change := func(p *model.Pod) steps.PodSettings {
		d := door(p)
		return steps.PodSettings{Pod: p.Name, Values: map[string]string{
			model.AnnounceHost: d.Host, model.AnnounceIP: d.IP, model.AnnounceTLSPort: fmt.Sprint(d.TLSPort),
		}}
	}
	pod := func(name string) *model.Pod { return opened().pod(name) }
	rows.Run(t, map[string]row{
		"servers that announce what they are to announce are left alone":            {state: announcing()},
		"servers that are reached from outside where they are to be are left alone": {state: entered()},
		"servers that are to be reached elsewhere move one by one, replicas first": {
			state: opened(), step: steps.Announce{Pods: []steps.PodSettings{change(pod("c-0-1"))}}, message: "the others are told where c-0-1 is reached",
		},
		"the next server waits for the others to have heard of the first": {
			state: opened(), spoil: func(f *fixture) {
				f.announced(f.pod("c-0-1"))
				was := model.Address{IP: "10.0.0.1", Port: model.ClientPort}
				for i := range f.pod("c-2-0").Node.Peers {
					if p := &f.pod("c-2-0").Node.Peers[i]; p.ID == id("c-0-1") {
						p.Addr = was
					}
				}
			}, reason: ReasonGossip, message: "c-2-0 has yet to hear that clients are sent to outside.example.com, port 31001, for c-0-1",
		},
		"the next server waits for the others to know the new address of the first, even if the port is the same": {
			state: opened(), spoil: func(f *fixture) {
				f.announced(f.pod("c-0-1"))
				for i := range f.pod("c-2-0").Node.Peers {
					if p := &f.pod("c-2-0").Node.Peers[i]; p.ID == id("c-0-1") {
						p.Addr.IP = "10.96.9.9"
					}
				}
			}, reason: ReasonGossip, message: "c-2-0 does not know yet that c-0-1 is at 10.96.0.1:31001",
		},
		"the next server moves when the others know the first": {
			state: opened(), spoil: func(f *fixture) { f.announced(f.pod("c-0-1")) }, step: steps.Announce{Pods: []steps.PodSettings{change(pod("c-1-1"))}},
		},
		"the next server waits for the first to be reached": {
			state: opened(), spoil: func(f *fixture) {
				f.announced(f.pod("c-0-1"))
				f.views(id("c-0-1"), func(p *model.Peer) { p.Failing = !p.Myself })
			}, reason: ReasonGossip,
		},
		"primaries come last": {
			state: opened(), spoil: func(f *fixture) {
				for _, name := range []string{"c-0-1", "c-1-1", "c-2-1"} {
					f.announced(f.pod(name))
				}
			}, step: steps.Announce{Pods: []steps.PodSettings{change(pod("c-0-0"))}},
		},
		"a server that says that it is where no Service is any more is corrected at once": {
			state: entered(), spoil: func(f *fixture) {
				p := f.pod("c-1-0")
				p.Node.Announces = model.Announcement{Host: "outside.example.com", IP: "10.96.9.9", TLSPort: 31999}.Parameters(p.Name+".c-peers", "10.0.1.0")
			}, step: steps.Announce{Pods: []steps.PodSettings{{Pod: "c-1-0", Values: map[string]string{model.AnnounceIP: "10.96.0.10", model.AnnounceTLSPort: "31010"}}}},
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
				f.pod("c-0-1").Node.Asks, f.pod("c-0-1").Node.LinkUp = model.Address{IP: "10.96.0.0", Port: 31000}, true
			},
		},
		"what is missing is told last, and stops nothing": {
			state: announcing(), spoil: func(f *fixture) { f.Spec.Unannounced = "Service c-0-0-external has no load balancer yet" },
			reason: ReasonExternal, message: "c-0-0-external has no load balancer yet",
		},
	})
}

func TestNextAnnouncesAnotherHost(t *testing.T) {
	rows.Run(t, map[string]row{
		"a host alone is changed everywhere at once": {
			state: announcing(), spoil: func(f *fixture) {
				for _, name := range []string{"c-0-0", "c-2-1"} {
					f.pod(name).Announce = model.Announcement{Host: name + ".example.com"}.Parameters(name+".c-peers", f.pod(name).Addr.IP)
				}
			}, step: steps.Announce{Pods: []steps.PodSettings{
				{Pod: "c-0-0", Values: map[string]string{model.AnnounceHost: "c-0-0.example.com"}}, {Pod: "c-2-1", Values: map[string]string{model.AnnounceHost: "c-2-1.example.com"}},
			}}, message: "2 servers are reached elsewhere than they say",
		},
		"a host is not announced before the certificate is for it": {
			state: announcing(), spoil: func(f *fixture) {
				f.Spec.Certificate = "new"
				for i := range f.Pods {
					f.Pods[i].Node.Certificate = "new"
				}
				p := f.pod("c-0-0")
				p.Announce, p.Node.Certificate = model.Announcement{Host: "c-0-0.example.com"}.Parameters("c-0-0.c-peers", p.Addr.IP), "old"
			}, step: steps.ReloadCertificates{Pods: []string{"c-0-0"}},
		},
		"slots do not move before the others know a new host": {
			state: announcing(), spoil: func(f *fixture) {
				f.pod("c-0-0").Announce = model.Announcement{Host: "c-0-0.example.com"}.Parameters("c-0-0.c-peers", f.pod("c-0-0").Addr.IP)
				f.pod("c-0-0").Node.Announces = f.pod("c-0-0").Announce
			}, reason: ReasonGossip, message: "has yet to hear that clients are sent to c-0-0.example.com, port 6379, for c-0-0",
		},
		"slots do not move before the others know the port, as another server may have the same host": {
			state: announcing(), spoil: func(f *fixture) {
				i := slices.IndexFunc(f.pod("c-1-0").Node.Peers, func(p model.Peer) bool { return p.ID == id("c-0-0") })
				f.pod("c-1-0").Node.Peers[i].Addr.Port = 31999
			}, reason: ReasonGossip, message: "c-1-0 has yet to hear that clients are sent to",
		},
	})
}

func TestNextWithdrawsUnusedServices(t *testing.T) {
	rows.Run(t, map[string]row{
		"Services that are not asked for any more go": {
			state: announcing(), spoil: func(f *fixture) {
				f.Exposed = append(unused(now.Add(-time.Hour)), model.Exposure{Name: "c-0-1-external", Pod: "c-0-1", Wanted: true})
			}, step: steps.Withdraw{Services: unused(now.Add(-time.Hour))},
		},
		"Services of a pod that is gone go immediately": {
			state: announcing(), spoil: func(f *fixture) { f.Exposed = []model.Exposure{{Name: "c-0-2-external", Pod: "c-0-2"}} },
			step: steps.Withdraw{Services: []model.Exposure{{Name: "c-0-2-external", Pod: "c-0-2"}}},
		},
		"Services that are not asked for stay while clients may not have heard of it": {
			state: announcing(), spoil: func(f *fixture) { f.Exposed = unused(now.Add(-50 * time.Second)) },
		},
		"Services that are not asked for stay while their announcement is unknown": {
			state: announcing(), spoil: func(f *fixture) { f.Exposed = unused(time.Time{}) },
		},
		"Services at which a server is looked for stay": {
			state: announcing(), spoil: func(f *fixture) {
				f.Exposed = unused(now.Add(-time.Hour))[1:]
				f.pod("c-0-1").Node.Asks = model.Address{IP: "10.96.0.0", Port: 31000}
			},
		},
	})
}
