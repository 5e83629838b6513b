package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// placed is a settled cluster whose first copies are on nodes a, b, c and whose second ones are on b, c, a, for an hour.
func placed() *fixture {
	f := formed()
	for i := range f.Pods {
		p := &f.Pods[i]
		p.NodeName, p.Since = string("abc"[(p.Shard+p.Ordinal)%3]), now.Add(-time.Hour)
	}
	return f
}

// cordon empties nodes.
func (f *fixture) cordon(nodes ...string) {
	for i := range f.Pods {
		for _, n := range nodes {
			if f.Pods[i].NodeName == n {
				f.Pods[i].Cordoned = fmt.Sprintf("is on node %s, which is cordoned", n)
			}
		}
	}
}

// handOver makes the second copy of a shard its primary.
func (f *fixture) handOver(shard int) {
	was, is := id(fmt.Sprintf("c-%d-0", shard)), id(fmt.Sprintf("c-%d-1", shard))
	f.views(was, func(p *model.Peer) { p.Replica, p.PrimaryID, p.Slots = true, is, nil })
	f.views(is, func(p *model.Peer) {
		p.Replica, p.PrimaryID, p.Slots, p.Epoch = false, "", slots.Share(shard, f.Spec.Shards), 3000
	})
	f.pod(fmt.Sprintf("c-%d-0", shard)).Node.LinkUp, f.pod(fmt.Sprintf("c-%d-1", shard)).Node.LinkUp = true, false
}

func TestPlacement(t *testing.T) {
	tests := map[string]row{
		"primaries that are divided among the nodes stay": {state: placed()},
		"a primary on a node that is cordoned hands its shard over": {
			state: placed(), spoil: func(f *fixture) { f.cordon("b") },
			step: steps.Failover{Shard: 1, From: "c-1-0", To: "c-1-1"}, message: "c-1-0 is on node b, which is cordoned; c-1-1 has all of its data",
		},
		"so does one whose pod is being deleted, though others are gone already": {
			state: placed(), spoil: func(f *fixture) {
				f.pod("c-1-0").Deleting, f.pod("c-0-1").Node, f.pod("c-0-1").Ready = true, nil, false
			},
			step: steps.Failover{Shard: 1, From: "c-1-0", To: "c-1-1"}, message: "c-1-0 is about to end; c-1-1 has all of its data",
		},
		"even to a replica of an outdated template, which runs at least": {
			state: placed(), spoil: func(f *fixture) { f.pod("c-1-0").Deleting, f.pod("c-1-1").Outdated = true, true },
			step: steps.Failover{Shard: 1, From: "c-1-0", To: "c-1-1"},
		},
		"but not to one that ends as well": {
			state: placed(), spoil: func(f *fixture) { f.pod("c-1-0").Deleting, f.pod("c-1-1").Deleting = true, true }, reason: ReasonUnreachable,
		},
		"then there is nothing to do but to wait for its end": {
			state: placed(), spoil: func(f *fixture) { f.handOver(1); f.pod("c-1-0").Deleting = true }, reason: ReasonUnreachable,
		},
		"where every node is cordoned, all stays as it is": {state: placed(), spoil: func(f *fixture) { f.cordon("a", "b", "c") }},
		"a replica that is not in sync is handed nothing": {
			state: placed(), spoil: func(f *fixture) { f.cordon("b"); f.unlink("c-1-1") }, reason: ReasonSync,
		},
		"nothing is handed over while slots are on their way": {
			state: placed(), spoil: func(f *fixture) {
				f.cordon("b")
				f.open("c-0-0", slots.Set{{From: 7, To: 8}}, "c-2-0", false)
			},
			step: steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{(*fixture).moveOf(placed(), "c-0-0", "c-2-0", slots.Set{{From: 7, To: 8}})}},
		},
		"of a node with two primaries more than another, one moves": {
			state: placed(), spoil: func(f *fixture) { f.handOver(0) }, // b has those of 0 and 1 now, and a has none.
			step: steps.Failover{Shard: 0, From: "c-0-1", To: "c-0-0"}, message: "node b has 2 primaries and node a has 0; c-0-0 has all data of c-0-1",
		},
		"but not to a node that is being emptied": {
			state: placed(), spoil: func(f *fixture) { f.handOver(0); f.cordon("a") },
		},
		"nor within a minute after a pod came back": {
			state: placed(), spoil: func(f *fixture) { f.handOver(0); f.pod("c-0-0").Since = now.Add(-59 * time.Second) },
		},
		"but at once while there is nothing to serve": {
			state: placed(), spoil: func(f *fixture) {
				f.handOver(0)
				for i := range f.Pods {
					f.Pods[i].Since, f.Pods[i].Node.Keys = now, 0
				}
			},
			step: steps.Failover{Shard: 0, From: "c-0-1", To: "c-0-0"},
		},
		"one primary more is no reason": {
			state: placed(), spoil: func(f *fixture) {
				f.pod("c-2-0").NodeName, f.pod("c-2-1").NodeName, f.pod("c-1-1").NodeName = "a", "b", "a" // a has two, b one.
			},
		},
	}
	for name, r := range tests {
		t.Run(name, r.Check)
	}
}

