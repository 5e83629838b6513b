// Package etcdfake is an etcd in memory, with the rules that the planner depends on: who may found a cluster, what a
// quorum is, what survives on which disk, when a write is acknowledged, and who may do what once authentication is
// on. It has no clock and no goroutines, so that a simulation can replay it.
package etcdfake

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster/etcd"
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

// Disk is the data directory of a member.
type Disk struct {
	// HasLog is false for an empty directory.
	HasLog              bool
	ClusterID, MemberID uint64
	founders            []member
	log                 []entry
	// term is the latest that the member has seen.
	term uint64
	// blank says that it has joined and got nothing yet, not even who may vote.
	blank bool
	// legacy says that there are entries of 3.5 behind its last snapshot, which 3.7 cannot read.
	legacy bool
	// peak is the largest database that it held since the last defragmentation, in writes.
	peak int64
	// Differs says that its data is not what the log says.
	Differs bool
}

// member is a member as the log knows it.
type member struct {
	id        uint64
	name, url string
	learner   bool
}

// entry is one committed or proposed change. id is the member that it is about, term that of the
// leader that proposed it.
type entry struct {
	kind  entryKind
	value string
	id    uint64
	term  uint64
}

// append adds an entry of the current term, as the leader.
func (d *Disk) append(e entry) {
	e.term = d.term
	d.log = append(d.log, e)
}

// End returns the end of the log, committed or not. Founders begin with entries of term 1.
func (d *Disk) End() etcd.LogEnd {
	end := etcd.LogEnd{Term: 1, Index: uint64(len(d.log))}
	if n := len(d.log); n > 0 {
		end.Term = max(end.Term, d.log[n-1].term)
	}
	return end
}

// Behind reports whether another log is more up to date: its last entry has a later term, or the same
// and a higher index (section 5.4.1 of the Raft paper).
func (d *Disk) Behind(o *Disk) bool {
	mine, other := d.End(), o.End()
	return cmp.Or(cmp.Compare(mine.Term, other.Term), cmp.Compare(mine.Index, other.Index)) < 0
}

// members are the founders and what became of them by the log.
func (d *Disk) members() []member {
	out := slices.Clone(d.founders)
	for _, e := range d.log {
		i := slices.IndexFunc(out, func(m member) bool { return m.id == e.id })
		switch e.kind {
		case entryAdd:
			out = append(out, member{id: e.id, url: e.value, learner: true})
		case entryPublish:
			if i >= 0 {
				out[i].name = e.value
			}
		case entryUpdate:
			if i >= 0 {
				out[i].url, out[i].learner = e.value, false
			}
		case entryPromote:
			if i >= 0 {
				out[i].learner = false
			}
		case entryRemove:
			if i >= 0 {
				out = slices.Delete(out, i, i+1)
			}
		}
	}
	return out
}

// agreed is the version that the members have agreed on, and the one that they prepare to go back to, zero for none.
func (d *Disk) agreed() (version, downgrade etcd.Version) {
	for _, e := range d.log {
		switch e.kind {
		case entryVersion:
			version = parse(e.value)
		case entryDowngrade:
			downgrade = parse(e.value)
		}
	}
	return version, downgrade
}

// Agreed is the version that the members have agreed on, by a disk's own log.
func (d *Disk) Agreed() etcd.Version {
	version, _ := d.agreed()
	return version
}

func parse(text string) etcd.Version {
	v, _ := etcd.ParseVersion(text) // Zero for none.
	return v
}

// voter reports whether a member has a vote.
func (d *Disk) voter(id uint64) bool {
	return slices.ContainsFunc(d.members(), func(m member) bool { return m.id == id && !m.learner })
}

type entryKind int

const (
	entryPut entryKind = iota
	entryPublish
	entryUser
	entryPassword
	entryAuthOn
	entryAdd
	entryPromote
	entryUpdate
	entryRemove
	entryVersion
	entryDowngrade
	entryDelete
	entryCompact
	entryAlarm
	entryDisarm
)

