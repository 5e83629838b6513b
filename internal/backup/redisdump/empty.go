package redisdump

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// emptyBatch is how many keys are deleted at once.
const emptyBatch = 1000

// Empty deletes all keys of all databases and all functions of every server that takes keys, and waits until their memory is free: what is
// loaded next needs it. It names every key that it deletes, so that its user needs no right to delete what it has not seen: +scan, +unlink,
// +function|list, +function|delete, +select and +info. Keys that are written meanwhile may stay.
func Empty(ctx context.Context, to Target) error {
	return to.primaries(ctx, func(ctx context.Context, c *goredis.Client) error {
		numbers, err := databasesOf(ctx, c)
		if err != nil {
			return err
		}
		others := &databases{}
		defer others.close()
		for _, n := range numbers {
			if err := unlinkAll(ctx, others.of(c, n), nil); err != nil {
				return fmt.Errorf("delete the keys of database %d of a server: %w", n, err)
			}
		}
		if err := deleteFunctions(ctx, c); err != nil {
			return fmt.Errorf("delete the functions of a server: %w", err)
		}
		return freed(ctx, c)
	})
}

// EmptySlots deletes the keys of slots that servers import: nobody but who loads them has written those. A server that does not import such a slot
// any more refuses it. It takes +scan, +asking, +unlink and +info.
func EmptySlots(ctx context.Context, to Target, slots func(slot int) bool) error {
	return to.primaries(ctx, func(ctx context.Context, c *goredis.Client) error {
		if err := unlinkAll(ctx, c, slots); err != nil {
			return fmt.Errorf("delete the keys that another backup has left in a server: %w", err)
		}
		return freed(ctx, c)
	})
}

// databasesOf are the numbers of the databases that have keys.
func databasesOf(ctx context.Context, c *goredis.Client) (out []int, err error) {
	info, err := c.Info(ctx, "keyspace").Result()
	if err != nil {
		return nil, fmt.Errorf("ask a server for its databases: %w", err)
	}
	lines := bufio.NewScanner(strings.NewReader(info))
	for lines.Scan() {
		name, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), ":")
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "db")); err == nil && strings.HasPrefix(name, "db") {
			out = append(out, n)
		}
	}
	return out, nil
}

// unlinkAll deletes every key that is there all the time, one by one: those of a cluster belong to different slots. imported are the slots that
// the server imports and whose keys are deleted, nil: those of all that it has.
func unlinkAll(ctx context.Context, c *goredis.Client, imported func(slot int) bool) error {
	for cursor := uint64(0); ; {
		keys, next, err := c.Scan(ctx, cursor, "", emptyBatch).Result()
		if err != nil {
			return err
		}
		pipe := c.Pipeline()
		for _, key := range keys {
			switch {
			case imported == nil:
				pipe.Unlink(ctx, key)
			case imported(Slot([]byte(key))):
				pipe.Do(ctx, "ASKING")
				pipe.Unlink(ctx, key)
			}
		}
		if pipe.Len() > 0 {
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

func deleteFunctions(ctx context.Context, c *goredis.Client) error {
	libraries, err := c.FunctionList(ctx, goredis.FunctionListQuery{}).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		return err
	}
	for _, l := range libraries {
		if err := c.FunctionDelete(ctx, l.Name).Err(); err != nil {
			return err
		}
	}
	return nil
}

// freed waits until a server has nothing left to free.
func freed(ctx context.Context, c *goredis.Client) error {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		info, err := c.Info(ctx, "memory").Result()
		if err != nil {
			return fmt.Errorf("ask a server for its memory: %w", err)
		}
		if pending(info) == "0" {
			return nil
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// pending is how many objects a server has yet to free. One that does not tell has none.
func pending(info string) string {
	lines := bufio.NewScanner(strings.NewReader(info))
	for lines.Scan() {
		if key, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), ":"); key == "lazyfree_pending_objects" {
			return value
		}
	}
	return "0"
}
