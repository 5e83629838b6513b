package redis

import (
	"slices"
	"testing"
	"time"
)

// silence ends the server of a pod some time ago, and all others have noticed. A majority has agreed on it only when failed.
func (f *fixture) silence(name string, ago time.Duration, failed bool) {
	p := f.pod(name)
	p.Ready, p.Node, p.Started = false, nil, time.Time{}
	f.views(id(name), func(peer *Peer) {
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
	f.views(id("c-0-0"), func(p *Peer) { p.Slots = Slots{{0, SlotCount - 1}} })
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

func TestNextWithoutAMajority(t *testing.T) {
	rivals := func(heldUntil time.Time) func(*fixture) {
		return func(f *fixture) {
			f.silence("c-0-0", 8*time.Second, false)
			for _, name := range []string{"c-0-0", "c-0-2"} {
				p := f.pod(name)
				p.Ready, p.Node, p.Started, p.Stuck, p.HeldUntil = false, nil, time.Time{}, "CrashLoopBackOff", heldUntil
			}
		}
	}
	succeeds := TakeOver{0, id("c-0-0"), "c-0-1"}
	for name, tc := range map[string]row{
		"a primary that runs no more and left no data is replaced as soon as it is missed": {
			state: single().ephemeral(), spoil: func(f *fixture) { f.silence("c-0-0", 6*time.Second, false); f.drop("c-0-0") },
			step: succeeds, message: "up to byte 1000 of the replication stream and lost the connection 6s ago; what was acknowledged later is lost",
		},
		"a replica on a claim that is being deleted takes over from a dead primary": {
			state: single(), spoil: func(f *fixture) {
				f.Spec.Persistent = true
				f.silence("c-0-0", time.Minute, false)
				f.Claims = []Claim{{Name: "data-c-0-1", Ordinal: 1, Leaving: true}}
			},
			step: succeeds,
		},
		"a replica that is started again in a moment may have taken over before": {
			state: three(), spoil: rivals(now.Add(10 * time.Second)), reason: ReasonElection,
			message: "c-0-2 is started again in a moment and may have taken over from the server of pod c-0-0, unknown to c-0-1",
		},
		"a replica that is not started again soon is not waited for": {
			state: three(), spoil: rivals(now.Add(time.Minute)), step: succeeds,
		},
		"a claim that is being deleted without a pod holds back who takes over": {
			state: single(), spoil: func(f *fixture) {
				f.Spec.Persistent = true
				f.silence("c-0-0", time.Minute, false)
				f.Claims = []Claim{{Name: "data-c-0-2", Ordinal: 2, Leaving: true}}
			},
			reason: ReasonStarting, message: "claim data-c-0-2 is being deleted",
		},
		"so is one whose successor in the same pod has nothing": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", 6*time.Second, false)
				f.pod("c-0-0").HasRun = false
			},
			step: succeeds,
		},
		"so is one whose pod is ending, and its server has ended": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", 6*time.Second, false)
				f.pod("c-0-0").Deleting = true
			},
			step: succeeds,
		},
		"not before the others miss it": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", time.Second, false)
				f.drop("c-0-0")
				f.views(id("c-0-0"), func(p *Peer) { p.Failing = false })
			},
			reason: ReasonElection, message: "the others have yet to find out",
		},
		"not while its server runs for all that Kubernetes knows": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", 30*time.Second, false)
				f.pod("c-0-0").Started = now.Add(-time.Hour)
			},
			reason: ReasonUnreachable,
		},
		"and then a human is told": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", time.Minute, false)
				f.pod("c-0-0").Started = now.Add(-time.Hour)
			},
			reason: ReasonNoMajority, stalled: true, message: "its server may still run; only 0 of 1 primaries can vote on that",
		},
		"a process that restarts in its pod finds its data again": {
			state: single().ephemeral(), spoil: func(f *fixture) { f.silence("c-0-0", 6*time.Second, false) },
			reason: ReasonElection, message: "c-0-1 takes over when that has lasted for 30s",
		},
		"but not one whose node is gone": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", 6*time.Second, false)
				f.pod("c-0-0").Gone, f.pod("c-0-0").NodeLost = true, true
			},
			step: succeeds,
		},
		"but not one whose pod is ending": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", 6*time.Second, false)
				f.pod("c-0-0").Deleting = true
			},
			step: succeeds,
		},
		"with storage, a pod that is missing comes back with it": {
			state: single(), spoil: func(f *fixture) { f.silence("c-0-0", 20*time.Second, false); f.drop("c-0-0") },
			reason: ReasonElection, message: "is being started and may have data that no replica has",
		},
		"for which patience has an end": {
			state: single(), spoil: func(f *fixture) { f.silence("c-0-0", 30*time.Second, false) }, step: succeeds,
		},
		"one that cannot start is not waited for": {
			state: single(), spoil: func(f *fixture) {
				f.silence("c-0-0", 6*time.Second, false)
				f.pod("c-0-0").Stuck = "Unschedulable: 0/3 nodes are available"
			},
			step: succeeds,
		},
		"so is one of an outdated template that cannot start, before its pod is deleted": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", 6*time.Second, false)
				p := f.pod("c-0-0")
				p.Stuck, p.Outdated = "CrashLoopBackOff", true
			},
			step: succeeds,
		},
		"nor one on a node that does not report": {
			state: single(), spoil: func(f *fixture) {
				f.silence("c-0-0", 45*time.Second, false)
				p := f.pod("c-0-0")
				p.Started, p.NodeLost = now.Add(-time.Hour), true
			},
			step: succeeds,
		},
		"nor one whose disk is another's": {
			state: single(), spoil: func(f *fixture) { f.replaceDisk("c-0-0"); f.join("c-0-0"); f.pod("c-0-1").Node.LinkUp = false }, step: succeeds,
		},
		"a replica that was not connected lately does not replace one that may come back": {
			state: single(), spoil: func(f *fixture) {
				f.silence("c-0-0", time.Minute, false)
				f.pod("c-0-1").Node.EverLinked = false
			},
			reason: ReasonNoMajority, stalled: true, message: "no replica has been connected to it lately",
		},
		"nor does one that had lost it before it died": {
			state: single(), spoil: func(f *fixture) {
				f.silence("c-0-0", time.Minute, false)
				f.pod("c-0-1").Node.LinkDown = time.Minute + Validity(5*time.Second) + time.Second
			},
			reason: ReasonNoMajority, stalled: true, message: "no replica has been connected to it lately",
		},
		"one that followed it to the end does, however long ago that is": {
			state: single(), spoil: func(f *fixture) { f.silence("c-0-0", time.Hour, false) }, step: succeeds,
		},
		"nor does one that could not reach it while it lived": {
			state: single(), spoil: func(f *fixture) {
				f.silence("c-0-0", 2*time.Hour, false)
				f.pod("c-0-0").Unready = now.Add(-time.Minute)
			},
			reason: ReasonNoMajority, stalled: true, message: "no replica has been connected to it lately",
		},
		"one that reached no majority took no writes, however late its pod was made anew": {
			state: formed(), spoil: func(f *fixture) {
				f.silence("c-1-0", 90*time.Second, true)
				f.pod("c-1-0").Unready = now.Add(-30 * time.Second)
			},
			step: TakeOver{1, id("c-1-0"), "c-1-1"},
		},
		"one of two primaries has no majority alone, so it took no writes since": {
			state: formed(), spoil: func(f *fixture) {
				f.pair2()
				f.silence("c-1-0", 30*time.Minute, true)
				f.pod("c-1-0").Unready = now.Add(-time.Minute)
			},
			step: TakeOver{1, id("c-1-0"), "c-1-1"}, message: "only 1 of 2 primaries can vote on that",
		},
		"those who have been started since may have been with it": {
			state: formed(), spoil: func(f *fixture) {
				f.silence("c-1-0", time.Hour, true)
				f.pod("c-1-0").Unready = now.Add(-30 * time.Second)
				f.pod("c-1-1").Started = now.Add(-2 * time.Hour)
				for _, owner := range []string{"c-0-0", "c-2-0"} {
					f.pod(owner).Started = now.Add(-time.Minute)
				}
			},
			reason: ReasonNotElected, stalled: true,
		},
		"two of three may have gone on for a while": {
			state: formed(), spoil: func(f *fixture) {
				f.silence("c-1-0", 90*time.Second, true)
				f.silence("c-2-0", 90*time.Second, true)
				f.pod("c-1-0").Unready = now.Add(-30 * time.Second)
				f.views(id("c-2-0"), func(p *Peer) { p.Slots = nil })
				f.views(id("c-2-1"), func(p *Peer) { p.Replica, p.PrimaryID, p.Slots, p.Epoch = false, "", Share(2, 3), 9 })
			},
			reason: ReasonNotElected, stalled: true,
		},
		"Kubernetes takes a while to miss a node": {
			state: single(), spoil: func(f *fixture) {
				f.silence("c-0-0", 2*time.Minute, false)
				p := f.pod("c-0-0")
				p.Started, p.NodeLost, p.Unready = now.Add(-time.Hour), true, now.Add(-70*time.Second)
			},
			step: succeeds,
		},
		"who has been started since knows nothing of when it died": {
			state: formed(), spoil: func(f *fixture) {
				f.silence("c-1-0", 30*time.Minute, true)
				p := f.pod("c-2-1")
				p.Started = now.Add(-time.Minute)
				for i := range p.Node.Peers {
					if p.Node.Peers[i].ID == id("c-1-0") {
						p.Node.Peers[i].Answered = p.Started.Add(time.Second)
					}
				}
			},
			step: TakeOver{1, id("c-1-0"), "c-1-1"}, message: "lost the connection 30m0s ago",
		},
		"it does replace one that cannot": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", 6*time.Second, false)
				f.drop("c-0-0")
				f.pod("c-0-1").Node.EverLinked = false
			},
			step: succeeds, message: "has not been connected since it started",
		},
		"one without a copy never does": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-0-0", 6*time.Second, false)
				f.drop("c-0-0")
				f.pod("c-0-1").Node.EverLinked, f.pod("c-0-1").Node.Keys = false, 0
			},
			reason: ReasonStarting,
		},
		"the claims of an earlier cluster may hold newer data": {
			state: single(), spoil: func(f *fixture) {
				f.replaceDisk("c-0-0")
				f.join("c-0-0")
				f.pod("c-0-1").Node.LinkUp = false
				f.Claims = []Claim{{Name: "data-c-0-2", Shard: 0, Ordinal: 2}}
			},
			reason: ReasonRetained, stalled: true,
		},
		"of two primaries neither can replace the other": {
			state: formed().ephemeral(), spoil: func(f *fixture) {
				f.pair2()
				f.silence("c-1-0", 6*time.Second, false)
				f.drop("c-1-0")
			},
			step: TakeOver{1, id("c-1-0"), "c-1-1"}, message: "only 1 of 2 primaries can vote on that",
		},
		"of three two are lost at once, and one is replaced": {
			state: formed().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-1-0", 6*time.Second, false)
				f.silence("c-2-0", 6*time.Second, false)
				f.drop("c-1-0")
				f.drop("c-2-0")
			},
			step: TakeOver{1, id("c-1-0"), "c-1-1"}, message: "only 1 of 3 primaries can vote on that",
		},
		"then there is a majority for the other one": {
			state: formed().ephemeral(), spoil: func(f *fixture) {
				f.silence("c-1-0", 6*time.Second, false)
				f.silence("c-2-0", 6*time.Second, true)
				f.drop("c-1-0")
				f.drop("c-2-0")
				f.views(id("c-1-0"), func(p *Peer) { p.Slots = nil })
				f.views(id("c-1-1"), func(p *Peer) { p.Replica, p.PrimaryID, p.Slots, p.Epoch = false, "", Share(1, 3), 9 })
			},
			reason: ReasonStarting,
		},
		"with disks that are another's": {
			state: formed(), spoil: func(f *fixture) {
				f.replaceDisk("c-1-0")
				f.replaceDisk("c-2-0")
				f.pod("c-2-0").Addr.IP, f.pod("c-2-0").Node.Peers[0].Addr.IP = "10.9.9.8", "10.9.9.8"
				f.join("c-1-0")
				f.join("c-2-0")
			},
			step: TakeOver{1, id("c-1-0"), "c-1-1"},
		},
		"slots that were on their way are known in full on the dead disk alone": {
			state: formed(), spoil: func(f *fixture) {
				f.pair2()
				f.open("c-0-0", Slots{{7, 7}}, "c-1-0", false)
				f.silence("c-1-0", time.Minute, false)
			},
			reason: ReasonNoMajority, stalled: true, message: "slots that were on their way to or from it are known in full on its disk alone",
		},
		"which matters no more when that is gone": {
			state: formed().ephemeral(), spoil: func(f *fixture) {
				f.pair2()
				f.open("c-0-0", Slots{{7, 7}}, "c-1-0", false)
				f.silence("c-1-0", 6*time.Second, false)
				f.drop("c-1-0")
			},
			step: TakeOver{1, id("c-1-0"), "c-1-1"},
		},
		"another replica that does not answer may have more": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.second()
				f.silence("c-0-0", 6*time.Second, false)
				f.drop("c-0-0")
				f.pod("c-0-2").Node = nil
			},
			reason: ReasonStarting, message: "2 of 3 pods exist",
		},
		"or be back in a moment with more": {
			state: single(), spoil: func(f *fixture) {
				f.second()
				f.silence("c-0-0", 6*time.Second, false)
				f.pod("c-0-0").Stuck = "Unschedulable"
				f.drop("c-0-2")
			},
			reason: ReasonUnreachable, message: "c-0-0 cannot start",
		},
		"one that is gone has nothing": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.second()
				f.silence("c-0-0", 6*time.Second, false)
				f.drop("c-0-0")
				f.drop("c-0-2")
			},
			step: succeeds,
		},
		"the one that has most takes over": {
			state: single().ephemeral(), spoil: func(f *fixture) {
				f.second()
				f.silence("c-0-0", 6*time.Second, false)
				f.drop("c-0-0")
				f.pod("c-0-2").Node.Offset = 1001
			},
			step: TakeOver{0, id("c-0-0"), "c-0-2"},
		},
		"with a majority the servers elect": {
			state: formed().ephemeral(), spoil: func(f *fixture) { f.silence("c-1-0", 44*time.Second, true); f.drop("c-1-0") }, reason: ReasonStarting,
		},
		"a human is told when it stays stuck, and the dead one may be alive": {
			state: formed(), spoil: func(f *fixture) {
				f.silence("c-1-0", time.Minute, true)
				f.pod("c-1-0").Started = now.Add(-time.Hour)
			},
			reason: ReasonNotElected, stalled: true, message: "its server may still run; the servers have not elected anybody in 45s",
		},
		"unless their election stays stuck": {
			state: formed().ephemeral(), spoil: func(f *fixture) { f.silence("c-1-0", 45*time.Second, true); f.drop("c-1-0") },
			step: TakeOver{1, id("c-1-0"), "c-1-1"}, message: "the servers have not elected anybody in 45s",
		},
	} {
		t.Run(name, func(t *testing.T) { tc.check(t) })
	}
}

