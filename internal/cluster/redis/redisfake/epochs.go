package redisfake

import (
	"maps"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
)

// hasSlots tells whether a node owns something in the eyes of this one.
func (s *Server) hasSlots(id string) bool {
	return s.slots.has(id)
}

// settleEpochs bumps the epoch of one of two primaries that have the same.
func (s *Server) settleEpochs(o *Server) {
	if s.replicaOf == "" && s.epoch == o.epoch && s.ID < o.ID {
		s.current++
		s.epoch = s.current
	}
}

// claims are the slots that a node owns in the eyes of this one.
func (s *Server) claims(id string) redisslots.Set { return s.slots.with(id) }

func (s *Server) epochOf(id string) uint64 {
	if id == s.ID {
		return s.epoch
	}
	if p := s.peers[id]; p != nil {
		return p.epoch
	}
	return 0
}

// believe follows the owner with the highest epoch, but for slots that this node imports. claimed is what it says to own.
func (s *Server) believe(id string, epoch uint64, claimed redisslots.Set) {
	current := s.ID
	if s.replicaOf != "" {
		current = s.replicaOf
	}
	had, taken := s.hasSlots(current), 0
	var dirty redisslots.Set
	for _, r := range claimed {
		for _, part := range s.slots.within(r) {
			was := part.value
			if was == id {
				s.unclaimed.set(part.of, "")
				continue
			}
			of := redisslots.Set{part.of}
			if was != "" && s.epochOf(was) >= epoch {
				of = of.And(s.unclaimed.with(was))
			}
			for _, in := range s.importing {
				of = of.Minus(redisslots.Set{in.of})
			}
			for _, r := range of {
				s.slots.set(r, id)
				s.unclaimed.set(r, "")
			}
			if was == current {
				taken += of.Count()
			}
			if was == s.ID {
				dirty = redisslots.Union(dirty, of)
			}
		}
	}
	// Only who takes everything, and has nothing else, is a successor: slots may just as well have been moved.
	if had && !s.hasSlots(current) && taken == claimed.Count() {
		s.follow(id)
		return
	}
	maps.DeleteFunc(s.Data, func(k Key, _ int) bool { return s.replicaOf == "" && dirty.Has(k.Slot) })
}

// correct tells a node about slots that it lost to somebody with a higher epoch.
func (s *Server) correct(o *Server) {
	for _, r := range o.claims(o.ID) {
		for _, part := range s.slots.within(r) {
			id := part.value
			if id == o.ID || id == "" || s.epochOf(id) <= o.epoch || s.unclaimed.get(part.of.From) != "" {
				continue
			}
			if p, ok := o.peers[id]; ok && p.epoch < s.epochOf(id) { // To what is no news it does not listen.
				p.epoch = s.epochOf(id)
				o.believe(id, s.epochOf(id), s.claims(id))
			}
		}
	}
}

func (s *Server) follow(id string) {
	if s.replicaOf == "" {
		s.synced = false
	}
	s.net.mu.Lock()
	s.replicaOf, s.linkUp, s.syncFrom, s.electAt = id, false, time.Time{}, time.Time{}
	s.net.mu.Unlock()
	s.importing, s.migrating = nil, nil
	s.master = model.Address{}
	if p := s.peers[id]; p != nil {
		s.master = p.addr
	}
}

// ownsNewer tells whether some of the slots have an owner, in the eyes of this node, with a later epoch than the one given.
func (s *Server) ownsNewer(slots redisslots.Set, epoch uint64) bool {
	for _, r := range slots {
		for _, part := range s.slots.within(r) {
			id := part.value
			if id != "" && s.epochOf(id) > epoch && len(redisslots.Set{part.of}.Minus(s.unclaimed.with(id))) > 0 {
				return true
			}
		}
	}
	return false
}
