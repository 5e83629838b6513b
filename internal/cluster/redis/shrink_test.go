package redis

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster"
)

// withThird adds a third pod to shard 1, a replica that is in sync.
func (f *fixture) withThird() *Pod {
	name := "c-1-2"
	addr := Address{IP: "10.0.1.2", Port: ClientPort}
	f.Sets[1].Replicas = 3
	f.Pods = append(f.Pods, Pod{
		Name: name, UID: "uid-" + name, Shard: 1, Ordinal: 2, Addr: addr, Ready: true, HasRun: true, Started: now.Add(-time.Hour),
		Node: &Node{
			ID: id(name), Version: "8.0.2", LinkUp: true, EverLinked: true, Keys: 10, Offset: 1000, Admits: AdmitsForGood, OnDisk: true,
			Peers: []Peer{{ID: id(name), Addr: addr, Host: name + ".c-peers", Myself: true, Replica: true, PrimaryID: id("c-1-0")}},
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
		f.views(p.Node.ID, func(peer *Peer) {
			peer.Slots, peer.Replica, peer.PrimaryID = nil, true, id(name)
			if leads {
				peer.Slots, peer.Replica, peer.PrimaryID = Share(1, 3), false, ""
			}
		})
		f.pod(p.Name).Node.LinkUp = !leads
	}
}

// leave is what the third pod of shard 1 leaves behind: a node that the others know, and a claim.
func (f *fixture) leave() {
	f.Claims = []Claim{{Name: "data-c-1-2", UID: "u", ResourceVersion: "7", Shard: 1, Ordinal: 2}}
	f.Sets[1].Replicas = 2
	f.Pods = slices.DeleteFunc(f.Pods, func(p Pod) bool { return p.Name == "c-1-2" })
}

// scaled is the step that takes the third pod of shard 1 away.
var scaled cluster.Step = ScaleShards{[]SetSize{{Shard: 1, From: 3, To: 2}}}

func TestTheNumberOfReplicasChanges(t *testing.T) {
	for name, tc := range map[string]row{
		"more pods are waited for": {
			state: formed(), spoil: func(f *fixture) { f.Spec.Replicas = 2 }, reason: ReasonStarting, message: "6 of 9 pods exist",
		},
		"a pod that Kubernetes does not make is named, and who knows why": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Namespace, f.Spec.Replicas = "shop", 2
				for i := range f.Sets {
					f.Sets[i].Overdue = true
				}
				f.Sets[1].Replicas = 3
			},
			reason: ReasonStarting, message: "6 of 9 pods exist; c-1-2 does not: Kubernetes has not made it: if that lasts, `kubectl -n shop describe statefulset c-1` says why (a quota",
		},
		"a new pod is introduced": {
			state: formed(), spoil: func(f *fixture) {
				f.withThird()
				f.Spec.Replicas, f.Sets[0].Replicas, f.Sets[2].Replicas = 2, 3, 3
				f.replaceDisk("c-1-2")
				f.pod("c-1-2").Addr = Address{"10.0.1.2", ClientPort}
				f.join("c-1-2")
			},
			step: Replicate{[]Following{{"c-1-2", "c-1-0", id("c-1-0")}}},
		},
		"a pod too many leaves": {state: formed(), spoil: func(f *fixture) { f.withThird() }, step: scaled, message: "too many leave, and own nothing: c-1-2"},
		"so does one that never ran": {
			state: formed(), spoil: func(f *fixture) {
				p := f.withThird()
				p.Node, p.HasRun, p.Ready, p.Stuck = nil, false, false, "Unschedulable: 0/3 nodes"
			},
			step: scaled,
		},
		"and one on a node that is lost, which all others know to be a replica": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.loseNode("c-1-2") }, step: scaled,
		},
		"but not one that is ready and cannot be read": {
			state: formed(), spoil: func(f *fixture) { p := f.withThird(); p.Node = nil }, reason: ReasonUnreachable,
		},
		"nor one that may own the slots in the eyes of a server that is unknown": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.loseNode("c-1-2"); f.pod("c-2-1").Node = nil }, reason: ReasonUnreachable,
		},
		"a primary hands over before it leaves": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.lead("c-1-2"); f.pod("c-1-1").Node.Offset = 2000 },
			step: Failover{1, "c-1-2", "c-1-1"},
		},
		"it does not while its successor is not in sync": {
			state: formed(), spoil: func(f *fixture) {
				f.withThird()
				f.lead("c-1-2")
				f.unlink("c-1-1")
			},
			reason: ReasonSync,
		},
		"no pod leaves while a copy that stays is not in sync": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.unlink("c-1-1") }, reason: ReasonSync,
		},
		"nor while it is not on disk": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.pod("c-1-1").Node.OnDisk = false }, reason: ReasonLeaving,
			message: "c-1-2 leave as soon as the others of shard 1 have everything on their disks",
		},
		"nor while the others do not know it": {
			state: formed(), spoil: func(f *fixture) {
				f.withThird()
				n := f.pod("c-2-0").Node
				n.Peers = slices.DeleteFunc(n.Peers, func(p Peer) bool { return p.ID == id("c-1-1") })
			},
			step: Meet{[]Introduction{{"c-1-1", "c-2-0", Address{"10.0.2.0", ClientPort}, 0, id("c-2-0")}}}, message: "back",
		},
		"nor while a pod that stays is gone": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.pod("c-1-1").Deleting = true }, reason: ReasonUnreachable,
		},
		"nor one that holds more than its primary, which came back empty": {
			state: formed(), spoil: func(f *fixture) {
				f.withThird().Node.LinkUp = false
				f.Sets[1].Guarded = true
				f.pod("c-1-0").Node.Keys, f.pod("c-1-1").Node.Keys = 2, 2
			},
			reason: ReasonSync,
		},
		"a pod that is deleted by its set does not count any more": {
			state: formed(), spoil: func(f *fixture) { f.withThird().Deleting = true; f.Sets[1].Replicas = 2 }, reason: ReasonLeaving,
			message: "pod c-1-2 is one too many, and is being deleted",
		},
		"its node is not forgotten before the pod is gone": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.loseNode("c-1-2"); f.Sets[1].Replicas = 2 }, reason: ReasonLeaving,
		},
		"then it is, at once": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.leave() },
			step: Forget{id("c-1-2"), []string{"c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0", "c-2-1"}},
		},
		"a pod that is wanted again is waited for": {
			state: formed(), spoil: func(f *fixture) {
				f.withThird()
				f.leave()
				f.Spec.Replicas = 2
			},
			reason: ReasonStarting,
		},
		"the claim of a pod that left stays": {
			state: formed(), spoil: func(f *fixture) { f.leave() },
		},
		"it goes where data goes with its pods": {
			state: formed(), spoil: func(f *fixture) { f.leave(); f.Spec.DiscardClaims = true },
			step: DeleteClaim{"data-c-1-2", "u", "7"},
		},
		"not while the pod is there": {
			state: formed(), spoil: func(f *fixture) {
				f.leave()
				f.withThird().Deleting = true
				f.Sets[1].Replicas, f.Spec.DiscardClaims = 2, true
			},
			reason: ReasonLeaving,
		},
		"nor while the shard is not well": {
			state: formed(), spoil: func(f *fixture) { f.leave(); f.Spec.DiscardClaims = true; f.unlink("c-1-1") }, reason: ReasonSync,
		},
	} {
		t.Run(name, tc.check)
	}
}

// TestTheLastReplicasLeave: afterwards there is one copy of each shard, as was asked for.
func TestTheLastReplicasLeave(t *testing.T) {
	f := formed()
	f.Spec.Replicas = 0
	f.lead("c-1-1")
	want := cluster.Step(Failover{1, "c-1-1", "c-1-0"})
	if diff := cmp.Diff(want, Next(f.State).Step); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	f.lead("c-1-0")
	want = ScaleShards{[]SetSize{{Shard: 0, From: 2, To: 1}, {Shard: 1, From: 2, To: 1}, {Shard: 2, From: 2, To: 1}}}
	if diff := cmp.Diff(want, Next(f.State).Step); diff != "" {
		t.Errorf("then (-want +got):\n%s", diff)
	}
}
