package redisfake

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
)

func (s *Server) shakeHands() {
	for _, a := range slices.SortedFunc(maps.Keys(s.greeting), compareAddr) {
		other := s.reach(a)
		switch {
		case s.net.now.After(s.greeting[a]):
			delete(s.greeting, a)
		case other != nil && other != s && s.net.Rand.IntN(3) > 0:
			delete(s.greeting, a)
			s.learn(other)
			other.learn(s)
		}
	}
}

func compareAddr(a, b model.Address) int {
	return cmp.Or(cmp.Compare(a.IP, b.IP), cmp.Compare(a.Port, b.Port))
}

// learn puts another server into the table, or corrects its address.
func (s *Server) learn(o *Server) {
	if until, ok := s.banned[o.ID]; ok && s.net.now.Before(until) {
		return
	}
	p := s.peers[o.ID]
	if p == nil {
		p = &peer{heard: s.net.now}
		s.peers[o.ID] = p
		s.order = nil
	}
	p.addr, p.host = o.announced()
	p.noAddr = false
}

// gossip exchanges a ping and a pong with every known node that answers at its address.
func (s *Server) gossip() {
	for _, id := range s.known() {
		o := s.reach(s.peers[id].addr)
		if o == nil {
			continue
		}
		if o.ID != id {
			s.peers[id].addr, s.peers[id].noAddr = model.Address{}, true
			continue
		}
		if _, ok := o.peers[s.ID]; ok {
			o.hear(s, s.net.Rand.IntN(3) == 0)
		}
		if s.peers[id] != nil {
			s.hear(o, s.net.Rand.IntN(3) == 0)
		}
	}
}

// known are the ids of all known nodes, sorted, so that a run can be repeated.
func (s *Server) known() []string {
	if s.order == nil {
		s.order = slices.Sorted(maps.Keys(s.peers))
	}
	return s.order
}

// hear takes in what another node says of itself and, as not every message does, of third ones.
func (s *Server) hear(o *Server, others bool) {
	p := s.peers[o.ID]
	p.heard, p.failing, p.noAddr = s.net.now, false, false
	p.addr, p.host = o.announced()
	p.epoch, p.replicaOf = o.epoch, o.replicaOf
	s.current = max(s.current, o.current)
	if p.failed && (o.replicaOf != "" || !s.hasSlots(o.ID) || s.net.now.Sub(p.failedAt) > 2*s.net.Timeout) {
		p.failed = false
	}
	if o.replicaOf == "" {
		s.settleEpochs(o)
		s.believe(o.ID, o.epoch, o.claims(o.ID))
		for _, r := range s.claims(o.ID).Minus(o.claims(o.ID)) {
			s.unclaimed.set(r, o.ID)
		}
		s.correct(o)
	} else {
		for _, r := range s.claims(o.ID) { // A primary that has become a replica owns nothing.
			s.slots.set(r, "")
			s.unclaimed.set(r, "")
		}
	}
	if !others {
		return
	}
	for _, id := range o.known() {
		if id != s.ID {
			s.hearOf(id, o)
		}
	}
}

// hearOf takes in what one node says of another: that it fails, that it exists, or where it has moved to.
func (s *Server) hearOf(id string, from *Server) {
	third, mine := from.peers[id], s.peers[id]
	ailing := third.failing || third.failed
	switch {
	case mine == nil:
		s.hearOfNew(id, third)
	case ailing && from.votes():
		s.report(id, from.ID)
	case (mine.failing || mine.failed) && !third.noAddr && mine.addr != third.addr:
		mine.addr, mine.noAddr = third.addr, false
	}
}

// hearOfNew greets a node that is said to be well, if it is where it is said to be. One that is said to be dead is known from then on.
func (s *Server) hearOfNew(id string, third *peer) {
	if own, _ := s.announced(); third.noAddr || third.addr == own {
		return
	}
	if third.failing || third.failed {
		if until, ok := s.banned[id]; !ok || !s.net.now.Before(until) {
			told := *third
			s.peers[id], s.order = &told, nil
		}
		return
	}
	if t := s.reach(third.addr); t != nil && t.ID == id && s.net.Rand.IntN(2) == 0 {
		s.greeting[third.addr] = s.net.now.Add(handshakeFor)
	}
}

func (s *Server) report(id, by string) {
	if s.reports[id] == nil {
		s.reports[id] = map[string]time.Time{}
	}
	s.reports[id][by] = s.net.now
}

func (s *Server) detectFailures() {
	for _, id := range s.known() {
		p := s.peers[id]
		if p.noAddr || s.net.now.Sub(p.heard) <= s.net.Timeout {
			continue // Nobody calls on a node whose address is not known.
		}
		p.failing = true
		votes := 0
		if s.votes() || len(s.voters()) == 0 {
			votes++
		}
		for _, at := range s.reports[id] {
			if s.net.now.Sub(at) <= 2*s.net.Timeout {
				votes++
			}
		}
		if votes >= s.majority() && !p.failed {
			s.spread(id)
		}
	}
}

// spread tells everybody that a node has failed.
func (s *Server) spread(id string) {
	for _, o := range s.net.servers {
		p, ok := o.peers[id]
		if _, knows := s.peers[o.ID]; o.Up && ok && o.side == s.side && (o == s || knows) {
			p.failed, p.failing, p.failedAt = true, true, s.net.now
		}
	}
}

// tellAll tells everybody what the node owns, without waiting for the next round of gossip.
func (s *Server) tellAll() {
	for _, id := range s.known() {
		if o := s.reach(s.peers[id].addr); o != nil && o.ID == id && o.peers[s.ID] != nil {
			o.hear(s, s.net.draw(3, s.ID+" tells "+id) == 0)
		}
	}
}
