// Package loopback gives out ports to tests that start servers of their own, beside others that do the same at the same time.
package loopback

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports are taken from below those that Linux gives to clients (net.ipv4.ip_local_port_range begins at 32768): a port that was only
// found to be free could become that of a connection before its server listens.
const first, last = 10000, 32000

// keeper is an address that no server listens at. Whoever listens there has the port, in whichever process.
const keeper = "127.255.255.254"

// Port returns a TCP port of 127.0.0.1 that no other test has until this one ends, however often its server is restarted. The server must
// listen at 127.0.0.1, not at all addresses.
func Port(tb testing.TB) int {
	tb.Helper()
	for range 1000 {
		port := first + rand.IntN(last-first)
		kept, err := listen(tb.Context(), keeper, port)
		if err != nil {
			continue
		}
		if l, err := listen(tb.Context(), "127.0.0.1", port); err == nil && l.Close() == nil {
			tb.Cleanup(func() { _ = kept.Close() })
			return port
		}
		_ = kept.Close()
	}
	tb.Fatal("no port is free")
	return 0
}

// Address is Port as host:port.
func Address(tb testing.TB) string {
	tb.Helper()
	return at("127.0.0.1", Port(tb))
}

func listen(ctx context.Context, host string, port int) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", at(host, port))
}

func at(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
