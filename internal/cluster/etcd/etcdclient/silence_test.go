package etcdclient_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdclient"
)

// lost is a connection that takes whatever is sent and loses it, once the network has been cut.
type lost struct {
	net.Conn
	cut *atomic.Bool
}

func (l lost) Write(p []byte) (int, error) {
	if l.cut.Load() {
		return len(p), nil
	}
	return l.Conn.Write(p)
}

// TestAClientComesBackWithTheNetwork loses what is sent over the connections that a client has, while new ones work.
func TestAClientComesBackWithTheNetwork(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 1, v1alpha1.TLSDisabled)
			c.start(asNew, c.members...)
			var cut atomic.Pointer[atomic.Bool]
			cut.Store(&atomic.Bool{})
			root := etcdclient.New(etcdclient.Config{Host: "localhost", Dial: func(ctx context.Context) (net.Conn, error) {
				var d net.Dialer
				conn, err := d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", c.members[0].client))
				return lost{conn, cut.Load()}, err
			}})
			defer func() { _ = root.Close() }()
			status := func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_, err := root.Status(ctx)
				return err
			}
			eventually(t, "the first answer", status)
			cut.Swap(&atomic.Bool{}).Store(true)
			began := time.Now()
			if err := status(t.Context()); err == nil {
				t.Fatal("it answers what it was not told")
			}
			eventually(t, "an answer over another connection", status)
			t.Logf("it answered after %s", time.Since(began).Round(time.Second))
		})
	}
}
