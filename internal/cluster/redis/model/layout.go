package model

// Ports of every server.
const (
	ClientPort = 6379
	BusPort    = ClientPort + 10000
)

// DataDir is where the data volume of a server is mounted.
const DataDir = "/data"

// RunDir is the directory of the files that the start gate writes for its server.
const RunDir = "/run/quorate"

// TLSDir holds the certificate of a server, its key and the authorities that it trusts.
const TLSDir = "/etc/quorate/tls"

// ReplicationDir holds the passwords with which a pod asks its own server, see leadsAlone in
// package manifests.
const ReplicationDir = "/etc/quorate/replication"

// NodesFile is the server's own record of the cluster. It lies beside the data, so that a server which lost its
// data has lost its identity as well.
const NodesFile = "nodes.conf"

// AppendDir holds the append-only files.
const AppendDir = "appendonlydir"
