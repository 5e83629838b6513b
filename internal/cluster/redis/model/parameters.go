package model

const (
	// AppendOnly is yes where a server keeps an append-only file.
	AppendOnly = "appendonly"
	// AppendFsync is when a server has its disk keep that file: EverySecond or FsyncAlways.
	AppendFsync = "appendfsync"
	// EverySecond has the disk keep it once a second.
	EverySecond = "everysec"
	// FsyncAlways has the disk keep it before a write is acknowledged.
	FsyncAlways = "always"
	// NoFsyncOnRewrite says that the disk is not to keep the append-only file while a child of the
	// server writes to the disk as well.
	NoFsyncOnRewrite = "no-appendfsync-on-rewrite"
)

// The parameters that make up what a server announces. All servers take all of them while they run.
const (
	AnnounceIP       = "cluster-announce-ip"
	AnnouncePort     = "cluster-announce-port"
	AnnounceTLSPort  = "cluster-announce-tls-port"
	AnnounceHost     = "cluster-announce-hostname"
	AnnounceEndpoint = "cluster-preferred-endpoint-type"
	// announceName holds the name of the pod. In the mode Sharded the servers make no use of it but to show it in INFO, and it
	// tells who answers when clients are sent to another host.
	announceName = "replica-announce-ip"
)

// What clients are sent to.
const (
	EndpointHost = "hostname"
	EndpointIP   = "ip"
)

// Parameters that are derived.
const (
	MaxMemory   = "maxmemory"
	BacklogSize = "repl-backlog-size"
)

// Parameters that keep a primary from taking writes that nobody copies.
const (
	WriteGuard    = "min-replicas-to-write"
	WriteGuardLag = "min-replicas-max-lag"
)
