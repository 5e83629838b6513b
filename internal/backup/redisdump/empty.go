package redisdump

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Empty deletes all keys of all databases and all functions of every server that takes keys, and waits until their memory is free: what is
// loaded next needs it. Servers do that beside their other work. The user needs +flushall, +function|flush and +info.
func Empty(ctx context.Context, to Target) error {
	return to.primaries(ctx, func(ctx context.Context, c *goredis.Client) error {
		if err := c.FlushAllAsync(ctx).Err(); err != nil {
			return fmt.Errorf("delete all keys of a server: %w", err)
		}
		if err := c.FunctionFlushAsync(ctx).Err(); err != nil {
			return fmt.Errorf("delete all functions of a server: %w", err)
		}
		return freed(ctx, c)
	})
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
