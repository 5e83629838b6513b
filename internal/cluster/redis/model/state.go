package model

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/cluster/anomaly"
	"github.com/quorate/quorate/internal/cluster/redis/acl"
	clustertls "github.com/quorate/quorate/internal/cluster/tls"
)

// AccountClaim is what a RedisUser asks for.
type AccountClaim struct {
	Username string
	// Wanted says that the resource is there to stay.
	Wanted bool
}

// Ending is a pod that is gone, whose server hung to the last, and for how long it has been gone.
type Ending struct {
	Pod string
	For time.Duration
}

// Resizing is how far the container of a server is from the resources that it is to have.
type Resizing struct {
	// Wanted says that it was not asked to have them yet, and Running that it was.
	Wanted, Running bool
	// Deferred says that the node has no room at present. Problem is what Kubernetes gives as the reason why it is not done yet.
	Deferred bool
	Problem  string
	// Refused says why Kubernetes does not give them to it. A restart would not either.
	Refused string
}

// State is what is known about a cluster at one moment.
type State struct {
	Spec Spec
	// Sets are the StatefulSets that exist, one per shard.
	Sets []Set
	// Pods are the pods that exist.
	Pods []Pod
	// Claims are the data volume claims that exist, those of an earlier cluster of this name included.
	Claims []Claim
	// Appointed is who takes the writes of a cluster in the mode Replicated; zero while nobody ever did.
	Appointed Appointment
	// Candidate is who is about to take over from there, and FailedHandOvers are those that did not.
	Candidate       FailoverCandidate
	FailedHandOvers FailedHandOvers
	// Accounts are the users that resources of the kind RedisUser ask for, by the name of the resource; nil: unknown.
	Accounts map[string]AccountClaim
	// Doors are where pods are reached from outside, also those whose server does not say so yet or any more.
	Doors []Door
	// Exposed are the Services that exist for it.
	Exposed []Exposure
	// Neighbours are the servers of other clusters by node id, each with what that cluster is called, see ClusterOf.
	Neighbours map[string]string
	// Ended are pods that are gone and whose servers hung, see Pod.Hangs.
	Ended []Ending
	// Certificates in use, for the status.
	Certificates clustertls.Report
	// Progress of a move of slots, for the status.
	Progress Progress
	// Weights of all slots, by number, in what Spec.Rebalance goes by; nil: unknown. Untold is a server that does not tell them.
	Weights []int64
	Untold  string
	// Proposal is what would make shards weigh alike, see balance.Propose; nil: nothing has to, or
	// it is unknown.
	Proposal *Proposal
	// Rebalanced is when the last proposal had been carried out, or since when the operator runs.
	Rebalanced time.Time
	// Restore is the backup that is being put into the cluster, nil for none. Confirmed is one that is to be, nil for none.
	Restore   *Restore
	Confirmed *Confirmed
	// BackupHealth is what the schedules of the cluster say of its backups, for the status; nil: there are none.
	BackupHealth *metav1.Condition
	// Monitoring says, for the status, how far what spec.monitoring asks for is in place; nil: nothing is asked for.
	Monitoring *metav1.Condition
	// Anomalies are what is unusual about the servers, for the status; nil: none could be asked.
	Anomalies *anomaly.Report
	// Now is the time of the observation.
	Now time.Time
}

// Progress is what was moved, since when. It is not known after the operator has restarted.
type Progress struct {
	Since       time.Time
	Slots       int
	Keys, Bytes int64
}

// Spec is what the user wants.
type Spec struct {
	// Name of the cluster; the StatefulSet of a shard is <name>-<shard>.
	Name, Namespace string
	// Shards, and Replicas of each.
	Shards, Replicas int
	// Replicated says that there is one primary that holds all data, and no cluster protocol.
	Replicated bool
	// Version of the server.
	Version string
	// Live is what all servers are to have set beside what follows from MemoryLimit, and LiveNames
	// which of it comes from spec.config.extra, see config.LiveConfig.
	Live      map[string]string
	LiveNames string
	// MinReplicas is how many replicas have to acknowledge what a primary of the mode Sharded writes.
	MinReplicas int
	// NodeTimeout is cluster-node-timeout.
	NodeTimeout time.Duration
	// Persistent says that the data of a pod outlives the pod.
	Persistent bool
	// Certificate is the fingerprint of the one that servers are to show; empty without TLS, or unknown.
	Certificate string
	// Access is who may connect; nil: unknown.
	Access *acl.Access
	// MemoryLimit of a server's container, in bytes; 0: none.
	MemoryLimit int64
	// DiscardClaims says that the claim of a pod that leaves goes with it.
	DiscardClaims bool
	// HandedOut says that the connection Secret holds the password that is to be given out, and Hold is how long clients
	// may take to follow it.
	HandedOut bool
	Hold      time.Duration
	// AssignEmpty says that the slots of a lost shard go to a server without data, see
	// assignLostSlots in package planner, and Approved names one incident for which that was
	// allowed.
	AssignEmpty bool
	Approved    string
	// ReplaceDead says that a primary whose process has ended is replaced also when it is about to be started again in place.
	ReplaceDead bool
	// Rebalance says by what slots are divided.
	Rebalance Rebalance
	// StorageChanged says that the wanted storage is not what the StatefulSets were made with.
	StorageChanged bool
	// Unannounced says in words why some server does not tell clients yet where they reach it from outside; empty: all do.
	Unannounced string
}

