package model

// With appendfsync everysec, a server has its disk keep its append-only file when a second has passed since it last did, by the time of day. When that is
// put back, by somebody or by a time synchronisation that comes late, the disk keeps nothing until it is where it was: all supported
// servers, see TestAClockThatIsPutBack. With appendfsync always the next write is kept whatever the time is, and what is counted from then on is the
// new time. So such a server is told that until it has written something, and then to go on as before, see configure.

const (
	AppendOnly  = "appendonly"
	AppendFsync = "appendfsync"
	EverySecond = "everysec"
	FsyncAlways = "always"
	// noFsyncOnRewrite says that the disk is not to keep the append-only file while a child of the server writes to it as well.
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
