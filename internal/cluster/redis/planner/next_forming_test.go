package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextFormsANewCluster(t *testing.T) {
	rows.Run(t, map[string]row{
		"fresh nodes get epochs first": {
			state: fresh(),
			step: steps.SetConfigEpochs{Nodes: []steps.NodeEpoch{
				{Pod: "c-0-0", Epoch: 1}, {Pod: "c-0-1", Epoch: 1025}, {Pod: "c-1-0", Epoch: 2}, {Pod: "c-1-1", Epoch: 1026}, {Pod: "c-2-0", Epoch: 3}, {Pod: "c-2-1", Epoch: 1027},
			}},
		},
		"a bootstrap waits for the last server": {
			state: fresh(), spoil: func(f *fixture) { f.pod("c-2-1").Node = nil }, reason: ReasonStarting,
		},
		"a bootstrap waits for the last pod": {
			state: fresh(), spoil: func(f *fixture) { f.Pods = f.Pods[:5] }, reason: ReasonStarting,
		},
		"a bootstrap goes on with the epochs that are missing": {
			state: fresh(), spoil: func(f *fixture) {
				for i := range 5 {
					f.Pods[i].Node.Peers[0].Epoch = model.BootstrapEpoch(&f.Pods[i])
				}
			},
			step: steps.SetConfigEpochs{Nodes: []steps.NodeEpoch{{Pod: "c-2-1", Epoch: 1027}}},
		},
		"slots that are missing after an interrupted assignment are assigned": {
			state: formed(), spoil: func(f *fixture) {
				unreplicate(f)
				f.disown("c-1-0")
			},
			step: steps.AddSlots{Owners: []steps.Ownership{{Pod: "c-1-0", Slots: slots.Share(1, 3)}}},
		},
		"replicas are attached after the slots": {
			state: formed(), spoil: unreplicate,
			step: steps.Replicate{Replicas: []steps.Following{
				{Pod: "c-0-1", Primary: "c-0-0", PrimaryID: id("c-0-0")}, {Pod: "c-1-1", Primary: "c-1-0", PrimaryID: id("c-1-0")}, {Pod: "c-2-1", Primary: "c-2-0", PrimaryID: id("c-2-0")},
			}},
		},
		"a node without slots admits no replicas": {
			state: fresh(), spoil: func(f *fixture) { f.Pods = f.Pods[:5] }, reason: ReasonStarting,
		},
	})
}

func TestNextKeepsClaimsThatMayHoldData(t *testing.T) {
	rows.Run(t, map[string]row{
		"a settled cluster does not mind a claim that no pod has": {
			state: formed(), spoil: func(f *fixture) { f.Claims = []model.Claim{{Name: "data-c-1-2", Shard: 1, Ordinal: 2}} },
		},
		"no replica is elected while the claim of a pod that is not wanted may have more": {
			state: formed(), spoil: func(f *fixture) {
				f.loseDisk("c-1-0")
				f.Claims = []model.Claim{{Name: "data-c-1-2", Shard: 1, Ordinal: 2}}
			},
			reason: ReasonRetained, stalled: true,
		},
		"a shard that is not wanted any more is not lost while its claims are there": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Shards, f.Sets, f.Pods = 2, f.Sets[:2], f.Pods[:4]
				f.Claims = []model.Claim{{Name: "data-c-2-0", Shard: 2}, {Name: "data-c-2-1", Shard: 2, Ordinal: 1}}
			},
			reason: ReasonRetained, stalled: true,
		},
		"a new cluster is not made beside a claim of a larger one": {
			state: fresh(), spoil: func(f *fixture) { f.Claims = []model.Claim{{Name: "data-c-3-0", Shard: 3}} },
			reason: ReasonRetained, stalled: true,
		},
		"a new cluster is not made of claims that are being deleted": {
			state: fresh(), spoil: func(f *fixture) { f.Claims = []model.Claim{{Name: "data-c-0-0", Leaving: true}} },
			reason: ReasonStarting,
		},
		"the claims of wanted pods hold nothing up": {
			state: formed(), spoil: func(f *fixture) {
				f.loseDisk("c-1-0")
				f.Claims = []model.Claim{{Name: "data-c-1-0", Shard: 1}, {Name: "data-c-1-1", Shard: 1, Ordinal: 1}}
			},
			reason: ReasonElection,
		},
	})
}

