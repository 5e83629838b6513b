package model

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/software"
)

// Admission says for how long others may copy a server, see gate.Decision.Admit. The gate runs once
// in the life of a pod, so a server that restarts in place starts with the permission in its file
// of users: that of its first start, or what the operator wrote there since.
type Admission int

// Admissions of servers.
const (
	AdmitsNobody Admission = iota
	// AdmitsForNow lasts until the server restarts.
	AdmitsForNow
	// AdmitsForGood outlasts a restart in place, which brings back what is on the disk. Without it the shard would have no second copy
	// until an operator comes, however long that takes.
	AdmitsForGood
)

// Software is what the server runs.
func (n *Node) Software() software.Release {
	return software.Release{Engine: n.Engine, Version: n.Version}
}

// Node is the account that one server gives of itself and of the others.
type Node struct {
	ID      string
	Engine  v1alpha1.RedisEngine
	Version string
	// Certificate is the fingerprint of the one that the server has shown, empty without TLS.
	Certificate string
	// Users of the server; nil: the operator may not list them yet.
	Users []acl.User
	// ReplicationPassword is the hash of the password that the server copies its primary with; empty: unknown.
	ReplicationPassword string
	// ReplicationUser is who the server copies its primary as; empty: unknown.
	ReplicationUser string
	// Migrations of slots that the server takes part in or has, the last one first; nil: it cannot do that by itself.
	Migrations []Migration
	// Pulls says that the target of a migration gets the slots from the source, instead of the source sending them, and that no
	// server takes part in more than one at a time.
	Pulls bool
	// Process tells the server's process from others that have run or will run in its place.
	Process string
	// Clock is the time of the server.
	Clock time.Time
	// Loading says that the server still reads its data from disk.
	Loading bool
	// StateOK says that the server thinks the cluster works (cluster_state:ok).
	StateOK bool
	// Log is the size of the append-only file, in bytes; 0: there is none, or it cannot be written. Forked says that a child of the server writes to the disk.
	Log    int64
	Forked bool
	// Keys in the server, of all databases.
	Keys int64
	// LinkUp says that a replica is connected to its primary and has all of its data.
	LinkUp bool
	// Stream is the id of the replication stream that the data is from: a replica in sync has that of its primary, and one that has left
	// its primary, too, until something is written to it.
	Stream string
	// Copies are the replicas that report to a primary, as it says itself: these are the ones that count for min-replicas-to-write.
	Copies int
	// Connected are the replicas that are connected to a primary or begin to copy it, however long ago they reported.
	Connected int
	// Acknowledging are the replicas that a primary hears from often enough for its writes; nil where it asks for none.
	Acknowledging *int
	// EverLinked says that a replica has been connected to its primary since it started. A replica
	// that has not never starts an election, see validityFactor in package config.
	EverLinked bool
	// Announces is what CONFIG GET says of AnnounceParameters; nil: unknown.
	Announces map[string]string
	// Asks is the address that a replica asks for its primary's data. It may be one that the primary has left: a server
	// that learns the new one from the gossip of a third does not take it over (Redis issue 15136).
	Asks Address
	// LinkDown is for how long a replica that has been connected is not, in whole seconds.
	LinkDown time.Duration
	// OnDisk says that what the server holds is on its disk as well. After it has copied its primary, a server keeps the
	// append-only file of the time before until the rewrite of that file ends: a crash meanwhile brings the old data back.
	// (Valkey 9 makes the file that it received the new one, and has no such time.)
	OnDisk bool
	// RewriteFailed says that the last rewrite of the append-only file failed, and that none runs or is scheduled.
	RewriteFailed bool
	// Admits says whether others may copy this server.
	Admits Admission
	// Commands is how many the server has carried out since it started.
	Commands int64
	// Fork is how long the last fork of the server took.
	Fork time.Duration
	// Memory that the server uses, and may use.
	Memory Memory
	// Replication is how a server of the mode Replicated stands to the others; nil in the mode Sharded.
	Replication *Replication
	// Config is what CONFIG GET returns of config.LiveParameters, in the form of Normal; nil:
	// unknown.
	Config map[string]string
	// Offset is how far the replication stream was written (primary) or applied (replica), in bytes.
	Offset int64
	// Peers are all nodes that this server knows, itself included. They are what a test or a fake server gives: what a real server reports is in
	// report, and Peers is nil. Rules use Self, Peer and All, which read either.
	Peers []Peer
	// report is what a server reports in CLUSTER NODES; nil: Peers has it.
	report *report
}

