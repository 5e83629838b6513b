package planner_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

type simPod struct {
	name, uid      string
	shard, ordinal int
	exists         bool
	// template that the pod was made from, and why it cannot start.
	template, stuck string
	// config is what the server was started with.
	config map[string]string
	// announces is where the server said that it is reached when it was started.
	announces map[string]string
	server    *redisfake.Server
	backAt    time.Time
	started   time.Time
	// ends is when the pod ends if its server owns slots until then; zero: it was not asked to.
	ends time.Time
	// homeless says that its volume cannot come back.
	homeless bool
	// damaged says that its server cannot read what is on its volume.
	damaged bool
	// claimDeleted says that its claim has a deletion timestamp: the volume goes when the pod ends.
	claimDeleted bool
	// restart says that only the process is down, so that it comes back at the same address, and loops that it has been often enough for
	// Kubernetes to wait before it starts it again.
	restart, loops bool
	cutTill        time.Time
	// hangs says that the server's process stands still until then.
	hangs    bool
	hangTill time.Time
	// linkSeen says that the server was in sync when it was observed last.
	linkSeen bool
	// nodeLost says that the node of the pod does not report, and killed is when its process was last killed.
	nodeLost bool
	killed   time.Time
	// emptied says that the server lost its data and kept its identity, while others have copies.
	emptied bool
}

// samples are the slots that have keys, and keys of each.
const samples, keysOfSlot = 12, 2

// sampleSlots yields the slots that have keys.
func sampleSlots(yield func(int) bool) {
	for i := range samples {
		if !yield(i * slots.Count / samples) {
			return
		}
	}
}

// sampleKeys yields all keys.
func sampleKeys(yield func(redisfake.Key) bool) {
	for slot := range sampleSlots {
		for n := range keysOfSlot {
			if !yield(redisfake.Key{Slot: slot, N: n}) {
				return
			}
		}
	}
}

// victory is an epoch, and the id of the server that won under it.
type victory struct {
	epoch uint64
	id    string
}

// promoted writes off what the winner of an unplanned election never received, and insists on everything otherwise.
func (s *simulation) promoted(w *redisfake.Server, slots slots.Set, planned bool) {
	for k := range sampleKeys {
		if slots.Has(k.Slot) {
			s.won[k.Slot] = victory{w.Epoch(), w.ID}
		}
	}
	s.log("%s becomes owner of %s (planned %v)", s.podOf(w), slots, planned)
	for k := range sampleKeys {
		if !slots.Has(k.Slot) && !s.imported(w.Shard, k.Slot) {
			continue
		}
		lost := s.acked[k] - s.visible(k)
		switch {
		case lost > 0 && planned:
			s.fail("a planned failover lost %v", k)
		case lost > 0 && s.struck[k.Slot]:
		case lost > 0 && s.partition.mayLose(s.formerOwner(k.Slot, w), w, k, s.visible(k)):
			s.lapses++
		case lost > 0:
			s.fail("%v is lost without a fault", k)
		}
		s.acked[k] = s.visible(k)
	}
	for slot := range sampleSlots {
		if slots.Has(slot) {
			s.struck[slot] = false
		}
	}
	s.fill()
}

// imported tells whether a slot is on its way to a shard.
func (s *simulation) imported(shard, slot int) bool {
	return slices.ContainsFunc(s.pods, func(p *simPod) bool {
		return p.server != nil && p.shard == shard && p.server.ImportingFrom(slot) != ""
	})
}

// visible is what clients will read of a key when no slot is on its way any more: what its owner has, and what is left elsewhere of
// a slot that is on its way.
func (s *simulation) visible(k redisfake.Key) int {
	owner := s.owner(k.Slot)
	if owner != nil && owner.Data[k] > 0 {
		return owner.Data[k]
	}
	best := 0
	yields := s.yields(k.Slot, owner)
	for _, p := range s.pods {
		if p.server == nil || p.server == yields {
			continue
		}
		if of := p.server.Primary(); of != "" && s.exists(of) && (yields == nil || of != yields.ID) {
			continue // A replica's word counts when its primary is gone for good, or about to be replaced.
		}
		if len(p.server.Slots()) == 0 || s.ownsAny(p) { // Who has been replaced will throw away what it has.
			best = max(best, p.server.Data[k])
		}
	}
	return best
}

