package redis

import (
	"context"
	"strings"
	"testing"
	"time"
)

// end has the container of a pod end just now, which no server has noticed but for those that were connected to it.
func (f *fixture) end(name string) {
	p := f.pod(name)
	p.Ready, p.Node, p.Started = false, nil, time.Time{}
	f.views(id(name), func(peer *Peer) { peer.Answered = now.Add(-700 * time.Millisecond) })
	for i := range f.Pods {
		if n := f.Pods[i].Node; n != nil && n.Self().PrimaryID == id(name) {
			n.LinkUp, n.LinkDown = false, 0
			f.Sets[f.Pods[i].Shard].Guarded = true
		}
	}
}

// replacing is a cluster in which no primary is waited for.
func replacing(f *fixture) *fixture {
	f.Spec.ReplaceDead = true
	return f
}

// held has Kubernetes wait for so long before it starts a container again.
func (f *fixture) held(name string, d time.Duration) {
	p := f.pod(name)
	p.Stuck, p.HeldUntil = "CrashLoopBackOff: container redis ended with exit code 137", now.Add(d)
}

// missed has all servers find that another one does not answer.
func (f *fixture) missed(name string) {
	f.views(id(name), func(peer *Peer) { peer.Failing, peer.Answered = true, now.Add(-6*time.Second) })
	for i := range f.Pods {
		if n := f.Pods[i].Node; n != nil && n.Self().PrimaryID == id(name) {
			n.LinkDown = 6 * time.Second
		}
	}
}