// Memory of a server, in bytes.
type Memory struct {
	// Used by all, and by a server without a key. Its backlog for replicas is part of both.
	Used, Empty int64
	// Resident is what of it the kernel counts.
	Resident int64
	// Max is maxmemory; 0: no limit.
	Max int64
	// Uncounted is what of Used does not count towards Max: the buffers of replicas that are behind, and of the append-only file.
	Uncounted int64
	// Evicts says that any key may be thrown away when there is no more room.
	Evicts bool
}

// Peer is one node as another one sees it: one line of CLUSTER NODES.
type Peer struct {
	ID   string
	Addr Address
	// Bus is the port for other nodes; 0: unknown.
	Bus int
	// Host is the DNS name that the node announces.
	Host string
	// Myself marks the line of the node that was asked.
	Myself bool
	// Replica says that the node copies PrimaryID; it is a primary otherwise.
	Replica   bool
	PrimaryID string
	// Failing: this server cannot reach the node. Failed: the primaries agree that it is dead.
	Failing, Failed bool
	// Handshake marks a node whose name is not known yet. NoAddr marks a node whose address is not known any more.
	Handshake, NoAddr bool
	// Answered is when the node last answered, by the clock of the server that was asked.
	Answered time.Time
	Epoch    uint64
	Slots    slots.Set
	// Open are the slots that the server itself says are on their way to or from another one. Only its own line has them.
	Open []Open
}

// Open is slots on their way from one server to another, as one of the two says.
type Open struct {
	Slots slots.Set
	// Other is the id of the other server: the target, or with Importing the source.
	Other     string
	Importing bool
}

// Self is the node's line about itself.
func (n *Node) Self() Peer {
	if n.report != nil && n.report.own >= 0 {
		return n.report.self
	}
	if i := slices.IndexFunc(n.Peers, func(p Peer) bool { return p.Myself }); i >= 0 {
		return n.Peers[i]
	}
	return Peer{ID: n.ID, Myself: true}
}

// RunsIn reports whether the server is that of a pod of a cluster. The last observed address of a
// pod may belong to another pod by now, also to one with the same name in another namespace. The
// announced name is the server's own.
func (n *Node) RunsIn(pod, name, namespace string) bool {
	own := []string{pod, cluster.PeersService(name), namespace}
	for i, label := range strings.Split(cmp.Or(n.Announces[announceName], n.Self().Host, pod), ".") {
		if i < len(own) && label != own[i] {
			return false
		}
	}
	return true
}

// podOfHost is the pod that a DNS name of the peers Service stands for.
func podOfHost(host string) string {
	pod, _, _ := strings.Cut(host, ".")
	return pod
}

// Peer returns the node's line about another node.
func (n *Node) Peer(id string) (Peer, bool) {
	if n.report != nil {
		node := n.report.number(id)
		if node < 0 {
			return Peer{}, false
		}
		return n.report.peer(node), true
	}
	for _, p := range n.Peers {
		if p.ID == id && !p.Handshake {
			return p, true
		}
	}
	return Peer{}, false
}

// Alone reports whether the node knows nobody else.
func (n *Node) Alone() bool {
	for p := range n.All() {
		if !p.Myself {
			return false
		}
	}
	return true
}

// Blank reports whether the node knows nobody, owns nothing and holds nothing.
func (n *Node) Blank() bool {
	self := n.Self()
	return n.Alone() && !self.Replica && len(self.Slots) == 0 && n.Keys == 0 && !n.Loading
}

// ShortID is enough of a node id to tell nodes apart.
func ShortID(id string) string {
	if len(id) > 8 {
		return id[:8]
	}
	return id
}