// pair2 leaves two of three shards.
func (f *fixture) pair2() {
	f.Spec.Shards, f.Sets, f.Pods = 2, f.Sets[:2], f.Pods[:4]
	for i := range f.Pods {
		f.Pods[i].Node.Peers = f.Pods[i].Node.Peers[:4]
	}
	f.views(id("c-0-0"), func(p *Peer) { p.Slots = Share(0, 2) })
	f.views(id("c-1-0"), func(p *Peer) { p.Slots = Share(1, 2) })
}

// second adds a second replica to the first shard.
func (f *fixture) second() {
	f.Spec.Replicas, f.Sets[0].Replicas = 2, 3
	one := f.pod("c-0-1")
	node := *one.Node
	node.ID = id("c-0-2")
	two := *one
	two.Name, two.UID, two.Ordinal, two.Addr.IP, two.Node = "c-0-2", "uid-c-0-2", 2, "10.0.0.2", &node
	node.Peers = []Peer{{ID: node.ID, Addr: two.Addr, Host: "c-0-2.c-peers", Myself: true, Replica: true, PrimaryID: id("c-0-0"), Answered: now}}
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
	incident := digest(id("c-1-0"))
	assigned := AssignEmpty{"c-1-0", "new-c-1-0", id("c-0-0"), Share(1, 3)}
	for name, tc := range map[string]row{
		"slots that were on their way are left to whoever has what arrived": {
			state: formed(), spoil: func(f *fixture) {
				lost(f)
				f.Spec.AssignEmpty = true
				f.open("c-2-0", Slots{{From: 5462, To: 5500}}, "c-1-0", true)
			},
			step: AssignEmpty{"c-2-0", id("c-2-0"), id("c-1-0"), Slots{{From: 5462, To: 5500}}}, message: "on their way to c-2-0",
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
				f.views(id("c-1-0"), func(p *Peer) { p.Host, p.Addr.IP = "outside.example.com", "10.96.0.5" }) // No server tells its pod.
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
			step: TakeOver{1, id("c-1-0"), "c-1-1"}, message: "its slots are served empty from now on",
		},
		"the other of two shards does not serve either": {
			state: formed(), spoil: func(f *fixture) {
				f.pair2()
				lost(f)
				f.views(id("c-1-0"), func(p *Peer) { p.Failing, p.Failed = true, false })
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
				f.Claims = []Claim{{Name: "data-c-1-2", Shard: 1, Ordinal: 2}}
			},
			reason: ReasonRetained, stalled: true,
		},
		"a replica with data is no loss": {
			state: formed(), spoil: func(f *fixture) { f.replaceDisk("c-1-0"); f.join("c-1-0"); f.Spec.AssignEmpty = true }, reason: ReasonElection,
		},
	} {
		t.Run(name, func(t *testing.T) { tc.check(t) })
	}
}
