package redisfake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// Errors of the fake, worded like those of the server.
var (
	errDown       = errors.New("dial tcp: i/o timeout")
	errNotMaster  = errors.New("ERR I can only replicate a master, not a replica")
	errUnknown    = errors.New("ERR Unknown node")
	errEpoch      = errors.New("ERR The user can assign a config epoch only when the node does not know any other node")
	errNoLoad     = errors.New("ERR Unknown option or number of arguments for CONFIG SET")
	errBusy       = errors.New("ERR Slot is already busy")
	errNotEmpty   = errors.New("ERR To set a master the node must be empty and without assigned slots")
	errMyMaster   = errors.New("ERR Can't forget my master")
	errNotReplica = errors.New("ERR You should send CLUSTER FAILOVER to a replica")
	errClustered  = errors.New("ERR REPLICAOF not allowed in cluster mode")
	errMasterDown = errors.New("the replica was not promoted")
)

var _ steps.Client = (*Server)(nil)

// Promote is not for servers of a cluster.
func (s *Server) Promote(context.Context, string) error { return errClustered }

// ReplicaOf is not for servers of a cluster.
func (s *Server) ReplicaOf(context.Context, model.Address) error { return errClustered }

// FailoverTo is not for servers of a cluster.
func (s *Server) FailoverTo(context.Context, model.Address) error { return errClustered }

func (s *Server) reachable() error {
	switch {
	case s.hangs && !s.Cut:
		return steps.ErrHangs
	case !s.Up || s.Cut:
		return errDown
	}
	return nil
}

// copies counts the replicas that are connected.
func (s *Server) copies() int {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	n := 0
	for _, o := range s.net.servers {
		if o.Up && o.linkUp && o.replicaOf == s.ID {
			n++
		}
	}
	return n
}

// Acknowledging counts the replicas that a primary has heard from within a time, which is
// min-replicas-max-lag for min-replicas-to-write.
func (s *Server) Acknowledging(within time.Duration) int {
	n := 0
	for _, o := range s.net.servers {
		if o.Up && o.replicaOf == s.ID && o.synced && s.net.now.Sub(o.linkedAt) <= within {
			n++
		}
	}
	return n
}

// Read returns the node's account.
func (s *Server) Read(context.Context) (*model.Node, error) {
	if err := s.reachable(); err != nil {
		return nil, err
	}
	n := &model.Node{
		ID: s.ID, Version: s.Version, Clock: s.net.now, StateOK: s.StateOK(), LinkUp: s.linkUp, EverLinked: s.synced, Admits: s.admits, OnDisk: s.OnDisk(),
		Engine: "redis", Process: s.process(), Migrations: s.told(), Pulls: s.net.Migrates && s.net.Pulls, Users: s.Users, ReplicationPassword: s.ReplicationPassword, Certificate: s.Certificate,
		Memory: s.Memory, Commands: s.Commands,
	}
	n.Copies = s.copies()
	if s.synced && !s.linkUp {
		n.LinkDown = s.net.now.Sub(s.linkedAt).Truncate(time.Second)
	}
	n.Config = maps.Clone(s.Config)
	if asks := s.Config["min-replicas-to-write"]; asks != "" && asks != "0" {
		n.Acknowledging = &n.Copies
	}
	for _, count := range s.Data {
		n.Keys += int64(min(count, 1))
		n.Offset += int64(count)
	}
	n.Announces = maps.Clone(s.Announces)
	addr, host := s.announced()
	n.Peers = append(n.Peers, model.Peer{
		ID: s.ID, Addr: addr, Host: host, Myself: true, Replica: s.replicaOf != "", PrimaryID: s.replicaOf,
		Epoch: s.epoch, Slots: s.claims(s.ID), Open: s.open(),
	})
	for _, id := range s.known() {
		n.Peers = append(n.Peers, s.peer(id, s.peers[id]))
	}
	for _, a := range slices.SortedFunc(maps.Keys(s.greeting), compareAddr) {
		n.Peers = append(n.Peers, model.Peer{ID: "handshake-" + a.IP, Addr: a, Handshake: true})
	}
	return n, nil
}

