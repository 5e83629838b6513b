package redisclient

import (
	"context"
	"errors"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// meter is told how calls went. An answer that there is nothing is no error.
type meter func(call string, took time.Duration, err error)

var _ goredis.Hook = meter(nil)

func (m meter) tell(call string, began time.Time, err error) {
	if errors.Is(err, goredis.Nil) {
		err = nil
	}
	m(call, time.Since(began), err)
}

// DialHook times connections.
func (m meter) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		began := time.Now()
		conn, err := next(ctx, network, addr)
		m.tell("dial", began, err)
		return conn, err
	}
}

// ProcessHook times single commands.
func (m meter) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmd)
		m.tell(cmd.Name(), began, err)
		return err
	}
}

// ProcessPipelineHook times several commands in one round trip. That servers of some versions do not know one of them is no error of
// the call.
func (m meter) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmds)
		failed := err
		if reply := goredis.Error(nil); errors.As(err, &reply) {
			failed = nil
		}
		m.tell("pipeline", began, failed)
		return err
	}
}
