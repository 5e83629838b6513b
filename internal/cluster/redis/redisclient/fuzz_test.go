package redisclient_test

import (
	"context"
	"net"
	"testing"

	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
)

// FuzzReplies answers commands with anything, first of all that which begins a connection if it is
// to. It may be refused, and nothing may panic.
func FuzzReplies(f *testing.F) {
	const hello = "%1\r\n$5\r\nproto\r\n:3\r\n"
	for _, reply := range []string{
		"%1\r\n$9223372036854775806\r\n", "*1\r\n*2\r\n:1\r\n%1\r\n+key-count\r\n:5\r\n", "*1\r\n%1\r\n+name\r\n+a\r\n",
		"$-1\r\n", "_\r\n", "-ERR unknown command\r\n", "+OK\r\n*0\r\n%0\r\n", "(12345678901234567890\r\n", ",inf\r\n", "=8\r\ntxt:abcd\r\n",
	} {
		f.Add(hello, reply)
	}
	f.Add("*-1\r\n", "")
	f.Fuzz(func(t *testing.T, first, rest string) {
		for _, ask := range []func(*redisclient.Client) error{
			func(c *redisclient.Client) error { _, err := c.Read(t.Context()); return err },
			func(c *redisclient.Client) error {
				_, err := c.SlotStats(t.Context(), slots.New(slots.Range{From: 0, To: 1}))
				return err
			},
		} {
			c := redisclient.New(redisclient.Options{
				Dial:   func(context.Context) (net.Conn, error) { return answering(first, rest), nil },
				Logins: []redisclient.Login{{Username: "u", Password: "p"}},
			})
			_ = ask(c) // Any error will do.
			_ = c.Close()
		}
	})
}

// answering returns a connection to a server that sends one text after each of the first two requests
// and closes.
func answering(texts ...string) net.Conn {
	near, far := net.Pipe()
	go func() {
		defer func() { _ = far.Close() }()
		for _, text := range texts {
			if _, err := far.Read(make([]byte, 64<<10)); err != nil {
				return
			}
			if _, err := far.Write([]byte(text)); err != nil {
				return
			}
		}
	}()
	return near
}