// peer is what the server says of another one.
func (s *Server) peer(id string, p *peer) model.Peer {
	return model.Peer{
		ID: id, Addr: p.addr, Host: p.host, Replica: p.replicaOf != "", PrimaryID: p.replicaOf,
		Answered: p.heard, Epoch: p.epoch, Slots: s.claims(id), Failing: p.failing && !p.failed, Failed: p.failed, NoAddr: p.noAddr,
	}
}

// SetConfigEpoch works on a node that is alone and has no epoch.
func (s *Server) SetConfigEpoch(_ context.Context, epoch uint64) error {
	if err := s.reachable(); err != nil {
		return err
	}
	if len(s.peers) > 0 || s.epoch != 0 {
		return errEpoch
	}
	s.epoch = epoch
	s.current = max(s.current, epoch)
	return nil
}

// Meet begins a handshake.
func (s *Server) Meet(_ context.Context, a model.Address, _ int) error {
	if err := s.reachable(); err != nil {
		return err
	}
	s.greeting[a] = s.net.now.Add(handshakeFor)
	return nil
}

// AddSlots refuses slots that have an owner.
func (s *Server) AddSlots(_ context.Context, slots slots.Set) error {
	if err := s.reachable(); err != nil {
		return err
	}
	if s.Remembers().Overlaps(slots) {
		return errBusy
	}
	for _, r := range slots {
		s.slots.set(r, s.ID)
	}
	return nil
}

// Replicate refuses what the server refuses.
func (s *Server) Replicate(_ context.Context, id string) error {
	if err := s.reachable(); err != nil {
		return err
	}
	p := s.peers[id]
	switch {
	case p == nil:
		return errUnknown
	case p.replicaOf != "":
		return errNotMaster
	case s.replicaOf == "" && (s.hasSlots(s.ID) || len(s.Data) > 0):
		return errNotEmpty
	}
	s.follow(id)
	return nil
}

// AdmitReplicas lasts until the server restarts, or for good.
func (s *Server) AdmitReplicas(_ context.Context, how model.Admission) error {
	if err := s.reachable(); err != nil {
		return err
	}
	s.admits = max(s.admits, how)
	s.rendered = s.rendered || how == model.AdmitsForGood
	return nil
}

// SetUsers replaces users, also in the file that the server starts with.
func (s *Server) SetUsers(_ context.Context, users []acl.User, admits model.Admission) error {
	if err := s.reachable(); err != nil {
		return err
	}
	for _, u := range users {
		s.Users = append(slices.DeleteFunc(slices.Clone(s.Users), func(o acl.User) bool { return o.Name == u.Name }), u)
	}
	s.users, s.rendered, s.admits = s.Users, admits == model.AdmitsForGood, admits
	return nil
}

// DeleteUsers deletes users, also from the file.
func (s *Server) DeleteUsers(_ context.Context, names []string, admits model.Admission) error {
	if err := s.reachable(); err != nil {
		return err
	}
	s.Users = slices.DeleteFunc(slices.Clone(s.Users), func(u acl.User) bool { return slices.Contains(names, u.Name) })
	s.users, s.rendered, s.admits = s.Users, admits == model.AdmitsForGood, admits
	return nil
}

// SetReplicationPassword lasts until the server restarts.
func (s *Server) SetReplicationPassword(_ context.Context, password string) error {
	if err := s.reachable(); err != nil {
		return err
	}
	s.ReplicationPassword = acl.Hash(password)
	return nil
}

// ReloadCertificates reads what is mounted.
func (s *Server) ReloadCertificates(context.Context) error {
	if err := s.reachable(); err != nil {
		return err
	}
	s.mount()
	return nil
}

