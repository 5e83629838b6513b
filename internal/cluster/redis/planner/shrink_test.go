package planner

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// withThird adds a third pod to shard 1, a replica that is in sync.
func (f *fixture) withThird() *model.Pod {
	name := "c-1-2"
	addr := model.Address{IP: "10.0.1.2", Port: model.ClientPort}
	f.Sets[1].Replicas = 3
	f.Pods = append(f.Pods, model.Pod{
		Name: name, UID: "uid-" + name, Shard: 1, Ordinal: 2, Addr: addr, Ready: true, HasRun: true, Started: now.Add(-time.Hour),
		Node: &model.Node{
			ID: id(name), Version: "8.0.2", LinkUp: true, EverLinked: true, Keys: 10, Offset: 1000, Admits: model.AdmitsForGood, OnDisk: true,
			Peers: []model.Peer{{ID: id(name), Addr: addr, Host: name + ".c-peers", Myself: true, Replica: true, PrimaryID: id("c-1-0")}},
		},
	})
	f.join(name)
	return f.pod(name)
}

// lead makes a replica of shard 1 the primary.
func (f *fixture) lead(name string) {
	for _, p := range f.Pods {
		if p.Shard != 1 {
			continue
		}
		leads := p.Name == name
		f.views(p.Node.ID, func(peer *model.Peer) {
			peer.Slots, peer.Replica, peer.PrimaryID = nil, true, id(name)
			if leads {
				peer.Slots, peer.Replica, peer.PrimaryID = slots.Share(1, 3), false, ""
			}
		})
		f.pod(p.Name).Node.LinkUp = !leads
	}
}

// leave is what the third pod of shard 1 leaves behind: a node that the others know, and a claim.
func (f *fixture) leave() {
	f.Claims = []model.Claim{{Name: "data-c-1-2", UID: "u", ResourceVersion: "7", Shard: 1, Ordinal: 2}}
	f.Sets[1].Replicas = 2
	f.Pods = slices.DeleteFunc(f.Pods, func(p model.Pod) bool { return p.Name == "c-1-2" })
}

// scaled is the step that takes the third pod of shard 1 away.
var scaled cluster.Step = steps.ScaleShards{Sets: []steps.SetSize{{Shard: 1, From: 3, To: 2}}}

// TestTheLastReplicasLeave: afterwards there is one copy of each shard, as was asked for.
func TestTheLastReplicasLeave(t *testing.T) {
	f := formed()
	f.Spec.Replicas = 0
	f.lead("c-1-1")
	want := cluster.Step(steps.Failover{Shard: 1, From: "c-1-1", To: "c-1-0"})
	if diff := cmp.Diff(want, Next(f.State).Step); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	f.lead("c-1-0")
	want = steps.ScaleShards{Sets: []steps.SetSize{{Shard: 0, From: 2, To: 1}, {Shard: 1, From: 2, To: 1}, {Shard: 2, From: 2, To: 1}}}
	if diff := cmp.Diff(want, Next(f.State).Step); diff != "" {
		t.Errorf("then (-want +got):\n%s", diff)
	}
}
