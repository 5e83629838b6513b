package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// instead makes a replica primary in the place of another server, if it still is a replica of that one and not connected to it: whoever was
// elected meanwhile, or is back, would lose what clients have written to it since.
func instead(of string, how FailoverMode) func(ctx context.Context, c Client) error {
	return func(ctx context.Context, c Client) error {
		n, err := c.Read(ctx)
		if err != nil {
			return err
		}
		self := n.Self()
		primary, _ := n.Peer(of)
		switch {
		case !self.Replica:
			return nil // It has been elected.
		case self.PrimaryID != of:
			return fmt.Errorf("it is a replica of node %s by now", model.ShortID(self.PrimaryID))
		case n.LinkUp && !primary.NoAddr && !primary.Failing && !primary.Failed:
			return fmt.Errorf("node %s is back", model.ShortID(of))
		}
		return c.Failover(ctx, how)
	}
}

// ErrUndecided is what a failover ends with that has begun, and may yet come to something.
var ErrUndecided = errors.New("it is not decided yet")

// ErrStood means that a hand-over failed after the candidate had started an election.
var ErrStood = errors.New("it stood for election")

// ErrNotRunning says that nobody listens at the address of a server.
var ErrNotRunning = errors.New("it does not run")

// ErrHangs says that a server takes connections and does not answer.
var ErrHangs = errors.New("it takes connections and does not answer")

// Client is a connection to one server, with the verbs that the planner's steps need. Every call may be repeated.
type Client interface {
	// Read returns the server's account of itself and of the others, or ErrHangs.
	Read(ctx context.Context) (*model.Node, error)
	// SetConfigEpoch gives a fresh node its first config epoch.
	SetConfigEpoch(ctx context.Context, epoch uint64) error
	// Meet makes the server shake hands with the one at the address, at the port for other nodes; 0: the usual one.
	Meet(ctx context.Context, addr model.Address, bus int) error
	// AddSlots makes the server the owner of slots that nobody owns.
	AddSlots(ctx context.Context, slots slots.Set) error
	// Replicate makes the server a replica of the node with the id.
	Replicate(ctx context.Context, id string) error
	// AdmitReplicas lets other servers copy this one for so long.
	AdmitReplicas(ctx context.Context, how model.Admission) error
	// Configure sets parameters of the running server. They last until it restarts.
	Configure(ctx context.Context, values map[string]string) error
	// SetUsers makes users what they are to be, all at once, and also those of the process that takes the place of this one
	// when it restarts in place. Who may copy the server is to stay as it is.
	SetUsers(ctx context.Context, users []acl.User, admits model.Admission) error
	// DeleteUsers deletes users in the same way. Who is connected as one of them is cut off.
	DeleteUsers(ctx context.Context, names []string, admits model.Admission) error
	// SetReplicationPassword sets the password that the server copies its primary with, until it restarts.
	SetReplicationPassword(ctx context.Context, password string) error
	// Migrate makes the server send slots to the node with the id, and returns when that has let it in or refused. A server
	// calls on others of its own accord only as who it replicates as: for so long that is the user that moves keys, with its
	// password, and then the former again, with the password that is its own.
	Migrate(ctx context.Context, slots slots.Set, to, password, own string) error
	// Import makes the server get slots from the one that owns them.
	Import(ctx context.Context, slots slots.Set) error
	// CancelMigration makes the server end a migration that it takes part in. Both of its servers have to be told. One that does
	// not know it is content.
	CancelMigration(ctx context.Context, name string) error
	// CountLoad makes the server count what commands for each slot take, or stop that.
	CountLoad(ctx context.Context, on bool) error
	// SlotStats asks for what the server can tell of each of the slots, which it owns.
	SlotStats(ctx context.Context, slots slots.Set) (map[int]model.SlotStat, error)
	// ReloadCertificates makes the server read its certificate, its key and the authorities that it trusts anew.
	ReloadCertificates(ctx context.Context) error
	// Forget removes a node from the server's table, and keeps it out for a minute.
	Forget(ctx context.Context, id string) error
	// Failover makes a replica take over from its primary, and returns when it has. With ErrUndecided it may still do so.
	Failover(ctx context.Context, how FailoverMode) error
	// Leads asks the server whether it takes itself for a primary.
	Leads(ctx context.Context) (bool, error)
	// HoldWrites has clients that write wait for that long.
	HoldWrites(ctx context.Context, d time.Duration) error
	// ReleaseWrites lets clients write again before that.
	ReleaseWrites(ctx context.Context) error
	// Uphold gives a primary the newest claim to its slots: one that was elected in its place without its knowledge yields.
	Uphold(ctx context.Context) error
	// Promote makes a server of the mode Replicated the primary, if it has that history.
	Promote(ctx context.Context, history string) error
	// ReplicaOf makes a server of the mode Replicated a replica of the one at the address.
	ReplicaOf(ctx context.Context, addr model.Address) error
	// FailoverTo makes the server, a primary of the mode Replicated, hand over to its replica at the address, and returns when it
	// has.
	FailoverTo(ctx context.Context, addr model.Address) error
	// Close ends the connection.
	Close() error
}

// FailoverMode is how a replica takes over, as the server spells it.
type FailoverMode string

const (
	// FailoverPlanned takes over from a living primary, without losing a write.
	FailoverPlanned FailoverMode = ""
	// FailoverForce takes over from a dead primary, if the majority of the primaries agrees.
	FailoverForce FailoverMode = "FORCE"
	// FailoverTakeover asks nobody.
	FailoverTakeover FailoverMode = "TAKEOVER"
)

// Call is one command to the server of one pod.
type Call struct {
	Pod string
	Do  func(ctx context.Context, c Client) error
}