func TestReplaceDisks(t *testing.T) {
	lost := func(f *fixture, name string) {
		p := f.pod(name)
		p.Node, p.Ready = nil, false
		f.Claims = append(f.Claims, model.Claim{
			Name: "data-" + name, UID: "claim", ResourceVersion: "7", Shard: p.Shard, Ordinal: p.Ordinal, Lost: "volume v is on node b, which is gone",
		})
	}
	replaced := func(name string) steps.ReplaceDisk {
		return steps.ReplaceDisk{Claim: steps.DeleteClaim{Name: "data-" + name, UID: "claim", ResourceVersion: "7"}, Pod: steps.PodRef{Name: name, UID: "uid-" + name}, Gone: false}
	}
	tests := map[string]row{
		"a replica whose disk is lost gets another one": {
			state: formed(), spoil: func(f *fixture) { lost(f, "c-1-1") }, step: replaced("c-1-1"),
			message: "pod c-1-1 has lost its disk (volume v is on node b, which is gone); c-1-0 has the data of its shard",
		},
		"one whose node is gone is not waited for": {
			state: formed(), spoil: func(f *fixture) {
				lost(f, "c-1-1")
				f.Claims[0].Leaving, f.pod("c-1-1").Deleting, f.pod("c-1-1").Gone = true, true, true
			},
			step: steps.ReplaceDisk{Claim: steps.DeleteClaim{Name: "data-c-1-1", UID: "claim", ResourceVersion: "7"}, Pod: steps.PodRef{Name: "c-1-1", UID: "uid-c-1-1"}, Gone: true},
		},
		"one that is on its way is": {
			state: formed(), spoil: func(f *fixture) {
				lost(f, "c-1-1")
				f.Claims[0].Leaving, f.pod("c-1-1").Deleting = true, true
			},
			reason: ReasonUnreachable,
		},
		"so does a former primary": {
			state: formed(), spoil: func(f *fixture) { f.handOver(1); lost(f, "c-1-0") }, step: replaced("c-1-0"),
		},
		"but not before another one was elected": {
			state: formed(), spoil: func(f *fixture) { lost(f, "c-1-0") }, reason: ReasonUnreachable,
		},
		"it is not the new settings that keep such a pod from getting well": {
			state: formed(), spoil: func(f *fixture) {
				outdate(f)
				f.pod("c-1-0").Outdated, f.pod("c-1-0").Unready = false, now.Add(-time.Hour)
				lost(f, "c-1-0")
			}, reason: ReasonUnreachable,
		},
		"another pod of the shard that does not answer keeps its own": {
			state: formed().triple(), spoil: func(f *fixture) {
				silent := f.pod("c-1-1")
				silent.Node, silent.Ready = nil, false
				lost(f, "c-1-2")
			}, step: replaced("c-1-2"),
		},
		"a pod that runs is not asked for its disk": {
			state: formed(), spoil: func(f *fixture) { f.Claims = []model.Claim{{Name: "data-c-1-1", Shard: 1, Ordinal: 1, Lost: "?"}} },
		},
	}
	for name, r := range tests {
		t.Run(name, r.Check)
	}
}

