package model

// Ports of every server.
const (
	ClientPort = 6379
	BusPort    = ClientPort + 10000
)

const DataDir = "/data"

const RunDir = "/run/quorate"

const TLSDir = "/etc/quorate/tls"

// ReplicationDir holds the passwords with which a pod asks its own server, see leadsAlone.
const ReplicationDir = "/etc/quorate/replication"

// NodesFile is the server's own record of the cluster. It lies beside the data, so that a server which lost its
// data has lost its identity as well.
const NodesFile = "nodes.conf"

// AppendDir holds the append-only files.
const AppendDir = "appendonlydir"
