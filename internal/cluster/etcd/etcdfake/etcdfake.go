// Package etcdfake is an etcd in memory, with the rules that the planner depends on: who may found a cluster, what a
// quorum is, what survives on which disk, when a write is acknowledged, and who may do what once authentication is
// on. It has no clock and no goroutines, so that a simulation can replay it.
package etcdfake

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// Errors that a start or a call ends with.
var (
	ErrBootstrapped = errors.New("member has already been bootstrapped")
	ErrNoPeers      = errors.New("cannot fetch cluster info from peer urls")
	ErrNotListed    = errors.New("the peers do not list this member")
	ErrVersion      = errors.New("this version cannot take part in the cluster")
	ErrRemoved      = errors.New("the member has been permanently removed from the cluster")
	ErrNoQuorum     = errors.New("no leader")
	ErrNoAnswer     = errors.New("no answer")
	ErrText         = errors.New("string field contains invalid UTF-8")
	ErrLearner      = errors.New("rpc not supported for learner")
	ErrDenied       = errors.New("permission denied")
	ErrTaken        = errors.New("another member has this peer URL")
)

// Config is what a process is started with.
type Config struct {
	Self    model.Peer
	Token   string
	State   string
	Members []model.Peer
	Version string
	// Plain and TLS say what it listens for.
	Plain, TLS bool
	// Behind is how many rounds a member that joins takes to get the log.
	Behind int
	// Restored are the values that a founder finds on its disk.
	Restored []string
}

// Process is a running member.
type Process struct {
	Name string
	Disk *Disk
	// Cut keeps it from its peers and from clients, Deaf from the operator alone: slow, not dead.
	Cut, Deaf bool
	// Busy with a defragmentation, it answers nobody but its peers.
	Busy bool
	// Behind is how many rounds it still lacks the log.
	Behind  int
	version string
	url     string
	// plain and tls say what it listens for.
	plain, tls bool
}

// Network holds the running processes.
type Network struct {
	running []*Process
	leaders map[uint64]*Process
	// Acked are the writes that were acknowledged, by cluster.
	Acked map[uint64][]string
	// Quota is how many writes a database holds, 0: any number. Unit is what a write takes in bytes.
	Quota, Unit int64
	// Led are the clusters that ever had a leader, in the order in which they got it.
	Led []uint64
}

// New returns an empty network.
func New() *Network {
	return &Network{Unit: 1, leaders: map[uint64]*Process{}, Acked: map[uint64][]string{}}
}

// Running reports whether a process has not ended, by itself or not.
func (n *Network) Running(p *Process) bool { return slices.Contains(n.running, p) }

// Put writes a value the way a user does, with a password or without, and remembers what was acknowledged.
func (n *Network) Put(p *Process, password, value string) error {
	if !slices.Contains(n.running, p) || p.Cut || p.Busy {
		return ErrNoAnswer
	}
	if a := p.auth(); a.on && a.password != password {
		return ErrDenied
	}
	if err := n.admit(p); err != nil {
		return err
	}
	if err := n.propose(p, entry{kind: entryPut, value: value}); err != nil {
		return err
	}
	n.Acked[p.Disk.ClusterID] = append(n.Acked[p.Disk.ClusterID], value)
	return nil
}

// Propose has the leader write values to its log, and to those of the peers that it reaches. They are
// too few to commit them, and no client is told that they were written: the leader ends or is cut off
// next. A later leader commits them, or cuts them off.
func (n *Network) Propose(p *Process, reached []*Process, values ...string) error {
	n.settle(p.Disk.ClusterID)
	if n.leaders[p.Disk.ClusterID] != p || 1+len(reached) >= model.Quorum(len(p.Disk.Voters())) {
		return ErrNoQuorum
	}
	for _, v := range values {
		p.Disk.append(entry{kind: entryPut, value: v})
	}
	for _, q := range reached {
		if n.Follows(q) {
			q.Disk.log = slices.Clone(p.Disk.log)
		}
	}
	return nil
}

// Members reports whether a disk is that of a member by the log of its leader, and whether it has a vote; known is false
// without a leader.
func (n *Network) Members(d *Disk) (known, listed, voter bool) {
	lead := n.leaders[d.ClusterID]
	if lead == nil {
		return false, false, false
	}
	return true, lead.Disk.listed(d.MemberID), lead.Disk.voter(d.MemberID)
}

// Lost returns an acknowledged write that the leader of a cluster does not have, empty when there is none.
func (n *Network) Lost() string {
	for id, lead := range n.leaders {
		have := map[string]bool{}
		for _, v := range lead.Disk.Writes() {
			have[v] = true
		}
		for _, v := range n.Acked[id] {
			if !have[v] {
				return fmt.Sprintf("%s of cluster %x", v, id)
			}
		}
	}
	return ""
}

// AuthOn reports whether the process asks for passwords.
func (p *Process) AuthOn() bool { return p.auth().on }

// Follows reports whether a process runs, is connected, and has a leader.
func (n *Network) Follows(p *Process) bool {
	return slices.Contains(n.up(p.Disk.ClusterID), p) && p.Behind == 0 && n.leaders[p.Disk.ClusterID] != nil
}

// Voting reports whether a process follows a leader and has a vote.
func (n *Network) Voting(p *Process) bool {
	return n.Follows(p) && n.leaders[p.Disk.ClusterID].Disk.voter(p.Disk.MemberID)
}

// learner reports whether a process has no vote, by the log of its leader, or by its own without one.
func (n *Network) learner(p *Process) bool {
	disk := p.Disk
	if lead := n.leaders[disk.ClusterID]; lead != nil {
		disk = lead.Disk
	}
	return !disk.voter(p.Disk.MemberID)
}

type authState struct {
	user, on bool
	password string
}

func (p *Process) auth() authState {
	var a authState
	for _, e := range p.Disk.log {
		switch e.kind {
		case entryUser:
			a.user, a.password = true, e.value
		case entryPassword:
			a.password = e.value
		case entryAuthOn:
			a.on = true
		}
	}
	return a
}

// Answers is what a start gate hears from the peers of a member.
func (n *Network) Answers(self model.Peer, peers []model.Peer) []gate.PeerAnswer {
	var out []gate.PeerAnswer
	for _, p := range n.running {
		asked := slices.ContainsFunc(peers, func(q model.Peer) bool {
			return Host(q.URL) == Host(p.url) && p.takes(strings.HasPrefix(q.URL, "https:"))
		})
		if p.Cut || Host(p.url) == Host(self.URL) || !asked {
			continue
		}
		a := gate.PeerAnswer{From: p.Name, ClusterID: p.Disk.ClusterID}
		for _, m := range p.Disk.members() {
			pm := gate.PeerMember{Name: m.name, PeerURLs: []string{m.url}, Learner: m.learner}
			if p.published(m.id) {
				pm.ClientURLs = []string{"http://" + m.name}
			}
			a.Members = append(a.Members, pm)
		}
		out = append(out, a)
	}
	return out
}

func (p *Process) published(id uint64) bool {
	return slices.ContainsFunc(p.Disk.log, func(e entry) bool { return e.kind == entryPublish && e.id == id })
}