const damageWords = "Bad file format reading the append only file"

// damage makes a pod one that cannot start from its data.
func damage(name string) func(*fixture) {
	return func(f *fixture) {
		p := f.pod(name)
		p.Node, p.Ready, p.Stuck, p.Fatal = nil, false, "CrashLoopBackOff: "+damageWords, damageWords
		f.Claims = append(f.Claims, model.Claim{Name: "data-" + name, UID: "claim", ResourceVersion: "7", Shard: p.Shard, Ordinal: p.Ordinal, Made: now.Add(-time.Hour)})
		for i := range f.Sets {
			f.Sets[i].Made = now.Add(-time.Hour)
		}
	}
}

// and makes several changes.
func and(spoils ...func(*fixture)) func(*fixture) {
	return func(f *fixture) {
		for _, spoil := range spoils {
			spoil(f)
		}
	}
}

// made is when the first claim was created.
func made(ago time.Duration) func(*fixture) {
	return func(f *fixture) { f.Claims[0].Made = now.Add(-ago) }
}

func takenOver(f *fixture) { f.handOver(1) }

// replaced is the step that gives a pod another disk.
func replaced(name string) steps.ReplaceDisk {
	return steps.ReplaceDisk{Claim: steps.DeleteClaim{Name: "data-" + name, UID: "claim", ResourceVersion: "7"}, Pod: steps.PodRef{Name: name, UID: "uid-" + name}, Gone: false}
}

// onlyNew has all pods but one be of an older template.
func (f *fixture) onlyNew(name string) {
	for i := range f.Pods {
		f.Pods[i].Outdated = f.Pods[i].Name != name
	}
}

// triple adds another replica to each shard.
func (f *fixture) triple() *fixture {
	f.Spec.Replicas = 2
	for shard := range f.Sets {
		f.Sets[shard].Replicas = 3
		name, primary := fmt.Sprintf("c-%d-2", shard), fmt.Sprintf("c-%d-0", shard)
		addr := model.Address{IP: fmt.Sprintf("10.0.%d.2", shard), Port: model.ClientPort}
		f.Pods = append(f.Pods, model.Pod{
			Name: name, UID: "uid-" + name, Shard: shard, Ordinal: 2, Addr: addr, Ready: true, HasRun: true, Started: now.Add(-time.Hour),
			Node: &model.Node{
				ID: id(name), Version: "8.0.2", Clock: now, LinkUp: true, EverLinked: true, Keys: 10, Offset: 1000, Admits: model.AdmitsForGood, OnDisk: true,
				Peers: []model.Peer{{ID: id(name), Addr: addr, Host: name + ".c-peers", Myself: true, Answered: now}},
			},
		})
		f.join(name)
		f.views(id(name), func(p *model.Peer) { p.Replica, p.PrimaryID = true, id(primary) })
	}
	return f
}

