package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster"
)

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
	Slots     Slots
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

const (
	// migrationBytes is about how much one migration moves. The source holds what is written meanwhile in its memory, and a
	// migration that breaks begins anew.
	migrationBytes = 1 << 30
	// migrationTries is how many migrations between two servers may break in a row before keys are moved one by one.
	migrationTries = 4
	// migrationPause is how long to wait after the first that broke, twice as long after the second, and so on.
	migrationPause = 2 * time.Second
)

// ReasonMigrationBroken is the reason for waiting before a migration is tried again, and for ending one that goes on trying.
const ReasonMigrationBroken = "MigrationBroken"

// CancelMigration ends a migration that a target goes on trying.
type CancelMigration struct {
	Name string
	// Pods are those of the target and then of the source: a target that was told nothing begins anew.
	Pods []string
}

func (s CancelMigration) String() string {
	return fmt.Sprintf("cancel migration %s of %s", short(s.Name), list(s.Pods, func(p string) string { return p }))
}

// Calls sends CLUSTER MIGRATION CANCEL.
func (s CancelMigration) Calls() []Call {
	return calls(s.Pods, func(pod string) Call {
		return Call{pod, func(ctx context.Context, c Client) error { return c.CancelMigration(ctx, s.Name) }}
	})
}

// MigrateSlots makes servers move slots by themselves. They go on when the step is over.
type MigrateSlots struct {
	Moves  []SlotMove
	access *Access
}

func (s MigrateSlots) String() string { return describe(s.Moves) }

// Calls sends CLUSTER MIGRATION IMPORT to targets that pull, and CLUSTER MIGRATESLOTS to the sources of others. Each of those gets the
// password of the user that moves keys for as long as it takes to be let in by its target: no server can ask another shard for anything
// at other times. Targets that pull have a secret of their own for that, which the servers of a cluster share.
func (s MigrateSlots) Calls() []Call {
	return calls(s.Moves, func(m SlotMove) Call {
		if m.Pull {
			return Call{m.To, func(ctx context.Context, c Client) error { return c.Import(ctx, m.Slots) }}
		}
		return Call{m.From, func(ctx context.Context, c Client) error {
			return c.Migrate(ctx, m.Slots, m.ToID, s.access.Passwords[PasswordMigration], s.access.ReplicationPassword(m.From))
		}}
	})
}

// Share is about what a migration moves, going by what its source holds in a slot on average.
func (n *Node) Share(m Migration) Moved {
	slots := m.Slots.Count()
	of := max(1, Union(n.Self().Slots, m.Slots).Count())
	return Moved{Slots: slots, Keys: int(n.Keys) * slots / of, Bytes: (n.Memory.Used - n.Memory.Empty) * int64(slots) / int64(of)}
}

// migrations are those that have not ended, as primaries tell it. The target of one that broke removes what it got before it has.
func (v *view) migrations() []Migration {
	var out []Migration
	for _, p := range v.read {
		for _, m := range p.Node.Migrations {
			known := slices.ContainsFunc(out, func(o Migration) bool { return o.Name == m.Name })
			if m.Running() && !known && !p.Node.Self().Replica {
				out = append(out, m)
			}
		}
	}
	return out
}

// cancelMigrations ends what a target has begun anew too often, whoever else can be read: until then its source copies the slots again and
// again, and no primary hands over.
func cancelMigrations(v *view) (cluster.Plan, bool) {
	for _, m := range v.migrations() {
		if m.State != MigrationRetrying || 1+m.Retries < migrationTries {
			continue
		}
		step := CancelMigration{Name: m.Name}
		for _, id := range []string{m.Target, m.Source} {
			if p := v.byID[id]; p != nil {
				step.Pods = append(step.Pods, p.Name)
			}
		}
		return cluster.Do(step, "%s did not get its slots from %s in %d attempts: %s", v.nameOf(m.Target), v.nameOf(m.Source), 1+m.Retries, m.Message)
	}
	return cluster.Pass()
}

// waitForMigrations waits for what servers carry out by themselves: nothing else may touch slots meanwhile, and a failover would break it.
func waitForMigrations(v *view) (cluster.Plan, bool) {
	running := v.migrations()
	if len(running) == 0 {
		return cluster.Pass()
	}
	return cluster.Wait(ReasonMoveSlots, soon, "servers move slots by themselves: %s", list(running, func(m Migration) string {
		return fmt.Sprintf("%d from %s to %s (%s)", m.Slots.Count(), v.nameOf(m.Source), v.nameOf(m.Target), m.State)
	}))
}

// nameOf is the name of the pod that has a node, or else what the node is called.
func (v *view) nameOf(id string) string {
	if p := v.byID[id]; p != nil {
		return p.Name
	}
	return "node " + short(id)
}

// engine tells how slots go from one server to another: by themselves where both can, and that has not broken too often.
func (v *view) engine(from, to *Pod) (byThemselves bool, wait time.Duration, message string) {
	if v.Spec.Access == nil || from.Node.Migrations == nil || to.Node.Migrations == nil || from.Node.Pulls != to.Node.Pulls {
		return false, 0, ""
	}
	broken, last := attempts(from.Node, to.Node)
	if broken == 0 || broken >= migrationTries {
		return broken == 0, 0, ""
	}
	// The clocks of the two machines may differ: what seems to lie ahead holds up nothing.
	pause := migrationPause << (broken - 1)
	if past := v.Now.Sub(last.Updated); past >= 0 && past < pause {
		return true, pause - past, last.Message
	}
	return true, 0, ""
}

// attempts counts the ones in a row that broke last between two servers, as the one tells it that is told to begin them.
func attempts(from, to *Node) (broken int, last Migration) {
	told := from
	if to.Pulls {
		told = to
	}
	for _, m := range told.Migrations { // The last one comes first.
		if m.Importing != told.Pulls || m.Source != from.ID || m.Target != to.ID {
			continue
		}
		if !m.Broken() {
			break
		}
		if broken == 0 {
			last = m
		}
		broken += 1 + m.Retries
	}
	return broken, last
}

// piece is as many of the slots as one migration takes, going by what its source holds on average.
func piece(from *Pod, slots Slots) Slots {
	held := max(1, from.Node.Memory.Used-from.Node.Memory.Empty)
	n := int64(from.Node.Self().Slots.Count()) * migrationBytes / held
	return slots.First(int(min(SlotCount, max(1, n))))
}
