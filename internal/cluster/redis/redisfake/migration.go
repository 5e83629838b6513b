package redisfake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

var (
	errNoMigrations = errors.New("ERR unknown subcommand 'MIGRATESLOTS'")
	errOpenSlots    = errors.New("ERR Cannot start slot migration while slots are importing or migrating")
	errMigrating    = errors.New("ERR I am already migrating slot")
	errTask         = errors.New("ERR another ASM task is already in progress")
)

// migration is a move of slots that two servers carry out by themselves. What they tell of it is gone when their process ends.
type migration struct {
	model.Migration
	net                      *Network
	source, target           *Server
	sourceStart, targetStart int
	left                     int // ticks
	// doomed says that no attempt succeeds.
	doomed bool
}

// Migrate begins a migration. Now and then the target does not let the source in.
func (s *Server) Migrate(_ context.Context, slots slots.Set, to, _, _ string) error {
	p := s.peers[to]
	switch {
	case s.reachable() != nil:
		return errDown
	case !s.net.Migrates || s.net.Pulls:
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
		Migration: model.Migration{Name: fmt.Sprint(s.net.ids), Slots: slots, Source: s.ID, Target: to, State: "snapshotting", Updated: s.net.now},
		net:       s.net, source: s, target: s.reach(p.addr), sourceStart: s.starts, left: 1 + s.net.draw(30, slots.String()+" last"),
	}
	if m.target == nil || m.target.ID != to || s.net.draw(10, slots.String()+" go") == 0 {
		m.target = nil
		m.end(model.MigrationFailed)
	} else {
		m.targetStart = m.target.starts
	}
	s.net.migrations = append([]*migration{m}, s.net.migrations...)
	return nil
}

// Import begins a migration at its target, which takes part in one at a time.
func (s *Server) Import(_ context.Context, slots slots.Set) error {
	switch {
	case s.reachable() != nil:
		return errDown
	case !s.net.Migrates || !s.net.Pulls:
		return errNoMigrations
	case s.replicaOf != "":
		return errReplica
	case len(s.importing)+len(s.migrating) > 0:
		return errOpenSlots
	case slices.ContainsFunc(s.net.migrations, func(m *migration) bool { return m.target == s && m.known() && m.Running() }):
		return errTask
	}
	s.net.ids++
	m := &migration{
		Migration: model.Migration{Name: fmt.Sprint(s.net.ids), Slots: slots, Target: s.ID},
		net:       s.net, target: s, targetStart: s.starts, doomed: s.net.draw(15, slots.String()+" are doomed") == 0,
	}
	if !m.begin() {
		return errNotOwner
	}
	s.net.migrations = append([]*migration{m}, s.net.migrations...)
	return nil
}

// begin looks for the owner of the slots, in the eyes of the target, and asks it for them.
func (m *migration) begin() bool {
	owner := slices.IndexFunc(m.net.servers, func(o *Server) bool { return len(m.Slots.Minus(m.target.claims(o.ID))) == 0 })
	if owner < 0 || m.net.servers[owner] == m.target || m.target.peers[m.net.servers[owner].ID] == nil {
		return false
	}
	m.Source = m.net.servers[owner].ID
	m.source, m.left = m.target.reach(m.target.peers[m.Source].addr), 1+m.net.draw(30, m.Slots.String()+" last")
	m.State, m.Updated = "accumulate-buffer", m.net.now
	if m.source == nil || m.source.ID != m.Source || m.doomed || m.net.draw(10, m.Slots.String()+" come") == 0 || m.source.sends(m) {
		m.source = nil
		m.end(model.MigrationRetrying)
		return true
	}
	m.sourceStart = m.source.starts
	return true
}

// sends tells whether the server is the source of another migration that has not ended.
func (s *Server) sends(but *migration) bool {
	return slices.ContainsFunc(s.net.migrations, func(m *migration) bool { return m != but && m.source == s && m.Running() })
}

// known tells whether the target of a migration that it was told to begin has not ended since.
func (m *migration) known() bool { return m.target.starts == m.targetStart }

// CancelMigration ends a migration at one of its servers. A target that was not told begins anew.
func (s *Server) CancelMigration(_ context.Context, name string) error {
	if s.reachable() != nil {
		return errDown
	}
	for _, m := range s.net.migrations {
		switch {
		case m.Name != name || !m.Running():
		case m.target == s:
			m.end(model.MigrationCancelled)
		case m.source == s:
			m.end(model.MigrationRetrying)
		}
	}
	return nil
}

// retry has a target begin anew what has failed, and forget what it cannot begin.
func (m *migration) retry() {
	switch {
	case !m.target.Up || !m.known():
		m.State = model.MigrationFailed // Nobody knows of it any more.
	case m.net.now.Sub(m.Updated) < time.Second:
	case m.target.replicaOf != "" || !m.begin():
		m.end(model.MigrationCancelled)
	default:
		m.Retries++
	}
}

func (m *migration) end(state model.MigrationState) {
	m.State, m.Updated = state, m.net.now
}

// tick has time pass. Whoever of the two ends, or is no primary any more, breaks the migration, and both are as before.
func (m *migration) tick() {
	switch {
	case !m.Running():
		return
	case m.State == model.MigrationRetrying:
		m.retry()
		return
	}
	switch whole := m.whole(); {
	case !whole && m.net.Pulls:
		m.end(model.MigrationRetrying)
		return
	case !whole:
		m.end(model.MigrationFailed)
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
	m.source.hear(m.target, m.net.draw(3, m.target.ID+" tells "+m.source.ID) == 0) // It takes no write before it has heard.
	if m.net.draw(10, m.target.ID+" owns "+m.Slots.String()) > 0 {
		m.target.tellAll()
	}
	m.end(model.MigrationSuccess)
}

// whole tells whether both servers are what they were when it began.
func (m *migration) whole() bool {
	return m.source.side == m.target.side && m.source.Up && m.source.starts == m.sourceStart && len(m.Slots.Minus(m.source.Slots())) == 0 &&
		m.target.Up && m.target.starts == m.targetStart && m.target.replicaOf == ""
}

// told are the migrations that the server tells of, the last one first.
func (s *Server) told() []model.Migration {
	if !s.net.Migrates {
		return nil
	}
	out := []model.Migration{}
	for _, m := range s.net.migrations {
		switch {
		case m.source == s && m.sourceStart == s.starts:
			told := m.Migration
			if told.State == model.MigrationRetrying {
				told.State = model.MigrationFailed // Only the target knows that it will begin anew.
			}
			out = append(out, told)
		case m.target == s && m.targetStart == s.starts:
			told := m.Migration
			told.Importing = true
			out = append(out, told)
		}
	}
	return out
}