func TestNextWhenAPrimaryHasEnded(t *testing.T) {
	elected := Elect{1, id("c-1-0"), "c-1-1"}
	for name, tc := range map[string]row{
		"it is waited for while Kubernetes is about to start it again": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0") }, reason: ReasonUnreachable,
		},
		"unless it is not to be": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0") }, step: elected,
			message: "the server of pod c-1-0 has ended, as Kubernetes says, and c-1-1 takes over slots 5462-10922 at once. It has everything up to byte 1000 of the replication stream and lost the connection 0s ago; what was acknowledged later is lost",
		},
		"also without storage": {state: replacing(formed().ephemeral()), spoil: func(f *fixture) { f.end("c-1-0") }, step: elected},
		"one that will not be back before the others elect is replaced at once": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0"); f.held("c-1-0", 8600*time.Millisecond) }, step: elected,
		},
		"one that may be back before is not": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0"); f.held("c-1-0", 8500*time.Millisecond) }, reason: ReasonUnreachable,
		},
		"for other servers that may be longer": {
			state: formed(), spoil: func(f *fixture) {
				f.Spec.NodeTimeout = time.Minute
				f.end("c-1-0")
				f.held("c-1-0", 10*time.Second)
			},
			reason: ReasonUnreachable,
		},
		"and matters not where nobody waits": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.held("c-1-0", time.Second) }, step: elected,
		},
		"one whose pod failed is": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-0").Stuck = "Failed: Evicted" }, step: elected,
		},
		"one whose pod ends is": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-0").Deleting = true }, step: elected,
		},
		"one whose node is proven to be gone is": {
			state: formed(), spoil: func(f *fixture) {
				f.end("c-1-0")
				p := f.pod("c-1-0")
				p.Started, p.Gone, p.NodeLost = now.Add(-time.Hour), true, true
			},
			step: elected,
		},
		"one that ended before its node ceased to report will not be back": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-0").NodeLost = true }, step: elected,
		},
		"one whose node does not report may run": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.end("c-1-0")
				p := f.pod("c-1-0")
				p.Started, p.NodeLost = now.Add(-time.Hour), true
			},
			reason: ReasonUnreachable,
		},
		"one that does not answer may run": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-0").Started = now.Add(-time.Hour) }, reason: ReasonUnreachable,
		},
		"one whose pod is gone may be cut off": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.drop("c-1-0") }, reason: ReasonStarting,
		},
		"and has found so when all others miss it": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0"); f.drop("c-1-0"); f.missed("c-1-0") }, step: elected,
		},
		"as may one that another pod is made for": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-0").HasRun = false }, reason: ReasonUnreachable,
		},
		"until it is missed as well": {
			state: formed(), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-0").HasRun = false; f.missed("c-1-0") }, step: elected,
		},
		"nobody is elected while a replica is connected to it": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-1").Node.LinkUp = true }, reason: ReasonUnreachable,
		},
		"nor where one of several is": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.second()
				f.end("c-0-0")
				f.pod("c-0-1").Node.LinkUp = true
			},
			reason: ReasonStarting,
		},
		"one that lost the connection before lacks more": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-1").Node.LinkDown = 2 * time.Second }, reason: ReasonUnreachable,
		},
		"one that had lost it while it went on by itself, too": {
			state: replacing(single()), spoil: func(f *fixture) {
				f.end("c-0-0")
				f.views(id("c-0-0"), func(p *Peer) { p.Answered = now.Add(-time.Hour) })
				f.pod("c-0-1").Node.LinkDown, f.pod("c-0-0").Unready = time.Hour, now.Add(-time.Second)
			},
			reason: ReasonElection,
		},
		"and Kubernetes takes a moment to notice": {
			state: replacing(single()), spoil: func(f *fixture) {
				f.end("c-0-0")
				f.views(id("c-0-0"), func(p *Peer) { p.Answered = now.Add(-4 * time.Second) })
				f.pod("c-0-1").Node.LinkDown, f.pod("c-0-0").Unready = 4*time.Second, now.Add(-time.Second)
			},
			step: TakeOver{0, id("c-0-0"), "c-0-1"},
		},
		"servers count whole seconds": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-1").Node.LinkDown = time.Second }, step: elected,
		},
		"one that was never connected may have anything": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-1").Node.EverLinked = false }, reason: ReasonUnreachable,
		},
		"one that loads its data is waited for": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-1-1").Node.Loading = true }, reason: ReasonUnreachable,
		},
		"the one that has most is elected": {
			state: replacing(formed()), spoil: func(f *fixture) { f.second(); f.end("c-0-0"); f.pod("c-0-2").Node.Offset = 1001 },
			step: Elect{0, id("c-0-0"), "c-0-2"},
		},
		"another one that does not answer may have more": {
			state: replacing(formed()), spoil: func(f *fixture) { f.second(); f.end("c-0-0"); f.pod("c-0-2").Node = nil }, reason: ReasonStarting,
		},
		"or be back with more": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.second()
				f.end("c-0-0")
				p := f.pod("c-0-2")
				p.Node, p.Started = nil, time.Time{}
			},
			reason: ReasonStarting,
		},
		"nobody is elected while slots are on their way": {
			state: replacing(formed()), spoil: func(f *fixture) { f.open("c-0-0", Slots{{7, 7}}, "c-1-0", false); f.end("c-1-0") }, reason: ReasonUnreachable,
		},
		"nor while servers move slots by themselves": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.end("c-1-0")
				f.pod("c-0-0").Node.Migrations = []Migration{{Name: "m", Source: id("c-0-0"), Target: id("c-2-0"), Slots: Slots{{7, 7}}}}
			},
			reason: ReasonUnreachable,
		},
		"nor while they do not agree on who owns them": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.end("c-1-0")
				n := f.pod("c-0-0").Node
				for i := range n.Peers {
					if n.Peers[i].ID == id("c-1-0") {
						n.Peers[i].Slots = n.Peers[i].Slots.Minus(Slots{{From: 5462, To: 5462}})
					}
				}
			},
			reason: ReasonUnreachable,
		},
		"when the servers know, they elect": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.end("c-1-0")
				f.views(id("c-1-0"), func(p *Peer) { p.Failed = true })
			},
			reason: ReasonUnreachable,
		},
		"while they elect in another shard, their votes are for that": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.five()
				f.end("c-1-0")
				f.silence("c-2-0", 9*time.Second, true)
			},
			reason: ReasonUnreachable,
		},
		"a shard without a replica keeps nobody": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.five()
				f.end("c-1-0")
				f.silence("c-2-0", 9*time.Second, true)
				f.drop("c-2-1")
			},
			step: elected,
		},
		"nobody votes for a stranger": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.end("c-1-0")
				for _, name := range []string{"c-0-0", "c-2-0"} {
					n := f.pod(name).Node
					n.Peers = append(n.Peers[:3:3], n.Peers[4:]...)
				}
			},
			reason: ReasonUnreachable,
		},
		"of two primaries neither can be outvoted, and the operator decides": {
			state: replacing(formed()), spoil: func(f *fixture) { f.pair2(); f.end("c-1-0") },
			step: TakeOver{1, id("c-1-0"), "c-1-1"}, message: "only 1 of 2 primaries can vote on that",
		},
		"not while others that cannot be read may vote": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-0"); f.pod("c-0-0").Node = nil },
			reason: ReasonElection, message: "the others have yet to find out",
		},
		"but where they have ended as well": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-0-0"); f.end("c-1-0") },
			step: TakeOver{0, id("c-0-0"), "c-0-1"}, message: "only 1 of 3 primaries can vote on that",
		},
		"so it does where there is one": {
			state: single(), spoil: func(f *fixture) { f.end("c-0-0"); f.held("c-0-0", 10*time.Second) },
			step: TakeOver{0, id("c-0-0"), "c-0-1"}, message: "only 0 of 1 primaries can vote on that",
		},
		"and waits for one whose pod is made anew": {
			state: single(), spoil: func(f *fixture) { f.end("c-0-0"); f.pod("c-0-0").HasRun = false; f.missed("c-0-0") },
			reason: ReasonElection, message: "is being started and may have data that no replica has",
		},
		"unless that is not to be": {
			state: replacing(single()), spoil: func(f *fixture) { f.end("c-0-0"); f.pod("c-0-0").HasRun = false; f.missed("c-0-0") },
			step: TakeOver{0, id("c-0-0"), "c-0-1"},
		},
		"and waits where it may": {
			state: single(), spoil: func(f *fixture) { f.end("c-0-0") }, reason: ReasonElection,
		},
		"it is urgent": {
			state: replacing(formed()), spoil: func(f *fixture) {
				f.end("c-1-0")
				f.replaceDisk("c-2-1") // It is to be introduced to the others, and then to copy the primary of its shard.
			},
			step: elected,
		},
		"a replica that has ended is missed by nobody": {
			state: replacing(formed()), spoil: func(f *fixture) { f.end("c-1-1") }, reason: ReasonUnreachable,
		},
	} {
		t.Run(name, func(t *testing.T) { tc.check(t) })
	}
}

