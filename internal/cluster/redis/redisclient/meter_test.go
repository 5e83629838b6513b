package redisclient_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/redis/acl"
	"github.com/quorate/quorate/internal/cluster/redis/redisclient"
	"github.com/quorate/quorate/internal/cluster/redis/slots"
	"github.com/quorate/quorate/internal/cluster/redis/steps"
)

// ledger notes calls by their names, and the errors among them.
type ledger struct {
	mu            sync.Mutex
	calls, failed map[string]bool
}

func (l *ledger) note(call string, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if took > 0 {
		l.calls[call] = true
	}
	if err != nil {
		l.failed[call] = true
	}
}

func TestCallsAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "valkey-9.1", 1, 0, false)
	w.startAll()
	var only *process
	for _, p := range w.pods {
		only = p
	}
	w.answers(only)
	l := &ledger{calls: map[string]bool{}, failed: map[string]bool{}}
	var gone error
	dials := 0
	dial := func(ctx context.Context) (net.Conn, error) {
		dials++
		if gone != nil {
			return nil, gone
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", only.ip+":6379")
	}
	c := redisclient.New(redisclient.Options{
		Logins: []redisclient.Login{{Username: acl.UserOperator, Password: w.passwords[acl.PasswordOperator]}},
		TLS:    w.tlsFor(only.name), Dial: dial, Called: l.note,
	})
	if _, err := c.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Configure(t.Context(), map[string]string{"no-such-parameter": "1"}); err == nil {
		t.Fatal("the server took a parameter that it cannot know")
	}
	if diff := cmp.Diff([]string{"config", "dial", "hello", "pipeline"}, slices.Sorted(maps.Keys(l.calls))); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"config": true}, l.failed); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if dials != 1 {
		t.Errorf("the server was connected to %d times", dials)
	}
	err := c.SetSlots(t.Context(), slots.Set{{From: 0, To: 63}}, steps.SlotOwner, strings.Repeat("0", 40))
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "64 slots") {
		t.Errorf("what fails for all slots alike is said as %q", err)
	}
	_ = c.Close()
	gone = errors.New("nobody is there")
	c = redisclient.New(redisclient.Options{Dial: dial, Called: l.note})
	defer c.Close() //nolint:errcheck // It never connected.
	if _, err := c.Read(t.Context()); !errors.Is(err, gone) || !l.failed["dial"] {
		t.Errorf("%v; failures: %v", err, l.failed)
	}
}
