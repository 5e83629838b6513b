package redisclient_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/resp"
)

func TestAHostileReplyIsAnErrorOfThatServerAndCostsLittle(t *testing.T) {
	for name, reply := range map[string]string{
		"a length that overflows":      "%1\r\n$9223372036854775806\r\n",
		"a map of ten million entries": "%10000000\r\n",
		"a huge array inside a map":    "%1\r\n$5\r\nproto\r\n*1000000000\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := redisclient.New(redisclient.Options{
				Dial: func(context.Context) (net.Conn, error) {
					near, far := net.Pipe()
					go func() {
						_, _ = far.Read(make([]byte, 4096))
						_, _ = far.Write([]byte(reply))
						_, _ = far.Read(make([]byte, 4096)) // Until the client closes.
						_ = far.Close()
					}()
					return near, nil
				},
				Logins: []redisclient.Login{{Username: "u", Password: "p"}},
			})
			defer func() { _ = c.Close() }()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := c.Read(t.Context())
			runtime.ReadMemStats(&after)
			if !errors.Is(err, resp.ErrRefused) {
				t.Errorf("error %v, want a refusal", err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
				t.Errorf("%d bytes were allocated", got)
			}
		})
	}
}

func TestEveryClientRefusesAHostileReply(t *testing.T) {
	dial := func(context.Context, string, string) (net.Conn, error) {
		return answering("%10000000\r\n", ""), nil
	}
	one := goredis.Options{Dialer: dial, MaxRetries: -1}
	for name, connect := range map[string]func() goredis.UniversalClient{
		"of a server": func() goredis.UniversalClient { return redisclient.NewBounded(one, resp.Agent()) },
		"of another database": func() goredis.UniversalClient {
			return redisclient.ForDatabase(redisclient.NewBounded(one, resp.Agent()), 3)
		},
		"of a cluster's server": func() goredis.UniversalClient {
			return redisclient.NewBoundedCluster(goredis.ClusterOptions{
				Dialer: dial, MaxRedirects: -1,
				ClusterSlots: func(context.Context) ([]goredis.ClusterSlot, error) {
					return []goredis.ClusterSlot{{Start: 0, End: 16383, Nodes: []goredis.ClusterNode{{Addr: "a:6379"}}}}, nil
				},
			}, resp.Agent())
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect()
			defer func() { _ = c.Close() }()
			if err := c.Get(t.Context(), "a").Err(); !errors.Is(err, resp.ErrRefused) {
				t.Errorf("error %v, want a refusal", err)
			}
		})
	}
}

func TestAClientSpendsTheBudgetThatItShares(t *testing.T) {
	const reply = "%1\r\n$5\r\nproto\r\n:3\r\n"
	for name, budget := range map[string]int64{"none is left": 10, "enough": 1 << 20} {
		c := redisclient.New(redisclient.Options{
			Dial:   func(context.Context) (net.Conn, error) { return answering(reply, ""), nil },
			Budget: resp.NewBudget(budget),
		})
		if _, err := c.Read(t.Context()); err == nil || errors.Is(err, resp.ErrRefused) != (budget < 100) {
			t.Errorf("%s: error %v", name, err)
		}
		_ = c.Close()
	}
}
