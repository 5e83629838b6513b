package steps

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	redisslots "github.com/quorate/quorate/internal/cluster/redis/slots"
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
	return fmt.Sprintf("cancel migration %s of %s", model.ShortID(s.Name), JoinItems(s.Pods, func(p string) string { return p }))
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
	Access *acl.Access
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
			return c.Migrate(ctx, m.Slots, m.ToID, s.Access.Passwords[acl.PasswordMigration], s.Access.ReplicationPassword(m.From))
		}}
	})
}

// Share is about what a migration moves, going by what its source holds in a slot on average.
func Share(n *model.Node, m model.Migration) model.Moved {
	slots := m.Slots.Count()
	of := max(1, redisslots.Union(n.Self().Slots, m.Slots).Count())
	return model.Moved{Slots: slots, Keys: int(n.Keys) * slots / of, Bytes: (n.Memory.Used - n.Memory.Empty) * int64(slots) / int64(of)}
}