// Configure lasts until the server restarts.
func (s *Server) Configure(_ context.Context, values map[string]string) error {
	if err := s.reachable(); err != nil {
		return err
	}
	logged := s.logs()
	s.Config, s.Announces = maps.Clone(s.Config), maps.Clone(s.Announces)
	for name, value := range values {
		if slices.Contains(model.AnnounceParameters, name) {
			s.Announces[name] = value
		} else {
			s.Config[name] = value
		}
	}
	s.switchLog(logged)
	return nil
}

// Forget removes a node, and its slots from this node's table.
func (s *Server) Forget(_ context.Context, id string) error {
	if err := s.reachable(); err != nil {
		return err
	}
	if s.replicaOf == id {
		return errMyMaster
	}
	delete(s.peers, id)
	s.order = nil
	s.slots = slices.DeleteFunc(s.slots, func(r run) bool { return r.value == id })
	s.banned[id] = s.net.now.Add(banTime)
	return nil
}

// Failover takes over: from a living primary with all of its data, or else with what there is.
func (s *Server) Failover(_ context.Context, how steps.FailoverMode) error {
	if err := s.reachable(); err != nil {
		return err
	}
	p := s.peers[s.replicaOf]
	if p == nil {
		return errNotReplica
	}
	switch how {
	case steps.FailoverTakeover:
		s.current++
		s.promote(false)
		return nil
	case steps.FailoverForce:
		if !s.elect(true) {
			return errMasterDown
		}
		return nil
	}
	primary := s.reach(p.addr)
	if primary == nil || primary.ID != s.replicaOf || !s.linkUp || s.supporters() < s.majority() || s.net.draw(10, s.ID+" fails over") == 0 {
		return errMasterDown
	}
	s.Data = maps.Clone(primary.Data)
	s.current++
	s.promote(true)
	return nil
}

// supporters counts the primaries that get a request for a vote of this server and know it.
func (s *Server) supporters() int {
	n, voters := 0, s.voters()
	for _, o := range s.net.servers {
		if voters[o.ID] && o.Up && o.side == s.side && o.peers[s.ID] != nil {
			n++
		}
	}
	return n
}

// Leads tells whether the server copies no other.
func (s *Server) Leads(context.Context) (bool, error) { return s.replicaOf == "", s.reachable() }

// HoldWrites does nothing: a failover of this server is decided at once.
func (s *Server) HoldWrites(context.Context, time.Duration) error { return s.reachable() }

// ReleaseWrites does nothing.
func (s *Server) ReleaseWrites(context.Context) error { return s.reachable() }

// Uphold does nothing.
func (s *Server) Uphold(context.Context) error { return s.reachable() }

// Close does nothing.
func (s *Server) Close() error { return nil }

// String names the node in messages of tests.
func (s *Server) String() string { return fmt.Sprintf("%s at %s", s.ID[:8], s.Addr) }

// open are the slots that are on their way to or from the node.
func (s *Server) open() []model.Open {
	var out []model.Open
	for _, r := range s.migrating {
		out = append(out, model.Open{Slots: slots.Set{r.of}, Other: r.value})
	}
	for _, r := range s.importing {
		out = append(out, model.Open{Slots: slots.Set{r.of}, Other: r.value, Importing: true})
	}
	return out
}

// SlotStats tells of keys, which take a MiB each, and not of the load.
func (s *Server) SlotStats(_ context.Context, slots slots.Set) (map[int]model.SlotStat, error) {
	if s.reachable() != nil {
		return nil, errDown
	}
	out := map[int]model.SlotStat{}
	for slot := range slots.All() {
		out[slot] = model.SlotStat{CPU: -1}
	}
	for k := range s.Data {
		if stat, ok := out[k.Slot]; ok {
			stat.Keys, stat.Bytes = stat.Keys+1, stat.Bytes+1<<20
			out[k.Slot] = stat
		}
	}
	return out, nil
}

// CountLoad is not possible.
func (s *Server) CountLoad(context.Context, bool) error { return errNoLoad }