func TestNextServesSlotsWithoutAnOwner(t *testing.T) {
	rows.Run(t, map[string]row{
		"slots without an owner are not assigned once there are replicas": {
			state: formed(), spoil: func(f *fixture) { f.disown("c-1-0") },
			reason: ReasonSlotsUnassigned, stalled: true,
		},
		"slots without an owner are served empty where that is allowed": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.AssignEmpty = true
				f.disown("c-1-0")
			},
			step: steps.AddSlots{Owners: []steps.Ownership{{Pod: "c-1-0", Slots: slots.Share(1, 3)}}},
		},
		"slots without an owner wait for a server that has met the other primaries": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.AssignEmpty = true
				f.disown("c-1-0")
				f.strangers("c-1-0", "c-0-0")
			},
			reason: ReasonSlotsUnassigned, message: "no shard that is to have them has a primary that knows the others",
		},
		"slots without an owner may be on a volume that is not in use": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.AssignEmpty, f.Spec.Persistent = true, true
				f.Claims = []model.Claim{{Name: "data-c-1-5", Shard: 1, Ordinal: 5}}
				f.disown("c-1-0")
			},
			reason: ReasonRetained, stalled: true,
		},
		"slots without an owner go to the shards that are to have them": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.AssignEmpty = true
				f.disown("c-1-0")
				f.views(id("c-2-0"), func(p *model.Peer) { p.Slots = slots.Set{{From: 16000, To: 16383}} })
			},
			step: steps.AddSlots{Owners: []steps.Ownership{{Pod: "c-1-0", Slots: slots.Share(1, 3)}, {Pod: "c-2-0", Slots: slots.Set{{From: 10923, To: 15999}}}}},
		},
		"slots without an owner are not assigned to a node that came later": {
			state: formed(), spoil: func(f *fixture) {
				unreplicate(f)
				f.views(id("c-1-0"), func(p *model.Peer) { p.Slots, p.Epoch = nil, 7 })
			},
			reason: ReasonSlotsUnassigned, stalled: true,
		},
		"slots without an owner are not assigned to a node that holds keys": {
			state: formed(), spoil: func(f *fixture) {
				unreplicate(f)
				f.disown("c-1-0")
				f.pod("c-1-0").Node.Keys = 5
			},
			reason: ReasonSlotsUnassigned, stalled: true,
		},
	})
}

