// Package redisfake is a Redis Cluster in memory, for tests: nodes with identity, config epochs, slots, handshakes,
// gossip, failure detection, elections and asynchronous replication. Time passes only when Tick is called, and chance
// comes from the caller, so that every run can be repeated.
//
// It keeps to what Redis does where the operator depends on it: a node believes the owner with the highest epoch, a
// replica connects to an address and not to a name, a node that lost its slots follows the winner, a forgotten node
// is kept out for a minute, a slot that is open keeps to its server until it is closed.
package redisfake

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
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
	Promoted func(winner *Server, slots slots.Set, planned bool)
	// Mounted tells the fingerprint of the certificate that a server finds when it reads it; nil: there is no TLS.
	Mounted func(s *Server) string
	// Gate tells which users a server starts with; nil: none.
	Gate func(s *Server) []acl.User

	// Migrates says that servers move slots by themselves, and Pulls that it is the target that is told to, see redis.Node.
	Migrates, Pulls bool
	// Services lead from addresses to whichever server has a DNS name.
	Services map[model.Address]string

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
	Addr model.Address
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
	Users []acl.User
	// ReplicationPassword is the hash of the one that the server copies its primary with; empty: unknown.
	ReplicationPassword string
	// Memory that it tells of, and how many commands it has carried out.
	Memory   model.Memory
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
	greeting    map[model.Address]time.Time
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
	master model.Address
	// admits says that others may copy the server, and rendered that its file of users has them do so.
	admits   model.Admission
	rendered bool
	// users are those that the start gate wrote.
	users []acl.User
	// disk is what the server will find there when it starts again, and savedAt when that is no longer less than what it
	// holds; nil when it is not.
	disk    map[Key]int
	savedAt time.Time
}

// Key is one of the keys of a slot.
type Key struct{ Slot, N int }

type peer struct {
	addr      model.Address
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
	return &Network{Timeout: timeout, Rand: r, now: time.Unix(0, 0), Services: map[model.Address]string{}, seed: r.Uint64(), asked: map[string]uint64{}}
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
func (n *Network) Add(a model.Address, shard int, host string) *Server {
	n.ids++
	s := &Server{
		Shard: shard, Host: host, Version: "8.0.2",
		ID: fmt.Sprintf("%08x", n.Rand.Uint32()) + fmt.Sprintf("%032d", n.ids), net: n, Addr: a,
		Data: map[Key]int{}, peers: map[string]*peer{},
		greeting: map[model.Address]time.Time{}, banned: map[string]time.Time{}, reports: map[string]map[string]time.Time{}, votedOn: map[string]time.Time{},
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
func (s *Server) Start(a model.Address) {
	s.rendered = s.replicaOf != "" || s.hasSlots(s.ID)
	s.users = []acl.User{}
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
	s.syncFrom, s.synced, s.admits = time.Time{}, false, model.AdmitsNobody
	if s.rendered {
		s.admits = model.AdmitsForGood
	}
	s.asked = time.Time{}
	clear(s.votedOn) // Unlike the last epoch that it voted in, this is in memory alone.
	s.Users = s.users
	s.mount()
	for _, p := range s.peers {
		p.heard = s.net.now
	}
	s.master = model.Address{}
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

func (n *Network) at(a model.Address) *Server {
	for _, s := range n.servers {
		if s.Up && (s.Addr == a || n.Services[a] == s.Host) {
			return s
		}
	}
	return nil
}

// reach returns the server that this one finds at an address.
func (s *Server) reach(a model.Address) *Server {
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
func (s *Server) announced() (model.Address, string) {
	if s.Announces == nil {
		return s.Addr, s.Host
	}
	a, _ := (&model.Node{Announces: s.Announces}).Announced()
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
