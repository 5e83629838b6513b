package redisclient_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"

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
