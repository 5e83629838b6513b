// Package history keeps what the operator remembers of servers from one observation to the next: since
// when a process has been unresponsive, when it was last asked to start an election, how many commands
// it has carried out, since when a shard has been empty.
//
// It is lost when the operator restarts, so nothing depends on it for safety: it makes decisions
// later, never sooner.
package history
