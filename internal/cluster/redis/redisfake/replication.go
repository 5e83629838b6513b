package redisfake

import (
	"maps"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/software"
)

// replicate copies from whoever answers at the address of the primary.
func (s *Server) replicate() {
	p := s.peers[s.replicaOf]
	if s.replicaOf == "" || p == nil {
		s.linkUp = false
		return
	}
	if !p.noAddr && p.addr != s.master {
		s.master, s.linkUp = p.addr, false
	}
	source := s.reach(s.master)
	if source == nil || source == s || s.Refused || (!s.linkUp && !source.serves(s)) {
		s.linkUp, s.syncFrom = false, time.Time{}
		return
	}
	if !s.linkUp {
		if s.syncFrom.IsZero() {
			s.syncFrom = s.net.now
			s.transferred = time.Duration(s.net.Rand.IntN(6)) * Cron
		}
		if s.net.now.Sub(s.syncFrom) < s.transferred {
			return
		}
		if s.chokesOn(source) {
			return
		}
		s.linkUp, s.synced = true, true
		s.rewrite()
	}
	s.Data = maps.Clone(source.Data)
}

// chokesOn is the end of an attempt to copy a primary of a later version: now and then the replica goes on with the stream, and
// otherwise it has thrown away what it had and cannot load the whole.
func (s *Server) chokesOn(source *Server) bool {
	if !software.Older(s.Version, source.Version) || (len(s.Data) > 0 && s.net.Rand.IntN(2) > 0) {
		return false
	}
	s.Data, s.disk, s.synced, s.syncFrom = map[Key]int{}, nil, false, time.Time{}
	return true
}

// rewrite begins to write a copy of the primary to disk, where the data of the time before stays until it is done.
func (s *Server) rewrite() {
	if s.disk == nil {
		s.disk = maps.Clone(s.Data)
	}
	s.savedAt = s.net.now.Add(time.Duration(1+s.net.Rand.IntN(30)) * Cron)
}

// serves tells whether a server lets another one copy it. A replica has nothing to give before it is linked itself.
func (s *Server) serves(o *Server) bool {
	return s.admits != model.AdmitsNobody && s.Shard == o.Shard && (s.replicaOf == "" || s.linkUp)
}
