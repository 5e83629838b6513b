package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/login"
)

// ErrPassword is the error of a server that refuses the password, or refused it so lately that it was
// not sent again.
var ErrPassword = errors.New("the server refuses the password")

// refusal is a hook of the handshake. go-redis answers a refused HELLO with AUTH and the same
// password; refusal ends the handshake instead. What the server refused is not sent to it again while
// login.Server holds it back.
type refusal struct {
	server         login.Server
	user, password string
}

var _ goredis.Hook = refusal{}

// DialHook changes nothing.
func (r refusal) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessPipelineHook changes nothing: the handshake sends the password in commands of their own.
func (r refusal) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// ProcessHook watches HELLO and AUTH.
func (r refusal) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if name := cmd.Name(); name != "hello" && name != "auth" {
			return next(ctx, cmd)
		}
		if r.server.Held(r.user, r.password) {
			cmd.SetErr(fmt.Errorf("%w: it is held back for now", ErrPassword))
			return cmd.Err()
		}
		err := next(ctx, cmd)
		switch {
		case err == nil:
			r.server.Accept()
		case strings.HasPrefix(err.Error(), "WRONGPASS"):
			r.server.Refuse(r.user, r.password)
			// Not wrapped: go-redis goes on to AUTH where the error is one of the server.
			err = fmt.Errorf("%w: %s", ErrPassword, err.Error())
			cmd.SetErr(err)
		}
		return err
	}
}
