package planner

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/facts"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// silence ends the server of a pod some time ago, and all others have noticed. A majority has agreed on it only when failed.
func (f *fixture) silence(name string, ago time.Duration, failed bool) {
	p := f.pod(name)
	p.Ready, p.Node, p.Started = false, nil, time.Time{}
	f.views(id(name), func(peer *model.Peer) {
		peer.Failing, peer.Failed, peer.Answered = !failed, failed, now.Add(-ago)
	})
	for i := range f.Pods {
		n := f.Pods[i].Node
		if n != nil && n.Self().PrimaryID == id(name) {
			n.LinkUp, n.LinkDown = false, ago
			f.Sets[f.Pods[i].Shard].Guarded = true
		}
	}
}

// single is a settled cluster of one shard.
func single() *fixture {
	f := formed()
	f.Spec.Shards, f.Sets, f.Pods = 1, f.Sets[:1], f.Pods[:2]
	for i := range f.Pods {
		f.Pods[i].Node.Peers = f.Pods[i].Node.Peers[:2]
	}
	f.views(id("c-0-0"), func(p *model.Peer) { p.Slots = slots.Set{{From: 0, To: slots.Count - 1}} })
	return f
}

// ephemeral makes a cluster one without storage.
func (f *fixture) ephemeral() *fixture {
	f.Spec.Persistent = false
	return f
}

// drop takes a pod away.
func (f *fixture) drop(name string) {
	for i := range f.Pods {
		if f.Pods[i].Name == name {
			f.Pods = append(f.Pods[:i:i], f.Pods[i+1:]...)
			return
		}
	}
}

// vanish ends the server of a pod six seconds ago, and takes the pod away.
func (f *fixture) vanish(name string) {
	f.silence(name, 6*time.Second, false)
	f.drop(name)
}

// three is a settled cluster of one shard with two replicas.
func three() *fixture {
	f := single()
	f.Spec.Replicas, f.Spec.Persistent, f.Sets[0].Replicas = 2, true, 3
	third := f.Pods[1]
	n := *third.Node
	n.ID, n.Peers = id("c-0-2"), slices.Clone(n.Peers)
	third.Name, third.UID, third.Ordinal, third.Addr.IP, third.Node = "c-0-2", "uid-c-0-2", 2, "10.0.0.2", &n
	n.Peers[1].ID, n.Peers[1].Addr = n.ID, third.Addr
	f.Pods = append(f.Pods, third)
	return f
}

// pair2 leaves two of three shards.
func (f *fixture) pair2() {
	f.Spec.Shards, f.Sets, f.Pods = 2, f.Sets[:2], f.Pods[:4]
	for i := range f.Pods {
		f.Pods[i].Node.Peers = f.Pods[i].Node.Peers[:4]
	}
	f.views(id("c-0-0"), func(p *model.Peer) { p.Slots = slots.Share(0, 2) })
	f.views(id("c-1-0"), func(p *model.Peer) { p.Slots = slots.Share(1, 2) })
}

// second adds a second replica to the first shard.
func (f *fixture) second() {
	f.Spec.Replicas, f.Sets[0].Replicas = 2, 3
	one := f.pod("c-0-1")
	node := *one.Node
	node.ID = id("c-0-2")
	two := *one
	two.Name, two.UID, two.Ordinal, two.Addr.IP, two.Node = "c-0-2", "uid-c-0-2", 2, "10.0.0.2", &node
	node.Peers = []model.Peer{{ID: node.ID, Addr: two.Addr, Host: "c-0-2.c-peers", Myself: true, Replica: true, PrimaryID: id("c-0-0"), Answered: now}}
	for _, p := range one.Node.Peers {
		p.Myself = false
		node.Peers = append(node.Peers, p)
	}
	for i := range f.Pods {
		line := node.Peers[0]
		line.Myself = false
		f.Pods[i].Node.Peers = append(f.Pods[i].Node.Peers, line)
	}
	f.Pods = append(f.Pods, two)
}

