package etcdclient_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
)

func TestCallsAreTold(t *testing.T) {
	t.Parallel()
	inPlainText(t, nil, func(ctx context.Context, t *testing.T, _ *testCluster, only *testMember) {
		t.Helper()
		var mu sync.Mutex
		calls, failed := map[string]bool{}, map[string]bool{}
		c := etcdclient.New(etcdclient.Config{
			Host: "127.0.0.1",
			Dial: func(ctx context.Context) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", only.client))
			},
			Called: func(call string, took time.Duration, err error) {
				mu.Lock()
				defer mu.Unlock()
				calls[call], failed[call] = took > 0, err != nil
			},
		})
		defer c.Close() //nolint:errcheck // The server goes away with the test.
		if _, err := c.Status(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.UpdatePeer(ctx, 1, "http://127.0.0.1:1"); err == nil {
			t.Fatal("a member that does not exist was changed")
		}
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]string{"MemberUpdate", "Status", "dial"}, slices.Sorted(maps.Keys(calls))); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]bool{"MemberUpdate": true, "Status": false, "dial": false}, failed); diff != "" {
			t.Errorf("failures (-want +got):\n%s", diff)
		}
	})
}
