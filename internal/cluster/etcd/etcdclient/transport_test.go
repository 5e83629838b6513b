package etcdclient_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/gate"
)

// follower writes like a client that follows its Secret: with TLS or without, through any member that answers.
type follower struct {
	mu      sync.Mutex
	acked   int
	longest time.Duration
}

// follow writes until the context ends.
func (f *follower) follow(ctx context.Context, t *testing.T, c *testCluster, password string) {
	t.Helper()
	last := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		c.secret.Lock()
		tls := c.told
		c.secret.Unlock()
		w := c.dialAs(c.members[i%len(c.members)], tls, password)
		for range 20 {
			callCtx, cancel := context.WithTimeout(ctx, time.Second)
			f.mu.Lock()
			key := fmt.Sprintf("key-%06d", f.acked)
			f.mu.Unlock()
			_, err := w.Put(callCtx, key, "x")
			cancel()
			if err != nil {
				break
			}
			f.mu.Lock()
			f.acked, f.longest = f.acked+1, max(f.longest, time.Since(last))
			f.mu.Unlock()
			last = time.Now()
		}
		_ = w.Close()
	}
}

// TLS goes off and on again under a writer that follows, in the phases that internal/cluster/etcd/transport.go describes and with
// the configuration that is rendered for each.
func TestTLSIsSwitchedUnderRealMembers(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 3, v1alpha1.TLSManaged)
			c.told = true
			c.start(asNew, c.members...)
			c.well()
			const password = "correct horse"
			if err := within(t, func(ctx context.Context) error { return c.as("operator", "", c.members[0]).EnableAuth(ctx, password) }); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var f follower
			var done sync.WaitGroup
			done.Go(func() { f.follow(ctx, t, c, password) })
			for _, tls := range []bool{false, true} {
				c.switchTLS(version, tls, password)
			}
			stop()
			done.Wait()
			c.holds(f.acked, password)
			t.Logf("%d writes, longest stall %s", f.acked, f.longest)
		})
	}
}

// switchTLS takes the members through all phases, and expects a client of the other kind to be refused in the end.
func (c *testCluster) switchTLS(version string, tls bool, password string) {
	c.t.Helper()
	c.tlsMode = v1alpha1.TLSManaged
	c.configure(version, true)
	c.rollOut()
	for _, m := range c.members { // Every member takes both.
		for _, with := range []bool{false, true} {
			c.takes(m, with, password)
		}
	}
	c.secret.Lock()
	c.told = tls
	c.secret.Unlock()
	for _, m := range c.members {
		id := c.idByURL(m, password)
		m.URL = m.url(tls)
		for range 2 {
			if err := within(c.t, func(ctx context.Context) error {
				return c.as("operator", password, c.members[0]).UpdatePeer(ctx, id, m.URL)
			}); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	if !tls {
		c.tlsMode = v1alpha1.TLSDisabled
	}
	c.configure(version, !tls)
	c.rollOut()
	for _, m := range c.members {
		c.takes(m, tls, password)
		callCtx, cancel := context.WithTimeout(c.t.Context(), 500*time.Millisecond)
		w := c.dialAs(m, !tls, "")
		if _, err := w.Get(callCtx, "key"); err == nil {
			c.t.Errorf("%s still takes clients with TLS: %t", m.Name, !tls)
		}
		cancel()
		_ = w.Close()
	}
}

// idByURL is the id of the member with the URL that it has so far, and the list must say so.
func (c *testCluster) idByURL(m *testMember, password string) (id uint64) {
	c.t.Helper()
	members, err := c.as("operator", password, c.members[0]).Members(c.t.Context())
	for _, other := range members {
		if other.PeerURL == m.URL && !other.Learner {
			id = other.ID
		}
	}
	if err != nil || id == 0 {
		c.t.Fatalf("%s is not in the list: %+v, %v", m.URL, members, err)
	}
	return id
}

// rollOut ends one member after the other the way a pod ends, and starts it with its new configuration.
func (c *testCluster) rollOut() {
	c.t.Helper()
	for _, m := range c.members {
		c.end(m)
		c.start(asExisting, m)
		becomesReady(c.t, m)
	}
}

func (c *testCluster) takes(m *testMember, tls bool, password string) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%s to take a client with TLS: %t", m.Name, tls), func(ctx context.Context) error {
		w := c.dialAs(m, tls, password)
		_, err := w.Get(ctx, "key")
		return errors.Join(err, w.Close())
	})
}

// holds fails when a write that was acknowledged is not there.
func (c *testCluster) holds(acked int, password string) {
	c.t.Helper()
	w := c.dialAs(c.members[0], c.told, password)
	defer func() { _ = w.Close() }()
	for i := range acked {
		r, err := w.Get(c.t.Context(), fmt.Sprintf("key-%06d", i))
		if err != nil || r.Count != 1 {
			c.t.Fatalf("write %d of %d: %+v, %v", i, acked, r, err)
		}
	}
}

// What etcd refuses is an error.
func TestAPeerURLIsThatOfOneMember(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 2, v1alpha1.TLSManaged)
			first, second := c.members[0], c.members[1]
			c.start(gate.Decision{Start: true, State: "new", Members: peersOf(first)}, first)
			leader(t, c, "operator", "", first)
			root := c.as("operator", "", first)
			id := added(t, root, second)
			if err := within(t, func(ctx context.Context) error { return root.UpdatePeer(ctx, id+1, "https://127.0.0.1:1") }); err == nil {
				t.Error("a member that there is not was updated")
			}
			if err := within(t, func(ctx context.Context) error { return root.UpdatePeer(ctx, id, first.URL) }); err == nil {
				t.Error("a member got the URL of another one")
			}
		})
	}
}
