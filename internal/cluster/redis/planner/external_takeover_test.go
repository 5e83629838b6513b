package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
	"github.com/quorate/quorate/test/rows"
)

// balancers is a settled cluster whose servers are reached at load balancers of their own, and whose pods are on three nodes.
func balancers() *fixture {
	f := placed()
	for i := range f.Pods {
		f.balancer(&f.Pods[i], fmt.Sprintf("198.51.100.%d", i))
	}
	return f
}

// balancer is one that a server is reached at.
func (f *fixture) balancer(p *model.Pod, host string) {
	d := model.Door{Pod: p.Name, Announcement: model.Announcement{Host: host}}
	f.Doors = append(f.Doors, d)
	p.Announce = d.Parameters(p.Name+".c-peers", p.Addr.IP)
	f.announced(p)
}

// noBalancer takes that of a server away, which says so.
func (f *fixture) noBalancer(name string) {
	for i := range f.Doors {
		if f.Doors[i].Pod == name {
			f.Doors[i].Host, f.Doors[i].Problem = "", "Service "+name+"-external has no load balancer yet"
		}
	}
	f.Spec.Unannounced = "Service " + name + "-external has no load balancer yet"
	p := f.pod(name)
	p.Announce = model.Announcement{}.Parameters(p.Name+".c-peers", p.Addr.IP)
	f.announced(p)
}

// untold is a server that does not say yet where it is reached from outside.
func (f *fixture) untold(name string) {
	p := f.pod(name)
	wanted := p.Announce
	p.Announce = model.Announcement{}.Parameters(p.Name+".c-peers", p.Addr.IP)
	f.announced(p)
	p.Announce = wanted
}

// enlarged is one with a shard more, whose second server copies the first. No slots are theirs yet.
func enlarged() *fixture {
	f := balancers()
	f.grow()
	f.pair()
	for _, name := range []string{"c-3-0", "c-3-1"} {
		p := f.pod(name)
		p.NodeName, p.Since, p.Node.Clock = "a", now.Add(-time.Hour), now
		f.balancer(p, "198.51.100.3"+name[4:])
	}
	return f
}

func TestNextHandsOverToReplicasInReachOfClients(t *testing.T) {
	outdate := func(f *fixture) { f.pod("c-0-0").Outdated = true }
	over := steps.Failover{Shard: 0, From: "c-0-0", To: "c-0-1"}
	rows.Run(t, map[string]row{
		"a cluster behind load balancers is left alone": {state: balancers()},
		"a replica that is reached from outside takes over": {
			state: balancers(), spoil: outdate, step: over,
		},
		"a replica without a load balancer is waited for": {
			state: balancers(), spoil: func(f *fixture) { outdate(f); f.noBalancer("c-0-1") }, reason: ReasonExternal,
			message: "c-0-1 is to take over from c-0-0 as soon as clients outside reach it: Service c-0-1-external has no load balancer yet",
		},
		"a replica whose server was not told where it is reached is told": {
			state: balancers(), spoil: func(f *fixture) { outdate(f); f.untold("c-0-1") },
			step: steps.Announce{Pods: []steps.PodSettings{{Pod: "c-0-1", Values: map[string]string{model.AnnounceHost: "198.51.100.1"}}}},
		},
		"a replica that has to move to be reached is told": {
			state: entered(), spoil: func(f *fixture) { outdate(f); f.untold("c-0-1") },
			step: steps.Announce{Pods: []steps.PodSettings{{Pod: "c-0-1", Values: map[string]string{model.AnnounceHost: "outside.example.com", model.AnnounceIP: "10.96.0.1", model.AnnounceTLSPort: "31001"}}}},
		},
		"a replica whose certificate is not for its address yet reloads it": {
			state: balancers(), spoil: func(f *fixture) {
				outdate(f)
				f.untold("c-0-1")
				f.Spec.Certificate = "new"
				for i := range f.Pods {
					f.Pods[i].Node.Certificate = "new"
				}
				f.pod("c-0-1").Node.Certificate = "old"
			}, step: steps.ReloadCertificates{Pods: []string{"c-0-1"}},
		},
		"a replica is not waited for while the primary is not reached from outside either": {
			state: balancers(), spoil: func(f *fixture) { outdate(f); f.noBalancer("c-0-1"); f.noBalancer("c-0-0") }, step: over,
		},
		"a replica is not waited for when no server is to be reached from outside any more": {
			state: balancers(), spoil: func(f *fixture) {
				outdate(f)
				f.noBalancer("c-0-1")
				f.Doors, f.Spec.Unannounced = nil, ""
			}, step: over,
		},
	})
}

