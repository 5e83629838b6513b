package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// upgraded gives pods a newer version, and the template of it; all others become outdated.
func (f *fixture) upgraded(pods ...string) {
	f.Spec.Version = "9.0.1"
	outdate(f)
	for _, name := range pods {
		f.pod(name).Outdated, f.pod(name).Node.Version = false, "9.0.1"
	}
}

// setBack asks for the former version again.
func (f *fixture) setBack() {
	f.Spec.Version = "8.0.2"
	for i := range f.Pods {
		f.Pods[i].Outdated = f.Pods[i].Node == nil || f.Pods[i].Node.Version != "8.0.2"
	}
}

// neverAnswers makes c-0-1 unreadable, which has not been ready for some time.
func (f *fixture) neverAnswers(since time.Duration) {
	p := f.pod("c-0-1")
	p.Node, p.Ready, p.Unready, p.Error = nil, false, now.Add(-since), "the server does not answer"
}

func restartOf(pods ...string) cluster.Step {
	step := steps.Restart{Cause: steps.ReasonRestart}
	for _, name := range pods {
		step.Pods = append(step.Pods, steps.PodRef{Name: name, UID: "uid-" + name})
	}
	return step
}

// TestShardsWithoutReplicasKeepTheirSlotsInService: each gets a replica for the time of its restart.
func TestShardsWithoutReplicasKeepTheirSlotsInService(t *testing.T) {
	f := formed()
	f.Spec.Replicas, f.Spec.Persistent = 0, false
	all := f.Pods
	for i := range f.Sets {
		f.Sets[i].Replicas = 1
	}
	f.Pods = []model.Pod{*f.pod("c-0-0"), *f.pod("c-1-0"), *f.pod("c-2-0")}
	for i := range f.Pods {
		n := f.Pods[i].Node
		n.Peers = []model.Peer{n.Peers[0], n.Peers[2], n.Peers[4]}
	}
	f.upgraded()
	expect := func(what string, want cluster.Step) {
		t.Helper()
		if diff := cmp.Diff(want, Next(f.State).Step); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("the first shard", steps.ScaleShards{Sets: []steps.SetSize{{Shard: 0, From: 1, To: 2}}})

	f.Sets[0].Replicas = 2
	f.Pods = append(f.Pods, all[1]) // c-0-1
	second := f.pod("c-0-1")
	second.Node.Version = "9.0.1"
	second.Node.Peers = []model.Peer{second.Node.Peers[0], second.Node.Peers[1], second.Node.Peers[2], second.Node.Peers[4]}
	for _, name := range []string{"c-0-0", "c-1-0", "c-2-0"} {
		n := f.pod(name).Node
		n.Peers = append(n.Peers, model.Peer{ID: id("c-0-1"), Addr: second.Addr, Replica: true, PrimaryID: id("c-0-0")})
	}
	expect("its replica is in sync", steps.Failover{Shard: 0, From: "c-0-0", To: "c-0-1"})

	f.views(id("c-0-0"), func(p *model.Peer) { p.Slots, p.Replica, p.PrimaryID = nil, true, id("c-0-1") })
	f.views(id("c-0-1"), func(p *model.Peer) { p.Slots, p.Replica, p.PrimaryID = slots.Share(0, 3), false, "" })
	f.pod("c-0-0").Node.LinkUp, second.Node.LinkUp = true, false
	expect("the old one is a replica", restartOf("c-0-0"))

	f.pod("c-0-0").Outdated, f.pod("c-0-0").Node.Version = false, "9.0.1"
	expect("it is new", steps.Failover{Shard: 0, From: "c-0-1", To: "c-0-0"})

	f.views(id("c-0-1"), func(p *model.Peer) { p.Slots, p.Replica, p.PrimaryID = nil, true, id("c-0-0") })
	f.views(id("c-0-0"), func(p *model.Peer) { p.Slots, p.Replica, p.PrimaryID = slots.Share(0, 3), false, "" })
	f.pod("c-0-0").Node.LinkUp, second.Node.LinkUp = false, true
	expect("it owns the slots again", steps.ScaleShards{Sets: []steps.SetSize{{Shard: 0, From: 2, To: 1}}})
}
