package etcdclient_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/quorate/quorate/api/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdfake"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdlog"
	"github.com/quorate/quorate/internal/cluster/etcd/gate"
	"github.com/quorate/quorate/internal/cluster/etcd/model"
)

// tail is what becomes of a leader's log whose end was not committed.
type tail struct {
	// Longer says that it is longer than that of the next leader, Later that its last term is.
	Longer, Later bool
	// Leads says that the former leader is elected with it.
	Leads bool
	// Writes are what the former leader holds in the end.
	Writes []string
}

const tailLength = 100

// TestATailThatWasNotCommittedIsCutOff plays the same on real servers and in memory: a leader writes
// to its log alone and ends, the others elect a leader that writes less, and then it is back.
func TestATailThatWasNotCommittedIsCutOff(t *testing.T) {
	t.Parallel()
	want := tail{Longer: true, Writes: []string{"committed", "of the next term"}}
	if diff := cmp.Diff(want, tailInMemory(t)); diff != "" {
		t.Errorf("in memory (-want +got):\n%s", diff)
	}
	for version, binary := range etcds(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(want, tailOnServers(t, newTestCluster(t, version, binary, 3, v1alpha1.TLSManaged))); diff != "" {
				t.Errorf("on real servers (-want +got):\n%s", diff)
			}
		})
	}
}

func tailOf(former, next model.LogEnd) tail {
	return tail{Longer: former.Index > next.Index, Later: former.Term >= next.Term}
}

func tailInMemory(t *testing.T) tail {
	t.Helper()
	n, peers := etcdfake.New(), model.Peers("orders", "default", "cluster.local", 3, false)
	disks, running := [3]etcdfake.Disk{}, [3]*etcdfake.Process{}
	start := func(i int) {
		p, err := n.Start(etcdfake.Config{Self: peers[i], Token: "t", State: "new", Members: peers, Version: "3.6.16", Plain: true}, &disks[i])
		if err != nil {
			t.Fatal(err)
		}
		running[i] = p
	}
	for i := range peers {
		start(i)
	}
	lead := slices.IndexFunc(running[:], n.Leads)
	next, last := (lead+1)%3, (lead+2)%3
	if err := n.Put(running[lead], "", "committed"); err != nil {
		t.Fatal(err)
	}
	if err := n.Propose(running[lead], nil, make([]string, tailLength)...); err != nil {
		t.Fatal(err)
	}
	running[lead].Cut = true
	n.Stop(running[lead])
	if err := n.Put(running[next], "", "of the next term"); err != nil {
		t.Fatal(err)
	}
	out := tailOf(disks[lead].End(), disks[next].End())
	n.Stop(running[last])
	start(lead)
	out.Leads, out.Writes = n.Leads(running[lead]), disks[lead].Writes()
	return out
}

func tailOnServers(t *testing.T, c *testCluster) tail {
	t.Helper()
	c.start(asNew, c.members...)
	lead := leader(t, c, "operator", "", c.members...)
	others := slices.DeleteFunc(slices.Clone(c.members), func(m *testMember) bool { return m == lead })
	w := c.writer(lead)
	if _, err := w.Put(t.Context(), "a", "committed"); err != nil {
		t.Fatal(err)
	}
	for _, m := range others {
		c.kill(m)
	}
	var puts sync.WaitGroup
	for i := range tailLength {
		puts.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if _, err := w.Put(ctx, fmt.Sprint("tail-", i), "x"); err == nil {
				t.Error("a write is acknowledged without a quorum")
			}
		})
	}
	puts.Wait()
	c.kill(lead)
	c.start(gate.Decision{State: "existing"}, others...)
	next := leader(t, c, "operator", "", others...)
	eventually(t, "a write of the next term", func(ctx context.Context) error {
		_, err := c.writer(next).Put(ctx, "b", "of the next term")
		return err
	})
	for _, m := range others {
		c.kill(m)
	}
	out := tailOf(endOf(t, c, lead), endOf(t, c, next))
	c.start(gate.Decision{State: "existing"}, lead, next)
	out.Leads = leader(t, c, "operator", "", lead, next) == lead
	eventually(t, "what the former leader holds", func(ctx context.Context) error {
		got, err := c.writer(lead).Get(ctx, "", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
		out.Writes = nil
		if err == nil {
			for _, kv := range got.Kvs {
				out.Writes = append(out.Writes, string(kv.Value))
			}
		}
		return err
	})
	return out
}

func endOf(t *testing.T, c *testCluster, m *testMember) model.LogEnd {
	t.Helper()
	end, err := etcdlog.End(filepath.Join(c.dir, m.Name))
	if err != nil {
		t.Fatal(err)
	}
	return end
}
