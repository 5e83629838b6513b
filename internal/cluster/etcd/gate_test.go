package etcd_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

func TestDecideStart(t *testing.T) {
	peers := etcd.Peers("orders", "default", "cluster.local", 3, true)
	// answer is a member list in which the given members have not started.
	answer := func(from int, id uint64, unstarted ...int) etcd.PeerAnswer {
		a := etcd.PeerAnswer{From: peers[from].Name, ClusterID: id}
		for i, p := range peers {
			m := etcd.PeerMember{Name: p.Name, PeerURLs: []string{p.URL}, ClientURLs: []string{"https://" + p.Name}}
			for _, u := range unstarted {
				if u == i {
					m.ClientURLs = nil
				}
			}
			a.Members = append(a.Members, m)
		}
		return a
	}
	added := func(a etcd.PeerAnswer) etcd.PeerAnswer {
		a.Members[0].Name = ""
		return a
	}
	// toldOtherwise is an answer of a peer that has not been told yet of other URLs of the first and the last member.
	before := etcd.Peers("orders", "default", "cluster.local", 3, false)
	toldOtherwise := func(a etcd.PeerAnswer) etcd.PeerAnswer {
		a.Members[0].PeerURLs, a.Members[2].PeerURLs = []string{before[0].URL}, []string{before[2].URL}
		return a
	}
	// learner is an answer of a peer that has no vote.
	learner := func(a etcd.PeerAnswer) etcd.PeerAnswer {
		for i := range a.Members {
			a.Members[i].Learner = a.Members[i].Name == a.From
		}
		return a
	}
	without := func(a etcd.PeerAnswer) etcd.PeerAnswer {
		a.Members = a.Members[1:]
		return a
	}
	for name, tc := range map[string]struct {
		bootstrap etcd.Bootstrap
		id        uint64
		disk      etcd.Disk
		answers   []etcd.PeerAnswer
		aside     []string
		restores  bool
		state     string
		members   []etcd.Peer
		discard   bool
		waits     string
	}{
		"a log decides by itself": {
			bootstrap: etcd.BootstrapNew, id: 7, disk: etcd.DiskReady, state: "existing",
		},
		"a log decides by itself in a retained cluster": {
			bootstrap: etcd.BootstrapRetained, disk: etcd.DiskReady, state: "existing",
		},
		"an empty disk founds a new cluster": {
			bootstrap: etcd.BootstrapNew, state: "new",
		},
		"an empty disk founds a new cluster together with peers": {
			bootstrap: etcd.BootstrapNew, state: "new", answers: []etcd.PeerAnswer{answer(1, 7, 0, 1, 2)},
		},
		"an interrupted first start is set aside": {
			bootstrap: etcd.BootstrapNew, disk: etcd.DiskPartial, state: "new", discard: true,
		},
		"a disk lost before the id was recorded": {
			bootstrap: etcd.BootstrapNew, answers: []etcd.PeerAnswer{answer(1, 7), answer(2, 7, 0)}, waits: etcd.GateLostDisk,
		},
		"a disk lost afterwards": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{answer(1, 7)}, waits: etcd.GateLostDisk,
		},
		"an empty disk with nobody to ask": {
			bootstrap: etcd.BootstrapNew, id: 7, waits: etcd.GateNoPeers,
		},
		"an empty disk in a retained cluster": {
			bootstrap: etcd.BootstrapRetained, waits: etcd.GateNoPeers,
		},
		"an empty disk in a recovered cluster": {
			bootstrap: etcd.BootstrapRecovered, waits: etcd.GateNoPeers,
		},
		"a late member that all expect": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{answer(1, 7, 0), answer(2, 7, 0)},
			state: "existing", members: peers,
		},
		"a member that was added and has no name yet": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{added(answer(1, 7, 0)), added(answer(2, 7, 0))},
			state: "existing", members: peers,
		},
		"a disk lost while TLS is being switched": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{toldOtherwise(answer(1, 7)), toldOtherwise(answer(2, 7))},
			waits: etcd.GateLostDisk,
		},
		"a member that was added while TLS is being switched takes its peers at their word": {
			bootstrap: etcd.BootstrapNew, id: 7,
			answers: []etcd.PeerAnswer{toldOtherwise(added(answer(1, 7, 0))), toldOtherwise(added(answer(2, 7, 0)))},
			state:   "existing", members: []etcd.Peer{before[0], peers[1], before[2]},
		},
		"a single peer may be behind": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{answer(1, 7, 0)}, waits: etcd.GateNoPeers,
		},
		"a learner may be behind and does not say who has started": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{learner(answer(1, 7, 0))}, waits: etcd.GateNoPeers,
		},
		"a learner does not say who is a member": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{without(learner(answer(1, 7)))}, waits: etcd.GateNoPeers,
		},
		"a member that has not joined does not say who has started": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{answer(1, 7, 0, 1), answer(2, 7, 0, 2)}, waits: etcd.GateNoPeers,
		},
		"a member that the cluster does not list": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{without(answer(1, 7))}, waits: etcd.GateNotMember,
		},
		"what was set aside is not taken for nothing": {
			bootstrap: etcd.BootstrapRetained, aside: []string{"before-abc"}, waits: etcd.GateAside,
		},
		"also where claims were not known of": {
			bootstrap: etcd.BootstrapNew, aside: []string{"before-abc"}, waits: etcd.GateAside,
		},
		"unless the cluster begins with a backup": {
			bootstrap: etcd.BootstrapNew, aside: []string{"before-abc"}, restores: true, state: "new",
		},
		"or its peers expect it": {
			bootstrap: etcd.BootstrapRetained, aside: []string{"before-abc"}, answers: []etcd.PeerAnswer{answer(1, 7, 0), answer(2, 7, 0)},
			state: "existing", members: peers,
		},
		"or a cluster is there": {
			bootstrap: etcd.BootstrapNew, id: 7, aside: []string{"before-abc"}, waits: etcd.GateNoPeers,
		},
		"peers of another cluster": {
			bootstrap: etcd.BootstrapNew, id: 7, answers: []etcd.PeerAnswer{answer(1, 8, 0)}, waits: etcd.GateForeignPeers,
		},
		"peers of different clusters": {
			bootstrap: etcd.BootstrapNew, answers: []etcd.PeerAnswer{answer(1, 8, 0), answer(2, 9, 0)}, waits: etcd.GateForeignPeers,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := etcd.GateInput{
				Self: peers[0], Disk: tc.disk, Answers: tc.answers, Aside: tc.aside,
				Record: etcd.Record{Bootstrap: tc.bootstrap, ClusterID: tc.id, Members: peers},
			}
			if tc.restores {
				in.Record.Restore = &etcd.Restore{Directory: "orders-1"}
			}
			got := etcd.DecideStart(in)
			if got.Start != (tc.waits == "") || got.State != tc.state || got.Discard != tc.discard || got.Report.Reason != tc.waits {
				t.Errorf("%+v", got)
			}
			if diff := cmp.Diff(tc.members, got.Members); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
			if back, ok := etcd.ParseGateReport(got.Report.Encode()); ok != (tc.waits != "") || back != got.Report {
				t.Errorf("the report does not survive its encoding: %+v", back)
			}
		})
	}
}