// TestReplaceStrayed: a primary that was replaced while it was away copies its successor, and yet
// is listed as a primary (seen in Valkey 8.1.1).
func TestReplaceStrayed(t *testing.T) {
	stray := func(f *fixture) {
		f.views(id("c-1-1"), func(p *model.Peer) { p.Replica, p.PrimaryID = false, "" })
		f.pod("c-1-0").Node.Stream, f.pod("c-1-1").Node.Stream, f.pod("c-1-1").Node.Asks = "stream", "stream", f.pod("c-1-0").Addr
		f.Claims = append(f.Claims, model.Claim{Name: "data-c-1-1", UID: "claim", ResourceVersion: "7", Shard: 1, Ordinal: 1})
		f.Sets[1].Guarded = true
	}
	but := func(spoil func(*fixture)) func(*fixture) { return func(f *fixture) { stray(f); spoil(f) } }
	tests := map[string]row{
		"it begins anew with another disk": {
			state: formed(), spoil: stray, step: steps.ReplaceDisk{Claim: steps.DeleteClaim{Name: "data-c-1-1", UID: "claim", ResourceVersion: "7"}, Pod: steps.PodRef{Name: "c-1-1", UID: "uid-c-1-1"}, Gone: false},
			message: "c-1-1 is a primary without slots, and what it holds is a copy of c-1-0, which has all of it: it begins anew as a replica",
		},
		"or with the empty one of its next pod": {
			state: formed(), spoil: but(func(f *fixture) { f.Spec.Persistent, f.Claims = false, nil }),
			step: steps.Restart{Pods: []steps.PodRef{{Name: "c-1-1", UID: "uid-c-1-1"}}, Cause: steps.ReasonRestart},
		},
		"and the disk of an earlier cluster stays": {
			state: formed(), spoil: but(func(f *fixture) { f.Spec.Persistent = false }),
			step: steps.Restart{Pods: []steps.PodRef{{Name: "c-1-1", UID: "uid-c-1-1"}}, Cause: steps.ReasonRestart},
		},
		"one without keys is told whom to follow": {
			state: formed(), spoil: but(func(f *fixture) { f.pod("c-1-1").Node.Keys = 0 }),
			step: steps.Replicate{Replicas: []steps.Following{{Pod: "c-1-1", Primary: "c-1-0", PrimaryID: id("c-1-0")}}},
		},
		"so does one that has stopped copying": {
			state: formed(), spoil: but(func(f *fixture) { f.pod("c-1-1").Node.LinkUp = false }),
			step: steps.ReplaceDisk{Claim: steps.DeleteClaim{Name: "data-c-1-1", UID: "claim", ResourceVersion: "7"}, Pod: steps.PodRef{Name: "c-1-1", UID: "uid-c-1-1"}, Gone: false},
		},
		"one that has more than its primary keeps it": {
			state: formed(), spoil: but(func(f *fixture) { f.pod("c-1-1").Node.LinkUp, f.pod("c-1-1").Node.Offset = false, 1001 }), reason: ReasonKeysNoSlots, stalled: true,
		},
		"but for what it is just getting from it": {
			state: formed(), spoil: but(func(f *fixture) { f.pod("c-1-1").Node.Offset = 1001 }),
			step: steps.ReplaceDisk{Claim: steps.DeleteClaim{Name: "data-c-1-1", UID: "claim", ResourceVersion: "7"}, Pod: steps.PodRef{Name: "c-1-1", UID: "uid-c-1-1"}, Gone: false},
		},
		"one that is connected to another primary keeps what it has, too": {
			state: formed(), spoil: but(func(f *fixture) { f.pod("c-1-1").Node.Offset, f.pod("c-1-1").Node.Asks = 1001, f.pod("c-0-0").Addr }),
			reason: ReasonKeysNoSlots, stalled: true,
		},
		"so does one that has copied somebody else": {
			state: formed(), spoil: but(func(f *fixture) { f.pod("c-1-1").Node.Stream = "another" }), reason: ReasonKeysNoSlots, stalled: true,
		},
		"and a replica that has the same data does not": {
			state: formed(), spoil: func(f *fixture) { f.pod("c-1-0").Node.Stream, f.pod("c-1-1").Node.Stream = "stream", "stream" },
		},
		"it waits while another copy is on its way": {
			state: formed().triple(), spoil: but(func(f *fixture) { f.pod("c-1-2").Node.EverLinked = false }), reason: ReasonSync,
		},
		"it waits while the primary has not written all to its disk": {
			state: formed(), spoil: but(func(f *fixture) { f.pod("c-1-0").Node.OnDisk = false }), reason: ReasonSync,
		},
	}
	for name, r := range tests {
		t.Run(name, r.Check)
	}
}
