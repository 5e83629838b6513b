package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// Failover sends CLUSTER FAILOVER [FORCE|TAKEOVER] and watches the role until the replica is primary. The command only begins the
// failover, and sending it again would begin it anew.
func (c *Client) Failover(ctx context.Context, how steps.FailoverMode) error {
	limit, args := failoverTimeout, []any{"CLUSTER", "FAILOVER"}
	if how == steps.FailoverPlanned {
		limit = plannedTimeout
	} else {
		args = append(args, string(how))
	}
	ctx, cancel := timeout(ctx, "failover", limit)
	defer cancel()
	var refused goredis.Error
	var network *net.OpError
	switch err := c.do(ctx, args...); {
	case errors.As(err, &refused), errors.As(err, &network) && network.Op == "dial": // It was not begun.
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", steps.ErrUndecided, err)
	}
	tick := time.NewTicker(failoverPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the replica was not promoted: %w: %w", steps.ErrUndecided, context.Cause(ctx))
		case <-tick.C:
		}
		leads, err := c.Leads(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", steps.ErrUndecided, err)
		case leads:
			return nil
		}
	}
}

// Leads asks for the ROLE.
func (c *Client) Leads(ctx context.Context) (bool, error) {
	ctx, cancel := timeout(ctx, "ROLE", callTimeout)
	defer cancel()
	role, err := c.rdb.Do(ctx, "ROLE").Slice()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return false, fmt.Errorf("ROLE: %w: %w", steps.ErrNotRunning, err)
	case err != nil:
		return false, fmt.Errorf("ROLE: %w", err)
	}
	return len(role) > 0 && role[0] == "master", nil
}

// HoldWrites sends CLIENT PAUSE.
func (c *Client) HoldWrites(ctx context.Context, d time.Duration) error {
	return c.do(ctx, "CLIENT", "PAUSE", d.Milliseconds(), "WRITE")
}

// ReleaseWrites sends CLIENT UNPAUSE.
func (c *Client) ReleaseWrites(ctx context.Context) error { return c.do(ctx, "CLIENT", "UNPAUSE") }

// Uphold sends CLUSTER BUMPEPOCH.
func (c *Client) Uphold(ctx context.Context) error { return c.do(ctx, "CLUSTER", "BUMPEPOCH") }