func TestTheGateFinishesTheConfiguration(t *testing.T) {
	text := "distributed-tracing-address: http://0.0.0.0:4317\ninitial-cluster: a=http://a:2380\nlisten-peer-urls: http://0.0.0.0:2380\nname: a\n"
	d := etcd.GateDecision{State: "existing", Members: []etcd.Peer{{Name: "a", URL: "http://a:2380"}, {Name: "b", URL: "http://b:2380"}}}
	want := "distributed-tracing-address: http://0.0.0.0:4317\ninitial-cluster: \"a=http://a:2380,b=http://b:2380\"\nlisten-peer-urls: http://[::]:2380\nname: a\ninitial-cluster-state: existing\n"
	if diff := cmp.Diff(want, etcd.FinishConfig(text, d, true)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := etcd.FinishConfig(text, etcd.GateDecision{State: "new"}, false); got != text+"initial-cluster-state: new\n" {
		t.Errorf("%s", got)
	}
}

func TestTheRecordSurvivesItsConfigMap(t *testing.T) {
	for _, r := range []etcd.Record{
		{Bootstrap: etcd.BootstrapNew, Members: etcd.Peers("orders", "default", "cluster.local", 3, true)},
		{Bootstrap: etcd.BootstrapRetained, ClusterID: 1<<63 + 5, Members: etcd.Peers("orders", "default", "cluster.local", 1, false)},
		{Bootstrap: etcd.BootstrapNew, Members: etcd.Peers("orders", "default", "cluster.local", 1, false), Snapshot: snapshotFor(v37)},
		{Bootstrap: etcd.BootstrapNew, Members: etcd.Peers("orders", "default", "cluster.local", 1, false), Snapshot: snapshotFor(etcd.Version{})},
		{Bootstrap: etcd.BootstrapNew, Members: etcd.Peers("orders", "default", "cluster.local", 3, true), MinAvailable: 3, Hibernated: true},
	} {
		got, err := etcd.ParseRecord(r.Data())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestADamagedRecordIsRefused(t *testing.T) {
	good := etcd.Record{Bootstrap: etcd.BootstrapNew, Members: etcd.Peers("orders", "default", "cluster.local", 1, true)}
	for name, change := range map[string]func(map[string]string){
		"no bootstrap":      func(d map[string]string) { delete(d, etcd.KeyBootstrap) },
		"another bootstrap": func(d map[string]string) { d[etcd.KeyBootstrap] = "maybe" },
		"no members":        func(d map[string]string) { d[etcd.KeyMembers] = "" },
		"members nowhere":   func(d map[string]string) { d[etcd.KeyMembers] = "b3JkZXJz==" },
		"garbled members":   func(d map[string]string) { d[etcd.KeyMembers] = "orders-0" },
		"garbled snapshot":  func(d map[string]string) { d["snapshot"] = "yes" },
		"garbled id":        func(d map[string]string) { d[etcd.KeyClusterID] = strings.Repeat("f", 17) },
	} {
		data := good.Data()
		change(data)
		if r, err := etcd.ParseRecord(data); err == nil {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
}
