package planner

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

func TestNextElectsTheReplicaOfALostPrimary(t *testing.T) {
	rows.Run(t, map[string]row{
		"an empty node does not get in the way of an election": {
			state: formed(), spoil: func(f *fixture) { f.loseDisk("c-1-0") },
			reason: ReasonElection,
		},
		"a shard without a copy is reported and left alone": {
			state: formed(), spoil: func(f *fixture) {
				f.replaceDisk("c-1-0")
				f.replaceDisk("c-1-1")
				f.pod("c-1-1").Addr.IP, f.pod("c-1-1").Node.Peers[0].Addr.IP = "10.9.9.8", "10.9.9.8"
				f.join("c-1-0")
				f.join("c-1-1")
			},
			reason: ReasonShardLost, stalled: true,
		},
		"a replica that never had a copy is not elected": {
			state: formed(), spoil: func(f *fixture) {
				f.loseDisk("c-1-0")
				n := f.pod("c-1-1").Node
				n.EverLinked, n.LinkUp, n.Keys = false, false, 0
			},
			reason: ReasonShardLost, stalled: true,
		},
		"a replica with an old copy is elected when it does not stand by itself": {
			state: formed(), spoil: func(f *fixture) {
				f.loseDisk("c-1-0")
				n := f.pod("c-1-1").Node
				n.EverLinked, n.LinkUp = false, false
			},
			step: steps.Elect{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"},
		},
		"a replica is elected when another server has its primary's address": {
			state: formed(), spoil: func(f *fixture) {
				f.loseDisk("c-1-0")
				f.views(id("c-1-0"), func(p *model.Peer) { p.Failed, p.NoAddr = false, true })
				f.pod("c-1-1").Node.LinkUp = false
			},
			step: steps.Elect{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"},
		},
		"a replica that copied an empty server at its primary's address is not elected": {
			state: formed(), spoil: func(f *fixture) {
				f.loseDisk("c-1-0")
				f.views(id("c-1-0"), func(p *model.Peer) { p.Failed, p.NoAddr = false, true })
				f.pod("c-1-1").Node.Keys = 0
			},
			reason: ReasonShardLost, stalled: true,
		},
		"a replica with a very old copy is elected when it does not stand by itself": {
			state: formed(), spoil: func(f *fixture) {
				f.loseDisk("c-1-0")
				f.unlink("c-1-1")
				f.pod("c-1-1").Node.LinkDown = 2 * time.Hour
			},
			step: steps.Elect{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"},
		},
		"a replica that loads its data is waited for": {
			state: formed(), spoil: func(f *fixture) {
				f.loseDisk("c-1-0")
				n := f.pod("c-1-1").Node
				n.Loading, n.EverLinked, n.LinkUp, n.Keys = true, false, false, 0
			},
			reason: ReasonSync,
		},
	})
}

func TestNextReplacesAPrimaryThatCameBackEmpty(t *testing.T) {
	rows.Run(t, map[string]row{
		"a primary that came back empty in place is deposed": {
			state: formed(), spoil: func(f *fixture) {
				f.emptyInPlace()
			},
			step: steps.Elect{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"},
		},
		"a primary that came back empty in place is deposed without a vote when there is no majority to vote": {
			state: formed(), spoil: func(f *fixture) {
				f.emptyInPlace()
				for _, name := range []string{"c-0-0", "c-0-1", "c-2-0", "c-2-1"} {
					f.pod(name).Node = nil
				}
			},
			step: steps.TakeOver{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"},
		},
		"a primary that came back empty is deposed without a vote when half of the primaries can vote": {
			state: formed(), spoil: func(f *fixture) {
				f.pair2()
				f.emptyInPlace()
				f.pod("c-0-0").Node, f.pod("c-0-1").Node = nil, nil
			},
			step: steps.TakeOver{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"}, message: "only 1 of 2 primaries can vote on that",
		},
		"a replica that half of the primaries know as one is not elected": {
			state: formed(), spoil: func(f *fixture) {
				f.pair2()
				f.emptyInPlace()
				f.seenAsPrimary("c-1-1", "c-0-0")
			},
			reason: ReasonSync,
		},
		"a primary that came back empty in place and took writes since is deposed": {
			state: formed(), spoil: func(f *fixture) {
				n := f.pod("c-1-0").Node
				n.Admits, n.Keys, f.pod("c-1-1").Node.LinkUp = model.AdmitsNobody, 2, false
			},
			step: steps.Elect{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"},
		},
	})
}

func TestNextWaitsForAPrimaryOnALostNode(t *testing.T) {
	rows.Run(t, map[string]row{
		"a primary on a lost node is replaced by a replica of its own accord": {
			state: formed(), spoil: func(f *fixture) { f.silence("c-1-0", 10*time.Second, true) }, reason: ReasonUnreachable,
		},
		"a replica that was never connected does not replace a primary on a lost node": {
			state: formed(), spoil: func(f *fixture) {
				f.loseNode("c-1-0")
				n := f.pod("c-1-1").Node
				n.EverLinked, n.LinkUp = false, false
			},
			reason: ReasonNotElected, stalled: true,
		},
		"a replica with a very old copy does not replace a primary on a lost node": {
			state: formed(), spoil: func(f *fixture) {
				f.loseNode("c-1-0")
				f.unlink("c-1-1")
				f.pod("c-1-1").Node.LinkDown = 2 * time.Hour
			},
			reason: ReasonNotElected, stalled: true,
		},
		"a primary that is about to come back is waited for": {
			state: formed(), spoil: func(f *fixture) {
				f.loseNode("c-1-0")
				f.views(id("c-1-0"), func(peer *model.Peer) { peer.Answered = now.Add(-10 * time.Second) })
				p := f.pod("c-1-1")
				p.Node.EverLinked, p.Node.LinkUp = false, false
			},
			reason: ReasonUnreachable,
		},
		"a primary whose data goes with its pod is replaced by the replica that has most": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.Persistent = false
				f.loseNode("c-1-0")
				f.pod("c-1-0").Deleting = true
				n := f.pod("c-1-1").Node
				n.EverLinked, n.LinkUp = false, false
			},
			step: steps.Elect{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"},
		},
	})
}

func TestNextAdmitsReplicas(t *testing.T) {
	rows.Run(t, map[string]row{
		"a primary that started empty and restarted in place admits replicas again": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Node.Admits, f.pod("c-1-1").Node.LinkUp = model.AdmitsNobody, false
			},
			step: steps.AdmitReplicas{Pods: []string{"c-1-0"}, How: model.AdmitsForNow},
		},
		"a primary that holds keys admits replicas while another pod is unknown": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Node.Admits, f.pod("c-1-1").Node = model.AdmitsNobody, nil
			},
			step: steps.AdmitReplicas{Pods: []string{"c-1-0"}, How: model.AdmitsForNow},
		},
		"a few keys more on the replica do not matter": {
			state: formed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Node.Admits, f.pod("c-1-1").Node.Keys = model.AdmitsNobody, 12
			},
			step: steps.AdmitReplicas{Pods: []string{"c-1-0"}, How: model.AdmitsForNow},
		},
		"a replica admits replicas": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-1").Node.Admits = model.AdmitsNobody },
			step: steps.AdmitReplicas{Pods: []string{"c-1-1"}, How: model.AdmitsForNow},
		},
		"servers are copied for good once their disks hold what they do": {
			state: formed(), spoil: func(f *fixture) {
				for _, name := range []string{"c-0-0", "c-1-0", "c-1-1"} {
					f.pod(name).Node.Admits = model.AdmitsForNow
				}
				f.pod("c-1-1").Node.OnDisk = false
			},
			step: steps.AdmitReplicas{Pods: []string{"c-0-0", "c-1-0"}, How: model.AdmitsForGood},
		},
		"an empty primary of an empty shard admits replicas": {
			state: formed(), spoil: func(f *fixture) {
				n := f.pod("c-1-0").Node
				n.Admits, n.Keys, f.pod("c-1-1").Node.Keys = model.AdmitsNobody, 0, 0
			},
			step: steps.AdmitReplicas{Pods: []string{"c-1-0"}, How: model.AdmitsForNow},
		},
		"an empty primary does not admit replicas that may hold more": {
			state: formed(), spoil: func(f *fixture) {
				n := f.pod("c-1-0").Node
				n.Admits, n.Keys, f.pod("c-1-1").Node = model.AdmitsNobody, 0, nil
			},
			reason: ReasonUnreachable,
		},
		"an empty primary does not admit the one before it, which holds more and does not know yet": {
			state: formed(), spoil: func(f *fixture) {
				n, old := f.pod("c-1-0").Node, f.pod("c-1-1").Node
				n.Admits, n.Keys = model.AdmitsNobody, 0
				old.Peers[3].Replica, old.Peers[3].PrimaryID, old.Peers[3].Slots = false, "", slots.Share(1, 3)
			},
			reason: ReasonGossip,
		},
	})
}