func TestNextMovesPrimariesWithinReachOfClients(t *testing.T) {
	rows.Run(t, map[string]row{
		"a primary that leaves waits": {
			state: balancers(), spoil: func(f *fixture) {
				p := f.withThird()
				p.NodeName, p.Since, p.Node.Clock = "b", now.Add(-time.Hour), now
				f.balancer(p, "198.51.100.9")
				f.lead("c-1-2")
				f.noBalancer("c-1-0")
				f.noBalancer("c-1-1")
			}, reason: ReasonExternal, message: "is to take over from c-1-2 as soon as clients outside reach it: Service c-1-",
		},
		"another replica that is reached goes first": {
			state: balancers(), spoil: func(f *fixture) {
				p := f.withThird()
				p.NodeName, p.Since, p.Node.Clock = "b", now.Add(-time.Hour), now
				f.Spec.Replicas = 2
				for _, shard := range []int{0, 2} {
					f.Sets[shard].Replicas = 2
				}
				f.Sets[1].Replicas = 3
				f.balancer(p, "198.51.100.9")
				f.pod("c-1-0").Cordoned = "is on node b, which is cordoned"
				f.noBalancer("c-1-1")
				f.pod("c-1-1").Node.Offset++
			}, step: steps.Failover{Shard: 1, From: "c-1-0", To: "c-1-2"},
		},
		"a node that is emptied waits": {
			state: balancers(), spoil: func(f *fixture) { f.cordon("b"); f.noBalancer("c-1-1") },
			reason: ReasonExternal, message: "Service c-1-1-external has no load balancer yet",
		},
		"a pod that ends does not wait for clients outside": {
			state: balancers(), spoil: func(f *fixture) { f.pod("c-1-0").Deleting = true; f.noBalancer("c-1-1") },
			step: steps.Failover{Shard: 1, From: "c-1-0", To: "c-1-1"},
		},
		"primaries are not divided among the nodes for it": {
			state: balancers(), spoil: func(f *fixture) {
				for i := range f.Pods {
					f.Pods[i].NodeName = string("ab"[f.Pods[i].Ordinal])
				}
				for _, name := range []string{"c-0-1", "c-1-1", "c-2-1"} {
					f.noBalancer(name)
				}
			}, reason: ReasonExternal, message: "has no load balancer yet",
		},
	})
}

func TestNextMovesSlotsToShardsInReachOfClients(t *testing.T) {
	share := slots.Balance([]slots.Set{slots.Share(0, 3), slots.Share(1, 3), slots.Share(2, 3), nil}, 4)
	moves := func(f *fixture) steps.MoveSlots {
		step := steps.MoveSlots{For: moveFor}
		for _, m := range share {
			step.Moves = append(step.Moves, limited(f.moveOf(fmt.Sprintf("c-%d-0", m.From), fmt.Sprintf("c-%d-0", m.To), m.Slots)))
		}
		return step
	}
	rows.Run(t, map[string]row{
		"a new shard gets slots": {state: enlarged(), step: moves(enlarged())},
		"a new shard gets no slots before it is reached from outside": {
			state: enlarged(), spoil: func(f *fixture) { f.noBalancer("c-3-0") }, reason: ReasonExternal,
			message: "c-3-0 is to get slots as soon as clients outside reach it: Service c-3-0-external has no load balancer yet",
		},
		"a new shard keeps the slots that it was given": {
			state: enlarged(), spoil: func(f *fixture) {
				f.noBalancer("c-3-0")
				f.open("c-0-0", slots.Set{{From: 0, To: 0}}, "c-3-0", false)
				f.open("c-3-0", slots.Set{{From: 0, To: 0}}, "c-0-0", true)
			}, step: steps.MoveSlots{For: moveFor, Moves: []steps.SlotMove{enlarged().moveOf("c-0-0", "c-3-0", slots.Set{{From: 0, To: 0}})}},
		},
	})
}

// TestTheDeadAreReplacedByWhoeverIsThere: that clients outside do not reach the only replica is no reason to have no primary.
func TestTheDeadAreReplacedByWhoeverIsThere(t *testing.T) {
	f := balancers().ephemeral()
	for _, shard := range []string{"0", "1"} {
		f.noBalancer("c-" + shard + "-1")
		f.silence("c-"+shard+"-0", 6*time.Second, false)
	}
	f.drop("c-0-0")
	f.drop("c-1-0")
	got := Next(f.State)
	if _, ok := got.Step.(steps.TakeOver); !ok {
		t.Errorf("%v (%s)", got.Step, got.Message)
	}
}
