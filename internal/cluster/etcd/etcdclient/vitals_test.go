package etcdclient_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/anomaly"
)

// With TLS the client port serves metrics to who has a certificate, and it does so whether authentication is on or not.
func TestVitalsOfRealServers(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 1, v1alpha1.TLSManaged)
			c.start(asNew, c.members...)
			only := leader(t, c, "operator", "", c.members...)
			root := c.as("operator", "unused", only)
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			if err := root.EnableAuth(ctx, "secret"); err != nil {
				t.Fatal(err)
			}
			before, err := root.Vitals(ctx)
			if err != nil {
				t.Fatal(err)
			}
			user := c.dialAs(only, true, "secret")
			for i := range 50 {
				if _, err := user.Put(ctx, fmt.Sprint(i), "value"); err != nil {
					t.Fatal(err)
				}
			}
			asked := time.Now()
			after, err := root.Vitals(ctx)
			if err != nil {
				t.Fatal(err)
			}
			added, ok := after.Fsync.Since(before.Fsync)
			if !ok || added.Total() < 50 || added.Quantile(0.99) <= 0 {
				t.Errorf("50 writes are %d fsyncs, of which 99 %% take %gs", added.Total(), added.Quantile(0.99))
			}
			if _, ok := after.Commit.Since(before.Commit); !ok {
				t.Errorf("commits: %+v, before %+v", after.Commit, before.Commit)
			}
			clock := anomaly.ClockOf("here", after.Time, time.Second, asked, time.Now())
			if clock.Least > 0 || clock.Most < 0 {
				t.Errorf("the clock that it shares with us is ahead by %s to %s", clock.Least, clock.Most)
			}
			if _, err := c.as("client", "", only).Vitals(ctx); err != nil {
				t.Errorf("the certificate of users: %v", err)
			}
			c.kill(only)
			if _, err := root.Vitals(ctx); err == nil {
				t.Error("a member that is gone tells its metrics")
			}
		})
	}
}
