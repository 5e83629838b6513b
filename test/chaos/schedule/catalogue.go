// Package schedule draws from a seed what is broken, and what is changed meanwhile. It does no I/O: the same seed gives the same
// schedule, however long a round of it takes on a machine.
package schedule

import "time"

// Store is a kind of data store.
type Store string

// The stores that clusters are made of.
const (
	Etcd   Store = "etcd"
	Redis  Store = "redis"
	Valkey Store = "valkey"
)

// Cluster is one that faults are drawn for.
type Cluster struct {
	Name  string
	Store Store
}

// Scope is how much a fault hits.
type Scope string

const (
	// Pod faults hit one pod of one cluster, or all of its pods.
	Pod Scope = "pod"
	// Node faults hit all that is on a node.
	Node Scope = "node"
	// World faults hit what all clusters depend on, and none of their servers.
	World Scope = "world"
)

// Kind is a kind of fault.
type Kind struct {
	// Name is short, Title is a sentence for the report, Covers is the part of the fault catalogue it stands for.
	Name, Title, Covers string
	Scope               Scope
	// Least and Most bound how long it lasts; 0: it is over at once.
	Least, Most time.Duration
	// Skews are the times that a clock is put forward by, or back.
	Skews []time.Duration
	// Bound is how long a cluster may take to be Ready again once it is over.
	Bound time.Duration
	// Loses says that a data store whose replication is asynchronous may lose what it has acknowledged.
	Loses bool
	// Grace is how long a server that is told to end may still serve.
	Grace time.Duration
	// Lasting says that a copy of the data is gone for good: not while the number of copies changes.
	Lasting bool
	// Restarts says that the operator may end, or lose its lease and end, because of it.
	Restarts bool
}

const (
	second = time.Second
	minute = time.Minute
)

// skews go beyond what certificates allow for, and do not.
var skews = []time.Duration{-time.Hour, -2 * minute, 2 * minute, time.Hour}

// Kinds are all faults. The bounds are for two busy cores that run three nodes: what takes seconds elsewhere takes its time there, and
// a container that has crashed several times waits for up to 80 s before Kubernetes starts it again.
var Kinds = []Kind{
	{Name: "pod-delete", Title: "a pod is deleted", Covers: "T17", Scope: Pod, Bound: 4 * minute, Loses: true, Grace: minute},
	{Name: "kill", Title: "the server's process is killed with SIGKILL", Covers: "T17", Scope: Pod, Bound: 4 * minute, Loses: true},
	{Name: "stop", Title: "the server's process is stopped (SIGSTOP) and goes on", Covers: "T17", Scope: Pod, Least: 4 * second, Most: 15 * second, Bound: 4 * minute, Loses: true},
	{Name: "oom", Title: "the server's container runs out of memory", Covers: "T17", Scope: Pod, Bound: 4 * minute, Loses: true},
	{Name: "corrupt", Title: "a part of the log of a server is overwritten, and it is killed", Covers: "T17", Scope: Pod, Bound: 5 * minute, Loses: true, Lasting: true},
	{Name: "disk-lost", Title: "a pod is deleted with its volume", Covers: "T17", Scope: Pod, Bound: 5 * minute, Loses: true, Grace: minute, Lasting: true},
	{Name: "all-pods", Title: "all pods of a cluster are deleted at once", Covers: "T17, T18", Scope: Pod, Bound: 5 * minute, Loses: true, Grace: minute},
	{Name: "pod-cut", Title: "a pod is cut off", Covers: "T18", Scope: Pod, Least: 5 * second, Most: 20 * second, Bound: 4 * minute, Loses: true},
	{Name: "peers-cut", Title: "a server and the others of its cluster do not reach each other", Covers: "T18", Scope: Pod, Least: 10 * second, Most: 40 * second, Bound: 4 * minute, Loses: true},
	{Name: "clock", Title: "the server has another time of day", Covers: "T21", Scope: Pod, Least: 10 * second, Most: 25 * second, Skews: skews, Bound: 4 * minute},
	{Name: "node-pause", Title: "a node is paused", Covers: "T17", Scope: Node, Least: 10 * second, Most: 25 * second, Bound: 5 * minute, Loses: true},
	{Name: "node-stop", Title: "a node loses its power and comes back", Covers: "T17", Scope: Node, Least: 10 * second, Most: 25 * second, Bound: 5 * minute, Loses: true},
	{Name: "node-lost", Title: "a node is lost for good, with the volumes on it, and another one takes its name", Covers: "T17", Scope: Node, Least: 30 * second, Most: 45 * second, Bound: 6 * minute, Loses: true, Lasting: true},
	{Name: "node-cut", Title: "a node is cut off", Covers: "T18", Scope: Node, Least: 10 * second, Most: 25 * second, Bound: 5 * minute, Loses: true},
	{Name: "node-slow", Title: "the network of a node is slow", Covers: "T18", Scope: Node, Least: 15 * second, Most: 30 * second, Bound: 4 * minute, Loses: true},
	{Name: "disk-full", Title: "the disk of a node is full", Covers: "T17", Scope: Node, Least: 10 * second, Most: 25 * second, Bound: 5 * minute, Loses: true},
	{Name: "operator-kill", Title: "the leading operator is killed with SIGKILL", Covers: "T11", Scope: World, Bound: 4 * minute, Restarts: true},
	{Name: "operator-stop", Title: "the leading operator stands still (SIGSTOP) until another one leads, and goes on", Covers: "T11", Scope: World, Least: 20 * second, Most: 25 * second, Bound: 4 * minute, Restarts: true},
	{Name: "operator-clock", Title: "the leading operator has another time of day", Covers: "T21", Scope: World, Least: 10 * second, Most: 25 * second, Skews: skews, Bound: 4 * minute, Restarts: true},
	{Name: "operator-cut", Title: "the operator is cut off from all servers", Covers: "T18", Scope: World, Least: 10 * second, Most: 20 * second, Bound: 4 * minute},
	{Name: "api-stop", Title: "the API server stands still (SIGSTOP)", Covers: "T18", Scope: World, Least: 8 * second, Most: 20 * second, Bound: 4 * minute, Restarts: true},
	{Name: "dns-loss", Title: "no name is resolved", Covers: "T18", Scope: World, Least: 10 * second, Most: 25 * second, Bound: 4 * minute},
}

