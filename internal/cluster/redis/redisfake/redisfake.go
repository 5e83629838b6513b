// Package redisfake is a Redis Cluster in memory, for tests: nodes with identity, config epochs, slots, handshakes,
// gossip, failure detection, elections and asynchronous replication. Time passes only when Tick is called, and chance
// comes from the caller, so that every run can be repeated.
//
// It keeps to what Redis does where the operator depends on it: a node believes the owner with the highest epoch, a
// replica connects to an address and not to a name, a node that lost its slots follows the winner, a forgotten node
// is kept out for a minute, a slot that is open keeps to its server until it is closed.
package redisfake

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis"
)

// Cron is the step of time.
const Cron = 100 * time.Millisecond

const (
	banTime      = time.Minute
	handshakeFor = 2 * time.Second
)

// Network holds all servers that can reach each other.
type Network struct {
	// mu guards what one server tells of others while those are told something.
	mu sync.Mutex
	// Timeout is cluster-node-timeout.
	Timeout time.Duration
	Rand    *rand.Rand
	// Promoted is called when an election, planned or not, has made a node the owner of slots.
	Promoted func(winner *Server, slots redis.Slots, planned bool)
	// Mounted tells the fingerprint of the certificate that a server finds when it reads it; nil: there is no TLS.
	Mounted func(s *Server) string
	// Gate tells which users a server starts with; nil: none.
	Gate func(s *Server) []redis.User

	// Migrates says that servers move slots by themselves, and Pulls that it is the target that is told to, see redis.Node.
	Migrates, Pulls bool
	// Services lead from addresses to whichever server has a DNS name.
	Services map[redis.Address]string

	now        time.Time
	servers    []*Server
	migrations []*migration
	ids        int
	// seed and asked are what draw draws from.
	seed  uint64
	asked map[string]uint64
}

// Server is one node with its disk. It keeps both when it is stopped and started.
type Server struct {
	ID   string
	Addr redis.Address
	// Host is the DNS name of the pod, which the node announces unless it is told otherwise.
	Host string
	// Announces is where the server says that it is reached; nil: at its address, and by its name.
	Announces map[string]string
	// Up says that the process runs. Cut says that the operator cannot reach it, while the others can.
	Up, Cut bool
	// side is the part of a divided network that the server is in, see Partition.
	side int
	// hangs says that it stands still, see StandStill.
	hangs bool
	// Refused keeps the server from copying its primary, as a network might.
	Refused bool
	// Version of the server. One cannot copy a primary of a later minor version, and loses what it has over the attempt.
	Version string
	// Config is what the server has set. It begins with what the pod was made with.
	Config map[string]string
	// Shard is the one whose replication password the server has.
	Shard int
	// Certificate is the fingerprint of the one that the server shows.
	Certificate string
	// Users of the server, lost when it restarts; nil: the operator may not list them.
	Users []redis.User
	// ReplicationPassword is the hash of the one that the server copies its primary with; empty: unknown.
	ReplicationPassword string
	// Memory that it tells of, and how many commands it has carried out.
	Memory   redis.Memory
	Commands int64
	// Data counts the writes to each key.
	Data map[Key]int

	net       *Network
	replicaOf string
	epoch     uint64
	current   uint64
	voted     uint64
	// votedOn is when the node last voted on who replaces a primary, by the id of that one.
	votedOn map[string]time.Time
	// asked is when the node last asked for votes; zero: it has not, or has won.
	asked time.Time
	peers map[string]*peer
	order []string // the keys of peers, sorted; nil when it has to be made again
	slots slotMap  // the owners
	// importing and migrating are the open slots, with the ids of the nodes that they come from or go to.
	importing, migrating slotMap
	// unclaimed are the slots whose owner, in the eyes of this node, does not say so itself any more. Whoever claims them is believed.
	unclaimed   slotMap
	greeting    map[redis.Address]time.Time
	banned      map[string]time.Time
	synced      bool
	syncFrom    time.Time
	linkUp      bool
	linkedAt    time.Time // when the link was last up
	electAt     time.Time
	startedAt   time.Time
	minorityAt  time.Time // when the node last missed a majority
	starts      int
	reports     map[string]map[string]time.Time
	transferred time.Duration
	// master is the address that a replica copies from. It does not ask who answers there.
	master redis.Address
	// admits says that others may copy the server, and rendered that its file of users has them do so.
	admits   redis.Admission
	rendered bool
	// users are those that the start gate wrote.
	users []redis.User
	// disk is what the server will find there when it starts again, and savedAt when that is no longer less than what it
	// holds; nil when it is not.
	disk    map[Key]int
	savedAt time.Time
}

// Key is one of the keys of a slot.
type Key struct{ Slot, N int }

type peer struct {
	addr      redis.Address
	host      string
	replicaOf string
	epoch     uint64
	heard     time.Time
	failing   bool
	failed    bool
	failedAt  time.Time
	// noAddr says that another node was found at the address of this one.
	noAddr bool
}

