package redisclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/redis"
)

const (
	// admission bounds how long it may take until the target of a migration has let the source in, and admissionPoll is how often
	// the source is asked: it takes some milliseconds.
	admission     = 2 * time.Second
	admissionPoll = 10 * time.Millisecond
)

// Migrate sends CLUSTER MIGRATESLOTS. Who is asked in vain to take its own password back is found out by the next Read.
func (c *Client) Migrate(ctx context.Context, slots redis.Slots, to, password, own string) (err error) {
	ctx, cancel := timeout(ctx, "CLUSTER MIGRATESLOTS", admission)
	defer cancel()
	if err := c.do(ctx, "CONFIG", "SET", "masteruser", redis.UserMigration, "masterauth", password); err != nil {
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

// migrationsOf reads the answer to CLUSTER GETSLOTMIGRATIONS: none where the server does not have the command, or where its users are
// still those of an earlier version. https://valkey.io/commands/cluster-getslotmigrations/
func migrationsOf(cmd *goredis.Cmd) ([]redis.Migration, error) {
	if cmd == nil {
		return nil, nil // A server without slots is not asked.
	}
	if err := cmd.Err(); err != nil && (unknown(err) || denied(err)) {
		return nil, nil
	}
	answer, err := cmd.Slice()
	if err != nil {
		return nil, fmt.Errorf("CLUSTER GETSLOTMIGRATIONS: %w", err)
	}
	out := make([]redis.Migration, 0, len(answer))
	for _, each := range answer {
		fields, ok := each.(map[any]any)
		if !ok {
			return nil, fmt.Errorf("read answer to CLUSTER GETSLOTMIGRATIONS: there is a %T in it", each)
		}
		m, err := migration(fields)
		if err != nil {
			return nil, fmt.Errorf("read answer to CLUSTER GETSLOTMIGRATIONS: %w", err)
		}
		out = append(out, m)
	}
	return out, nil
}

func migration(fields map[any]any) (redis.Migration, error) {
	text := func(name string) string { s, _ := fields[name].(string); return s }
	seconds, _ := fields["last_update_time"].(int64)
	m := redis.Migration{
		Name: text("name"), Importing: text("operation") == "IMPORT", Source: text("source_node"), Target: text("target_node"),
		State: redis.MigrationState(text("state")), Message: strings.TrimSpace(text("message")), Updated: time.Unix(seconds, 0),
	}
	if m.Name == "" || m.State == "" {
		return m, errors.New("a migration has no name or no state")
	}
	var ranges []redis.Range
	for field := range strings.FieldsSeq(text("slot_ranges")) {
		r, err := redis.ParseRange(field)
		if err != nil {
			return m, err
		}
		ranges = append(ranges, r)
	}
	m.Slots = redis.NewSlots(ranges...)
	return m, nil
}
