package gate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// gatePeers are the members of a cluster with TLS, and plainPeers the same without.
var (
	gatePeers  = model.Peers("orders", "default", "cluster.local", 3, true)
	plainPeers = model.Peers("orders", "default", "cluster.local", 3, false)
)

// answer is a member list in which the given members have not started.
func answer(from int, id uint64, unstarted ...int) gate.PeerAnswer {
	a := gate.PeerAnswer{From: gatePeers[from].Name, ClusterID: id}
	for i, p := range gatePeers {
		m := gate.PeerMember{Name: p.Name, PeerURLs: []string{p.URL}, ClientURLs: []string{"https://" + p.Name}}
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
func added(a gate.PeerAnswer) gate.PeerAnswer {
	a.Members[0].Name = ""
	return a
}

// toldOtherwise is an answer of a peer that has not been told yet of other URLs of the first and the last member.
func toldOtherwise(a gate.PeerAnswer) gate.PeerAnswer {
	a.Members[0].PeerURLs, a.Members[2].PeerURLs = []string{plainPeers[0].URL}, []string{plainPeers[2].URL}
	return a
}

// learner is an answer of a peer that has no vote.
func learner(a gate.PeerAnswer) gate.PeerAnswer {
	for i := range a.Members {
		a.Members[i].Learner = a.Members[i].Name == a.From
	}
	return a
}

// without is an answer that does not list the first member.
func without(a gate.PeerAnswer) gate.PeerAnswer {
	a.Members = a.Members[1:]
	return a
}

// startRow is what the gate of the first member finds, and what it decides.
type startRow struct {
	bootstrap model.Bootstrap
	id        uint64
	disk      gate.Disk
	answers   []gate.PeerAnswer
	aside     []string
	restores  bool
	state     string
	members   []model.Peer
	discard   bool
	waits     string
}

func (r startRow) Check(t *testing.T) {
	t.Helper()
	in := gate.Input{
		Self: gatePeers[0], Disk: r.disk, Answers: r.answers, Aside: r.aside,
		Record: model.Record{Bootstrap: r.bootstrap, ClusterID: r.id, Members: gatePeers},
	}
	if r.restores {
		in.Record.Restore = &model.Restore{Directory: "orders-1"}
	}
	got := gate.Decide(in)
	if got.Start != (r.waits == "") || got.State != r.state || got.Discard != r.discard || got.Report.Reason != r.waits {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(r.members, got.Members); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if back, ok := model.ParseGateReport(got.Report.Encode()); ok != (r.waits != "") || back != got.Report {
		t.Errorf("the report does not survive its encoding: %+v", back)
	}
}

func TestTheGateFinishesTheConfiguration(t *testing.T) {
	text := "distributed-tracing-address: http://0.0.0.0:4317\ninitial-cluster: a=http://a:2380\nlisten-peer-urls: http://0.0.0.0:2380\nname: a\n"
	d := gate.Decision{State: "existing", Members: []model.Peer{{Name: "a", URL: "http://a:2380"}, {Name: "b", URL: "http://b:2380"}}}
	want := "distributed-tracing-address: http://0.0.0.0:4317\ninitial-cluster: \"a=http://a:2380,b=http://b:2380\"\nlisten-peer-urls: http://[::]:2380\nname: a\ninitial-cluster-state: existing\n"
	if diff := cmp.Diff(want, gate.FinishConfig(text, d, true)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := gate.FinishConfig(text, gate.Decision{State: "new"}, false); got != text+"initial-cluster-state: new\n" {
		t.Errorf("%s", got)
	}
}

func TestADamagedRecordIsRefused(t *testing.T) {
	good := model.Record{Bootstrap: model.BootstrapNew, Members: model.Peers("orders", "default", "cluster.local", 1, true)}
	for name, change := range map[string]func(map[string]string){
		"no bootstrap":      func(d map[string]string) { delete(d, model.KeyBootstrap) },
		"another bootstrap": func(d map[string]string) { d[model.KeyBootstrap] = "maybe" },
		"no members":        func(d map[string]string) { d[model.KeyMembers] = "" },
		"members nowhere":   func(d map[string]string) { d[model.KeyMembers] = "b3JkZXJz==" },
		"garbled members":   func(d map[string]string) { d[model.KeyMembers] = "orders-0" },
		"garbled snapshot":  func(d map[string]string) { d["snapshot"] = "yes" },
		"garbled id":        func(d map[string]string) { d[model.KeyClusterID] = strings.Repeat("f", 17) },
	} {
		data := good.Data()
		change(data)
		if r, err := model.ParseRecord(data); err == nil {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
}
