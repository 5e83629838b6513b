package etcd_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

// gatePeers are the members of a cluster with TLS, and plainPeers the same without.
var (
	gatePeers  = etcd.Peers("orders", "default", "cluster.local", 3, true)
	plainPeers = etcd.Peers("orders", "default", "cluster.local", 3, false)
)

// answer is a member list in which the given members have not started.
func answer(from int, id uint64, unstarted ...int) etcd.PeerAnswer {
	a := etcd.PeerAnswer{From: gatePeers[from].Name, ClusterID: id}
	for i, p := range gatePeers {
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

// added is an answer in which the first member has no name yet.
func added(a etcd.PeerAnswer) etcd.PeerAnswer {
	a.Members[0].Name = ""
	return a
}

// toldOtherwise is an answer of a peer that has not been told yet of other URLs of the first and the last member.
func toldOtherwise(a etcd.PeerAnswer) etcd.PeerAnswer {
	a.Members[0].PeerURLs, a.Members[2].PeerURLs = []string{plainPeers[0].URL}, []string{plainPeers[2].URL}
	return a
}

// learner is an answer of a peer that has no vote.
func learner(a etcd.PeerAnswer) etcd.PeerAnswer {
	for i := range a.Members {
		a.Members[i].Learner = a.Members[i].Name == a.From
	}
	return a
}

// without is an answer that does not list the first member.
func without(a etcd.PeerAnswer) etcd.PeerAnswer {
	a.Members = a.Members[1:]
	return a
}

// startRow is what the gate of the first member finds, and what it decides.
type startRow struct {
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
}

func (r startRow) check(t *testing.T) {
	t.Helper()
	in := etcd.GateInput{
		Self: gatePeers[0], Disk: r.disk, Answers: r.answers, Aside: r.aside,
		Record: etcd.Record{Bootstrap: r.bootstrap, ClusterID: r.id, Members: gatePeers},
	}
	if r.restores {
		in.Record.Restore = &etcd.Restore{Directory: "orders-1"}
	}
	got := etcd.DecideStart(in)
	if got.Start != (r.waits == "") || got.State != r.state || got.Discard != r.discard || got.Report.Reason != r.waits {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(r.members, got.Members); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if back, ok := etcd.ParseGateReport(got.Report.Encode()); ok != (r.waits != "") || back != got.Report {
		t.Errorf("the report does not survive its encoding: %+v", back)
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