func TestNextIntroducesServers(t *testing.T) {
	rows.Run(t, map[string]row{
		"a replica of another shard is brought home": {
			state: formed(), spoil: func(f *fixture) {
				f.views(id("c-2-1"), func(p *model.Peer) { p.PrimaryID = id("c-0-0") })
			},
			step: steps.Replicate{Replicas: []steps.Following{{Pod: "c-2-1", Primary: "c-2-0", PrimaryID: id("c-2-0")}}},
		},
		"two nodes that both moved are introduced": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-0-0").Addr.IP = "10.9.0.1"
				f.pod("c-2-1").Addr.IP = "10.9.0.2"
			},
			step: steps.Meet{Pairs: []steps.Introduction{{Pod: "c-0-0", Other: "c-2-1", Addr: model.Address{IP: "10.9.0.2", Port: model.ClientPort}, Bus: 0, ID: id("c-2-1")}}},
		},
		"a node that lost its disk is introduced": {
			state: formed(), spoil: func(f *fixture) { f.replaceDisk("c-1-1") },
			step: steps.Meet{Pairs: []steps.Introduction{
				{Pod: "c-0-0", Other: "c-1-1", Addr: model.Address{IP: "10.9.9.9", Port: model.ClientPort}, Bus: 0, ID: "new-c-1-1"},
				{Pod: "c-0-1", Other: "c-1-1", Addr: model.Address{IP: "10.9.9.9", Port: model.ClientPort}, Bus: 0, ID: "new-c-1-1"},
				{Pod: "c-1-0", Other: "c-1-1", Addr: model.Address{IP: "10.9.9.9", Port: model.ClientPort}, Bus: 0, ID: "new-c-1-1"},
				{Pod: "c-1-1", Other: "c-2-0", Addr: model.Address{IP: "10.0.2.0", Port: model.ClientPort}, Bus: 0, ID: id("c-2-0")},
				{Pod: "c-1-1", Other: "c-2-1", Addr: model.Address{IP: "10.0.2.1", Port: model.ClientPort}, Bus: 0, ID: id("c-2-1")},
			}},
		},
		"a replica that lost its disk is attached again": {
			state: formed(), spoil: func(f *fixture) { f.loseDisk("c-1-1") },
			step: steps.Replicate{Replicas: []steps.Following{{Pod: "c-1-1", Primary: "c-1-0", PrimaryID: id("c-1-0")}}},
		},
		"a replica that asks for its primary at an address that this has left is told the new one": {
			state: formed(), spoil: func(f *fixture) { f.mislead("c-1-1", 10*time.Second) },
			step: steps.Replicate{Replicas: []steps.Following{{Pod: "c-1-1", Primary: "c-1-0", PrimaryID: id("c-1-0")}}},
		},
		"a replica that does not take the address of its primary is restarted": {
			state: formed(), spoil: func(f *fixture) { f.mislead("c-1-1", time.Minute) },
			step: steps.Restart{Cause: steps.ReasonRestart, Pods: []steps.PodRef{{Name: "c-1-1", UID: "uid-c-1-1"}}}, message: "at 10.9.9.9:6379, where it is no more",
		},
		"a replica that does not know better has to hear of it first": {
			state: formed(), spoil: func(f *fixture) {
				f.mislead("c-1-1", time.Minute)
				f.Sets[1].Guarded = true
				for i, p := range f.pod("c-1-1").Node.Peers {
					if p.ID == id("c-1-0") {
						f.pod("c-1-1").Node.Peers[i].Addr.IP = "10.9.9.9"
					}
				}
			},
			reason: ReasonSync,
		},
		"two clusters with data are not merged": {
			state: formed(), spoil: func(f *fixture) {
				for i := range f.Pods {
					n := f.Pods[i].Node
					var own []model.Peer
					for _, p := range n.Peers {
						if (f.Pods[i].Shard == 2) == (p.ID == id("c-2-0") || p.ID == id("c-2-1")) {
							own = append(own, p)
						}
					}
					n.Peers = own
				}
			},
			reason: ReasonIslands, stalled: true,
		},
	})
}

func TestNextForgetsDeadNodes(t *testing.T) {
	rows.Run(t, map[string]row{
		"a dead node without slots and replicas is forgotten": {
			state: formed(), spoil: departedReplica,
			step: steps.Forget{ID: "ghost", Pods: []string{"c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0", "c-2-1"}},
		},
		"a replica that was away while others got what its primary had follows those": {
			state: formed(), spoil: func(f *fixture) {
				departedReplica(f)
				f.views(id("c-1-1"), func(p *model.Peer) { p.PrimaryID = "ghost" })
				f.unlink("c-1-1")
			},
			step: steps.Replicate{Replicas: []steps.Following{{Pod: "c-1-1", Primary: "c-1-0", PrimaryID: id("c-1-0")}}}, message: "others own what node ghost had",
		},
		"a replica that was away may follow the new owner without a command": {
			state: formed(), spoil: func(f *fixture) {
				departedReplica(f)
				f.views(id("c-1-1"), func(p *model.Peer) { p.PrimaryID = "ghost" })
				f.unlink("c-1-1")
				f.pod("c-1-1").Node.LinkDown = 10 * time.Second
			},
			reason: ReasonGossip, message: "the nodes have yet to learn who took over from node ghost",
		},
		"a node that may be alive is not forgotten": {
			state: formed(), spoil: func(f *fixture) {
				departedReplica(f)
				f.pod("c-0-0").Node.Peers[6].Failed = false
			},
			reason: ReasonGossip,
		},
		"no node is forgotten while a server is unknown": {
			state: formed(), spoil: func(f *fixture) { departedReplica(f); f.pod("c-2-1").Node = nil },
			reason: ReasonUnreachable,
		},
	})
}
