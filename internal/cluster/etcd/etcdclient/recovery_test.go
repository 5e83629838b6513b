package etcdclient_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdlog"
	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
	"github.com/quorate/quorate/test/loopback"
)

// Every member dies right after a write was acknowledged, and only a follower keeps its disk. It has the write, and does not
// know that it was committed.
func TestASurvivorGoesOnAlone(t *testing.T) {
	t.Parallel()
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, version, binary, 3, v1alpha1.TLSManaged)
			c.start(asNew, c.members...)
			lead := leader(t, c, "operator", "", c.members...)
			survivor := c.members[0]
			if lead == survivor {
				survivor = c.members[1]
			}
			id := clusterID(t, c, lead)
			w := c.writer(lead)
			const n = 300
			for i := range n {
				if _, err := w.Put(t.Context(), fmt.Sprint("key-", i), "value"); err != nil {
					t.Fatal(err)
				}
			}
			for _, m := range c.members {
				c.kill(m)
			}
			dir := filepath.Join(c.dir, survivor.Name)
			before, err := etcdlog.End(dir)
			if err != nil || before.Index < n || before.Term == 0 {
				t.Fatalf("end of the log: %+v, %v", before, err)
			}
			for range 2 {
				if err := etcdlog.GoOnAlone(dir); err != nil {
					t.Fatal(err)
				}
				if end, err := etcdlog.End(dir); err != nil || end.Index != before.Index+2 {
					t.Fatalf("end of the log: %+v after %+v, %v", end, before, err)
				}
			}
			c.start(gate.Decision{State: "existing"}, survivor)
			leader(t, c, "operator", "", survivor)
			holdsAll(t, c, survivor, n)
			if got := clusterID(t, c, survivor); got != id {
				t.Errorf("the cluster is %x and was %x", got, id)
			}
			growsAgain(t, c, survivor)
			holdsAll(t, c, survivor, n)
		})
	}
}

// growsAgain adds a member and restarts the survivor: nothing of what it was told happens twice.
func growsAgain(t *testing.T, c *testCluster, survivor *testMember) {
	t.Helper()
	added := &testMember{client: loopback.Port(t), peer: loopback.Port(t), metrics: loopback.Port(t)}
	added.Peer = model.Peer{Name: "orders-9", URL: fmt.Sprintf("https://127.0.0.1:%d", added.peer)}
	root := c.as("operator", "", survivor)
	if got := listed(t, root); len(got) != 1 {
		t.Errorf("members after the recovery: %+v", got)
	}
	eventually(t, "a learner", func(ctx context.Context) error { return root.AddLearner(ctx, added.URL) })
	c.kill(survivor)
	c.start(gate.Decision{State: "existing"}, survivor)
	leader(t, c, "operator", "", survivor)
	if got := listed(t, c.as("operator", "", survivor)); len(got) != 2 {
		t.Errorf("members after a restart: %+v", got)
	}
}

func holdsAll(t *testing.T, c *testCluster, m *testMember, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	w := c.writer(m)
	for i := range n {
		got, err := w.Get(ctx, fmt.Sprint("key-", i))
		if err != nil {
			t.Fatal(err)
		}
		if got.Count != 1 {
			t.Errorf("key-%d is lost", i)
		}
	}
	if _, err := w.Put(ctx, "after", "value"); err != nil {
		t.Errorf("write: %v", err)
	}
}

func clusterID(t *testing.T, c *testCluster, m *testMember) uint64 {
	t.Helper()
	var id uint64
	eventually(t, "the cluster id", func(ctx context.Context) error {
		v, err := c.as("operator", "", m).Status(ctx)
		id = v.ClusterID
		return err // It is shown as it is.
	})
	return id
}