// NewNetwork returns an empty network.
func NewNetwork(timeout time.Duration, r *rand.Rand) *Network {
	return &Network{Timeout: timeout, Rand: r, now: time.Unix(0, 0), Services: map[redis.Address]string{}, seed: r.Uint64(), asked: map[string]uint64{}}
}

// draw is a random number below a bound, for what a command does. Commands that come at the same time, in an order that no run repeats,
// have each their own luck: it depends on what is done and how often it was, not on what was drawn before for others.
func (n *Network) draw(bound int, what string) int {
	n.asked[what]++
	h := fnv.New64a()
	_, _ = h.Write([]byte(what))                                              // It never fails.
	return rand.New(rand.NewPCG(n.seed^h.Sum64(), n.asked[what])).IntN(bound) //nolint:gosec // No secret: it is to be repeated.
}

// Now is the time in the network.
func (n *Network) Now() time.Time { return n.now }

// Add starts a new, empty server of a shard, which announces a DNS name.
func (n *Network) Add(a redis.Address, shard int, host string) *Server {
	n.ids++
	s := &Server{
		Shard: shard, Host: host, Version: "8.0.2",
		ID: fmt.Sprintf("%08x", n.Rand.Uint32()) + fmt.Sprintf("%032d", n.ids), net: n, Addr: a,
		Data: map[Key]int{}, peers: map[string]*peer{},
		greeting: map[redis.Address]time.Time{}, banned: map[string]time.Time{}, reports: map[string]map[string]time.Time{}, votedOn: map[string]time.Time{},
	}
	n.servers = append(n.servers, s)
	s.Start(a)
	return s
}

// Remove makes a server and its disk vanish.
func (n *Network) Remove(s *Server) {
	s.Up = false
	n.servers = slices.DeleteFunc(n.servers, func(o *Server) bool { return o == s })
}

// Stop ends the process.
func (s *Server) Stop() {
	s.Up, s.hangs, s.linkUp = false, false, false
	if s.disk != nil {
		s.Data, s.disk = s.disk, nil
	}
}

// StandStill has the process take connections and do nothing: to all others it is as if it had ended. Its own are gone by the time that it goes on.
func (s *Server) StandStill() { s.Up, s.hangs, s.linkUp = false, true, false }

// GoOn has it go on with all that it had.
func (s *Server) GoOn() { s.Up, s.hangs = true, false }

// OnDisk says that the disk holds what the server does.
func (s *Server) OnDisk() bool { return s.disk == nil }

// logs reports whether the server writes its append-only file.
func (s *Server) logs() bool { return s.Config["appendonly"] != "no" }

// switchLog is CONFIG SET appendonly: no leaves the file as it is (stopAppendOnly in the server's source), and yes writes a new one, without which a
// restart loads the old one (startAppendOnly).
func (s *Server) switchLog(logged bool) {
	switch {
	case logged && !s.logs() && s.disk == nil:
		s.disk = maps.Clone(s.Data)
	case !logged && s.logs():
		s.rewrite()
	}
}

// Start runs the server in a new pod: the gate looks at its disk first.
func (s *Server) Start(a redis.Address) {
	s.rendered = s.replicaOf != "" || s.hasSlots(s.ID)
	s.users = []redis.User{}
	if s.net.Gate != nil {
		s.users = s.net.Gate(s)
	}
	s.Addr = a
	s.Restart()
}

// Restart runs the process again in the same pod.
func (s *Server) Restart() {
	s.starts++
	s.Up, s.hangs, s.linkUp, s.startedAt, s.electAt = true, false, false, s.net.now, time.Time{}
	s.syncFrom, s.synced, s.admits = time.Time{}, false, redis.AdmitsNobody
	if s.rendered {
		s.admits = redis.AdmitsForGood
	}
	s.asked = time.Time{}
	clear(s.votedOn) // Unlike the last epoch that it voted in, this is in memory alone.
	s.Users = s.users
	s.mount()
	for _, p := range s.peers {
		p.heard = s.net.now
	}
	s.master = redis.Address{}
	if p := s.peers[s.replicaOf]; p != nil {
		s.master = p.addr
	}
}

func (s *Server) mount() {
	if s.net.Mounted != nil {
		s.Certificate = s.net.Mounted(s)
	}
}

// StartedEmpty says that the gate found nothing worth copying, and that the operator has not admitted replicas for good since: it begins without
// admitting replicas when it restarts in place.
func (s *Server) StartedEmpty() bool { return !s.rendered }

func (n *Network) at(a redis.Address) *Server {
	for _, s := range n.servers {
		if s.Up && (s.Addr == a || n.Services[a] == s.Host) {
			return s
		}
	}
	return nil
}

// reach returns the server that this one finds at an address.
func (s *Server) reach(a redis.Address) *Server {
	if o := s.net.at(a); o != nil && o.side == s.side {
		return o
	}
	return nil
}

