package redisclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

const (
	// admission bounds how long it may take until the target of a migration has let the source in, and admissionPoll is how often
	// the source is asked: it takes some milliseconds.
	admission     = 2 * time.Second
	admissionPoll = 10 * time.Millisecond
)

// Migrate sends CLUSTER MIGRATESLOTS. Who is asked in vain to take its own password back is found out by the next Read.
func (c *Client) Migrate(ctx context.Context, slots slots.Set, to, password, own string) (err error) {
	ctx, cancel := timeout(ctx, "CLUSTER MIGRATESLOTS", admission)
	defer cancel()
	if err := c.do(ctx, "CONFIG", "SET", "masteruser", acl.UserMigration, "masterauth", password); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.SetReplicationPassword(context.WithoutCancel(ctx), own)) }()
	args := []any{"CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"}
	for _, r := range slots {
		args = append(args, r.From, r.To)
	}
	if err := c.do(ctx, append(args, "NODE", to)...); err != nil {
		return err
	}
	return c.awaitAdmission(ctx)
}

// awaitAdmission returns when no target is left to let the server in. What became of it is in the answer to GETSLOTMIGRATIONS, where
// the next Read finds it.
func (c *Client) awaitAdmission(ctx context.Context) error {
	tick := time.NewTicker(admissionPoll)
	defer tick.Stop()
	for {
		all, err := migrationsOf(c.rdb.Do(ctx, "CLUSTER", "GETSLOTMIGRATIONS"))
		if err != nil {
			return err
		}
		waits := false
		for _, m := range all {
			waits = waits || !m.Admitted()
		}
		if !waits {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// Import sends CLUSTER MIGRATION IMPORT. What becomes of it is found by the next Read.
func (c *Client) Import(ctx context.Context, slots slots.Set) error {
	args := []any{"CLUSTER", "MIGRATION", "IMPORT"}
	for _, r := range slots {
		args = append(args, r.From, r.To)
	}
	return c.do(ctx, args...)
}

// CancelMigration sends CLUSTER MIGRATION CANCEL, which answers how many it has ended: none that it does not know.
func (c *Client) CancelMigration(ctx context.Context, name string) error {
	return c.do(ctx, "CLUSTER", "MIGRATION", "CANCEL", "ID", name)
}

// askMigrations asks in both dialects: who knows one does not know the other, and says so.
func askMigrations(ctx context.Context, pipe goredis.Pipeliner) func() (all []model.Migration, pulls bool, err error) {
	sent, pulled := pipe.Do(ctx, "CLUSTER", "GETSLOTMIGRATIONS"), pipe.Do(ctx, "CLUSTER", "MIGRATION", "STATUS", "ALL")
	return func() ([]model.Migration, bool, error) {
		if all, err := migrationsOf(sent); all != nil || err != nil {
			return all, false, err
		}
		all, err := tasksOf(pulled)
		return all, all != nil, err
	}
}

// migrationsOf reads the answer to CLUSTER GETSLOTMIGRATIONS. https://valkey.io/commands/cluster-getslotmigrations/
func migrationsOf(cmd *goredis.Cmd) ([]model.Migration, error) {
	return readMigrations(cmd, "CLUSTER GETSLOTMIGRATIONS", func(text func(string) string, number func(string) int64) (model.Migration, string) {
		return model.Migration{
			Name: text("name"), Importing: text("operation") == "IMPORT", Source: text("source_node"), Target: text("target_node"),
			State: model.MigrationState(text("state")), Message: strings.TrimSpace(text("message")), Updated: time.Unix(number("last_update_time"), 0),
		}, text("slot_ranges")
	})
}

// tasksOf reads the answer to CLUSTER MIGRATION STATUS, which has those that are not over first and then the others, the last one
// first. The times are in milliseconds, and -1 while there is none. https://redis.io/docs/latest/commands/cluster-migration/
func tasksOf(cmd *goredis.Cmd) ([]model.Migration, error) {
	return readMigrations(cmd, "CLUSTER MIGRATION STATUS", func(text func(string) string, number func(string) int64) (model.Migration, string) {
		m := model.Migration{
			Name: text("id"), Importing: text("operation") == "import", Source: text("source"), Target: text("dest"),
			Message: strings.TrimSpace(text("last_error")), Retries: int(number("retries")),
			Updated: time.UnixMilli(max(number("create_time"), number("start_time"), number("end_time"))),
		}
		switch state := text("state"); {
		case state == "completed":
			m.State = model.MigrationSuccess
		case state == "canceled":
			m.State = model.MigrationCancelled
		case state == "failed" && m.Importing:
			m.State = model.MigrationRetrying
		default: // The rest is spelled alike, or in between.
			m.State = model.MigrationState(state)
		}
		return m, text("slots")
	})
}

// readMigrations reads a list of migrations: none where the server does not have the command, or where its users are still those of
// an earlier version.
func readMigrations(cmd *goredis.Cmd, what string, read func(text func(string) string, number func(string) int64) (model.Migration, string)) ([]model.Migration, error) {
	if err := cmd.Err(); err != nil && (unknown(err) || denied(err)) {
		return nil, nil
	}
	answer, err := cmd.Slice()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	out := make([]model.Migration, 0, len(answer))
	for _, each := range answer {
		fields, ok := each.(map[any]any)
		if !ok {
			return nil, fmt.Errorf("read answer to %s: there is a %T in it", what, each)
		}
		m, slots := read(func(name string) string { s, _ := fields[name].(string); return s }, func(name string) int64 { n, _ := fields[name].(int64); return n })
		if m.Name == "" || m.State == "" {
			return nil, fmt.Errorf("read answer to %s: a migration has no name or no state", what)
		}
		if m.Slots, err = parseSlots(slots); err != nil {
			return nil, fmt.Errorf("read answer to %s: %w", what, err)
		}
		out = append(out, m)
	}
	return out, nil
}

func parseSlots(text string) (slots.Set, error) {
	var ranges []slots.Range
	for field := range strings.FieldsSeq(text) {
		r, err := slots.ParseRange(field)
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, r)
	}
	return slots.New(ranges...), nil
}
