package model

import (
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// SlotState is what CLUSTER SETSLOT says of a slot.
type SlotState string

// Key is a key and what it takes in memory, in bytes.
type Key struct {
	Name  string
	Bytes int64
}

// Moved counts what a move has achieved.
type Moved struct {
	Slots, Keys int
	Bytes       int64
	// Replaced are keys of batches of which some were on both servers: what is left of a move that was interrupted by a failover. The
	// source has served them since.
	Replaced int
}

// Migration is a move of slots that two servers carry out by themselves, as one of the two tells it: the source sends a snapshot and
// then what is written meanwhile, holds up writes for a moment, and the target takes all of the slots over at once.
//
// There are two dialects. With Valkey 9 the source is told to send slots, and a migration that breaks is over. With Redis 8.4 the target
// is told to get them (Node.Pulls), and begins anew every second when that breaks, until it is told to stop.
// https://valkey.io/topics/atomic-slot-migration/
// https://redis.io/docs/latest/commands/cluster-migration/
type Migration struct {
	// Name is the same on both servers.
	Name string
	// Importing says that the server that tells it is the target.
	Importing bool
	Slots     slots.Set
	// Source and Target are ids of nodes.
	Source, Target string
	State          MigrationState
	// Message is what the server says about its end, or about how it broke last.
	Message string
	// Retries is how often the target has begun it anew.
	Retries int
	// Updated is when the state changed last, by the server's clock, in whole seconds.
	Updated time.Time
}

// MigrationState is how far a migration has got, as the server spells it. Those that are not listed here come in between.
type MigrationState string

// States of a migration.
const (
	MigrationConnecting  MigrationState = "connecting"
	MigrationSendingAuth MigrationState = "sending-auth-command"
	MigrationReadingAuth MigrationState = "reading-auth-response"
	MigrationSuccess     MigrationState = "success"
	MigrationCancelled   MigrationState = "cancelled"
	MigrationFailed      MigrationState = "failed"
)

// MigrationRetrying is what has failed and is about to begin anew. No server spells it so.
const MigrationRetrying MigrationState = "retrying"

// Running tells whether the migration is not over.
func (m Migration) Running() bool { return !m.Done() && !m.Broken() }

// Done tells whether the slots have moved.
func (m Migration) Done() bool { return m.State == MigrationSuccess }

// Broken tells whether the migration has ended, and the slots are still where they were.
func (m Migration) Broken() bool { return m.State == MigrationFailed || m.State == MigrationCancelled }

// Admitted tells whether the target has let the source in, or never will.
func (m Migration) Admitted() bool {
	return m.State != MigrationConnecting && m.State != MigrationSendingAuth && m.State != MigrationReadingAuth
}

// SlotStat is what a server tells of one slot.
type SlotStat struct {
	Keys int64
	// Bytes that its keys take; 0 or less: the server does not tell, or there are none.
	Bytes int64
	// CPU is what commands for it have taken since the slot came, or the server was started; negative: the server does not tell.
	CPU time.Duration
}