func TestNextWithALostShard(t *testing.T) {
	lost := func(f *fixture) {
		f.replaceDisk("c-1-0")
		f.replaceDisk("c-1-1")
		f.pod("c-1-1").Addr.IP, f.pod("c-1-1").Node.Peers[0].Addr.IP = "10.9.9.8", "10.9.9.8"
		f.join("c-1-0")
		f.join("c-1-1")
	}
	incident := facts.Digest(id("c-1-0"))
	assigned := steps.AssignEmpty{Pod: "c-1-0", ID: "new-c-1-0", Other: id("c-0-0"), Slots: slots.Share(1, 3)}
	for name, tc := range map[string]row{
		"slots that were on their way are left to whoever has what arrived": {
			state: formed(), spoil: func(f *fixture) {
				lost(f)
				f.Spec.AssignEmpty = true
				f.open("c-2-0", slots.Set{{From: 5462, To: 5500}}, "c-1-0", true)
			},
			step: steps.AssignEmpty{Pod: "c-2-0", ID: id("c-2-0"), Other: id("c-1-0"), Slots: slots.Set{{From: 5462, To: 5500}}}, message: "on their way to c-2-0",
		},
		"it is held": {
			state: formed(), spoil: lost, reason: ReasonShardLost, stalled: true,
			message: "shard 1 is lost (pods c-1-0, c-1-1): slots 5462-10922 belong to node id-c-1-0",
		},
		"with the words that approve of an empty one": {
			state: formed(), spoil: lost, reason: ReasonShardLost, stalled: true,
			message: "kubectl annotate redisclusters.quorate.dev c quorate.dev/recover=" + incident,
		},
		"approved, its slots are served empty": {
			state: formed(), spoil: func(f *fixture) { lost(f); f.Spec.Approved = incident }, step: assigned, message: "Its data is lost",
		},
		"an empty server that the primary of another shard has not met gets no slots": {
			state: formed(), spoil: func(f *fixture) {
				lost(f)
				f.Spec.AssignEmpty = true
				for _, name := range []string{"c-1-0", "c-1-1"} {
					f.strangers(name, "c-0-0")
				}
			},
			reason: ReasonGossip, message: "as soon as an empty server of shard 1 knows the other primaries",
		},
		"the approval of another incident is none": {
			state: formed(), spoil: func(f *fixture) { lost(f); f.Spec.Approved = "abcdef" }, reason: ReasonShardLost, stalled: true,
		},
		"so they are where that is wanted for all": {
			state: formed(), spoil: func(f *fixture) { lost(f); f.Spec.AssignEmpty = true }, step: assigned, message: "spec.recovery.lostShard is AssignEmpty",
		},
		"so they are of a shard that is to go": {
			state: formed(), spoil: func(f *fixture) {
				lost(f)
				f.Spec.AssignEmpty, f.Spec.Shards = true, 1
				f.views(id("c-1-0"), func(p *model.Peer) { p.Host, p.Addr.IP = "outside.example.com", "10.96.0.5" }) // No server tells its pod.
			},
			step: assigned, message: "shard 1 is lost",
		},
		"a replica without a copy knows what the dead one owned": {
			state: formed(), spoil: func(f *fixture) {
				f.replaceDisk("c-1-0")
				f.join("c-1-0")
				n := f.pod("c-1-1").Node
				n.EverLinked, n.LinkUp, n.Keys = false, false, 0
				f.Spec.AssignEmpty = true
			},
			step: steps.TakeOver{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"}, message: "its slots are served empty from now on",
		},
		"the other of two shards does not serve either": {
			state: formed(), spoil: func(f *fixture) {
				f.pair2()
				lost(f)
				f.views(id("c-1-0"), func(p *model.Peer) { p.Failing, p.Failed = true, false })
			},
			reason: ReasonShardLost, stalled: true, message: "do not serve either",
		},
		"nothing is lost while a pod of it is missing": {
			state: formed(), spoil: func(f *fixture) { lost(f); f.Spec.AssignEmpty = true; f.drop("c-1-1") }, reason: ReasonStarting,
		},
		"nor while a claim of an earlier cluster may hold it": {
			state: formed(), spoil: func(f *fixture) {
				lost(f)
				f.Spec.AssignEmpty = true
				f.Claims = []model.Claim{{Name: "data-c-1-2", Shard: 1, Ordinal: 2}}
			},
			reason: ReasonRetained, stalled: true,
		},
		"a replica with data is no loss": {
			state: formed(), spoil: func(f *fixture) { f.replaceDisk("c-1-0"); f.join("c-1-0"); f.Spec.AssignEmpty = true }, reason: ReasonElection,
		},
	} {
		t.Run(name, func(t *testing.T) { tc.Check(t) })
	}
}