// Partition keeps the given servers and all others from reaching each other. Clients and the operator
// reach both sides.
func (n *Network) Partition(apart ...*Server) {
	for _, s := range n.servers {
		s.side = 0
		if slices.Contains(apart, s) {
			s.side = 1
		}
	}
}

// Heal ends a partition.
func (n *Network) Heal() { n.Partition() }

// announced is where the server tells others to reach it, and its host.
func (s *Server) announced() (redis.Address, string) {
	if s.Announces == nil {
		return s.Addr, s.Host
	}
	a, _ := (&redis.Node{Announces: s.Announces}).Announced()
	return a, s.Announces["cluster-announce-hostname"]
}

// Tick lets one Cron pass.
func (n *Network) Tick() {
	n.now = n.now.Add(Cron)
	for _, s := range n.servers {
		if s.Up {
			s.shakeHands()
			s.gossip()
			s.detectFailures()
		}
	}
	for _, s := range n.servers {
		if s.Up {
			s.replicate()
			if s.linkUp {
				s.linkedAt = n.now
			}
			if s.logs() && s.net.now.After(s.savedAt) {
				s.disk = nil
			}
			s.elect(false)
			if len(s.voters()) > 0 && s.misses() {
				s.minorityAt = n.now
			}
		}
	}
	for _, m := range n.migrations {
		m.tick()
	}
}

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

func compareAddr(a, b redis.Address) int {
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
			s.peers[id].addr, s.peers[id].noAddr = redis.Address{}, true
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

// hasSlots tells whether a node owns something in the eyes of this one.
func (s *Server) hasSlots(id string) bool {
	return s.slots.has(id)
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

// settleEpochs bumps the epoch of one of two primaries that have the same.
func (s *Server) settleEpochs(o *Server) {
	if s.replicaOf == "" && s.epoch == o.epoch && s.ID < o.ID {
		s.current++
		s.epoch = s.current
	}
}

// claims are the slots that a node owns in the eyes of this one.
func (s *Server) claims(id string) redis.Slots { return s.slots.with(id) }

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
func (s *Server) believe(id string, epoch uint64, claimed redis.Slots) {
	current := s.ID
	if s.replicaOf != "" {
		current = s.replicaOf
	}
	had, taken := s.hasSlots(current), 0
	var dirty redis.Slots
	for _, r := range claimed {
		for _, part := range s.slots.within(r) {
			was := part.value
			if was == id {
				s.unclaimed.set(part.of, "")
				continue
			}
			of := redis.Slots{part.of}
			if was != "" && s.epochOf(was) >= epoch {
				of = of.And(s.unclaimed.with(was))
			}
			for _, in := range s.importing {
				of = of.Minus(redis.Slots{in.of})
			}
			for _, r := range of {
				s.slots.set(r, id)
				s.unclaimed.set(r, "")
			}
			if was == current {
				taken += of.Count()
			}
			if was == s.ID {
				dirty = redis.Union(dirty, of)
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
	s.master = redis.Address{}
	if p := s.peers[id]; p != nil {
		s.master = p.addr
	}
}

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
	if !redis.Older(s.Version, source.Version) || (len(s.Data) > 0 && s.net.Rand.IntN(2) > 0) {
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
	return s.admits != redis.AdmitsNobody && s.Shard == o.Shard && (s.replicaOf == "" || s.linkUp)
}

// elect makes a replica stand for election when its primary has failed, or at once when it is told to.
func (s *Server) elect(force bool) bool {
	p := s.peers[s.replicaOf]
	if s.replicaOf == "" || p == nil || !s.hasSlots(s.replicaOf) || (!force && (!s.synced || !p.failed || s.net.now.Sub(s.linkedAt) > redis.Validity(s.net.Timeout))) {
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

// ownsNewer tells whether some of the slots have an owner, in the eyes of this node, with a later epoch than the one given.
func (s *Server) ownsNewer(slots redis.Slots, epoch uint64) bool {
	for _, r := range slots {
		for _, part := range s.slots.within(r) {
			id := part.value
			if id != "" && s.epochOf(id) > epoch && len(redis.Slots{part.of}.Minus(s.unclaimed.with(id))) > 0 {
				return true
			}
		}
	}
	return false
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

// tellAll tells everybody what the node owns, without waiting for the next round of gossip.
func (s *Server) tellAll() {
	for _, id := range s.known() {
		if o := s.reach(s.peers[id].addr); o != nil && o.ID == id && o.peers[s.ID] != nil {
			o.hear(s, s.net.draw(3, s.ID+" tells "+id) == 0)
		}
	}
}

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
func (s *Server) Slots() redis.Slots {
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
func (s *Server) Remembers() redis.Slots {
	var out redis.Slots
	for _, r := range s.slots {
		out = append(out, r.of)
	}
	return redis.NewSlots(out...)
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
