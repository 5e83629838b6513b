// Package loopback gives out ports to tests that start servers of their own, beside others that do the same at the same time.
package loopback

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
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
	return port(tb, 0)
}

// bus is how far above the port for its clients a server of Redis Cluster listens for the others.
const bus = 10000

// ClusterPort is Port for a server of Redis Cluster, with the port of its cluster bus, which is 10000 above.
func ClusterPort(tb testing.TB) int {
	tb.Helper()
	return port(tb, 0, bus)
}

// port keeps a port with each of those that are so far above it.
func port(tb testing.TB, above ...int) int {
	tb.Helper()
	for range 1000 {
		port := first + rand.IntN(last-first-slices.Max(above))
		if keep(tb, port, above) {
			return port
		}
	}
	tb.Fatal("no port is free")
	return 0
}

// keep takes all of them or none.
func keep(tb testing.TB, port int, above []int) bool {
	tb.Helper()
	var kept []net.Listener
	release := func() {
		for _, l := range kept {
			_ = l.Close()
		}
	}
	for _, n := range above {
		l, err := listen(tb.Context(), keeper, port+n)
		if err != nil {
			release()
			return false
		}
		kept = append(kept, l)
		l, err = listen(tb.Context(), "127.0.0.1", port+n)
		if err != nil || l.Close() != nil {
			release()
			return false
		}
	}
	tb.Cleanup(release)
	return true
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
