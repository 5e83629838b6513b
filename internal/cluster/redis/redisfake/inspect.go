package redisfake

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// StateOK is cluster_state: the node sees a majority of the voters, and has run for a moment. A primary
// that missed the majority waits for a node timeout, of 0.5 to 5 s, before it takes writes again
// (clusterUpdateState in the servers' source).
func (s *Server) StateOK() bool {
	if s.misses() {
		return false
	}
	return s.replicaOf != "" || s.net.now.Sub(s.startedAt) >= 2*time.Second && s.net.now.Sub(s.minorityAt) >= s.net.rejoinDelay()
}

// misses reports whether the node does not see a majority of the voters.
func (s *Server) misses() bool {
	reached := 0
	voters := s.voters()
	for id := range voters {
		if p := s.peers[id]; id == s.ID || (p != nil && !p.failing && !p.failed) {
			reached++
		}
	}
	return len(voters) == 0 || reached < s.majority()
}

func (n *Network) rejoinDelay() time.Duration {
	return min(max(n.Timeout, 500*time.Millisecond), 5*time.Second)
}

// Write adds a key to a slot, as a client does, and reports whether it is acknowledged. A primary in a
// minority takes writes until it finds, after a node timeout, that it misses the majority.
func (s *Server) Write(k Key) bool {
	if !s.Owns(k.Slot) || !s.StateOK() {
		return false
	}
	s.Data[k]++
	return true
}

// Owns tells whether the server would take a write to a slot.
func (s *Server) Owns(slot int) bool {
	return s.Up && s.replicaOf == "" && s.slots.get(slot) == s.ID
}

// Slots are what the node owns, running or not.
func (s *Server) Slots() slots.Set {
	if s.replicaOf != "" {
		return nil
	}
	return s.claims(s.ID)
}

// MigratingTo is the id of the node that a slot goes to, empty when it does not; ImportingFrom is where it comes from.
func (s *Server) MigratingTo(slot int) string { return s.migrating.get(slot) }

// ImportingFrom is the id of the node that a slot comes from, empty when it does not.
func (s *Server) ImportingFrom(slot int) string { return s.importing.get(slot) }

// Epoch is the node's config epoch.
func (s *Server) Epoch() uint64 { return s.epoch }

// Primary is the id of the primary that the node copies, empty for a primary.
func (s *Server) Primary() string { return s.replicaOf }

// LinkUp says that a replica follows its primary.
func (s *Server) LinkUp() bool { return s.linkUp }

// Remembers are the slots that the node, or its disk, knows an owner of.
func (s *Server) Remembers() slots.Set {
	var out slots.Set
	for _, r := range s.slots {
		out = append(out, r.of)
	}
	return slots.New(out...)
}

// OwnerOf is the id of the node that owns a slot in the eyes of this one; empty: none.
func (s *Server) OwnerOf(slot int) string { return s.slots.get(slot) }

// Table is what the node thinks of who owns what, in words.
func (s *Server) Table() string {
	text := fmt.Sprintf("%s (epoch %d)", s.ID[:8], s.epoch)
	if s.replicaOf != "" {
		text += ", replica of " + s.replicaOf[:8]
	}
	for _, r := range s.slots {
		text += fmt.Sprintf(", %s of %s", r.of, r.value[:8])
	}
	for _, o := range s.open() {
		text += fmt.Sprintf(", %s open with %s (importing %v)", o.Slots, o.Other[:8], o.Importing)
	}
	return text
}

// Imports tells whether any slot is on its way to the node.
func (s *Server) Imports() bool { return len(s.importing) > 0 }

// Voters is the number of nodes that own slots in the eyes of this one.
func (s *Server) Voters() int { return len(s.voters()) }

// Knows is the number of other nodes that the node knows.
func (s *Server) Knows() int { return len(s.peers) }

// Misses tells whether the node has found that another one does not answer, or has been told so.
func (s *Server) Misses(id string) bool {
	p := s.peers[id]
	return p == nil || p.failing || p.failed || p.noAddr
}

// HasCopy says that the node has had all data of a primary at some time.
func (s *Server) HasCopy() bool { return s.synced || len(s.Data) > 0 }