// five adds two shards to the three.
func (f *fixture) five() {
	for shard := 3; shard < 5; shard++ {
		f.Sets = append(f.Sets, Set{Shard: shard, Replicas: 2})
	}
	f.Spec.Shards = 5
	for shard := 3; shard < 5; shard++ {
		for ordinal := range 2 {
			p := *f.pod("c-0-0")
			name := f.Spec.Name + "-" + string(rune('0'+shard)) + "-" + string(rune('0'+ordinal))
			p.Name, p.UID, p.Shard, p.Ordinal, p.Addr.IP = name, "uid-"+name, shard, ordinal, "10.0."+string(rune('0'+shard))+"."+string(rune('0'+ordinal))
			n := *p.Node
			n.ID, n.Peers = id(name), []Peer{{ID: id(name), Addr: p.Addr, Host: name + ".c-peers", Myself: true, Answered: now}}
			if ordinal > 0 {
				n.LinkUp, n.EverLinked = true, true
				n.Peers[0].Replica, n.Peers[0].PrimaryID = true, id(name[:len(name)-1]+"0")
			}
			p.Node = &n
			f.Pods = append(f.Pods, p)
			f.join(name)
		}
	}
	for shard := range 5 {
		f.views(id("c-"+string(rune('0'+shard))+"-0"), func(p *Peer) { p.Slots = Share(shard, 5) })
	}
}

// voter is a server that is told to take over.
type voter struct {
	Client
	node *Node
	told []FailoverMode
}

func (v *voter) Read(context.Context) (*Node, error) { return v.node, nil }

func (v *voter) Failover(_ context.Context, how FailoverMode) error {
	v.told = append(v.told, how)
	return nil
}

func TestNobodyIsElectedInThePlaceOfAPrimaryThatIsBack(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(n *Node, self, primary *Peer)
		told   bool
		err    string
	}{
		"the primary is away":              {func(*Node, *Peer, *Peer) {}, true, ""},
		"the primary is back":              {func(n *Node, _, _ *Peer) { n.LinkUp = true }, false, "is back"},
		"somebody else has its address":    {func(n *Node, _, p *Peer) { n.LinkUp, p.NoAddr = true, true }, true, ""},
		"the connection to it is a memory": {func(n *Node, _, p *Peer) { n.LinkUp, p.Failing = true, true }, true, ""},
		"also where all know that it is":   {func(n *Node, _, p *Peer) { n.LinkUp, p.Failed = true, true }, true, ""},
		"it has been elected":              {func(_ *Node, s, _ *Peer) { s.Replica, s.PrimaryID = false, "" }, false, ""},
		"somebody else has been elected":   {func(_ *Node, s, _ *Peer) { s.PrimaryID = id("c-1-2") }, false, "it is a replica of node id-c-1-2 by now"},
	} {
		t.Run(name, func(t *testing.T) {
			for mode, step := range map[FailoverMode]ServerStep{
				FailoverForce: Elect{1, id("c-1-0"), "c-1-1"}, FailoverTakeover: TakeOver{1, id("c-1-0"), "c-1-1"},
			} {
				f := formed()
				f.end("c-1-0")
				v := &voter{node: f.pod("c-1-1").Node}
				self, primary := -1, -1
				for i, p := range v.node.Peers {
					switch p.ID {
					case id("c-1-1"):
						self = i
					case id("c-1-0"):
						primary = i
					}
				}
				tc.change(v.node, &v.node.Peers[self], &v.node.Peers[primary])
				calls := step.Calls()
				if len(calls) != 1 || calls[0].Pod != "c-1-1" {
					t.Fatalf("%s: %v", step, calls)
				}
				err := calls[0].Do(t.Context(), v)
				if (err == nil) != (tc.err == "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
					t.Errorf("%s: %v, want %q", step, err, tc.err)
				}
				if told := len(v.told) == 1 && v.told[0] == mode; told != tc.told || len(v.told) > 1 {
					t.Errorf("%s: told %v, want %v", step, v.told, tc.told)
				}
			}
		})
	}
}