// Config is what a process is started with.
type Config struct {
	Self    etcd.Peer
	Token   string
	State   string
	Members []etcd.Peer
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

// Start starts a process on a disk, by etcd's own rules (server/etcdserver/bootstrap.go): a log decides by itself;
// without one, "new" founds the cluster unless the peers say that this member has lived before, and "existing" joins
// what the peers have.
func (n *Network) Start(cfg Config, disk *Disk) (*Process, error) {
	p := &Process{Name: cfg.Self.Name, Disk: disk, version: cfg.Version, url: cfg.Self.URL, plain: cfg.Plain, tls: cfg.TLS}
	if !disk.HasLog {
		if cfg.State != "new" {
			p.Behind = cfg.Behind
		}
		if err := n.bootstrap(cfg, disk); err != nil {
			return nil, err
		}
	}
	v := parse(cfg.Version)
	if !n.compatible(disk, v) || (v.Minor > 6 && disk.legacy) {
		return nil, ErrVersion
	}
	disk.legacy = disk.legacy || v.Minor < 6
	n.running = append(n.running, p)
	n.settle(disk.ClusterID)
	if !n.Running(p) {
		return nil, ErrRemoved
	}
	return p, nil
}

// compatible reports whether a version may take part: no minor version older than what the members have agreed on. A much newer one may,
// if it can read their logs (server/etcdserver/api/membership/cluster.go, server/etcdserver/version; 3.7.3 seen where 3.5 was agreed on).
func (n *Network) compatible(disk *Disk, v etcd.Version) bool {
	agreed, _ := disk.agreed()
	if lead := n.leaders[disk.ClusterID]; lead != nil {
		agreed, _ = lead.Disk.agreed()
	}
	return v.Minor >= agreed.Minor
}

// agree lets the leader raise or lower the version of the cluster, once it hears from every member.
func (n *Network) agree(lead *Process) {
	agreed, downgrade := lead.Disk.agreed()
	var lowest, highest etcd.Version
	for _, m := range lead.Disk.members() {
		i := slices.IndexFunc(n.running, func(p *Process) bool { return p.Disk.MemberID == m.id && !p.Cut })
		if i < 0 {
			return
		}
		v := parse(n.running[i].version)
		if lowest.Major == 0 || v.Minor < lowest.Minor {
			lowest = v
		}
		if v.Minor > highest.Minor {
			highest = v
		}
	}
	write := func(kind entryKind, value string) {
		lead.Disk.append(entry{kind: kind, value: value})
	}
	common := etcd.Version{Major: 3, Minor: lowest.Minor}
	switch {
	case downgrade.Minor != 0 && highest.Minor == downgrade.Minor:
		write(entryDowngrade, "")
	case downgrade.Minor != 0 && agreed.Minor > downgrade.Minor:
		write(entryVersion, downgrade.String())
		for _, p := range n.up(lead.Disk.ClusterID) {
			p.Disk.legacy = false // Each writes a snapshot.
		}
	case downgrade.Minor == 0 && common.Minor > agreed.Minor:
		write(entryVersion, common.String())
	}
}

func (n *Network) bootstrap(cfg Config, disk *Disk) error {
	if cfg.State == "new" {
		found(cfg, disk)
		for _, a := range n.Answers(cfg.Self, cfg.Members) {
			for _, m := range a.Members {
				if slices.Contains(m.PeerURLs, cfg.Self.URL) && len(m.ClientURLs) > 0 {
					*disk = Disk{}
					return ErrBootstrapped
				}
			}
		}
		return nil
	}
	for _, p := range n.running {
		if p.Cut || Host(p.url) == Host(cfg.Self.URL) {
			continue
		}
		members := p.Disk.members()
		i := slices.IndexFunc(members, func(m member) bool { return m.url == cfg.Self.URL })
		if i < 0 {
			return ErrNotListed
		}
		*disk = Disk{HasLog: true, ClusterID: p.Disk.ClusterID, MemberID: members[i].id, founders: p.Disk.founders, blank: true}
		return nil
	}
	return ErrNoPeers
}

func found(cfg Config, disk *Disk) {
	*disk = Disk{HasLog: true, term: 1}
	all := cfg.Token
	for _, p := range cfg.Members {
		m := member{id: hash(p.URL, cfg.Token), name: p.Name, url: p.URL}
		disk.founders = append(disk.founders, m)
		all += p.URL
		if p.URL == cfg.Self.URL {
			disk.MemberID = m.id
		}
	}
	disk.ClusterID = hash(all)
	for _, v := range cfg.Restored {
		disk.append(entry{kind: entryPut, value: v})
	}
}

// hash stands in for etcd's SHA-1 over peer URLs and token.
func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p + "\x00"))
	}
	return h.Sum64()
}

