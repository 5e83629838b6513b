package planner_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/redisfake"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

func (s *simulation) delete(p *simPod, loseDisk bool, ticks int) {
	if p.server != nil {
		p.server.Stop()
		if p.exists && p.stuck == "" {
			s.freed = append(s.freed, p.server.Addr)
		}
		if p.claimDeleted {
			s.claimsGone++
		}
		if loseDisk || p.emptied || p.claimDeleted {
			s.writeOff(p)
			s.net.Remove(p.server)
			p.server = nil
			if !slices.ContainsFunc(s.present(), func(o *simPod) bool { return o.server != nil }) {
				s.bury() // Nothing is left of the cluster: the next one is a new one.
			}
		}
	}
	p.exists, p.restart, p.loops, p.damaged, p.hangs, p.stuck, p.ends, p.backAt = false, false, false, false, false, "", time.Time{}, s.soon(ticks)
	p.claimDeleted = false
}

// strike is what a fault does to a pod. What its server had not on disk is written off, which is for no step to do.
func (s *simulation) strike(p *simPod, loseDisk bool, ticks int) {
	s.hit(p)
	imported := map[int]bool{}
	for slot := range sampleSlots {
		imported[slot] = p.server != nil && p.server.ImportingFrom(slot) != ""
	}
	s.delete(p, loseDisk, ticks)
	s.crashed(p)
	for k := range sampleKeys {
		if imported[k.Slot] { // What had come so far is where it came from no more, and perhaps nowhere else yet.
			s.acked[k] = min(s.acked[k], s.visible(k))
		}
	}
}

// hit takes note that a fault hits the slots that a pod owns or imports.
func (s *simulation) hit(p *simPod) {
	for slot := range sampleSlots {
		if p.server != nil && (p.server.Slots().Has(slot) || p.server.ImportingFrom(slot) != "") {
			s.struck[slot] = true
		}
	}
}

// crashed writes off what nobody has any more.
func (s *simulation) crashed(p *simPod) {
	for k := range sampleKeys {
		held := slices.ContainsFunc(s.present(), func(o *simPod) bool { return o.server != nil && o.server.Data[k] > 0 })
		if !held {
			s.acked[k] = 0
		}
		if p.server != nil && (s.owner(k.Slot) == p.server || p.server.ImportingFrom(k.Slot) != "") {
			s.acked[k] = min(s.acked[k], s.visible(k))
		}
	}
	s.fill()
}

// toDrop tells whether a replica has a key that its primary has given away, and will hear of that.
func (s *simulation) toDrop(p *simPod, k redisfake.Key) bool {
	return slices.ContainsFunc(s.others(p), func(o *simPod) bool {
		return o.server.ID == p.server.Primary() && o.server.Up && !o.emptied && o.server.Data[k] == 0
	})
}

// bury forgets a cluster of which nothing is left.
func (s *simulation) bury() {
	s.assigned = nil
	clear(s.won)
	clear(s.home)
}

// writeOff judges whether a cluster can get over the loss of a disk, and writes off what no other
// server has.
func (s *simulation) writeOff(p *simPod) {
	if s.podsStay {
		s.checkNoLoss(p)
	}
	copies := 0
	owned := s.ownsAny(p)
	for _, o := range s.others(p) {
		if o.shard == p.shard && (s.ownsAny(o) || (o.server.Primary() != "" && o.server.HasCopy())) {
			copies++
		}
	}
	for k := range sampleKeys {
		best := 0
		for _, o := range s.others(p) {
			if !s.toDrop(o, k) {
				best = max(best, o.server.Data[k])
			}
		}
		s.acked[k] = min(s.acked[k], best)
	}
	s.fill()
	maps.DeleteFunc(s.won, func(slot int, by victory) bool { return !s.heardOf(p, slot, by.id) })
	if copies == 0 && (!s.spec.AssignEmpty || !s.remembered(p)) && (owned || s.isHome(p.shard) || s.assigned.Count() < slots.Count) {
		s.bereft = true
	}
}

// heardOf tells whether anybody but p knows that a slot belongs to a server.
func (s *simulation) heardOf(p *simPod, slot int, id string) bool {
	return slices.ContainsFunc(s.others(p), func(o *simPod) bool { return o.server.OwnerOf(slot) == id })
}

// remembered tells whether some other server knows what the server of a pod owns: a shard that nobody has heard of cannot be missed.
func (s *simulation) remembered(p *simPod) bool {
	return p.server != nil && slices.ContainsFunc(s.others(p), func(o *simPod) bool {
		return len(p.server.Slots().Minus(o.server.Remembers())) == 0
	})
}