// exists tells whether a node is there, running or not.
func (s *simulation) exists(id string) bool {
	return slices.ContainsFunc(s.pods, func(p *simPod) bool { return p.server != nil && p.server.ID == id })
}

// fill takes note of who has as much again of what it owns as anybody else.
func (s *simulation) fill() {
	for _, p := range s.pods {
		p.emptied = p.emptied && p.server != nil && slices.ContainsFunc(slices.Collect(sampleKeys), func(k redisfake.Key) bool {
			return s.owner(k.Slot) == p.server && p.server.Data[k] < s.acked[k]
		})
	}
}

func (s *simulation) podOf(w *redisfake.Server) string {
	for _, p := range s.pods {
		if p.server == w {
			return p.name
		}
	}
	return "nobody"
}

// pass lets some time go by: servers gossip, pods come back, clients write.
func (s *simulation) pass() {
	for range 1 + s.rnd.IntN(4) {
		s.net.Tick()
		s.part()
		for _, p := range s.pods {
			s.revive(p)
		}
		s.leave()
		for k := range sampleKeys {
			if s.rnd.IntN(2) == 0 {
				s.write(k)
			}
		}
	}
	s.restore.work(s)
	s.checkData()
	s.checkPasswords()
}

func (s *simulation) revive(p *simPod) {
	now := s.net.Now()
	if p.server != nil && now.After(p.cutTill) {
		p.server.Cut = false
	}
	if p.hangs && now.After(p.hangTill) {
		s.log("the server of %s goes on", p.name)
		p.server.GoOn()
		p.hangs = false
	}
	if !p.ends.IsZero() && (p.server == nil || !p.server.Up || !p.exists || len(p.server.Slots()) == 0 || now.After(p.ends)) {
		s.strike(p, !s.spec.Persistent, 30)
	}
	if p.stuck == lostVolume && s.unhoused(p) == "" {
		s.log("a human gives %s another volume", p.name)
		s.delete(p, true, 30)
	}
	if p.damaged && !now.Before(p.backAt) {
		// Stalled: nobody can tell who has led the only shard last, or it may be the new settings that cannot read it.
		if p.backAt = now.Add(10 * time.Second); (!s.owned(p) || s.stalls) && now.Sub(p.killed) > time.Minute {
			s.log("a human repairs the data of %s", p.name)
			p.damaged = false
		}
	}
	if p.backAt.IsZero() || now.Before(p.backAt) || (!p.exists && p.ordinal >= s.sets[p.shard].Replicas) {
		return
	}
	p.backAt, p.nodeLost = time.Time{}, false
	p.started = now
	if p.restart {
		p.restart, p.loops = false, false
		p.server.Restart()
		p.server.Config, p.server.Announces = p.config, p.announces
		return
	}
	p.exists, p.emptied = true, false
	s.uids++
	p.uid = fmt.Sprint(s.uids)
	p.template = s.template()
	if p.stuck = s.hold(p); p.stuck != "" {
		return
	}
	if p.stuck = s.unhoused(p); p.stuck != "" {
		return
	}
	if addr := s.address(); p.server == nil {
		p.server = s.net.Add(addr, p.shard, p.name+".c-peers")
	} else {
		p.server.Start(addr)
	}
	p.server.Version = s.spec.Version
	p.config = maps.Clone(s.spec.Live)
	p.config["min-replicas-to-write"] = fmt.Sprint(s.spec.MinReplicas)
	p.server.Config = p.config
	p.announces = s.announcement(p).Parameters(p.server.Host, p.server.Addr.IP)
	p.server.Announces = p.announces
}