// Stop ends a process, at once.
func (n *Network) Stop(p *Process) {
	n.running = slices.DeleteFunc(n.running, func(q *Process) bool { return q == p })
	n.settle(p.Disk.ClusterID)
}

// Settle lets every cluster elect its leader, and its members catch up and announce themselves.
func (n *Network) Settle() {
	var ids []uint64
	for _, p := range n.running {
		if !slices.Contains(ids, p.Disk.ClusterID) {
			ids = append(ids, p.Disk.ClusterID)
		}
	}
	for _, id := range ids {
		n.settle(id)
	}
}

func (n *Network) settle(cluster uint64) {
	lead := n.elect(cluster)
	if lead == nil {
		delete(n.leaders, cluster)
		return
	}
	if lead != n.leaders[cluster] {
		for _, p := range n.up(cluster) {
			lead.Disk.term = max(lead.Disk.term, p.Disk.term)
		}
		lead.Disk.term++
	}
	n.leaders[cluster] = lead
	if !slices.Contains(n.Led, cluster) {
		n.Led = append(n.Led, cluster)
	}
	for _, p := range n.up(cluster) {
		if p != lead && p.Behind > 0 {
			p.Behind--
			continue
		}
		e := entry{kind: entryPublish, value: p.Name, id: p.Disk.MemberID}
		if lead.Disk.listed(e.id) && !slices.ContainsFunc(lead.Disk.log, e.same) {
			lead.Disk.append(e)
		}
	}
	n.agree(lead)
	n.replicate(cluster)
}

// same reports whether two entries say the same, whoever proposed them.
func (e entry) same(o entry) bool { return e.kind == o.kind && e.value == o.value && e.id == o.id }

// elect returns the leader that is, or the connected voter with the most up-to-date log that a quorum
// can follow.
func (n *Network) elect(cluster uint64) *Process {
	up := n.up(cluster)
	if lead := n.leaders[cluster]; lead != nil && slices.Contains(up, lead) && electable(lead, up) {
		return lead
	}
	var best *Process
	for _, p := range up {
		if electable(p, up) && (best == nil || best.Disk.Behind(p.Disk)) {
			best = p
		}
	}
	return best
}

// electable reports whether a process is a voter and has a quorum of the voters that it knows.
func electable(p *Process, up []*Process) bool {
	voters, votes := 0, 0
	for _, m := range p.Disk.members() {
		if m.learner {
			continue
		}
		voters++
		// Nobody votes for a log that is behind its own, or for a member that it knows to be removed.
		if slices.ContainsFunc(up, func(q *Process) bool {
			return q.Disk.MemberID == m.id && !p.Disk.Behind(q.Disk) && q.Disk.listed(p.Disk.MemberID)
		}) {
			votes++
		}
	}
	return !p.Disk.blank && p.Disk.voter(p.Disk.MemberID) && votes >= etcd.Quorum(voters)
}

// up returns the connected processes of a cluster.
func (n *Network) up(cluster uint64) []*Process {
	var out []*Process
	for _, p := range n.running {
		if p.Disk.ClusterID == cluster && !p.Cut && n.reached(p) {
			out = append(out, p)
		}
	}
	return out
}

// takes reports whether a process listens for TLS, or for plain text.
func (p *Process) takes(tls bool) bool {
	if tls {
		return p.tls
	}
	return p.plain
}