// Set is the StatefulSet of a shard.
type Set struct {
	Shard, Replicas int
	// Overdue says that Kubernetes should have made all of its pods by now.
	Overdue bool
	// UID and ResourceVersion are those of the object that was read, and Made is when it was made.
	UID, ResourceVersion string
	Made                 time.Time
	// Guarded says that the shard's budget allows no evictions.
	Guarded bool
	// IdleSince is since when a shard that is to go was seen to own nothing; zero: it owns slots,
	// or that is not known. See history.Idle.
	IdleSince time.Time
}

// Claim is the claim of a pod's data volume.
type Claim struct {
	Name, UID, ResourceVersion string
	// Shard and Ordinal of the pod that it is for.
	Shard, Ordinal int
	// Leaving says that the claim is being deleted, or will be with the StatefulSet of an earlier cluster.
	Leaving bool
	// Lost says in words why its volume cannot come back, empty while it can.
	Lost string
	// Stranded says in words why its pod cannot be scheduled where its volume is, empty while it can.
	Stranded string
	// Made is when the claim was made.
	Made time.Time
}

// Pod is a pod of the cluster and, where it could be read, the server in it.
type Pod struct {
	Name, UID string
	// Shard and Ordinal come from the pod's labels and name, never from its place in a list.
	Shard, Ordinal int
	// Addr is where the other servers reach this one: the pod's address, or what the server
	// announces instead, see Announcement.
	Addr Address
	// HomeAddr is the address of the pod itself.
	HomeAddr Address
	// Announce is what its server is to have of AnnounceParameters; nil: whatever it has.
	Announce map[string]string
	// Made is when the pod was made.
	Made time.Time
	// Ready is the pod's own readiness: the server accepts connections.
	Ready bool
	// Since is when the pod got ready; zero: it is not.
	Since time.Time
	// NodeName is the node of Kubernetes that the pod is on; empty: none yet.
	NodeName string
	// Cordoned says in words why that node is being emptied, empty when it is not, or nobody can tell.
	Cordoned string
	// Gone says that the node is proven to be gone, so that nothing of the pod runs any more.
	Gone bool
	// Deleting says that the pod is on its way out.
	Deleting bool
	// EndsSoon says that it was given a second to end at most.
	EndsSoon bool
	// Outdated says that the pod was made from an older template than the wanted one, or runs on a claim that is being deleted:
	// it is to be restarted.
	Outdated bool
	// TerminatingClaim is the name of its claim where that is being deleted and goes with the pod,
	// see keepLastCopy in package planner.
	TerminatingClaim string
	// MemoryLimit that the server's container can count on, in bytes: the one that is in force, or less if that was asked for; 0: none,
	// or unknown.
	MemoryLimit int64
	// Resize is how far the container is from the resources that it is to have.
	Resize Resizing
	// Stuck says why the pod cannot start, as Kubernetes puts it (ImagePullBackOff: ...); empty when nothing is wrong.
	Stuck string
	// Fatal is what the server says for which it will never start from its data, see FatalStart; empty while it may.
	Fatal string
	// HeldUntil is when Kubernetes starts the server's container again at the earliest, because that has ended several times; zero: it is
	// not held.
	HeldUntil time.Time
	// Unready is since when the pod is not ready; zero: it is.
	Unready time.Time
	// Started is when the server's container was started; zero: it does not run.
	Started time.Time
	// Ended is when the server that ran before this one had ended at the latest, in this pod or in the one before it. Where none runs it is the last one.
	Ended time.Time
	// NodeLost says that nothing runs on the pod's node any more, as far as Kubernetes can tell: it was deleted, is out of service,
	// or does not report.
	NodeLost bool
	// HasRun says that the server of this pod has been running at some time, so that an ephemeral volume may hold data.
	HasRun bool
	// Role is the label that the Services of the roles go by, empty when the pod has none.
	Role string
	// Gate is what the start gate had to say, empty when it had nothing to remark.
	Gate string
	// Node is the server's own account of itself; nil: unknown, which is never the same as empty.
	Node *Node
	// Took is how long the server took to tell it, or not to; zero: unknown. Clock is how far its clock is ahead.
	Took  time.Duration
	Clock anomaly.Clock
	// PutBack says that its clock was put back, and that its disk keeps nothing until the server
	// gets appendfsync always, see appendLog in package history.
	PutBack bool
	// Error says why Node is nil.
	Error string
	// TimedOut says that nothing came in time. Hangs says that the server had taken the connection, and HungFor for how long that has been so at every look.
	TimedOut, Hangs bool
	HungFor         time.Duration
	// Stood is when this process was last made to stand for election, by the operator or by hand with the plugin; zero: never.
	Stood time.Time
	// Answered says that this very process has answered since the operator runs, with all of its data.
	Answered bool
}

// Address of a server: an IP address and the port for clients.
type Address struct {
	IP   string
	Port int
}

// String is ip:port.
func (a Address) String() string { return fmt.Sprintf("%s:%d", a.IP, a.Port) }
