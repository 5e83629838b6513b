package planner_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/planner"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
)

// simPartition is a time in which some servers and all others do not reach each other. Clients and
// the operator reach both sides.
type simPartition struct {
	// apart are the servers of one side.
	apart map[*redisfake.Server]bool
	// healAt is when it ends.
	healAt time.Time
	healed bool
	// acked is what was acknowledged when it began. The servers in linked had all of it that their
	// primaries had, and owners are the primaries of slots that were not open.
	acked  map[redisfake.Key]int
	linked map[*redisfake.Server]bool
	owners map[int]*redisfake.Server
}

// divide decides on a partition, which begins with the next tick: of one server, of a minority of
// them, or of all servers of a node.
func (s *simulation) divide() {
	if s.partition != nil {
		return
	}
	present := slices.DeleteFunc(s.present(), func(p *simPod) bool { return p.server == nil || !p.exists })
	if len(present) < 2 {
		return
	}
	chosen := present[s.more.IntN(len(present))]
	apart := map[*redisfake.Server]bool{chosen.server: true}
	switch s.more.IntN(3) {
	case 0:
		for _, p := range present {
			if p.node() == chosen.node() {
				apart[p.server] = true
			}
		}
	case 1:
		for _, i := range s.more.Perm(len(present))[:s.more.IntN((len(present)+1)/2)] {
			apart[present[i].server] = true
		}
	}
	s.partition = &simPartition{apart: apart, healAt: s.net.Now().Add(time.Duration(5+s.more.IntN(400)) * redisfake.Cron)}
}

// begin divides the network just after a tick, when linked replicas have all that was acknowledged.
func (d *simPartition) begin(s *simulation) {
	d.acked, d.linked, d.owners = maps.Clone(s.acked), map[*redisfake.Server]bool{}, map[int]*redisfake.Server{}
	for _, p := range s.pods {
		if p.server != nil && p.server.LinkUp() {
			d.linked[p.server] = true
		}
	}
	for slot := range sampleSlots {
		if o := s.owner(slot); o != nil && o.MigratingTo(slot) == "" {
			d.owners[slot] = o
		}
	}
	var names []string
	for _, p := range s.pods {
		if d.apart[p.server] {
			names = append(names, p.name)
		}
	}
	s.parted++
	s.log("fault: %v and all others do not reach each other", names)
	s.net.Partition(slices.Collect(maps.Keys(d.apart))...)
}

// part begins and ends a partition.
func (s *simulation) part() {
	d := s.partition
	switch {
	case d == nil:
	case d.acked == nil:
		d.begin(s)
	case !d.healed && s.net.Now().After(d.healAt):
		s.log("all servers reach each other again")
		s.net.Heal()
		d.healed = true
	case d.healed && s.meshed():
		s.partition = nil
	}
}

// divided reports whether the servers do not all reach each other, or are about not to.
func (s *simulation) divided() bool { return s.partition != nil && !s.partition.healed }

// meshed reports whether no server that runs misses another one: none is elected because of an
// earlier partition any more.
func (s *simulation) meshed() bool {
	for _, p := range s.pods {
		for _, o := range s.pods {
			if p.server != nil && o.server != nil && p != o && p.server.Up && o.server.Up && p.server.Misses(o.server.ID) {
				return false
			}
		}
	}
	return true
}

// parts reports whether two servers were on different sides of the partition.
func (d *simPartition) parts(a, b *redisfake.Server) bool {
	return d != nil && d.acked != nil && d.apart[a] != d.apart[b]
}

// collides reports whether another server owns a slot under the same epoch. A server that takes a slot
// raises its epoch without the votes of others (clusterBumpConfigEpochWithoutConsensus), and a majority
// that it cannot reach may elect another one under that epoch. What clients write until the two meet is
// lost with the one that yields, so that they write nothing here.
func (s *simulation) collides(slot int, owner *redisfake.Server) bool {
	return slices.ContainsFunc(s.pods, func(p *simPod) bool {
		return p.server != nil && p.server != owner && p.server.Slots().Has(slot) && p.server.Epoch() == owner.Epoch()
	})
}

// mayLose reports whether a write may be lost because a partition kept its primary from the server
// that has been elected. A replica that was linked when the partition began has all that was
// acknowledged before.
func (d *simPartition) mayLose(former, winner *redisfake.Server, k redisfake.Key, has int) bool {
	if former == nil || !d.parts(former, winner) {
		return false
	}
	return !d.linked[winner] || d.owners[k.Slot] != former || has >= d.acked[k]
}

// dropStray is a user who deletes the claim and the pod of a server that holds keys and owns no
// slots, as a stalled plan says. A replica that is elected during a partition may hold keys of
// slots that it has not heard of, and hand its own slots back later.
func (s *simulation) dropStray(plan cluster.Plan) {
	if !plan.Stalled || plan.Reason != planner.ReasonKeysNoSlots || s.parted == 0 {
		return
	}
	for _, p := range s.present() {
		if p.server == nil || len(p.server.Slots()) > 0 || !strings.HasPrefix(plan.Message, p.name+" ") {
			continue
		}
		if !s.copied(p) {
			s.fail("%s: no other server has all of its data", plan.Message)
		}
		s.log("a user deletes the claim and the pod of %s", p.name)
		s.strike(p, true, 30)
	}
}

// formerOwner is the server other than the winner that owns a slot under the highest epoch.
func (s *simulation) formerOwner(slot int, winner *redisfake.Server) *redisfake.Server {
	var former *redisfake.Server
	for _, p := range s.pods {
		if p.server != nil && p.server != winner && p.server.Slots().Has(slot) && (former == nil || p.server.Epoch() > former.Epoch()) {
			former = p.server
		}
	}
	return former
}

// yields returns the server on the other side of the partition that owns a slot under the same epoch as
// the owner, see collides; nil when there is none. It is going to be replaced, and what it took since the
// partition began is lost.
func (s *simulation) yields(slot int, owner *redisfake.Server) *redisfake.Server {
	for _, p := range s.pods {
		if owner != nil && p.server != nil && s.partition.parts(p.server, owner) && p.server.Slots().Has(slot) && p.server.Epoch() == owner.Epoch() {
			return p.server
		}
	}
	return nil
}
