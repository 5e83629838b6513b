package planner

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// end has the container of a pod end just now, which no server has noticed but for those that were connected to it.
func (f *fixture) end(name string) {
	p := f.pod(name)
	p.Ready, p.Node, p.Started = false, nil, time.Time{}
	f.views(id(name), func(peer *model.Peer) { peer.Answered = now.Add(-700 * time.Millisecond) })
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
	f.views(id(name), func(peer *model.Peer) { peer.Failing, peer.Answered = true, now.Add(-6*time.Second) })
	for i := range f.Pods {
		if n := f.Pods[i].Node; n != nil && n.Self().PrimaryID == id(name) {
			n.LinkDown = 6 * time.Second
		}
	}
}

// five adds two shards to the three.
func (f *fixture) five() {
	for shard := 3; shard < 5; shard++ {
		f.Sets = append(f.Sets, model.Set{Shard: shard, Replicas: 2})
	}
	f.Spec.Shards = 5
	for shard := 3; shard < 5; shard++ {
		for ordinal := range 2 {
			p := *f.pod("c-0-0")
			name := f.Spec.Name + "-" + string(rune('0'+shard)) + "-" + string(rune('0'+ordinal))
			p.Name, p.UID, p.Shard, p.Ordinal, p.Addr.IP = name, "uid-"+name, shard, ordinal, "10.0."+string(rune('0'+shard))+"."+string(rune('0'+ordinal))
			n := *p.Node
			n.ID, n.Peers = id(name), []model.Peer{{ID: id(name), Addr: p.Addr, Host: name + ".c-peers", Myself: true, Answered: now}}
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
		f.views(id("c-"+string(rune('0'+shard))+"-0"), func(p *model.Peer) { p.Slots = slots.Share(shard, 5) })
	}
}

// voter is a server that is told to take over.
type voter struct {
	steps.Client
	node *model.Node
	told []steps.FailoverMode
}

func (v *voter) Read(context.Context) (*model.Node, error) { return v.node, nil }

func (v *voter) Failover(_ context.Context, how steps.FailoverMode) error {
	v.told = append(v.told, how)
	return nil
}

func TestNobodyIsElectedInThePlaceOfAPrimaryThatIsBack(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(n *model.Node, self, primary *model.Peer)
		told   bool
		err    string
	}{
		"the primary is away":              {func(*model.Node, *model.Peer, *model.Peer) {}, true, ""},
		"the primary is back":              {func(n *model.Node, _, _ *model.Peer) { n.LinkUp = true }, false, "is back"},
		"somebody else has its address":    {func(n *model.Node, _, p *model.Peer) { n.LinkUp, p.NoAddr = true, true }, true, ""},
		"the connection to it is a memory": {func(n *model.Node, _, p *model.Peer) { n.LinkUp, p.Failing = true, true }, true, ""},
		"also where all know that it is":   {func(n *model.Node, _, p *model.Peer) { n.LinkUp, p.Failed = true, true }, true, ""},
		"it has been elected":              {func(_ *model.Node, s, _ *model.Peer) { s.Replica, s.PrimaryID = false, "" }, false, ""},
		"somebody else has been elected":   {func(_ *model.Node, s, _ *model.Peer) { s.PrimaryID = id("c-1-2") }, false, "it is a replica of node id-c-1-2 by now"},
	} {
		t.Run(name, func(t *testing.T) {
			for mode, step := range map[steps.FailoverMode]steps.ServerStep{
				steps.FailoverForce: steps.Elect{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"}, steps.FailoverTakeover: steps.TakeOver{Shard: 1, PrimaryID: id("c-1-0"), To: "c-1-1"},
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
