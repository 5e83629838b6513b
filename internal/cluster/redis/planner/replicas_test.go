package planner

import (
	"slices"
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextAddsReplicas(t *testing.T) {
	rows.Run(t, map[string]row{
		"more pods are waited for": {
			state: formed(), spoil: func(f *fixture) { f.Spec.Replicas = 2 }, reason: ReasonStarting, message: "6 of 9 pods exist",
		},
		"a pod that Kubernetes does not make is named, with the command that says why": {
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
				f.pod("c-1-2").Addr = model.Address{IP: "10.0.1.2", Port: model.ClientPort}
				f.join("c-1-2")
			},
			step: steps.Replicate{Replicas: []steps.Following{{Pod: "c-1-2", Primary: "c-1-0", PrimaryID: id("c-1-0")}}},
		},
		"a pod that is wanted again is waited for": {
			state: formed(), spoil: func(f *fixture) {
				f.withThird()
				f.leave()
				f.Spec.Replicas = 2
			},
			reason: ReasonStarting,
		},
	})
}

func TestNextRemovesReplicas(t *testing.T) {
	rows.Run(t, map[string]row{
		"a pod too many leaves": {state: formed(), spoil: func(f *fixture) { f.withThird() }, step: scaled, message: "too many leave, and own nothing: c-1-2"},
		"a pod too many that never ran leaves": {
			state: formed(), spoil: func(f *fixture) {
				p := f.withThird()
				p.Node, p.HasRun, p.Ready, p.Stuck = nil, false, false, "Unschedulable: 0/3 nodes"
			},
			step: scaled,
		},
		"a pod too many on a lost node leaves, when all others know it as a replica": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.loseNode("c-1-2") }, step: scaled,
		},
		"a pod too many that is ready and cannot be read stays": {
			state: formed(), spoil: func(f *fixture) { p := f.withThird(); p.Node = nil }, reason: ReasonUnreachable,
		},
		"a pod too many that may own the slots in the table of an unknown server stays": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.loseNode("c-1-2"); f.pod("c-2-1").Node = nil }, reason: ReasonUnreachable,
		},
		"a primary hands over before it leaves": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.lead("c-1-2"); f.pod("c-1-1").Node.Offset = 2000 },
			step: steps.Failover{Shard: 1, From: "c-1-2", To: "c-1-1"},
		},
		"a primary that leaves does not hand over while its successor is not in sync": {
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
		"no pod leaves while a copy that stays is not on disk": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.pod("c-1-1").Node.OnDisk = false }, reason: ReasonLeaving,
			message: "c-1-2 leave as soon as the others of shard 1 have everything on their disks",
		},
		"no pod leaves while the others do not know a copy that stays": {
			state: formed(), spoil: func(f *fixture) {
				f.withThird()
				n := f.pod("c-2-0").Node
				n.Peers = slices.DeleteFunc(n.Peers, func(p model.Peer) bool { return p.ID == id("c-1-1") })
			},
			step: steps.Meet{Pairs: []steps.Introduction{{Pod: "c-1-1", Other: "c-2-0", Addr: model.Address{IP: "10.0.2.0", Port: model.ClientPort}, Bus: 0, ID: id("c-2-0")}}}, message: "back",
		},
		"no pod leaves while a pod that stays is gone": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.pod("c-1-1").Deleting = true }, reason: ReasonUnreachable,
		},
		"no pod leaves that holds more than its primary, which came back empty": {
			state: formed(), spoil: func(f *fixture) {
				f.withThird().Node.LinkUp = false
				f.Sets[1].Guarded = true
				f.pod("c-1-0").Node.Keys, f.pod("c-1-1").Node.Keys = 2, 2
			},
			reason: ReasonSync,
		},
	})
}

func TestNextForgetsRemovedReplicas(t *testing.T) {
	rows.Run(t, map[string]row{
		"a pod that is deleted by its set does not count any more": {
			state: formed(), spoil: func(f *fixture) { f.withThird().Deleting = true; f.Sets[1].Replicas = 2 }, reason: ReasonLeaving,
			message: "pod c-1-2 is one too many, and is being deleted",
		},
		"the node of a pod that leaves is not forgotten before the pod is gone": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.loseNode("c-1-2"); f.Sets[1].Replicas = 2 }, reason: ReasonLeaving,
		},
		"the node of a pod that left is forgotten immediately": {
			state: formed(), spoil: func(f *fixture) { f.withThird(); f.leave() },
			step: steps.Forget{ID: id("c-1-2"), Pods: []string{"c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0", "c-2-1"}},
		},
		"the claim of a pod that left stays": {
			state: formed(), spoil: func(f *fixture) { f.leave() },
		},
		"the claim of a pod that left goes where data goes with its pods": {
			state: formed(), spoil: func(f *fixture) { f.leave(); f.Spec.DiscardClaims = true },
			step: steps.DeleteClaim{Name: "data-c-1-2", UID: "u", ResourceVersion: "7"},
		},
		"the claim of a pod that leaves stays while the pod is there": {
			state: formed(), spoil: func(f *fixture) {
				f.leave()
				f.withThird().Deleting = true
				f.Sets[1].Replicas, f.Spec.DiscardClaims = 2, true
			},
			reason: ReasonLeaving,
		},
		"the claim of a pod that left stays while the shard is not in sync": {
			state: formed(), spoil: func(f *fixture) { f.leave(); f.Spec.DiscardClaims = true; f.unlink("c-1-1") }, reason: ReasonSync,
		},
	})
}
