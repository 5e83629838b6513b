package redisfake

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/internal/cluster/redis"
)

var (
	errNoMigrations = errors.New("ERR unknown subcommand 'MIGRATESLOTS'")
	errOpenSlots    = errors.New("ERR Cannot start slot migration while slots are importing or migrating")
	errMigrating    = errors.New("ERR I am already migrating slot")
)

// migration is a move of slots that two servers carry out by themselves. What they tell of it is gone when their process ends.
type migration struct {
	redis.Migration
	source, target           *Server
	sourceStart, targetStart int
	left                     int // ticks
}

// Migrate begins a migration. Now and then the target does not let the source in.
func (s *Server) Migrate(_ context.Context, slots redis.Slots, to, _, _ string) error {
	p := s.peers[to]
	switch {
	case s.reachable() != nil:
		return errDown
	case !s.net.Migrates:
		return errNoMigrations
	case s.replicaOf != "":
		return errReplica
	case p == nil:
		return errUnknownID
	case len(s.importing)+len(s.migrating) > 0:
		return errOpenSlots
	case len(slots.Minus(s.Slots())) > 0:
		return errNotOwner
	}
	for _, m := range s.net.migrations {
		if m.source == s && m.Running() && m.Slots.Overlaps(slots) {
			return errMigrating
		}
	}
	s.net.ids++
	m := &migration{
		Migration: redis.Migration{Name: fmt.Sprint(s.net.ids), Slots: slots, Source: s.ID, Target: to, State: "snapshotting", Updated: s.net.now},
		source:    s, target: s.net.at(p.addr), sourceStart: s.starts, left: 1 + s.net.Rand.IntN(30),
	}
	if m.target == nil || m.target.ID != to || s.net.Rand.IntN(10) == 0 {
		m.target = nil
		m.end(redis.MigrationFailed)
	} else {
		m.targetStart = m.target.starts
	}
	s.net.migrations = append([]*migration{m}, s.net.migrations...)
	return nil
}

func (m *migration) end(state redis.MigrationState) {
	m.State, m.Updated = state, m.source.net.now
}

// tick has time pass. Whoever of the two ends, or is no primary any more, breaks the migration, and both are as before.
func (m *migration) tick() {
	if !m.Running() {
		return
	}
	whole := m.source.Up && m.source.starts == m.sourceStart && len(m.Slots.Minus(m.source.Slots())) == 0 &&
		m.target.Up && m.target.starts == m.targetStart && m.target.replicaOf == ""
	if !whole {
		m.end(redis.MigrationFailed)
		return
	}
	if m.left--; m.left > 0 {
		return
	}
	for k, count := range m.source.Data {
		if m.Slots.Has(k.Slot) {
			m.target.Data[k] = count
			delete(m.source.Data, k)
		}
	}
	for _, r := range m.Slots {
		m.target.slots.set(r, m.target.ID)
	}
	m.target.bump()
	m.source.hear(m.target) // It takes no write before it has heard.
	if m.source.net.Rand.IntN(10) > 0 {
		m.target.tellAll()
	}
	m.end(redis.MigrationSuccess)
}

// told are the migrations that the server tells of, the last one first.
func (s *Server) told() []redis.Migration {
	if !s.net.Migrates {
		return nil
	}
	out := []redis.Migration{}
	for _, m := range s.net.migrations {
		switch {
		case m.source == s && m.sourceStart == s.starts:
			out = append(out, m.Migration)
		case m.target == s && m.targetStart == s.starts:
			told := m.Migration
			told.Importing = true
			out = append(out, told)
		}
	}
	return out
}