// fault does one random bad thing.
func (s *simulation) fault() {
	present := s.present()
	p := present[s.rnd.IntN(len(present))]
	ephemeral := !s.spec.Persistent
	if s.more.IntN(20) == 0 && !s.claimsStay {
		s.deleteClaim(present[s.more.IntN(len(present))])
	}
	if s.more.IntN(8) == 0 {
		s.divide()
	}
	switch s.rnd.IntN(22) {
	case 21:
		s.hang(p)
	case 16:
		s.wishPasswords()
	case 17:
		s.cordoned = ""
		if s.rnd.IntN(2) == 0 {
			s.cordoned = p.node()
		}
		s.log("node %q is cordoned, and no other", s.cordoned)
	case 0, 1:
		if s.rnd.IntN(2) == 0 && p.server != nil {
			s.log("fault: pod %s is asked to go", p.name)
			p.ends = s.soon(100)
			return
		}
		s.log("fault: pod %s is deleted", p.name)
		s.strike(p, ephemeral, 30)
	case 2:
		s.kill(p, 20)
	case 3:
		s.log("fault: the node of %s is lost for a while", p.name)
		if s.rnd.IntN(3) == 0 {
			s.kill(p, 1200) // Its pod stays.
			p.nodeLost = p.restart
		} else {
			s.strike(p, ephemeral, 400)
		}
	case 4:
		s.cutOff(p)
	case 5:
		if s.rnd.IntN(3) == 0 {
			s.log("fault: pod %s and its disk are lost", p.name)
			p.homeless = s.spec.Persistent && s.rnd.IntN(2) == 0
			s.strike(p, true, 30)
		}
	case 6:
		if s.rnd.IntN(4) == 0 {
			s.log("fault: all pods are deleted at once")
			for _, p := range present {
				s.strike(p, ephemeral, 30)
			}
		}
	case 7:
		s.log("the template changes")
		s.changes++
		s.spec.Live = simLive(fmt.Sprint(10 + s.rnd.IntN(3)))
	case 8:
		s.meddle()
	case 9, 10:
		s.spec.Replicas = s.rnd.IntN(3)
		s.spec.MinReplicas = min(s.spec.MinReplicas, s.spec.Replicas)
		s.log("%d replicas are asked for, of which %d are to acknowledge", s.spec.Replicas, s.spec.MinReplicas)
	case 11, 12, 13:
		s.spec.Version = simVersions[s.rnd.IntN(len(simVersions))]
		s.log("version %s is asked for", s.spec.Version)
	case 14, 15:
		s.spec.Shards = 1 + s.rnd.IntN(5)
		s.resharded = true
		s.log("spec.shards is %d now", s.spec.Shards)
	case 18, 19:
		s.external = !s.external
		s.log("external access: %v", s.external)
	case 20:
		s.loseService(p)
	}
}

func (s *simulation) kill(p *simPod, ticks int) {
	if p.server == nil || !p.exists || p.stuck != "" {
		return
	}
	s.log("fault: the server of %s is killed", p.name)
	s.hit(p)
	p.server.Stop()
	s.crashed(p)
	p.hangs = false
	p.restart, p.backAt, p.killed = true, s.soon(ticks), s.net.Now()
	if p.loops = ticks < 100 && s.rnd.IntN(2) == 0; p.loops {
		p.backAt = s.net.Now().Add(10 * time.Second)
		s.log("fault: and will not be back for 10 s")
		if p.damaged = s.spec.Persistent && s.rnd.IntN(2) == 0; p.damaged {
			s.log("fault: nor then, because its data cannot be read")
		}
	}
	if !s.podsStay && p.server.StartedEmpty() && s.rnd.IntN(4) == 0 {
		s.log("fault: so is its data")
		s.writeOff(p)
		clear(p.server.Data)
		for k := range sampleKeys {
			p.emptied = p.emptied || (s.owner(k.Slot) == p.server && s.visible(k) < s.acked[k])
			if p.server.ImportingFrom(k.Slot) != "" { // Its replicas may have it, and be elected, or not.
				s.acked[k] = min(s.acked[k], s.visible(k))
			}
		}
	}
}

// hang has a process stand still: nobody hears from it, and all that it has is still there.
func (s *simulation) hang(p *simPod) {
	if p.server == nil || !p.exists || p.stuck != "" || !p.server.Up {
		return
	}
	s.log("fault: the server of %s hangs", p.name)
	s.hit(p)
	p.server.StandStill()
	p.hangs, p.hangTill = true, s.soon(2000)
}

func (s *simulation) cutOff(p *simPod) {
	if p.server == nil {
		return
	}
	s.log("fault: the operator cannot reach %s", p.name)
	p.server.Cut, p.cutTill = true, s.soon(100)
}

// meddle is a human who makes all servers forget a node that is gone, slots and all.
func (s *simulation) meddle() {
	switch s.rnd.IntN(4) {
	case 0:
		s.changeUser()
		return
	case 1, 2:
		s.changeParameter()
		return
	}
	for _, g := range s.gone() {
		s.log("fault: a human forgets %s", g)
		s.bereft = true
		for _, p := range s.pods {
			if p.server != nil {
				_ = p.server.Forget(context.Background(), g)
			}
		}
	}
}

// changeUser is a human who takes a right from a user of some server, or a user from it.
// simLive is what servers are to have set.
func simLive(hz string) map[string]string {
	return map[string]string{"hz": hz, "appendonly": "yes", "replica-read-only": "yes"}
}

// changeParameter is a client that sends CONFIG SET. With appendonly no the disk keeps what it has, and a server that crashes comes back with that.
func (s *simulation) changeParameter() {
	p := s.pods[s.rnd.IntN(len(s.pods))]
	if p.server == nil || !p.server.Up || p.stuck != "" {
		return
	}
	values := []map[string]string{{"appendonly": "no"}, {"replica-read-only": "no"}, {"hz": "500"}}[s.rnd.IntN(3)]
	s.log("fault: a client changes a parameter of %s: %v", p.name, values)
	_ = p.server.Configure(context.Background(), values) // Cut off is from the operator.
}

// gone are the nodes that some server knows and that exist no more.
func (s *simulation) gone() []string {
	var out []string
	for _, p := range s.pods {
		if p.server == nil || !p.server.Up || p.server.Cut {
			continue
		}
		node, err := p.server.Read(context.Background())
		if err != nil {
			continue
		}
		for _, peer := range node.Peers {
			exists := slices.ContainsFunc(s.pods, func(o *simPod) bool { return o.server != nil && o.server.ID == peer.ID })
			if !exists && !peer.Handshake && !slices.Contains(out, peer.ID) {
				out = append(out, peer.ID)
			}
		}
	}
	return out
}