// reached reports whether a process listens for what its peers know it by: those with the most
// up-to-date log.
func (n *Network) reached(p *Process) bool {
	var best *Disk
	for _, q := range n.running {
		if q.Disk.ClusterID == p.Disk.ClusterID && !q.Disk.blank && !q.Cut && (best == nil || best.Behind(q.Disk)) {
			best = q.Disk
		}
	}
	if best == nil {
		return true
	}
	for _, m := range best.members() {
		if m.id == p.Disk.MemberID {
			return p.takes(strings.HasPrefix(m.url, "https:"))
		}
	}
	return true // It is no member any more, and is to learn of that.
}

// Host is who a URL leads to, without scheme and port.
func Host(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return rawURL
	}
	return u.Hostname()
}

// connected reports whether a member runs and reaches the others.
func (n *Network) connected(cluster, id uint64) bool {
	return slices.ContainsFunc(n.up(cluster), func(p *Process) bool { return p.Disk.MemberID == id })
}

// Running reports whether a process has not ended, by itself or not.
func (n *Network) Running(p *Process) bool { return slices.Contains(n.running, p) }

// replicate makes every connected log that of the leader, which cuts off what a former leader proposed
// and did not commit. Who is no member any more ends.
func (n *Network) replicate(cluster uint64) {
	lead := n.leaders[cluster]
	for _, p := range n.up(cluster) {
		switch {
		case !lead.Disk.listed(p.Disk.MemberID):
			n.running = slices.DeleteFunc(n.running, func(q *Process) bool { return q == p })
		case p != lead && p.Behind == 0:
			p.Disk.term = lead.Disk.term
			p.Disk.legacy = p.Disk.legacy || lead.Disk.legacy
			p.Disk.log, p.Disk.blank = slices.Clone(lead.Disk.log), false
			p.Disk.Size()
		}
	}
	if !n.Running(lead) {
		delete(n.leaders, cluster)
		n.settle(cluster)
	}
}

func (d *Disk) listed(id uint64) bool {
	return slices.ContainsFunc(d.members(), func(m member) bool { return m.id == id })
}

// propose appends an entry through the quorum.
func (n *Network) propose(p *Process, e entry) error {
	n.settle(p.Disk.ClusterID)
	lead := n.leaders[p.Disk.ClusterID]
	if lead == nil || p.Cut {
		return ErrNoQuorum
	}
	lead.Disk.append(e)
	lead.Disk.Size()
	n.replicate(p.Disk.ClusterID)
	return nil
}

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
	if n.leaders[p.Disk.ClusterID] != p || 1+len(reached) >= etcd.Quorum(len(p.Disk.Voters())) {
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

// Voters returns the ids of the voters by a disk's own log.
func (d *Disk) Voters() []uint64 {
	var out []uint64
	for _, m := range d.members() {
		if !m.learner {
			out = append(out, m.id)
		}
	}
	return out
}

// Len is the length of a disk's log.
func (d *Disk) Len() int { return len(d.log) }

// GoOnAlone makes the member of a disk the only one of its cluster, with all that its log holds.
func (d *Disk) GoOnAlone() {
	for _, m := range d.members() {
		if m.id != d.MemberID {
			d.append(entry{kind: entryRemove, id: m.id})
		}
	}
	d.blank = false
}

// Writes are the values that the log of a disk has.
func (d *Disk) Writes() []string {
	var out []string
	for _, e := range d.log {
		if e.kind == entryPut {
			out = append(out, e.value)
		}
	}
	return out
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
func (n *Network) Answers(self etcd.Peer, peers []etcd.Peer) []etcd.PeerAnswer {
	var out []etcd.PeerAnswer
	for _, p := range n.running {
		asked := slices.ContainsFunc(peers, func(q etcd.Peer) bool {
			return Host(q.URL) == Host(p.url) && p.takes(strings.HasPrefix(q.URL, "https:"))
		})
		if p.Cut || Host(p.url) == Host(self.URL) || !asked {
			continue
		}
		a := etcd.PeerAnswer{From: p.Name, ClusterID: p.Disk.ClusterID}
		for _, m := range p.Disk.members() {
			pm := etcd.PeerMember{Name: m.name, PeerURLs: []string{m.url}, Learner: m.learner}
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