// KindOf finds a kind by its name.
func KindOf(name string) Kind {
	for _, k := range Kinds {
		if k.Name == name {
			return k
		}
	}
	return Kind{Name: name}
}

// OperationKind is a kind of planned change.
type OperationKind struct {
	Name, Title string
	// Only is the store that it is for; empty: all.
	Only Store
	// Resizes says that the number of members or shards changes.
	Resizes bool
	// Once: there is no way back, so it is drawn once for a cluster. Slow: for how many rounds no other one is drawn.
	Once bool
	Slow int
	// Bound is how long it may take, faults included. Calm: it may take longer while the cluster is disturbed again and again, and so long
	// from when it was for the last time.
	Bound, Calm time.Duration
}

// OperationKinds are all planned changes. A size goes there and back, so it stands here twice.
var OperationKinds = []OperationKind{
	{Name: "scale", Title: "3 members become 5, or 5 become 3", Only: Etcd, Resizes: true, Bound: 8 * minute},
	{Name: "scale", Title: "3 members become 5, or 5 become 3", Only: Etcd, Resizes: true, Bound: 8 * minute},
	{Name: "shards", Title: "3 shards become 4, or 4 become 3", Only: Redis, Resizes: true, Bound: 8 * minute},
	{Name: "shards", Title: "3 shards become 4, or 4 become 3", Only: Redis, Resizes: true, Bound: 8 * minute},
	{Name: "shards", Title: "3 shards become 4, or 4 become 3", Only: Valkey, Resizes: true, Bound: 8 * minute},
	{Name: "shards", Title: "3 shards become 4, or 4 become 3", Only: Valkey, Resizes: true, Bound: 8 * minute},
	{Name: "upgrade", Title: "to the next minor version, or back", Only: Etcd, Bound: 8 * minute},
	{Name: "upgrade", Title: "to the next major version", Only: Redis, Once: true, Bound: 8 * minute},
	{Name: "upgrade", Title: "to the next major version", Only: Valkey, Once: true, Bound: 8 * minute},
	{Name: "restart", Title: "all pods are restarted, one after the other", Bound: 8 * minute},
	{Name: "rotate", Title: "the certificate authority is replaced", Slow: 4, Bound: 15 * minute, Calm: 7 * minute},
}

// OperationOf finds a kind of operation by its name.
func OperationOf(name string) OperationKind {
	for _, k := range OperationKinds {
		if k.Name == name {
			return k
		}
	}
	return OperationKind{Name: name}
}