// address is one that no pod has: a new one or that of a pod that is gone.
func (s *simulation) address() model.Address {
	if n := len(s.freed); n > 0 && s.rnd.IntN(2) == 0 {
		i := s.rnd.IntN(n)
		a := s.freed[i]
		s.freed = slices.Delete(s.freed, i, i+1)
		return a
	}
	s.ips++
	return model.Address{IP: fmt.Sprintf("10.0.%d.%d", s.ips/250, s.ips%250), Port: 6379}
}

// write is a client's: it follows redirections to the owner with the highest epoch, and from there to where the slot goes.
func (s *simulation) write(k redisfake.Key) {
	owner := s.owner(k.Slot)
	if owner == nil || s.emptied(owner) || s.collides(k.Slot, owner) || !owner.Up || !owner.StateOK() || owner.Acknowledging(nodeTime) < guard(owner) {
		return // What an emptied one takes is lost when it is deposed.
	}
	taker := owner
	if to := owner.MigratingTo(k.Slot); to != "" && owner.Data[k] == 0 {
		i := slices.IndexFunc(s.pods, func(p *simPod) bool { return p.server != nil && p.server.ID == to })
		if i < 0 || !s.pods[i].server.Up || !s.pods[i].server.StateOK() || s.pods[i].server.Primary() != "" || s.pods[i].server.ImportingFrom(k.Slot) == "" {
			return
		}
		taker = s.pods[i].server
	}
	s.version++
	taker.Data[k] = s.version
	s.acked[k] = s.version
}

// owner is who rightfully owns a slot, running or not.
func (s *simulation) owner(slot int) *redisfake.Server {
	var owner *redisfake.Server
	for _, p := range s.pods {
		if p.server == nil || !p.server.Slots().Has(slot) || p.server.Epoch() < s.won[slot].epoch {
			continue
		}
		switch {
		case owner == nil || p.server.Epoch() > owner.Epoch():
			owner = p.server
		case p.server.Epoch() < owner.Epoch():
		case !s.partition.parts(owner, p.server):
			s.fail("%s and %s own slot %d under the same epoch", s.podOf(owner), p.name, slot)
		case p.server.ID == s.won[slot].id:
			owner = p.server
		}
	}
	return owner
}

// owned tells whether another pod of the shard owns its slots.
func (s *simulation) owned(p *simPod) bool {
	return slices.ContainsFunc(s.present(), func(o *simPod) bool {
		return o != p && o.shard == p.shard && o.server != nil && len(o.server.Slots()) > 0
	})
}

// unhoused says why a pod whose volume cannot come back does not start. A human gives it another one where nobody owns the slots of
// its shard for long.
func (s *simulation) unhoused(p *simPod) string {
	if p.homeless = p.homeless && (s.owned(p) || s.net.Now().Sub(p.started) < time.Minute); !p.homeless {
		return ""
	}
	return lostVolume
}

// lostVolume is why a pod cannot start whose volume cannot come back.
const lostVolume = "the volume is on a node that is gone"

// isHome tells whether a shard was last seen to own slots.
func (s *simulation) isHome(shard int) bool {
	for slot := range sampleSlots {
		if home, known := s.home[slot]; known && home == shard {
			return true
		}
	}
	return false
}

// ownsAny tells whether a pod's server owns slots by right: nobody claims them under a higher epoch.
func (s *simulation) ownsAny(p *simPod) bool {
	if p.server == nil {
		return false
	}
	slots := p.server.Slots()
	for _, o := range s.others(p) {
		if o.server.Epoch() > p.server.Epoch() {
			slots = slots.Minus(o.server.Slots())
		}
	}
	return len(slots) > 0
}

// others are the pods besides p that have a disk.
func (s *simulation) others(p *simPod) []*simPod {
	return slices.DeleteFunc(s.present(), func(o *simPod) bool { return o == p || o.server == nil })
}

func (s *simulation) pod(name string) *simPod {
	return s.pods[slices.IndexFunc(s.pods, func(p *simPod) bool { return p.name == name })]
}

// node is where a pod runs: the copies of a shard are on different nodes.
func (p *simPod) node() string { return fmt.Sprintf("node-%d", (p.shard+p.ordinal)%3) }
