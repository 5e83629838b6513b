package redisclient

import (
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// AdmitReplicas switches the replication user on, and for good with ACL SAVE.
func (c *Client) AdmitReplicas(ctx context.Context, how model.Admission) error {
	if how == model.AdmitsForGood {
		return c.save(ctx, nil, how)
	}
	return c.do(ctx, "ACL", "SETUSER", acl.UserReplication, "on")
}

// SetUsers sends ACL SETUSER for each user and ACL SAVE, as one transaction: nobody meets a server between two of them, and
// what is in memory is in the file. The operator's own user comes first: that of an earlier version may not begin a transaction.
func (c *Client) SetUsers(ctx context.Context, users []acl.User, admits model.Admission) error {
	for _, u := range users {
		if u.Name != acl.UserOperator {
			continue
		}
		if err := c.do(ctx, setUser(u)...); err != nil {
			return err
		}
	}
	var commands [][]any
	for _, u := range users {
		commands = append(commands, setUser(u))
	}
	return c.save(ctx, commands, admits)
}

// DeleteUsers sends ACL DELUSER, and ACL SAVE with it.
func (c *Client) DeleteUsers(ctx context.Context, names []string, admits model.Admission) error {
	args := []any{"ACL", "DELUSER"}
	for _, name := range names {
		args = append(args, name)
	}
	return c.save(ctx, [][]any{args}, admits)
}

// save changes users and writes them to the file of the server, in one transaction. The replication user is off there unless it is on for
// good.
func (c *Client) save(ctx context.Context, commands [][]any, admits model.Admission) error {
	ctx, cancel := timeout(ctx, "ACL SAVE", callTimeout)
	defer cancel()
	var saved *goredis.Cmd
	_, err := c.rdb.TxPipelined(ctx, func(pipe goredis.Pipeliner) error {
		for _, args := range commands {
			pipe.Do(ctx, args...)
		}
		filed := []any{"off", "resetchannels"}
		if admits == model.AdmitsForGood {
			filed = []any{"on", "resetchannels", acl.AdmitsMark}
		}
		pipe.Do(ctx, append([]any{"ACL", "SETUSER", acl.UserReplication}, filed...)...)
		saved = pipe.Do(ctx, "ACL", "SAVE")
		if admits == model.AdmitsForNow {
			pipe.Do(ctx, "ACL", "SETUSER", acl.UserReplication, "on")
		}
		return nil
	})
	if err != nil {
		if admits == model.AdmitsForGood && saved.Err() != nil { // Nothing that fails in a transaction undoes the rest of it, and the file may not say so.
			_ = c.rdb.Do(ctx, "ACL", "SETUSER", acl.UserReplication, "resetchannels").Err()
		}
		return fmt.Errorf("set users: %w", err)
	}
	return nil
}

func setUser(u acl.User) []any {
	args := []any{"ACL", "SETUSER", u.Name}
	for _, rule := range u.Rules() {
		args = append(args, rule)
	}
	return args
}
