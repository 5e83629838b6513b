package redisfake

import (
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/config"
)

// votes tells whether the node is a primary with slots.
func (s *Server) votes() bool { return s.replicaOf == "" && s.hasSlots(s.ID) }

// voters are all nodes that own slots in the eyes of this one.
func (s *Server) voters() map[string]bool {
	out := map[string]bool{}
	for _, r := range s.slots {
		out[r.value] = true
	}
	return out
}

func (s *Server) majority() int { return len(s.voters())/2 + 1 }

// elect makes a replica stand for election when its primary has failed, or at once when it is told to.
func (s *Server) elect(force bool) bool {
	p := s.peers[s.replicaOf]
	if s.replicaOf == "" || p == nil || !s.hasSlots(s.replicaOf) || (!force && (!s.synced || !p.failed || s.net.now.Sub(s.linkedAt) > config.Validity(s.net.Timeout))) {
		s.electAt = time.Time{}
		return false
	}
	if s.electAt.IsZero() && !force {
		s.electAt = s.net.now.Add(5*Cron + time.Duration(s.net.Rand.IntN(15))*Cron)
	}
	if !force && s.net.now.Before(s.electAt) {
		return false
	}
	s.electAt = time.Time{}
	if !s.asked.IsZero() && s.net.now.Sub(s.asked) <= 4*s.net.Timeout {
		return false // The last attempt has failed, and counts until then, also when the node is told to stand.
	}
	return s.poll(force)
}

// poll asks for votes, and takes over when there are enough of them.
func (s *Server) poll(force bool) bool {
	s.asked = s.net.now
	s.current++
	votes, voters := 0, s.voters()
	for _, o := range s.net.servers {
		if voters[o.ID] && o.side == s.side && o.votesFor(s, force) {
			votes++
		}
	}
	if votes < s.majority() {
		return false
	}
	s.promote(false)
	return true
}

// votesFor is a primary's answer to a replica that stands for election: once per epoch, and only if it knows both the
// replica and its primary, which it has to hold for failed unless the replica was told to stand. It does not vote in an epoch that
// is over, twice on the same primary within twice the node timeout, or for somebody who claims slots under an epoch that is
// older than that of their owner (clusterSendFailoverAuthIfNeeded in the servers' source).
func (s *Server) votesFor(candidate *Server, force bool) bool {
	if !s.Up || s == candidate || !s.votes() || s.voted >= candidate.current || candidate.current < s.current || s.peers[candidate.ID] == nil {
		return false
	}
	primary := s.peers[candidate.replicaOf]
	switch {
	case candidate.replicaOf == s.ID && force: // It votes for its own successor.
	case primary == nil, !primary.failed && !force:
		return false
	}
	if at, ok := s.votedOn[candidate.replicaOf]; ok && s.net.now.Sub(at) < 2*s.net.Timeout {
		return false
	}
	if s.ownsNewer(candidate.claims(candidate.replicaOf), candidate.epochOf(candidate.replicaOf)) {
		return false
	}
	s.current, s.voted = max(s.current, candidate.current), candidate.current
	s.votedOn[candidate.replicaOf] = s.net.now
	return true
}

// promote makes the replica the owner of its primary's slots, under the highest epoch.
func (s *Server) promote(planned bool) {
	slots := s.claims(s.replicaOf)
	s.epoch, s.replicaOf, s.linkUp = s.current, "", false
	s.asked = time.Time{}
	for _, r := range slots {
		s.slots.set(r, s.ID)
	}
	if s.net.Promoted != nil {
		s.net.Promoted(s, slots, planned)
	}
	s.tellAll()
}
